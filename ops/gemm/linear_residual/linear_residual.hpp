// What linear_residual's host files share. Read next: linear_residual.cpp.
#pragma once

#include "ops/gemm/linear_residual/linear_residual_ref.hpp"
#include "registry/operator.hpp"

namespace dlblas::gemm {

/// oneDNN, the rival on CPUs.
Implementation linear_residual_onednn();

}  // namespace dlblas::gemm
