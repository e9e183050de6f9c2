// oneDNN's matmul as a rival on equal terms: same checks, same search, same oracle.
// In: a Problem; at launch the exact sizes and strides. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/onednn_product.hpp.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cpu/gemm/onednn_product.hpp"
#include "cpu/onednn.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {
namespace {

// oneDNN 3.2 sums each column in one f32 chain of K terms where columns are few, and always on CPUs
// without AVX-512. Equal terms round alike: 2^17 of them have an error of half of what the oracle
// allows, 2^18 of four times as much.
constexpr std::int64_t kMaxTerms = 1 << 16;

/// Of the activations that keep NaN and Inf: see supports.
void set_activation(OneDnnProduct& p, Activation activation) {
  p.eltwise = activation == Activation::kNone        ? 0
              : activation == Activation::kLeakyRelu ? OneDnn::kRelu
                                                     : OneDnn::kSwish;
  p.alpha = activation == Activation::kNone        ? 0.0f
            : activation == Activation::kLeakyRelu ? 0.01f
                                                   : 1.0f;
}

int step(const Args& args, const Context& context, const Kernel&, void*) {
  const MatmulParams given = matmul_params(args);
  if (given.m == 0 || given.n == 0) return 0;
  OneDnnProduct p{given.m, given.n, given.k, {given.a, given.b, given.bias, given.out}};
  GemmMatrix& bias = p.operands[OneDnnProduct::kBias];
  bias.row = p.n;
  if (!bias.data) bias.type = DType::kAbsent;
  set_activation(p, given.activation);
  return onednn_multiply(p, context);
}

/// The product that a Problem describes, for operands without gaps.
OneDnnProduct typical(const Problem& problem) {
  OneDnnProduct p{problem.dims[kM], problem.dims[kN], problem.dims[kK]};
  set_typical(p, OneDnnProduct::kA, problem.tensors[kA]);
  set_typical(p, OneDnnProduct::kB, problem.tensors[kB]);
  set_typical(p, OneDnnProduct::kBias, problem.tensors[kBias]);
  set_typical(p, OneDnnProduct::kOut, problem.tensors[kOut]);
  set_activation(p, static_cast<Activation>(problem.scalars[kActivation]));
  return p;
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  if (const Support takes = onednn_takes(p, {kA, kB, kOut}); !takes) return takes;
  if (p.dims[kK] > kMaxTerms)
    return Support::no("oneDNN may add up K in one chain: too inexact beyond {}", kMaxTerms);
  // Seen in 3.2 and 3.13, on a CPU with AVX-512 but without bf16 instructions.
  if (p.dims[kK] % 2 != 0 && size_of(p.tensors[kA].dtype) == 2) {
    return Support::no(
        "oneDNN takes two of a 16-bit K at a time: an Inf that ends an odd one "
        "becomes NaN");
  }
  // Seen in 3.2; the other activations keep both.
  if (p.scalars[kActivation] == static_cast<int>(Activation::kRelu)) {
    return Support::no("oneDNN's relu turns NaN into 0");
  }
  if (p.scalars[kActivation] == static_cast<int>(Activation::kGelu)) {
    return Support::no("oneDNN's gelu turns Inf into NaN");
  }
  return onednn_supports(typical(p), std::max<int>(1, p.threads));
}

double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  // The estimate of our own widest code: within 6 % for f32 on AMD Zen 4. With AVX512_BF16 and no
  // AMX (Zen 5, 512×4096×4096, 2 threads) bf16 has 1.95 times f32's speed; elsewhere from half of
  // it on: measurement decides.
  const bool pairs = kernels::multiplies_pairs(q.device, p.tensors[kA].dtype);
  const double speed = pairs ? 1.95 : 1;
  const Rates rates = unit_rates(q.device, q.device.isa_hardware);
  const auto threads = static_cast<double>(std::max<int>(1, p.threads));
  return rates.roofline_ms(threads, bytes_of_b(p) / kPacking, 2 * multiply_adds(p) / speed,
                           DType::kF32) +
         0.01;
}

struct NoState {};

Kernel prepare(const Query&, const Config&) { return make_kernel({step}, NoState{}); }

}  // namespace

void append_onednn(std::vector<Implementation>& to) {
  Implementation i;
  i.name = "onednn";
  i.source_hash = source_hash<"ops/gemm/matmul/cpu/matmul_onednn.cpp">();
  i.version = onednn_version;
  i.supports = supports;
  i.estimate = estimate;
  i.prepare = prepare;
  to.push_back(i);
}

}  // namespace dlblas::gemm
