// Sorts by expert on NVIDIA GPUs, the host's side: sizes of the workspace, parameters, and the
// launches that operators share. Read next: ops/moe/sort/sort.cuh, ops/moe/moe_align/.
#pragma once

#include <algorithm>

#include "cuda/cuda.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/moe/sort/sort_config.hpp"

namespace dlblas::moe {

inline std::int64_t chunks_of(std::int64_t items) { return (items + kMoeChunk - 1) / kMoeChunk; }
inline std::int64_t blocks_for_warps(std::int64_t warps) {
  return (warps + kMoeWarps - 1) / kMoeWarps;
}
/// Bytes of counts, totals and bases; a multiple of 16.
inline std::size_t sort_bytes(std::int64_t chunks, std::int64_t experts) {
  const std::int64_t words = experts * chunks + 2 * experts + 1;
  return static_cast<std::size_t>((words * 4 + 15) / 16 * 16);
}
/// Shared memory of the kernels that walk chunks.
inline unsigned walk_bytes(std::int64_t experts) {
  return static_cast<unsigned>(experts > kMoeSharedExperts ? 0 : 4 * kMoeWarps * experts);
}

/// The parameters for ids [*, inner], read as rows of `inner`; the tables are at the start of the
/// workspace.
inline MoeSortParams sort_params(const void* ids, std::int64_t outer_stride,
                                 std::int64_t inner_stride, std::int64_t items, std::int64_t inner,
                                 std::int64_t experts, std::int64_t block, void* workspace) {
  MoeSortParams p{};
  p.ids = ids;
  p.outer_stride = outer_stride;
  p.inner_stride = inner_stride;
  p.items = static_cast<std::int32_t>(items);
  p.inner = static_cast<std::int32_t>(std::max<std::int64_t>(1, inner));
  p.experts = static_cast<std::int32_t>(experts);
  p.chunks = p.segment_chunks = static_cast<std::int32_t>(chunks_of(items));
  p.segment = p.items;
  p.block = static_cast<std::int32_t>(block);
  p.counts = static_cast<std::int32_t*>(workspace);
  p.totals = p.counts + experts * p.chunks;
  p.bases = p.totals + experts;
  return p;
}

inline int launch_blocks(const cuda::Function& entry, const void* params, std::size_t bytes,
                         std::int64_t blocks, int threads, unsigned shared, const Context& context,
                         bool dependent = false) {
  if (blocks == 0) return 0;
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(blocks);
  how.block.x = static_cast<unsigned>(threads);
  how.shared_bytes = shared;
  how.dependent = dependent;
  return cuda::launch(entry, how, params, bytes, context.stream);
}
template <typename Params>
int launch_warps(const cuda::Function& entry, const Params& p, std::int64_t warps, unsigned shared,
                 const Context& context, bool dependent = false) {
  return launch_blocks(entry, &p, sizeof p, blocks_for_warps(warps), kMoeThreads, shared, context,
                       dependent);
}

inline const TraitsTable<MoeSortTraits>& sort_traits_table() {
  static const auto* members = new TraitsTable<MoeSortTraits>{
      "dlblas::moe::MoeSortTraits",
      {member<&MoeSortTraits::ids>("ids"), member<&MoeSortTraits::aligned>("aligned")}};
  return *members;
}
/// The three kernels that all sorts begin with, entries 0, 1 and 2 of an operator.
inline std::vector<KernelSource> sort_sources(const MoeSortTraits& traits, std::int64_t experts) {
  const char* const include = "ops/moe/sort/sort.cuh";
  const std::string of = "<" + sort_traits_table().literal(traits) + ">";
  return {{include, "dlblas::moe::moe_count" + of, static_cast<std::int32_t>(walk_bytes(experts))},
          {include, "dlblas::moe::moe_scan" + of},
          {include, "dlblas::moe::moe_bases" + of}};
}

/// The steps of these entries; `Form::sort(args, workspace)` gives the parameters.
template <typename Form>
int launch_count(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const MoeSortParams p = Form::sort(args, workspace);
  return launch_warps(*kernel.entries[0], p, p.chunks, walk_bytes(p.experts), context);
}
template <typename Form>
int launch_scan(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const MoeSortParams p = Form::sort(args, workspace);
  return launch_warps(*kernel.entries[1], p, p.experts, 0, context);
}
template <typename Form>
int launch_bases(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const MoeSortParams p = Form::sort(args, workspace);
  return launch_blocks(*kernel.entries[2], &p, sizeof p, 1, kMoeScanThreads, 0, context);
}

inline bool is_aligned(const TensorTraits& t, int bytes) { return (1 << t.align_log2) >= bytes; }
inline std::int64_t stride_of(const TensorView& t, int axis) {
  return t.shape[axis] <= 1 ? 0 : t.strides[axis];
}
/// True if the last dimension is contiguous.
inline bool has_rows(const TensorTraits& t) {
  return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
         t.layout == Layout::kRowsOuter;
}
/// Threads of a block that walks a row in accesses of `access` elements.
inline int threads_for(std::int64_t width, int access) {
  const std::int64_t warps = (width / access + 31) / 32;
  return static_cast<int>(32 * std::clamp<std::int64_t>(warps, 1, kMoeWarps));
}
inline MoeColumn column_of(const TensorView& t) { return {t.data, stride_of(t, 0)}; }

}  // namespace dlblas::moe
