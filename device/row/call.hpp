// One call of a row program, as plain values: the host fills it, CUDA kernels take it by value, CPU
// kernels by reference. All operators share the struct, and so the host code.
// Read next: device/row/program.hpp.
#pragma once

#include "device/types.hpp"

namespace dlblas {

inline constexpr int kMaxRowOperands = 10;
inline constexpr int kMaxRowOptions = 4;
/// The most operands of integers [*T] in a program.
inline constexpr int kMaxRowIndices = 3;
/// The most terms of a result folded over rows that one thread adds in f32, one after the other;
/// their sum is added to the others' in f64.
inline constexpr int kMaxFoldedRows = 256;
/// The most bytes of Stats in a program that folds.
inline constexpr int kMaxRowStats = 32;

/// A tensor of a row program. Strides in elements.
struct RowOperand {
  void* data;
  int64_t row;        // between rows; unused where RowNest says where rows lie
  int64_t column;     // between columns (1 but in the strided kernel), or between groups
  int64_t head = 0;   // between heads
  int64_t block = 0;  // gathered: between blocks of RowShape::page rows
};

/// Rows that are more than neighbouring columns. Heads: a row is the heads of one tensor, then
/// those of a second one; accesses stay inside a head, and columns count from its first. Gathered
/// operands: for each row, an index holds the number of the operand's row; if that is negative, the
/// row is left out or (not in `leaves_out`) has no row of the gathered operand.
struct RowShape {
  int32_t head_width = 0;             // columns of a head; 0: rows have no heads
  int32_t heads[2] = {};              // of the first tensors, of the second ones
  int32_t split = 0;                  // a column of each head that no access reaches across
  int32_t shifts = 0;                 // host alone: see RowHeads
  int32_t span = 1;                   // neighbouring elements that a column stands for (load_pairs)
  bool whole = false;                 // a head is read whole before it is written (RowOp::crosses)
  uint32_t headed = 0;                // bit i: operand i has heads; others are the same for all
  uint32_t gathered = 0;              // bit i
  uint32_t paged = 0;                 // bit i: gathered rows lie in blocks
  uint32_t second_only = 0;           // bit i: the first heads have none of operand i
  uint32_t leaves_out = 0;            // bit i: a negative number(i) leaves the row out
  int32_t indices = 0;                // operands of integers
  int8_t index[kMaxRowIndices] = {};  // number(i) is of this operand; -1: it is absent
  int8_t index_bytes[kMaxRowIndices] = {4, 4, 4};
  int32_t page = 0;                          // gathered rows of a block
  int8_t second[kMaxRowOperands] = {};       // operand i: that of the second heads; 0: the same
  int8_t gathered_by[kMaxRowOperands] = {};  // operand i: by which number
};

/// {16, 0xffff0000}: the shift and the mask that unpack bf16, as values that the compiler cannot
/// know. Words needed again after a reduction are then unpacked a second time, at the cost of that,
/// instead of staying live as twice as many floats across the barrier (layer_norm at 64 registers:
/// 0 bytes spilled, 96 without it). One for each later stage.
struct RowUnpack {
  uint32_t shift, mask;
};

/// Results over columns that are folded over rows (Fold): what the kernels after the row walk need.
struct RowFolds {
  void* stats;      // each row's Stats
  float* partials;  // [parts, folds, width], or [rows, folds, slots]
  int32_t rows;     // of one thread
  int32_t parts;    // the rows are cut into: part p has rows of phase p % period
  int32_t period;   // rows r with the same r % period, their phase, are added up
  int32_t slots;  // of a row, where results are sums over groups of columns: RowTraits::fold_lanes
};

/// What kernels read first comes first, so that it lies in few lines of the constant cache.
struct RowCall {
  int64_t rows;
  int32_t width;   // columns that the program walks
  uint32_t tiles;  // parts of a row that never meet
  int32_t group;   // columns of a group, where the program has groups; the last may be shorter
  float f[6];      // the program's scalars
  RowUnpack unpack[3];
  RowOperand operands[kMaxRowOperands];
  double d[2];   // the scalars where f32 is too narrow
  int64_t n[4];  // whatever else it counts with
  RowFolds folds;
  int32_t options[kMaxRowOptions];  // choices of the program: template values in CUDA kernels
};

/// The location of rows when leading dimensions do not flatten to one stride, as in a slice of a
/// fused projection [T, H, D]: sizes and strides of all leading dimensions, innermost first.
struct RowNest {
  static constexpr int kMaxRank = 8;
  int32_t rank;
  uint32_t sizes[kMaxRank];
  int64_t strides[kMaxRowOperands][kMaxRank];
};
struct NestedRowCall : RowCall {
  RowNest nest;
};

/// What a kernel is compiled for besides its configuration: the memory layout of operands.
struct RowTraits {
  DType types[kMaxRowOperands] = {};
  int32_t n = 8;         // elements of an access
  bool full = false;     // the threads' accesses are exactly the row
  bool nested = false;   // the call is a NestedRowCall
  bool strided = false;  // columns at any stride; n = 1
  bool aligned = true;   // elements lie at multiples of their size; else n = 1
  int32_t kept = 0;      // bytes of shared memory for what an access keeps there
  RowShape shape = {};
  int32_t group = 0;    // columns of a group, a multiple of n; 0: the row is one
  uint32_t folded = 0;  // bit i: operand i is a result that is folded over rows
  /// Folded results are sums over groups of columns, too: the threads of a row, this many of them
  /// at a time, whose accesses lie in one group, leave one term, in a slot of the row. 0: they are
  /// not.
  int32_t fold_lanes = 0;
  uint32_t periodic = 0;  // bit i: operand i has one row for each phase of rows (RowFolds::period)
  uint32_t streamed = 0;  // bit i: rows of operand i come through shared memory (row_folded)
  int32_t operands = 0;   // of the program
  int32_t options[kMaxRowOptions] = {};
};

/// The searched configuration of the CUDA kernels; a table may leave fields at their defaults.
struct RowConfig {
  int32_t threads = 128;    // of a row, in one block
  int32_t vectors = 4;      // accesses a thread holds at a time
  int32_t rows = 1;         // of a block
  int32_t cluster = 1;      // blocks of a row
  bool keep = true;         // passes: what is kept lies in shared memory, else it is read again
  bool early = true;        // column vectors are loaded before the reductions
  bool evict_last = false;  // rows are read with the L2 evict_last policy
  int32_t variant = 0;      // which of its forms the program takes
  int32_t blocks = 1;       // of a multiprocessor, which bounds registers
  int32_t ahead = 1;        // folded: rows on their way beside the one that a thread works on
};

}  // namespace dlblas
