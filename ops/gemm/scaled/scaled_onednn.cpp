// oneDNN's i8 product as a rival: its sums in i32, then our scales. In: a Problem, later the Args
// of a call. Out: a Kernel of one step. Same bits as our own code: the sums are exact.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/gemm/onednn_product.hpp,
// scaled_vnni.cpp.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cpu/gemm/onednn_product.hpp"
#include "cpu/onednn.hpp"
#include "ops/gemm/scaled/scaled.hpp"
#include "ops/gemm/scaled/scaled_vnni_config.hpp"

namespace dlblas::gemm::scaled {

#if defined(DLBLAS_X86)
namespace {

constexpr std::int64_t kMaxTerms = 131072;  // of 128 · 128 each are 2^31: beyond i32

OneDnnProduct product(std::int64_t m, std::int64_t n, std::int64_t k) {
  OneDnnProduct p{m, n, k};
  p.operands[OneDnnProduct::kBias].type = DType::kAbsent;
  p.operands[OneDnnProduct::kOut] = {nullptr, n, 1, DType::kI32};
  return p;
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  if (const Support takes = onednn_takes(p, {kA, kB}); !takes) return takes;
  if (p.tensors[kA].dtype != DType::kI8)
    return Support::no("{} is f8e4m3: oneDNN's products here are of i8", tensor(kA));
  // Without it, oneDNN adds pairs of products in 16 bits, where they saturate.
  if (!q.device.vnni || (onednn().get_effective_cpu_isa() & OneDnn::kVnni) == 0)
    return Support::no(
        "needs AVX512_VNNI, which this CPU lacks or an environment variable rules out");
  if (p.dims[kK] >= kMaxTerms)
    return Support::no("sums of {} products and more may not fit 32 bits", kMaxTerms);
  OneDnnProduct typical = product(p.dims[kM], p.dims[kN], p.dims[kK]);
  set_typical(typical, OneDnnProduct::kA, p.tensors[kA]);
  set_typical(typical, OneDnnProduct::kB, p.tensors[kB]);
  return onednn_supports(typical, std::max<int>(1, p.threads));
}

double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const double threads = std::max<int>(1, p.threads);
  const auto m = static_cast<double>(p.dims[kM]), n = static_cast<double>(p.dims[kN]),
             k = static_cast<double>(p.dims[kK]);
  // One thread of a Cascade Lake, K = N = 4096, ms, beside cpu_vnni (docs/notes/matmul_kernels.md):
  // one row, b along K 1.51 and 1.24, along N 7.1 and 2.3; 16 rows 6.1 and 3.6; 512 rows as fast.
  constexpr double kAsFloats = 4, kPart = 0.75, kPack = 24;
  const bool along_k = p.tensors[kB].layout == Layout::kTransposed;
  const double pack = along_k && p.dims[kM] == 1 ? 0 : kPack * n * k;
  const Rates rates = unit_rates(q.device, Isa::kAvx512);
  const double multiply = (2 * m * n * k / (kAsFloats * kPart) + pack) / rates.f32_flops;
  const double memory = 1.2 * (n * k + 8 * m * n) / rates.memory_bytes_per_s;
  return 1e3 * std::max(multiply, memory) / threads + 0.015;
}

int step(const Args& args, const Context& context, const Kernel&, void* workspace) {
  const ScaledJob job = job_of(args, Scales::kChannel);
  if (job.m == 0 || job.n == 0) return 0;
  auto* const sums = static_cast<std::int32_t*>(workspace);
  OneDnnProduct p = product(job.m, job.n, job.k);
  p.operands[OneDnnProduct::kA] = {job.a.data, job.a.row, job.a.col, DType::kI8};
  p.operands[OneDnnProduct::kB] = {job.b.data, job.b.row, job.b.col, DType::kI8};
  p.operands[OneDnnProduct::kOut].data = sums;
  if (const int failed = onednn_multiply(p, context)) return failed;
  constexpr std::int64_t kOfATask = 16384;  // results
  context.run(0, job.m, ceil_div(kOfATask, job.n), [&](std::int64_t begin, std::int64_t end) {
    avx512::kVnniCode.finish(job, sums, begin, end);
  });
  return 0;
}

struct NoState {};

Kernel prepare(const Query& q, const Config&) {
  const Problem& p = q.problem;
  return make_kernel({step}, NoState{}, static_cast<std::size_t>(4 * p.dims[kM] * p.dims[kN]));
}

}  // namespace

void append_onednn(std::vector<Implementation>& to) {
  Implementation i;
  i.name = "onednn";
  i.source_hash = source_hash<"ops/gemm/scaled/scaled_onednn.cpp">();
  i.version = onednn_version;
  i.flags.deterministic = true;
  i.supports = supports;
  i.estimate = estimate;
  i.prepare = prepare;
  to.push_back(i);
}
#else
void append_onednn(std::vector<Implementation>&) {}
#endif

}  // namespace dlblas::gemm::scaled
