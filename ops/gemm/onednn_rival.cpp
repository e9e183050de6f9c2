// See onednn_rival.hpp.
#include "ops/gemm/onednn_rival.hpp"

#include <algorithm>

#include "core/rates.hpp"
#include "cpu/onednn.hpp"
#include "kernels/blocked_product.hpp"

namespace dlblas::gemm {

Support onednn_activates(Activation activation) {
  // Seen in 3.2; the other activations keep both.
  if (activation == Activation::kRelu) return Support::no("oneDNN's relu turns NaN into 0");
  if (activation == Activation::kGelu) return Support::no("oneDNN's gelu turns Inf into NaN");
  return Support::yes();
}

void then_activate(OneDnnProduct& product, Activation activation) {
  if (activation == Activation::kLeakyRelu)
    product.then({.kind = OneDnnPost::kEltwise, .function = OneDnn::kRelu, .alpha = 0.01f});
  if (activation == Activation::kSilu)
    product.then({.kind = OneDnnPost::kEltwise, .function = OneDnn::kSwish, .alpha = 1});
}

double onednn_ms(const Query& q, double m, double n, double k, DType a) {
  // The estimate of our own widest code: within 6 % for f32 on AMD Zen 4. With AVX512_BF16 and no
  // AMX (Zen 5, 512×4096×4096, 2 threads) bf16 has 1.95 times f32's speed; elsewhere from half of
  // it on: measurement decides.
  const double speed = kernels::multiplies_pairs(q.device, a) ? 1.95 : 1;
  const Rates rates = unit_rates(q.device, q.device.isa_hardware);
  const auto threads = static_cast<double>(std::max<int>(1, q.problem.threads));
  return rates.roofline_ms(threads, n * k * size_of(a) / kernels::kPacking, 2 * m * n * k / speed,
                           DType::kF32) +
         0.01;
}

}  // namespace dlblas::gemm
