// Packs and launches the device oracle of the scaled products; see scaled_oracle.cuh.
#include "ops/gemm/scaled/scaled_oracle.hpp"
#include "core/element.hpp"
#include "cuda/cuda.hpp"
#include "ops/gemm/scaled/scaled.hpp"

namespace dlblas::gemm::scaled {
namespace {

StridedView view_of(const ScaledMatrix& m, std::int64_t (&strides)[2]) {
  StridedView view{};
  view.data = m.data, view.dtype = m.type;
  strides[0] = m.row, strides[1] = m.col;
  return view;
}

template <Scales kScales>
int launch(const cuda::Function& entry, const Args& args, const std::int64_t* rows,
           std::int64_t num_rows, const OracleOut* out, void* stream) {
  constexpr unsigned kTile = ScaledOracleParams::kTile;
  const ScaledJob job = job_of(args, kScales);
  ScaledOracleParams p{};
  std::int64_t bias[2];
  p.a = view_of(job.a, p.a_strides), p.b = view_of(job.b, p.b_strides);
  p.a_scale = view_of(job.a_scale, p.a_scale_strides);
  p.b_scale = view_of(job.b_scale, p.b_scale_strides);
  p.bias = view_of(job.bias, bias);
  p.bias_stride = bias[1];
  p.rows = rows, p.num_rows = num_rows;
  p.n = job.n, p.rule = scaled_rule(job.a.type, job.k, job.blocks);
  p.value = out->value, p.magnitude = out->magnitude;
  const cuda::Dim3 grid{static_cast<unsigned>((p.n + kTile - 1) / kTile),
                        static_cast<unsigned>((num_rows + kTile - 1) / kTile)};
  return cuda::launch(entry, {.grid = grid, .block = {kTile, kTile}}, p, stream);
}

}  // namespace

DeviceOracle device_oracle(Scales scales) {
  return {{"ops/gemm/scaled/scaled_oracle.cuh", "dlblas::gemm::scaled::scaled_oracle_rows", 0},
          scales == Scales::kBlock ? &launch<Scales::kBlock> : &launch<Scales::kChannel>};
}

}  // namespace dlblas::gemm::scaled
