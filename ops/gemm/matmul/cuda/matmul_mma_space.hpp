// The configurations of the tensor-core matmul that are worth searching.
// In: a Problem and a device. Out: knobs, and rules that leave some 10 to 110 configurations.
// Flow: [select] of matmul_mma_cuda.cpp.  Read next: matmul_mma_space.cpp, core/space.hpp.
#pragma once

#include "core/config.hpp"
#include "core/device.hpp"
#include "core/problem.hpp"
#include "core/space.hpp"
#include "ops/gemm/matmul/cuda/matmul_gpu_config.hpp"

namespace dlblas::gemm {

const ConfigTable<GemmMmaConfig>& mma_table();

void constrain_mma(const Problem& p, const DeviceInfo& device, Space& space);

/// GemmTraits::span of a configuration.
std::int32_t mma_span(const Problem& p, const GemmMmaConfig& c, const DeviceInfo& device);

/// Blocks per multiprocessor, as shared memory and registers allow.
int blocks_a_unit(const GemmMmaConfig& c, const Problem& p, const DeviceInfo& device);

}  // namespace dlblas::gemm
