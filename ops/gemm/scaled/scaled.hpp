// The scaled products: codes of 8 bits times codes of 8 bits, with f32 scales that dequantise. What
// the parts of scaled_mm_channel (one scale per row of a and per column of b, or one for all) and
// of scaled_mm_block (1×128 of a, 128×128 of b) share. Both have the same tensors and letters. Read
// next: ops/gemm/scaled/scaled_ref.hpp (what they compute), scaled_cpu.cpp, scaled_mma.cuh.
#pragma once

#include <cstdint>
#include <vector>

#include "core/integers.hpp"
#include "ops/gemm/scaled/scaled_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::gemm::scaled {

/// Inputs and the result in schema order.
enum Tensor : int { kA, kB, kAScale, kBScale, kBias, kOut };
enum Letter : int { kM, kK, kN };

/// Which scales there are.
enum class Scales : std::uint8_t { kChannel, kBlock };

/// The parts that both definitions share: oracle, bound, implementations.
void define(OperatorDef& def, Scales scales);
/// A call as the CPU code takes it; what GPU code has of it as well.
ScaledJob job_of(const Args& args, Scales scales);

/// Bytes of all operands and of the result, each once.
double bytes_of(const Problem& problem);
/// True if a tensor begins at an address that is no multiple of its element's size.
bool is_aligned(const Problem& problem);

DeviceOracle device_oracle(Scales scales);
void append_cpu(std::vector<Implementation>& to, Scales scales);
void append_tiles(std::vector<Implementation>& to, Scales scales);
/// Of kChannel alone.
void append_vnni(std::vector<Implementation>& to);
void append_wgmma(std::vector<Implementation>& to, Scales scales);
/// Of kChannel alone.
void append_cublaslt(std::vector<Implementation>& to);
void append_mma(std::vector<Implementation>& to, Scales scales);

}  // namespace dlblas::gemm::scaled
