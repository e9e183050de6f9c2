// What the definitions of products with 4-bit weights share: (x, qweight, scales, zeros) -> y.
// Read next: product.cpp, product_rows_cuda.cpp, mm_w4a16_awq/.
#pragma once

#include "ops/w4/product_config.hpp"
#include "ops/w4/weights_ref.hpp"
#include "registry/operator.hpp"

namespace dlblas::w4 {

struct ProductOp {
  bool along_k = false;  // GPTQ: letters M, Q, N, group; AWQ: M, K, P, group
  const char* dequantize = "";
  int plus = -1;  // the scalar that says whether zeros lack one; -1: there is none

  std::int64_t depth(const std::int64_t* letters) const { return letters[1] * (along_k ? 8 : 1); }
  std::int64_t columns(const std::int64_t* letters) const { return letters[2] * (along_k ? 1 : 8); }
  std::int64_t group(const std::int64_t* letters) const { return letters[3]; }
  bool lacks_one(const Args& args) const { return plus >= 0 && args.scalars[plus].i != 0; }
};

namespace product {
enum Tensor : int { kX, kQ, kScales, kZeros, kY };
inline constexpr int kM = 0, kGroupScalar = 0;
/// Leading dimensions as rows at one stride; `check` refuses other tensors.
TensorView flat(const TensorView& t);
inline double multiply_adds(const ProductOp& op, const Problem& p) {
  return static_cast<double>(p.dims[kM]) * static_cast<double>(op.depth(p.dims)) *
         static_cast<double>(op.columns(p.dims));
}
/// Bytes of words, scales and zeros.
inline double weight_bytes(const ProductOp& op, const Problem& p) {
  const auto rows = static_cast<double>(op.depth(p.dims)),
             n = static_cast<double>(op.columns(p.dims));
  return rows * n * (0.5 + 2.5 / static_cast<double>(std::max<std::int64_t>(1, op.group(p.dims))));
}
}  // namespace product

/// `op` must live as long as the process.
OperatorDef w4_product(std::string_view schema, std::string_view formula, const ProductOp& op);
Implementation product_wgmma_cuda(const ProductOp& op);
Implementation product_ring_cuda(const ProductOp& op);
Implementation product_rows_cuda(const ProductOp& op);

}  // namespace dlblas::w4
