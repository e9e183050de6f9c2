// cuda_strided: any layout, element by element; what runs where no other kernel does.
// In: Problem. Out: Kernel and its one source; then the launch. Nothing is searched.
// Flow: call > validate > [select] > [compile] > [launch].
// Read next: ops/norm/norm_strided.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "generated/source_hashes.hpp"
#include "ops/norm/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 20;  // the kernel's blocks go on to further rows

struct State {
  const Slots* slots;
  bool dependent;
};

/// The elements' alignment is all that counts: one at a time.
NormCudaTraits element_traits(const Slots& slots, const Problem& problem) {
  NormCudaTraits traits = traits_of(slots, problem);
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

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& state = kernel.load<State>();
  const Slots& slots = *state.slots;
  NormStridedParams params{};
  params.call = params_of(slots, args);
  params.maps[kNormX] = row_map(args.tensors[slots.x]);
  params.maps[kNormY] = row_map(args.tensors[slots.y]);
  if (slots.adds()) {
    params.maps[kNormResidual] = row_map(args.tensors[slots.residual]);
    params.maps[kNormResidualOut] = row_map(args.tensors[slots.residual_out]);
  }
  params.weight_stride = inner_stride(args.tensors[slots.weight]);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(std::min(params.call.rows, kMaxBlocks));
  how.block.x = kThreads;
  how.dependent = state.dependent;
  return cuda::launch(*kernel.entries[0], how, params, context.stream);
}

Support supports(const Slots&, const Problem&, const DeviceInfo&) { return Support::yes(); }

double estimate(const Slots& slots, const Problem& problem, const Config&,
                const DeviceInfo& device) {
  return model_ms(10 * bytes_of(slots, problem), problem, device.units, device);
}

Kernel prepare(const Slots& slots, const Problem&, const Config&, const DeviceInfo& device) {
  Kernel kernel;
  kernel.store(State{&slots, can_depend(device)});
  kernel.steps[0] = run;
  kernel.num_steps = 1;
  return kernel;
}

std::vector<KernelSource> sources(const Slots& slots, const Problem& problem, const Config&,
                                  const DeviceInfo&) {
  return {
      {"ops/norm/norm_strided.cuh",
       text("dlblas::norm_strided<", literal(element_traits(slots, problem)), ", ", kThreads, ">"),
       0}};
}

}  // namespace

const CudaKernel& cuda_strided() {
  static const CudaKernel kernel = {
      "cuda_strided", 80,       source_hash("ops/norm/norm_strided_cuda.cpp"),
      nullptr,        supports, nullptr,
      nullptr,        estimate, prepare,
      sources};
  return kernel;
}

}  // namespace dlblas::norm
