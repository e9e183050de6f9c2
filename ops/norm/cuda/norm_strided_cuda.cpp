// cuda_strided: any layout, element by element; what runs where no other kernel does.
// In: Problem. Out: Kernel and its one source; then the launch. Nothing is searched.
// Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/norm/cuda/norm_strided.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "generated/source_hashes.hpp"
#include "ops/norm/cuda/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 20;  // the kernel's blocks go on to further rows

/// The elements' alignment is all that counts: one at a time.
NormCudaTraits element_traits(const Query& q) {
  NormCudaTraits traits = traits_of(q);
  traits.align = std::min(traits.align, size_of(traits.type));
  if (traits.align < size_of(traits.type)) traits.align = 1;
  return traits;
}

std::int64_t inner_stride(const TensorView& t) {
  return t.rank == 0 || t.shape[t.rank - 1] <= 1 ? 1 : t.strides[t.rank - 1];
}

NormRowMap row_map(const TensorView& t) {
  NormRowMap map{};
  map.inner = inner_stride(t);
  map.rank = std::max(0, t.rank - 1);
  for (int i = 0; i < map.rank; ++i) {
    map.shape[i] = t.shape[i];
    map.strides[i] = t.strides[i];
  }
  return map;
}

struct NoConfig {};

struct Strided : NormForm<NoConfig> {
  static constexpr bool kSearched = false;
  static NormCudaTraits traits(const Query& q, NoConfig) { return element_traits(q); }

  static double milliseconds(const Query& q, NoConfig) {
    return model_ms(q, 10 * bytes_of(q), q.device.units);
  }

  static std::vector<KernelSource> sources(const Query&, const State& state) {
    return {
        {"ops/norm/cuda/norm_strided.cuh",
         text("dlblas::norm_strided<", traits_table().literal(state.traits), ", ", kThreads, ">")}};
  }

  static NormStridedParams launch(const State& state, const Args& args, void*, cuda::Launch& how) {
    const NormTensors& at = tensors_of(state);
    NormStridedParams params{};
    params.call = params_of(at, args);
    params.maps[kNormX] = row_map(args.tensors[at.x]);
    params.maps[kNormY] = row_map(args.tensors[at.y]);
    if (at.adds()) {
      params.maps[kNormResidual] = row_map(args.tensors[at.residual]);
      params.maps[kNormResidualOut] = row_map(args.tensors[at.residual_out]);
    }
    params.weight_stride = inner_stride(args.tensors[at.weight]);
    how.grid.x = static_cast<unsigned>(std::min(params.call.rows, kMaxBlocks));
    how.block.x = kThreads;
    return params;
  }
};

}  // namespace

Implementation cuda_strided(const NormTensors& tensors) {
  return kernels::make_cuda<Strided>("cuda_strided",
                                     source_hash("ops/norm/cuda/norm_strided_cuda.cpp"), &tensors);
}

}  // namespace dlblas::norm
