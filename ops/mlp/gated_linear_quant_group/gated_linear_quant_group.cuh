// gated_linear_quant_group on GPUs: its program, and the main loops that take it.
// Read next: gated_linear_quant_group_product.hpp, device/gemm/product_wgmma.cuh.
#pragma once

#include "device/gemm/product_wgmma.cuh"
#include "ops/mlp/gated_linear_quant_group/gated_linear_quant_group_product.hpp"
