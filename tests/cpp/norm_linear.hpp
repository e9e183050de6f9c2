// An operator composed of two others: out = rms_norm(x) · w, on CPUs and GPUs. Read next:
// tests/cpp/test_nested.cpp, core/nested.hpp.
#pragma once

#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "core/nested.hpp"
#include "registry/registry.hpp"

namespace dlblas::test {

enum NormLinearTensor : int { kX, kWeight, kW, kOut };
enum NormLinearLetter : int { kT, kC, kN };

inline std::vector<Part> norm_linear_parts(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const std::int64_t t = p.dims[kT], c = p.dims[kC], n = p.dims[kN];
  const DType dtype = p.tensors[kX].dtype;
  return {{"rms_norm",
           {{p.tensors[kX], {t, c}}, {p.tensors[kWeight], {c}}, {"eps", 1e-5}},
           {{dtype, {t, c}}}},
          {"matmul", {{dtype, {t, c}}, {p.tensors[kW], {c, n}}}, {{p.tensors[kOut], {t, n}}}}};
}

inline int run_norm_linear(const Args& args, const Context& context, const Kernel& kernel,
                           void* workspace) {
  TensorView normed = args.tensors[kX];
  normed.data = workspace;
  normed.strides[0] = args.letters[kC];
  normed.strides[1] = 1;
  kernel.part(0)({args.tensors[kX], args.tensors[kWeight], {"eps", 1e-5}}, {normed}, context,
                 workspace);
  kernel.part(1)({normed, args.tensors[kW]}, {args.tensors[kOut]}, context, workspace);
  return 0;
}

inline void norm_linear_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                                  OracleOut* out) {
  const std::int64_t c = args.letters[kC], n = args.letters[kN];
  const TensorView &x = args.tensors[kX], &w = args.tensors[kW];
  for (std::int64_t i = 0; i < num_rows; ++i) {
    double squares = 0;
    for (std::int64_t k = 0; k < c; ++k)
      squares += std::pow(load_element(x, rows[i] * x.strides[0] + k * x.strides[1]), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(c) + 1e-5);
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < c; ++k) {
        const double v = load_element(x, rows[i] * x.strides[0] + k * x.strides[1]) * scale *
                         load_element(args.tensors[kWeight], k) *
                         load_element(w, k * w.strides[0] + j * w.strides[1]);
        sum += v, magnitude += std::abs(v);
      }
      out[0].value[i * n + j] = sum;
      out[0].magnitude[i * n + j] = magnitude;
    }
  }
}

inline Implementation composed(const char* name, DeviceType backend) {
  Implementation impl;
  impl.name = name;
  impl.backend = backend;
  impl.source_hash = "s1";
  impl.flags = {.deterministic = true, .capturable = true};
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.parts = norm_linear_parts;
  impl.prepare = [](const Query& q, const Config&) {
    Kernel kernel = make_kernel({run_norm_linear}, 0);
    const auto rows = static_cast<std::size_t>(q.problem.dims[kT] * q.problem.dims[kC]);
    kernel.workspace_bytes = rows * static_cast<std::size_t>(size_of(q.problem.tensors[kX].dtype));
    return kernel;
  };
  return impl;
}

inline const Operator& norm_linear() {
  static const Operator& op = [&]() -> const Operator& {
    OperatorDef def;
    def.family = "test";
    def.schema =
        "nested_norm_linear(x: f[T, C], weight: like(x)[C], w: like(x)[C, N]) -> out: "
        "like(x)[T, N] where T: bucket(tokens)";
    def.letters = {"T", "C", "N"};
    def.reference = norm_linear_reference;
    def.bound = [](const Problem& p, int) {
      const double eps = float_traits(p.tensors[kX].dtype).eps;
      return Bound{.magnitude = 4 * eps, .value = eps, .absolute = 1e-6};
    };
    def.work_per_row = [](const Problem& p) {
      return static_cast<double>(p.dims[kC] * p.dims[kN]);
    };
    def.implementations = {composed("composed", DeviceType::kCpu),
                           composed("composed_cuda", DeviceType::kCuda)};
    return Registry::process().add(std::move(def));
  }();
  return op;
}

}  // namespace dlblas::test
