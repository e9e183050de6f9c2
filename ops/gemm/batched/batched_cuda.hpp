// What the CUDA forms of batched products share on the host: knobs, and problems of one matrix.
// Read next: batched_cuda.cpp, batched_wgmma_cuda.cpp.
#pragma once

#include <algorithm>

#include "ops/gemm/batched/batched.hpp"
#include "ops/gemm/batched/batched_config.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

namespace dlblas::gemm {

/// A form whose only knob is its tile.
template <typename Form>
struct BatchedForm : MatmulForm<Form, BatchedConfig> {
  using Base = MatmulForm<Form, BatchedConfig>;
  using State = typename Base::State;
  static constexpr const char* kConfigName = "dlblas::gemm::BatchedConfig";

  static Problem matrix(const Query& q) { return matrix_problem(q.user<BatchedOp>(), q.problem); }
  static const ConfigTable<BatchedConfig>& table() {
    static const ConfigTable<BatchedConfig>* const knobs = [] {
      auto* labels = new std::vector<std::string>;  // live as long as the process
      std::vector<std::int64_t> values;
      for (int i = 0; i < Form::kCount; ++i) {
        values.push_back(i);
        labels->push_back(text(Form::kTiles[i].block_m, "x", Form::kTiles[i].block_n));
      }
      return new ConfigTable<BatchedConfig>{
          field<&BatchedConfig::tile>("tile", values, {labels->begin(), labels->end()})};
    }();
    return *knobs;
  }
  static MatmulTraits traits(const Query& q, const BatchedConfig&) {
    return matmul_traits(matrix(q), 0, Form::span(q));
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return Form::kTiles[s.config.tile].shared_bytes(s.traits.gemm.span);
  }
  static bool fits(const Query& q, int tile) {
    return Form::kTiles[tile].shared_bytes(Form::span(q)) <= q.device.shared_bytes_per_block;
  }
  static void constrain(const Query& q, Space& space) {
    std::uint32_t allowed = 0;
    for (int i = 0; i < Form::kCount; ++i)
      if (Form::fits(q, i)) allowed |= 1u << i;
    space.require(table(), "shared_memory_fits", {"tile"},
                  [allowed](const BatchedConfig& c) { return (allowed >> c.tile & 1u) != 0; });
    const std::int64_t m = q.problem.dims[kBatchedM], n = q.problem.dims[kBatchedN];
    const auto distinct = [m, n](const BatchedConfig& c) {
      const auto& tile = Form::kTiles[c.tile];
      return (tile.block_m <= 64 || tile.block_m / 2 < m) &&
             (tile.block_n <= 64 || tile.block_n / 2 < n);
    };
    space.require(table(), "tile_distinct", {"tile"}, distinct);
  }
  static BatchedConfig preset(const Query& q) {
    return kernels::least_estimate<Form>(q, {Form::kCount - 1});
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    const std::string traits =
        text("dlblas::gemm::BatchedTraits{", kernels::gemm_traits_table().literal(s.traits.gemm),
             ", ", epilogue_table().literal(s.traits.epilogue), "}");
    return {{Form::kInclude,
             text(Form::kEntry, "<", traits, ", ", kConfigName, "{", s.config.tile, "}>"),
             s.shared_bytes}};
  }
};

/// The sm_90a form.
Implementation batched_wgmma(const BatchedOp& op);

}  // namespace dlblas::gemm
