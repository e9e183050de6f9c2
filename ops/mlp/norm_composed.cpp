// The norm part of composed operators; see norm_composed.hpp.
#include "ops/mlp/norm_composed.hpp"

#include "ops/mlp/matrices.hpp"

namespace dlblas::mlp {
namespace {

constexpr int kX = 0, kGain = 1, kT = 0, kK = 1;

Kernel prepare(const Query& q, const Config&) {
  return make_kernel({q.user<StepFn>()}, 0, normed_bytes(q));
}

}  // namespace

Part norm_part(const Query& q) {
  const Problem& p = q.problem;
  const std::int64_t t = p.dims[kT], k = p.dims[kK];
  return {"rms_norm",
          {{p.tensors[kX], {t, k}}, {p.tensors[kGain], {k}}, {"eps", 1e-6}},
          {{p.tensors[kX].dtype, {t, k}}}};
}

std::size_t normed_bytes(const Query& q) {
  const Problem& p = q.problem;
  return static_cast<std::size_t>(p.dims[kT] * p.dims[kK] * size_of(p.tensors[kX].dtype));
}

TensorView run_norm(const Args& args, double eps, const Context& context, const Kernel& kernel,
                    void* workspace) {
  const TensorView x = flat(args.tensors[kX]);
  TensorView normed = x;
  normed.data = workspace;
  normed.strides[0] = x.shape[1], normed.strides[1] = 1;
  kernel.part(0)({x, args.tensors[kGain], {"eps", eps}}, {normed}, context, workspace);
  return normed;
}

void append_norm_composed(std::vector<Implementation>& to, const char* source_hash,
                          Support (*supports)(const Query&),
                          std::vector<Part> (*parts)(const Query&, const Config&), StepFn step,
                          double (*estimate)(const Query&, const Config&)) {
  Implementation impl;
  impl.source_hash = source_hash;
  impl.flags = {.deterministic = true, .capturable = true};
  impl.user = new StepFn(step);  // lives as long as the process, as the operator does
  impl.supports = supports;
  impl.parts = parts;
  impl.prepare = prepare;
  for (const DeviceType backend : {DeviceType::kCpu, DeviceType::kCuda}) {
    impl.backend = backend;
    impl.name = backend == DeviceType::kCpu ? "composed" : "cuda_composed";
    impl.estimate = backend == DeviceType::kCpu ? nullptr : estimate;
    to.push_back(impl);
  }
}

Bound norm_bound(DType out) {
  const FloatTraits traits = float_traits(out);
  return {.magnitude = kRounding,
          .value = traits.eps / 2 * (1 + kRounding),
          .absolute = traits.tiny + 0x1p-126};
}

}  // namespace dlblas::mlp
