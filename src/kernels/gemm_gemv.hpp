// What the GPU forms for one to four rows (device/gemm/gemv_mainloop.cuh) share on the host: knobs,
// constraints, the default and the estimate. In: sizes of a product; `columns` counts those of all
// its matrices b. Out: configurations.
// Flow: call > validate > [select] > compile > launch.
// Read next: ops/gemm/matmul/cuda/matmul_gemv_cuda.cpp, ops/mlp/gated_linear/cuda/.
#pragma once

#include <cstdint>

#include "core/config.hpp"
#include "core/device.hpp"
#include "core/space.hpp"
#include "device/gemm/config.hpp"

namespace dlblas::kernels {

inline constexpr std::int64_t kGemvRows = 4;

struct GemvSizes {
  std::int64_t rows, columns, depth;
  int parts;  // matrices b
};

const ConfigTable<GemvConfig>& gemv_table();
/// Rows that a kernel is compiled for.
std::int32_t gemv_rows(std::int64_t bucket);
void constrain_gemv(const GemvSizes& sizes, Space& space);
GemvConfig gemv_preset(const GemvSizes& sizes);
/// `bytes`: of all operands and of the result, each once.
double gemv_ms(const GemvSizes& sizes, const GemvConfig& c, double bytes, const DeviceInfo& device);

}  // namespace dlblas::kernels
