// Configurations of the kernels that run row programs on CUDA devices: knobs, traits, what fits,
// the default. In: an operator as one of the kernels, a problem. Out: a RowConfig, or none.
// Included by kernels/rows_cuda*.cpp alone. Read next: rows_cuda_config.cpp, rows_cuda.cpp.
#pragma once

#include "kernels/row_operator.hpp"
#include "registry/registry.hpp"

namespace dlblas::kernels {

using RowTable = ConfigTable<RowConfig>;

/// An operator as one of the kernels; Implementation::user.
struct RowKernel {
  const RowOperator* op;
  RowKernelKind kind;
  const RowTable* table;  // null: it has one configuration
};

/// The knobs of a kernel, in RowConfig's order; what a table leaves out keeps the aggregate's
/// default. Kept for the process.
const RowTable* make_row_table(const RowOperator& op, RowKernelKind kind);

/// The form of the program that a default takes: the last one.
std::int32_t default_variant(const RowOp& op, const RowConfig& c);

/// The traits of a problem's kernels, but for `full`.
RowTraits traits_of(const RowKernel& k, const Problem& problem);
/// All of them.
RowTraits traits_with(const RowKernel& k, const Problem& problem, const RowConfig& c);

/// The same of a row of `width` columns. `group`: columns of a group that lanes reduce, or 0.
std::int64_t accesses_of(std::int64_t width, std::int64_t n, std::int64_t group);
/// Columns of a group that lanes of the kernel's warps reduce; 0: it reduces none.
std::int32_t lane_group(const RowKernel& k, const RowTraits& traits);

/// Accesses of a row, with those that a group's last lanes leave out.
std::int64_t accesses(const RowKernel& k, const Problem& problem);

/// Programs that reduce no rows are cut into tiles.
inline bool is_tiled(const RowKernel& k) { return !k.op->op.reduces; }
/// True if kRows reads rows once, and they are enough to fill the device.
inline bool reads_once(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  return k.op->op.reads_once && k.op->op.reads_once(problem) &&
         problem.dims[k.op->rows] >= device.units;
}
/// True if its rows fit over the device's registers: programs whose last form meets once.
bool has_grid(const RowOperator& op);
/// Blocks of the kGrid kernel, all of which run.
std::int64_t grid_blocks(const RowConfig& c, const DeviceInfo& device);

/// True if the kFolded kernel can bring a problem's rows: in accesses of 16 bytes, at one stride.
bool reads_in_ring(const RowKernel& k, const Problem& problem);
/// Registers of one of its threads, at most.
int folded_registers(const RowKernel& k, const RowTraits& traits, const RowConfig& c);
/// Its blocks for so many rows: those that run at once, and more where a thread would add up too
/// many rows in f32. Grows with the rows.
std::int64_t folded_blocks(const RowConfig& c, std::int64_t units, std::int64_t rows);

/// Tiles of a row of so many accesses.
std::int64_t tiles_of(std::int64_t accesses, const RowConfig& c);

/// What a block keeps in shared memory: of the kShared kernel what the program keeps of the row, of
/// the kGrid kernel the row that waits and vectors over its columns, of the kFolded kernel rows on
/// their way.
std::int64_t kept_bytes(const RowKernel& k, const Problem& problem, const RowConfig& c);
/// What it may keep.
std::int64_t shared_room(const DeviceInfo& device);

int threads_per_unit(const DeviceInfo& device);
/// True if rows may stay in L2 until they are read again; not worth it where little is.
bool may_evict_last(const RowKernel& k, const Problem& problem, const DeviceInfo& device);

bool fits(const RowKernel& k, const Problem& problem, const RowConfig& c, const DeviceInfo& device);

/// The default; threads = 0: none fits.
RowConfig default_config(const RowKernel& k, const Problem& problem, const DeviceInfo& device);
/// The one configuration of a kernel without knobs.
RowConfig strided_config(const RowKernel& k, const Problem& problem);
/// Columns of a head of which kStrided reads all before it writes one (RowShape::whole).
std::int64_t strided_columns(const RowKernel& k);

}  // namespace dlblas::kernels
