// What the operators of grouped products share: one description of each, and the implementations
// that it gives. All have three inputs (a, the groups' matrices or the other factor, offsets or
// counts) and one result.
// Read next: grouped_ref.hpp (what they compute), grouped_cuda.cpp, grouped_cpu.cpp.
#pragma once

#include <vector>

#include "device/gemm/groups_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::gemm {

enum GroupedTensor : int { kGroupedA, kGroupedB, kGroupedSizes, kGroupedOut };

/// Which letters are what. m: rows of a product, or most of them; k: terms of its sums, likewise.
struct GroupedOp {
  const char* name;
  GroupKind kind;
  int m, n, k, groups;
  int out = kGroupedOut;  // tensor: behind other inputs, scales say
};

/// A call's products as those of strided matrices: strides in elements; what one group adds to.
struct GroupedMatrix {
  void* data;
  std::int64_t group, row, col;
};
struct GroupedProduct {
  GroupedMatrix a, b, out;  // b: its rows are terms
  std::int64_t m, n, k, groups;
};
GroupedProduct grouped_product(const GroupedOp& op, const Args& args);

/// Products of an average group, and what all of them read and write once.
double grouped_multiply_adds(const GroupedOp& op, const Problem& problem);
double grouped_bytes(const GroupedOp& op, const Problem& problem);
/// Rows (or, of kDepth, terms) of an average group: 1 at least.
double grouped_average(const GroupedOp& op, const Problem& problem);

std::vector<Implementation> grouped_cpu(const GroupedOp& op);
std::vector<Implementation> grouped_cuda(const GroupedOp& op);
/// Roundings of the sum, or, below f32's normal range, half its smallest step for each product;
/// then one rounding to the result's dtype.
Bound grouped_bound(const GroupedOp& op, const Problem& problem);

}  // namespace dlblas::gemm
