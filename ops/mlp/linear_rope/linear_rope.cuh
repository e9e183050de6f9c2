// linear_rope on GPUs: its program, and the main loops that take it.
// Read next: linear_rope_product.hpp, device/gemm/product.cuh.
#pragma once

#include "device/gemm/product_kernels.cuh"
#include "ops/mlp/linear_rope/linear_rope_product.hpp"
