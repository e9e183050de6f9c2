// Packs and launches the norm family's device oracle; see norm_oracle.cuh.
#include "ops/norm/norm_oracle.hpp"
#include "core/element.hpp"
#include "cuda/cuda.hpp"
#include "cuda/view.hpp"
#include "ops/norm/norm_ops.hpp"
#include "ops/norm/norm_oracle_config.hpp"
#include "ops/norm/norm_ref.hpp"

namespace dlblas::norm {
namespace {

enum Tensor : int { kX, kWeight, kResidual };
constexpr unsigned kThreads = 256;

template <bool kAdd>
int launch_oracle(const cuda::Function& entry, const Args& args, const std::int64_t* rows,
                  std::int64_t num_rows, const OracleOut* out, void* stream) {
  const TensorView& x = args.tensors[kX];
  NormOracleParams p{};
  p.x = cuda::device_view(x);
  p.weight = cuda::device_view(args.tensors[kWeight]);
  if (kAdd) {
    p.residual = cuda::device_view(args.tensors[kResidual]);
    p.h = out[1].value, p.h_magnitude = out[1].magnitude;
  }
  p.rows = rows;
  p.width = args.letters[kC];
  p.eps = args.scalars[kEps].f;
  p.weight_offset = weight_offset_of(args);
  p.cast_before_weight = args.scalars[kCastBeforeWeight].i != 0;
  p.roundings = kNormRoundings + RowSquares().root_error(p.width);
  p.alike = sum_chain(p.width) / 4;
  p.unit = kRounding;
  p.y = out[0].value, p.y_magnitude = out[0].magnitude;
  return cuda::launch(entry, {.grid = {static_cast<unsigned>(num_rows)}, .block = {kThreads}}, p,
                      stream);
}

}  // namespace

DeviceOracle norm_device_oracle(bool add) {
  return {{"ops/norm/norm_oracle.cuh", "dlblas::norm_oracle_rows", 0},
          add ? &launch_oracle<true> : &launch_oracle<false>};
}

}  // namespace dlblas::norm
