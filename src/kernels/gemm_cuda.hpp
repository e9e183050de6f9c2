// What the host sides of GPU matrix products share: traits as text for the JIT, and kernel entries.
// In: traits, a configuration, an epilogue's name. Out: a KernelSource's entry. Flow: call >
// validate > select > [compile] > launch.  Read next: device/gemm/epilogue.cuh,
// kernels/cuda_form.hpp, ops/gemm/matmul/cuda/matmul_cuda.hpp (an operator).
#pragma once

#include <string>
#include <string_view>

#include "core/config.hpp"
#include "device/gemm/config.hpp"

namespace dlblas::kernels {

/// The members of GemmTraits, for the JIT.
const TraitsTable<GemmTraits>& gemm_traits_table();

/// `kernel<traits, configuration, epilogue>` for a kernel of device/gemm/, such as
/// `dlblas::gemm_mma`. `config`, `epilogue`: C++ text.
std::string gemm_entry(std::string_view kernel, const GemmTraits& traits, std::string_view config,
                       std::string_view epilogue);

}  // namespace dlblas::kernels
