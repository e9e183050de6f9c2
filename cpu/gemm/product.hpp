// What host code and the objects of instruction sets share of product programs on CPUs: the
// parameters of one call, and a level's code. In: plain values only; no inline function may appear
// here, since an instruction-set object would keep its own copy of it for everyone.
// Read next: product_simd.hpp, src/kernels/product.hpp.
#pragma once

#include "cpu/gemm/job.hpp"
#include "device/gemm/product.hpp"

namespace dlblas {

/// One call.
struct ProductCpuParams {
  GemmMatrix out;
  GemmMatrix operands[kProductOperands];  // data null: not given; those of rows are f32
  int32_t options[kProductOptions];
  ProductPairs pairs;
  int64_t numbers[kProductNumbers];
};

/// A program that runs after products whose sums are in memory: contiguous rows of f32.
struct ProductCpuFinish {
  ProductCpuParams epilogue;
  const float* sums[2];
  int64_t columns;
};

/// A level's code for one program. Where columns are combined, there is only the pass over sums:
/// `gemm` has no tiles.
struct ProductCode {
  GemmCode gemm;
  void (*finish)(const ProductCpuFinish&, int64_t begin, int64_t end);  // rows
};

}  // namespace dlblas
