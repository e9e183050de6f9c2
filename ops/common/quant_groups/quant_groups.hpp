// Quantisation with one scale per group of columns, for what row programs cannot express: scales at
// any strides, 8-bit scales, 4-bit codes, counted rows. Shared by operators of several families.
// Read next: quant_groups_cpu.cpp, quant_groups_cuda.cpp, ops/quant/quantize_mxfp8/.
#pragma once

#include <vector>

#include "ops/common/quant_groups/quant_groups_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::quant {

/// An operator (x, …) -> (q, scale), by positions in its schema; -1: absent.
struct QuantGroupsOp {
  QuantScaleKind kind = QuantScaleKind::kFloat;
  bool gated = false;
  int x = 0, count = -1, global = -1, q = 1, scale = 2;  // tensors
  int rows[2] = {0, -1};                                 // letters of the leading dimensions
  int width = 1;                                         // letter of the quantised columns
  int group_letter = -1;
  std::int64_t group = 0;  // where no letter says it
  int powers = -1;         // scalar: scales are rounded up to powers of 2

  std::int64_t columns(const std::int64_t* letters) const {
    return group_letter < 0 ? group : letters[group_letter];
  }
  std::int64_t num_rows(const std::int64_t* letters) const {
    return letters[rows[0]] * (rows[1] < 0 ? 1 : letters[rows[1]]);
  }
};

/// `op` must live as long as the process.
std::vector<Implementation> quant_groups_cpu(const QuantGroupsOp& op);
Implementation quant_groups_cuda(const QuantGroupsOp& op);

}  // namespace dlblas::quant
