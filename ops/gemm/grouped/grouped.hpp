// What the grouped products share: a description of each operator, and the implementations built
// from it. Each has three inputs (a; the groups' matrices or the other factor; offsets or counts)
// and one result. A fourth input may list the rows of a that are multiplied.
// Read next: grouped_ref.hpp (what they compute), grouped_cuda.cpp, grouped_cpu.cpp.
#pragma once

#include <vector>

#include "device/gemm/groups_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::gemm {

enum GroupedTensor : int { kGroupedA, kGroupedB, kGroupedSizes, kGroupedOut };

/// The letter of each size. m: rows of a product, or their bound; k: terms of its sums, likewise.
struct GroupedOp {
  const char* name;
  GroupKind kind;
  int m, n, k, groups;
  int out = kGroupedOut;  // tensor: behind other inputs, scales say
  int rows = 0;           // tensor: the row of a for each of the m; 0: they are a's rows, in order
  int sources = -1;       // letter of a's rows, where `rows` chooses among them

  bool gathers() const { return rows != 0; }
};

/// A call's products over strided matrices. Strides in elements; `group`: from group to group.
struct GroupedMatrix {
  void* data;
  std::int64_t group, row, col;
};
struct GroupedProduct {
  GroupedMatrix a, b, out;  // b: its rows are terms
  std::int64_t m, n, k, groups;
};
GroupedProduct grouped_product(const GroupedOp& op, const Args& args);

/// Multiply-adds of all groups (masked: if every row counts), and the bytes read and written once.
double grouped_multiply_adds(const GroupedOp& op, const Problem& problem);
double grouped_bytes(const GroupedOp& op, const Problem& problem);
/// Rows (kDepth: terms) of an average group; at least 1.
double grouped_average(const GroupedOp& op, const Problem& problem);

std::vector<Implementation> grouped_cpu(const GroupedOp& op);
std::vector<Implementation> grouped_cuda(const GroupedOp& op);
/// Allows the sum's roundings; below f32's normal range, half its smallest step per product (bf16:
/// 2^-126); then one rounding to the result's dtype.
Bound grouped_bound(const GroupedOp& op, const Problem& problem);

}  // namespace dlblas::gemm
