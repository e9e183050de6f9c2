// A C++ function as an implementation of rms_norm, in its own shared object. Build and run:
//   g++ -std=c++20 -O3 -shared -fPIC -I../../include own_norm.cpp -o own_norm.so && python run.py
#include <cmath>
#include <dlblas/implementation.hpp>

namespace {

const char* supports(const dlblas::ProblemRef& p) {
  if (!p.all(dlblas::DType::kF32)) return "takes contiguous f32 tensors alone";
  return p->scalars[2].as.i ? "multiplies before it rounds" : nullptr;
}

// rms_norm(x: f[*T, C], weight, eps, weight_offset, cast_before_weight) -> y
void run(const dlblas::Step& step) {
  const auto *x = step.input<float>(0), *weight = step.input<float>(1);
  float* y = step.result<float>(0);
  const std::int64_t width = step.letter(1);
  const auto offset = static_cast<float>(step.number(1));
  step.parallel_for(0, step.letter(0), step.knob(0), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin * width; t < end * width; t += width) {
      double sum = 0;
      for (std::int64_t c = 0; c < width; ++c) sum += static_cast<double>(x[t + c]) * x[t + c];
      const auto mean = sum / static_cast<double>(width) + step.number(0);
      const auto scale = static_cast<float>(1 / std::sqrt(mean));
      for (std::int64_t c = 0; c < width; ++c) y[t + c] = x[t + c] * scale * (weight[c] + offset);
    }
  });
}

}  // namespace

DLBLAS_OWN() {
  dlblas::register_implementation("rms_norm", {.name = "own_cpp",
                                               .run = run,
                                               .supports = supports,
                                               .knobs = {{"rows", {1, 8, 64}}},
                                               .deterministic = true});
}
