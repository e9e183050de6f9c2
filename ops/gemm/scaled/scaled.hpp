// The scaled products: 8-bit codes times 8-bit codes, with f32 scales that dequantise. What
// scaled_mm_channel (one scale per row of a and per column of b, or one for all) and
// scaled_mm_block (1×128 of a, 128×128 of b) share. Both have the same tensors and letters. Read
// next: ops/gemm/scaled/scaled_ref.hpp (what they compute), scaled_cpu.cpp, scaled_mma.cuh.
#pragma once

#include <cstdint>
#include <vector>

#include "core/integers.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/gemm/scaled/scaled_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::gemm::scaled {

/// Inputs and the result in schema order.
enum Tensor : int { kA, kB, kAScale, kBScale, kBias, kOut };
enum Letter : int { kM, kK, kN };

/// The kind of scales.
enum class Scales : std::uint8_t { kChannel, kBlock };

/// Fills in what both definitions share: oracle, bound, implementations.
void define(OperatorDef& def, Scales scales);
/// A call in the CPU code's form, from which GPU code takes its parameters as well.
ScaledJob job_of(const Args& args, Scales scales);

/// An instruction set's code: how many rows wait in the caches at a time, and its tasks.
struct ScaledLevel {
  ScaledRun run;
  int rows, slots;
};
/// The code of every instruction set, a ScaledRun each.
std::vector<kernels::CpuLevel> levels();
std::size_t workspace_bytes(const ScaledLevel& level);
/// Each task takes whole strips of columns, or rows where there are fewer strips than tasks.
void run_level(const ScaledLevel& level, const ScaledJob& job, const Context& context,
               void* workspace);
/// The values of the 256 codes of i8, f8e4m3 or f8e5m2.
const float* code_values(DType dtype);

/// Bytes of all operands and of the result, each once.
double bytes_of(const Problem& problem);
/// True if every tensor begins at a multiple of its element's size.
bool is_aligned(const Problem& problem);

DeviceOracle device_oracle(Scales scales);
void append_cpu(std::vector<Implementation>& to, Scales scales);
void append_tiles(std::vector<Implementation>& to, Scales scales);
/// kChannel only.
void append_vnni(std::vector<Implementation>& to);
/// kChannel only.
void append_i16(std::vector<Implementation>& to);
/// kChannel only.
void append_onednn(std::vector<Implementation>& to);
void append_wgmma(std::vector<Implementation>& to, Scales scales);
void append_cublaslt(std::vector<Implementation>& to, Scales scales);
void append_mma(std::vector<Implementation>& to, Scales scales);

}  // namespace dlblas::gemm::scaled
