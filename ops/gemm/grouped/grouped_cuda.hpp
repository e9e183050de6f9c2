// What the CUDA forms of grouped products share on the host.
// Read next: grouped_cuda.cpp, grouped_config.hpp.
#pragma once

#include "kernels/cuda_form.hpp"
#include "ops/gemm/grouped/grouped.hpp"
#include "ops/gemm/grouped/grouped_config.hpp"

namespace dlblas::gemm {

/// The call parameters of every kernel with GroupedOut.
struct GroupedGpuParams {
  GemmCall gemm;
  GroupedOut epilogue;
  GroupCall groups;
};
GroupedGpuParams grouped_gpu_params(const GroupedOp& op, const Args& args);
GroupedTraits grouped_traits(const GroupedOp& op, const Problem& problem, std::int32_t span);
/// As C++ text, for the JIT.
std::string grouped_literal(const GroupedTraits& traits);
std::string groups_literal(const GroupTraits& traits);
std::string out_literal(const GemmOutTraits& traits);

/// Blocks that cover any division into groups.
std::int64_t grouped_blocks(const GroupedOp& op, std::int64_t m, std::int64_t n,
                            std::int64_t groups, std::int64_t block_m, std::int64_t block_n);
/// Whether a grid has enough blocks even with the smallest tile.
Support grouped_fits_grid(const GroupedOp& op, const Problem& problem);
/// f16 or bf16, a and b contiguous in one dimension with 16-byte aligned rows.
Support grouped_on_tensor_cores(const GroupedOp& op, const Problem& problem);
/// Whether tensor cores take any number of such rows and groups: rows are multiples of 16 bytes, so
/// a next row would be aligned, too.
bool tensor_cores_take_any_batch(const GroupedOp& op, const Problem& problem);
/// GemmTraits::span of the tensor-core forms: as in matmul, they truncate when they add. For kDepth
/// a chain is as long as a group, which may have all rows; under kDeterministic the number of rows
/// decides nothing.
std::int32_t tensor_core_span(const GroupedOp& op, const Problem& problem);
/// Tiles of all groups, if each has the average size.
double grouped_tiles(const GroupedOp& op, const Problem& problem, int block_m, int block_n);

/// A form whose only knob is its tile.
template <typename Form>
struct GroupedForm : kernels::CudaForm<GroupedTraits, GroupedConfig> {
  static constexpr bool kDependent = true;
  static const GroupedOp& op_of(const Query& q) { return q.user<GroupedOp>(); }

  static const ConfigTable<Config>& table() {
    static const ConfigTable<Config>* const knobs = [] {
      auto* labels = new std::vector<std::string>;  // live as long as the process
      std::vector<std::int64_t> values;
      for (int i = 0; i < Form::kCount; ++i) {
        values.push_back(i);
        labels->push_back(text(Form::kTiles[i].block_m, "x", Form::kTiles[i].block_n));
      }
      return new ConfigTable<Config>{
          field<&Config::tile>("tile", values, {labels->begin(), labels->end()})};
    }();
    return *knobs;
  }
  static Traits traits(const Query& q, const Config&) {
    return grouped_traits(op_of(q), q.problem, Form::span(q));
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return bytes_of(s.traits, s.config.tile);
  }
  static std::int32_t bytes_of(const Traits& traits, int tile) {
    const auto& c = Form::kTiles[tile];
    return c.shared_bytes(traits.gemm.span) + gathered_bytes(traits.groups, c.block_m);
  }
  static bool fits(const Query& q, int tile) {
    const Traits traits = grouped_traits(op_of(q), q.problem, Form::span(q));
    return bytes_of(traits, tile) <= q.device.shared_bytes_per_block;
  }
  static void constrain(const Query& q, Space& space) {
    const std::int64_t n = q.problem.dims[op_of(q).n];
    std::uint32_t allowed = 0;
    for (int i = 0; i < Form::kCount; ++i)
      if (fits(q, i)) allowed |= 1u << i;
    space.require(table(), "shared_memory_fits", {"tile"},
                  [allowed](const Config& c) { return (allowed >> c.tile & 1u) != 0; });
    space.require(table(), "block_n_distinct", {"tile"}, [n](const Config& c) {
      return Form::kTiles[c.tile].block_n <= 64 || Form::kTiles[c.tile].block_n / 2 < n ||
             Form::kTiles[c.tile].block_m < 64;
    });
  }
  static Config preset(const Query& q) {
    return kernels::least_estimate<Form>(q, {Form::kCount - 1});
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{Form::kInclude,
             text(Form::kEntry, "<", grouped_literal(s.traits), ", dlblas::gemm::GroupedConfig{",
                  s.config.tile, "}>"),
             s.shared_bytes}};
  }
  static GroupedGpuParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const auto& op = *static_cast<const GroupedOp*>(s.user);
    const auto& tile = Form::kTiles[s.config.tile];
    const GroupedGpuParams p = grouped_gpu_params(op, args);
    how.grid.x = static_cast<unsigned>(
        grouped_blocks(op, p.gemm.m, p.gemm.n, p.groups.groups, tile.block_m, tile.block_n));
    how.block.x = static_cast<unsigned>(tile.threads());
    return p;
  }
};

/// The sm_90a form.
Implementation grouped_wgmma(const GroupedOp& op);

}  // namespace dlblas::gemm
