// See gating_host.hpp.
#include "ops/moe/gating/gating_host.hpp"
#include "core/element.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"

namespace dlblas::moe {
namespace {

struct Level {
  MoeGatePasses (*passes)();
};
constexpr Level kBaseline = {baseline::moe_gate_passes};
#if defined(__x86_64__)
constexpr Level kAvx2 = {avx2::moe_gate_passes};
constexpr Level kAvx512 = {avx512::moe_gate_passes};
#endif

}  // namespace

std::vector<Implementation> gate_levels(const Implementation& base) {
  return kernels::per_level(base, "cpu_", {
#if defined(__x86_64__)
    {Isa::kAvx512, source_hash<"ops/moe/gating/gating_avx512.cpp">(), &kAvx512},
        {Isa::kAvx2, source_hash<"ops/moe/gating/gating_avx2.cpp">(), &kAvx2},
#endif
        {Isa::kBaseline, source_hash<"ops/moe/gating/gating_baseline.cpp">(), &kBaseline},
  });
}

MoeGatePasses gate_passes(const Query& q) { return kernels::code_of<Level>(q).passes(); }

void softmax_of(const MoeGatePasses& passes, const TensorView& logits, std::int64_t row, float* x,
                float* gates, float* gathered) {
  const std::int64_t count = logits.shape[1], first = row * logits.strides[0];
  if (count <= 1 || logits.strides[1] == 1) {
    const char* const from = static_cast<const char*>(logits.data) + first * size_of(logits.dtype);
    passes.softmax(logits.dtype, from, count, x, gates);
    return;
  }
  for (std::int64_t e = 0; e < count; ++e)
    gathered[e] = static_cast<float>(load_element(logits, first + e * logits.strides[1]));
  passes.softmax(DType::kF32, gathered, count, x, gates);
}

MoeGateTraits gate_traits(const TensorTraits& logits, DType result, std::int64_t experts) {
  MoeGateTraits s{logits.dtype, result, 1, (1 << logits.align_log2) >= size_of(logits.dtype), true};
  while (s.held * 32 < experts) s.held *= 2;
  if (!holds_rows(experts)) s.held = 0;
  return s;
}

const TraitsTable<MoeGateTraits>& gate_traits_table() {
  static const auto* members = new TraitsTable<MoeGateTraits>{
      "dlblas::moe::MoeGateTraits",
      {member<&MoeGateTraits::type>("type"), member<&MoeGateTraits::result>("result"),
       member<&MoeGateTraits::held>("held"), member<&MoeGateTraits::aligned>("aligned"),
       member<&MoeGateTraits::aligned_results>("aligned_results")}};
  return *members;
}

}  // namespace dlblas::moe
