// What the CPU and the CUDA side of row programs share: an operator's operands with their roles,
// read from its schema, and one call of it. Included by kernels/rows*.cpp alone. Read next:
// kernels/rows.cpp.
#pragma once

#include <string>
#include <vector>

#include "core/schema.hpp"
#include "kernels/rows.hpp"

namespace dlblas::kernels {

/// How an operand maps to the program's rows and columns.
enum class RowRole : std::uint8_t {
  kRow,          // [*T, n·width]: elements of rows; periodic: [P, width]
  kColumns,      // [width], of heads [D]: a vector that all rows share
  kGroup,        // [*T, width / group]: one value for each group of columns; or [P, width / group]
  kValue,        // [*T] or [*T, 1]: one value per row
  kPlaces,       // results [*T, topk]: rows of another length, which the program writes by place
  kHeads,        // [*T, H, D]: heads of rows
  kHeadColumns,  // [H, D]: a vector over the columns of all heads, which all rows share
  kLayers,       // [*T, k, width]: rows of k layers, which the program loads one by one
  kIndex,        // [*T] of integers: which row of gathered operands is a row's
  kGathered,     // [P, R] or [P, page, H, D]: rows of a table or of a paged cache
  kScalar,       // []: one value
  kTable,        // anything else: the program computes places
};

struct RowOperandSpec {
  int tensor;  // position in the schema
  RowRole role;
  bool written;
  const char* name;
  // Refusal reasons, which live as long as the process.
  const char *not_contiguous, *mixed_strides;
  int second = 0;            // operand of the second heads, or 0
  bool second_only = false;  // the first heads have none
  int gathered_by = 0;       // kGathered: place in RowOperator::indices
  bool headed = false, paged = false;
  bool periodic = false;  // row r of the call is row r % RowOp::period of it
  int times = 1;          // kRow: its elements over the program's columns, 2 of [*T, 2F]
  /// True if it has a dimension between rows and columns: heads or layers.
  bool has_inner() const { return headed || role == RowRole::kLayers; }
  /// True if one column stands for RowShape::span elements of it.
  bool spanned() const { return headed || role == RowRole::kColumns || times > 1; }
  /// True for rows that lie at strides of the call's leading dimensions.
  bool is_row() const { return role == RowRole::kRow && !periodic; }
};

struct RowOperator {
  RowOp op;
  const RowProgramEntry* program;
  std::vector<RowOperandSpec> operands = {};
  int width = 0;                  // letter
  int rows = 0;                   // letter of the leading dimensions
  int group = -1;                 // letter of a group's columns
  int period = -1;                // letter of RowOp::period
  std::vector<int> indices = {};  // operands
  std::uint32_t leaves_out = 0;   // bit i: a negative number in indices[i] leaves its row out
  int heads[2] = {-1, -1};        // letters
  int page = -1;                  // letter
  std::uint32_t kept = 0;         // bit i: words of operand i are kept between passes
  std::uint32_t folded = 0;       // bit i: operand i is a result [width], added up over all rows
  bool folds_groups = false;      // folded results are [P, width / group]: sums over columns, too
  bool cuts = false;              // columns never meet: a part of a row is a row of its own
  bool parts = false;             // rows never meet: some of them are a call of their own
};

/// The most columns of a row that one launch takes: kernels count them in 32 bits. A longer row of
/// an operator that `cuts` takes several launches (row_pieces.hpp).
inline constexpr std::int64_t kMaxRowWidth = std::int64_t{1} << 30;

/// True if each row of the program has its own elements of it, at strides of leading dimensions.
inline bool has_rows(RowRole role) {
  return role == RowRole::kRow || role == RowRole::kGroup || role == RowRole::kValue ||
         role == RowRole::kPlaces || role == RowRole::kHeads || role == RowRole::kIndex ||
         role == RowRole::kLayers;
}
/// True if the columns of its rows are contiguous.
inline bool has_unit_columns(Layout layout) {
  return layout == Layout::kContiguous || layout == Layout::kRowStrided ||
         layout == Layout::kRowsOuter || layout == Layout::kRowsBroadcast ||
         layout == Layout::kTokensOuter;
}
/// True if it is read or written by columns.
inline bool has_columns(RowRole role) {
  return role == RowRole::kRow || role == RowRole::kColumns || role == RowRole::kHeads ||
         role == RowRole::kGathered || role == RowRole::kHeadColumns || role == RowRole::kLayers;
}

inline bool given(const Args& args, const RowOperandSpec& spec) { return args.has(spec.tensor); }

/// Checks the descriptor against the schema. Throws Error(kArgument). Kept for the process.
const RowOperator& make_row_operator(const OperatorDef& def, const RowOp& op);

/// True if a result shares an input's memory; if all results do.
bool in_place(const RowOperator& op, const Problem& problem);
bool all_in_place(const RowOperator& op, const Problem& problem);
/// Heads and gathered rows of a problem.
RowShape shape_of(const RowOperator& op, const Problem& problem);
/// Columns of a row: those of all its heads; for a row that is cut, a part's width with the
/// divisors (up to 16) that all parts share.
std::int64_t columns_of(const RowOperator& op, const Problem& problem);

/// Sets the pointers, strides and scalars of one call; with `nest`, also the strides of nested
/// rows.
void fill_call(const RowOperator& op, const RowShape& shape, const Args& args, RowCall& call,
               RowNest* nest);

/// Columns of a group; 0: the program has none. A group wider than a row is the whole row, but a
/// power of 2 stays as it is, since any access divides it.
std::int32_t group_of(const RowOperator& op, const std::int64_t* letters);

/// Phases of rows: RowOp::period, or 1.
std::int64_t period_of(const RowOperator& op, const std::int64_t* letters);
/// Columns of a folded result.
std::int64_t fold_width(const RowOperator& op, const RowCall& call);

/// Bytes that a call reads and writes.
double bytes_of(const RowOperator& op, const Problem& problem);

std::vector<Implementation> row_cpu_implementations(const RowOperator& op);
std::vector<Implementation> row_cuda_implementations(const RowOperator& op);

}  // namespace dlblas::kernels
