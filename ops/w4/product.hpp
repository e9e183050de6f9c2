// What the definitions of products with weights of codes share: (x, qweight, scales, zeros) -> y,
// and (x, qweight, scale, bias) -> y of 8-bit codes.
// Read next: product.cpp, product_i8.cpp, product_rows_cuda.cpp, mm_w4a16_awq/.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/w4/product_config.hpp"
#include "ops/w4/weights_ref.hpp"
#include "registry/operator.hpp"

namespace dlblas::w4 {

struct ProductOp {
  // Letters of GPTQ: M, Q, N, group; of AWQ: M, K, P, group; of i8: T, K, N, group.
  Codes codes = Codes::kAwq;
  const char* dequantize = "";
  int plus = -1;  // the scalar that says whether zeros lack one; -1: there is none

  std::int64_t depth(const std::int64_t* letters) const { return letters[1] * (along_k() ? 8 : 1); }
  std::int64_t columns(const std::int64_t* letters) const {
    return letters[2] * (codes == Codes::kAwq ? 8 : 1);
  }
  std::int64_t group(const std::int64_t* letters) const { return letters[3]; }
  bool along_k() const { return codes == Codes::kGptq; }
  /// One scale per column: of 8-bit codes, it multiplies the sum.
  bool scales_sums(const std::int64_t* letters) const {
    return codes == Codes::kI8 && depth(letters) <= group(letters);
  }
  bool lacks_one(const Args& args) const { return plus >= 0 && args.scalars[plus].i != 0; }
};

namespace product {
enum Tensor : int { kX, kQ, kScales, kZeros, kY, kBias = kZeros };  // i8 codes have no zeros
inline constexpr int kM = 0, kGroupScalar = 0;
/// Leading dimensions as rows at one stride; `check` refuses other tensors.
TensorView flat(const TensorView& t);
void check(const Args& args);
/// Columns dequantised at a time: a multiple of 64, in panels of one size where that is possible.
std::int64_t panel_of(const Query& q);
/// A form that dequantises the weight and multiplies by it, but for its source, parts and prepare.
Implementation panels_form(const char* name, DeviceType backend, const ProductOp& op);
inline double multiply_adds(const ProductOp& op, const Problem& p) {
  return static_cast<double>(p.dims[kM]) * static_cast<double>(op.depth(p.dims)) *
         static_cast<double>(op.columns(p.dims));
}
/// Bytes of codes, scales and zeros.
inline double weight_bytes(const ProductOp& op, const Problem& p) {
  const auto rows = static_cast<double>(op.depth(p.dims)),
             n = static_cast<double>(op.columns(p.dims));
  const auto group = static_cast<double>(std::max<std::int64_t>(1, op.group(p.dims)));
  return op.codes == Codes::kI8 ? n * (rows + 4 * std::ceil(rows / group))
                                : rows * n * (0.5 + 2.5 / group);
}
}  // namespace product

/// `op` must live as long as the process.
OperatorDef w4_product(std::string_view schema, std::string_view formula, const ProductOp& op);
OperatorDef i8_product(std::string_view schema, std::string_view formula, const ProductOp& op);
Implementation product_wgmma_cuda(const ProductOp& op);
Implementation product_ring_cuda(const ProductOp& op);
Implementation product_rows_cuda(const ProductOp& op);
std::vector<Implementation> few_rows_cpu(const ProductOp& op);

}  // namespace dlblas::w4
