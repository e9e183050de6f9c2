// Configurations of the kernels that run row programs on CUDA devices: knobs, traits, constraints,
// the default. In: an operator with one of the kernels, a problem. Out: a RowConfig, or none.
// Included by kernels/rows_cuda*.cpp alone. Read next: rows_cuda_config.cpp, rows_cuda.cpp.
#pragma once

#include "kernels/row_operator.hpp"
#include "registry/registry.hpp"

namespace dlblas::kernels {

using RowTable = ConfigTable<RowConfig>;

/// An operator with one of the kernels; Implementation::user.
struct RowKernel {
  const RowOperator* op;
  RowKernelKind kind;
  const RowTable* table;  // null: it has one configuration
};

/// The knobs of a kernel, in RowConfig's order; a knob that the table leaves out keeps the
/// aggregate's default. Kept for the process.
const RowTable* make_row_table(const RowOperator& op, RowKernelKind kind);

/// The variant that a default uses: the last one, or 0 without a cluster where only clusters have
/// others.
std::int32_t default_variant(const RowOp& op, const RowConfig& c);

/// The traits of a problem's kernels, except those that depend on the configuration.
RowTraits traits_of(const RowKernel& k, const Problem& problem);
/// All traits.
RowTraits traits_with(const RowKernel& k, const Problem& problem, const RowConfig& c);

/// Accesses of a row of `width` columns. `group`: columns of a group that lanes reduce, or 0.
std::int64_t accesses_of(std::int64_t width, std::int64_t n, std::int64_t group);
/// Columns of a group that lanes of the kernel's warps reduce; 0: none.
std::int32_t lane_group(const RowKernel& k, const RowTraits& traits);

/// Accesses of a row, with the idle ones that pad its groups to whole lanes.
std::int64_t accesses(const RowKernel& k, const Problem& problem);

/// Programs that reduce no rows are cut into tiles.
inline bool is_tiled(const RowKernel& k) { return !k.op->op.reduces; }
/// True if kRows reads rows once, and there are enough of them to fill the device.
inline bool reads_once(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  return k.op->op.reads_once && k.op->op.reads_once(problem) &&
         problem.dims[k.op->rows] >= device.units;
}
/// True if rows may be spread over the device's registers: programs whose last variant synchronises
/// once.
bool has_grid(const RowOperator& op);
/// Blocks of the kGrid kernel, all resident at once.
std::int64_t grid_blocks(const RowConfig& c, const DeviceInfo& device);

/// True if the kFolded kernel can load a problem's rows: in accesses of 16 bytes.
bool reads_in_ring(const RowKernel& k, const Problem& problem);
/// An upper bound of its registers per thread.
int folded_registers(const RowKernel& k, const Problem& problem, const RowTraits& traits,
                     const RowConfig& c);
/// Its number of blocks for so many rows, a multiple of their period: those that run at once, or
/// more where a thread would add up too many rows in f32. Never decreases as the rows grow.
std::int64_t folded_blocks(const RowConfig& c, std::int64_t units, std::int64_t rows,
                           std::int64_t period);
/// RowTraits::fold_lanes of a program whose results are folded over groups.
std::int32_t fold_lanes(const RowTraits& traits, std::int32_t threads);

/// Tiles of a row of `accesses` accesses.
std::int64_t tiles_of(std::int64_t accesses, const RowConfig& c);

/// Bytes that a block keeps in shared memory: in kShared, what the program keeps of the row; in
/// kGrid, the row that waits and vectors over its columns; in kFolded, rows in flight.
std::int64_t kept_bytes(const RowKernel& k, const Problem& problem, const RowConfig& c);
/// The most that it may keep.
std::int64_t shared_room(const DeviceInfo& device);

int threads_per_unit(const DeviceInfo& device);
/// True if rows may stay in L2 until they are read again; not worth it for little data.
bool may_evict_last(const RowKernel& k, const Problem& problem, const DeviceInfo& device);

bool fits(const RowKernel& k, const Problem& problem, const RowConfig& c, const DeviceInfo& device);

/// The default; threads = 0: none fits.
RowConfig default_config(const RowKernel& k, const Problem& problem, const DeviceInfo& device);
/// The one configuration of a kernel without knobs.
RowConfig strided_config(const RowKernel& k, const Problem& problem);
/// The most columns of a head that kStrided can read before it writes one (RowShape::whole).
std::int64_t strided_columns(const RowKernel& k);

}  // namespace dlblas::kernels
