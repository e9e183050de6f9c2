// The host side of every operator that is a row program (device/row/program.hpp). A descriptor and
// the operator's schema give support and the reasons against it, knobs, default configurations,
// estimates, kernel sources and launches on CUDA devices, and the CPU implementations of all
// instruction sets. In: RowOp. Out: Implementations in OperatorDef.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: kernels/rows_cuda.cpp,
// kernels/rows_cpu.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cpu/row/job.hpp"
#include "registry/operator.hpp"

namespace dlblas::kernels {

/// How rows of heads are walked: see RowShape.
struct RowHeads {
  std::int64_t width = 0, split = 0;
  /// The shifts of accesses and the end of load_before, or-ed together: an access divides them all.
  std::int64_t shifts = 0;
};

/// A skeleton of CUDA kernels; each is a separate implementation, since each has its own knobs.
enum class RowKernelKind : std::uint8_t {
  kRegisters,
  kCluster,
  kGrid,
  kShared,
  kRows,
  kStrided,
  kFolded
};

/// A problem as one of the kernels sees it.
struct RowQuery {
  RowKernelKind kind;
  std::int64_t rows, accesses;  // of a row
  const RowTraits& traits;
  const DeviceInfo& device;
};
/// The terms of an estimate: the time relative to a copy of the same bytes, and a constant.
struct RowCost {
  double share, ms;
};

/// Measured choices for one operator, in place of the skeletons' own defaults. Null: theirs.
struct RowTuning {
  /// Configurations, best first, without `blocks` and `evict_last`; the first that fits is the
  /// default. Those that leave room in shared memory for a second block come before the others. An
  /// empty list: the skeleton's own.
  std::vector<RowConfig> (*wanted)(const RowQuery& q);
  /// Registers per thread of kernels with these traits: sets the default `blocks`.
  std::int32_t (*registers)(const RowTraits& traits, const RowConfig& c);
  /// `alone`: a block has a multiprocessor's shared memory to itself.
  RowCost (*cost)(const RowQuery& q, const RowConfig& c, bool alone);
};
/// The fewest accesses per thread with which `threads` threads hold a row of `accesses`; 0: a
/// thread would hold too many.
std::int32_t row_vectors_for(std::int64_t accesses, std::int64_t threads);

/// An operator's description of its program.
struct RowOp {
  std::string_view program;  // "silu_and_mul": the stem of ops/**/silu_and_mul_program.hpp
  std::string_view width;    // letter: the columns that the program walks
  /// Names of the schema's tensors, in the order of the program's Operand<i>. `q|k`: the heads of q
  /// and then those of k, as one operand; `|k_cache`: only the second heads have it. `index`
  /// tensors [T], at most three, are number(0), …, and select rows of the tensors whose first
  /// letter bounds them (`positions: index[T] ~ index<P` selects rows of `[P, R]`). A row with a
  /// negative number is left out, except for the indices in `any_number`.
  std::vector<std::string_view> operands;
  std::vector<std::string_view> any_number = {};
  std::string_view rows = {};  // letter of the rows, where it is not the leading one
  /// Letter P: row r reads row r % P of operands `[P, C]` or `[P, C/group]`, and is folded into
  /// that row of such results. x's last leading dimension that is not 1 is a multiple of it, or the
  /// only one. Empty: rows share vectors `[C]`.
  std::string_view period = {};
  /// Rows are heads: from the sizes of the problem's letters, and whether all results are in place.
  RowHeads (*heads)(const std::int64_t* letters, bool in_place) = nullptr;
  /// Adjacent elements that one column stands for (RowShape::span), for heads, or for rows that are
  /// as many times as wide as the program; null: 1.
  std::int32_t (*span)(const Problem& problem) = nullptr;
  /// True if an access writes channels of its head that other accesses read. In place, heads of the
  /// first operand are then read whole before they are written (RowShape::whole). Null: no.
  bool (*crosses)(const Problem& problem) = nullptr;
  /// Heads share what load_columns() computes (RowProgram::kColumnsOnce): a CPU walks all of them
  /// together, wherever they lie.
  bool heads_together = false;
  /// Most columns of a head stand for one element, the others for two: an access is 16 bytes of the
  /// former.
  bool seldom_pairs = false;
  bool reduces = false;           // has a stage over rows
  bool selects = false;           // takes columns from a row in order: its threads are one block's
  std::int32_t variants = 1;      // forms of the program that CUDA kernels may choose from
  bool cluster_variants = false;  // which differ over a cluster alone (RowProgram::kBlocksApart)
  /// Letter: columns of a group, where the program has groups; empty: it has none.
  std::string_view group = {};
  /// The last stage is over groups; with heads, over each head's columns.
  bool reduces_groups = false;
  /// Registers per CUDA thread, at most: with nothing loaded, and for each access that it holds.
  /// They set the default number of blocks per multiprocessor; the compiler's spills are the truth,
  /// and dlblas_compile_all checks the defaults against them.
  std::int32_t registers = 24, access_registers = 10;
  /// The same per access, where vectors over columns are loaded late (RowConfig::early); 0: no
  /// difference.
  std::int32_t late_access_registers = 0;
  std::int32_t min_arch = 80;
  /// Operands whose data is kept between passes; empty: all inputs that are rows.
  std::vector<std::string_view> kept = {};
  std::int32_t kept_values = 0;  // f32 values of each column that are kept beside that data
  const RowTuning* tuning = nullptr;
  /// Sets the call's scalars: RowCall::f, d, n. May be null.
  void (*fill)(const Args& args, RowCall& call) = nullptr;
  /// True if a call reads its rows once, however long they are, so that kernels need not keep them.
  /// Null: no.
  bool (*reads_once)(const Problem& problem) = nullptr;
  /// Problems of the operator that are none of the program's. Null: all are.
  Support (*serves)(const Problem& problem) = nullptr;
  /// Sets RowCall::options from the problem. May be null.
  void (*choose)(const Problem& problem, std::int32_t* options) = nullptr;
};

/// Adds the program's implementations to `def`, whose schema is set: CPU levels, then CUDA kernels.
void add_row_implementations(OperatorDef& def, const RowOp& op);

/// A program found by the build: generated by cmake/row_programs.cmake.
struct RowProgramEntry {
  std::string_view name;
  const char* header;            // of the tree
  const char* type;              // "dlblas::activation::SiluAndMul"
  const char *hash, *cuda_hash;  // source_hash, with the loops of CPUs and with the CUDA kernels
  RowJobFn levels[3];            // by Isa; null where this build has none
};
extern const RowProgramEntry* const kRowPrograms;
extern const int kNumRowPrograms;

}  // namespace dlblas::kernels
