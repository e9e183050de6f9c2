// paged_attention_lse, attention over a paged cache of keys and values: schema, oracle and
// implementations. Letters Hkv and G: heads of the cache, and heads of q per head of the cache.
// Read next: paged_attention_lse_ref.cpp (what it computes), paged_attention_lse_cpu.cpp,
// paged_rows.cuh, paged_decode.cuh and paged_wgmma_cuda.cpp (how).
#include "ops/attention/paged_attention_lse/paged_attention_lse.hpp"
#include "core/error.hpp"
#include "ops/attention/pages.hpp"
#include "ops/attention/scores.hpp"

namespace dlblas::attention {
namespace {

void check(const Args& args) {
  using namespace paged;
  if (!args.has(kCuSeqlensQ) && args.letters[kT] != args.letters[kB])
    throw Error(ErrorKind::kShape,
                text("paged_attention_lse: q has ", args.letters[kT],
                     " rows; expected one a sequence without cu_seqlens_q, ", args.letters[kB],
                     ", got ", args.letters[kT]),
                {.op = "paged_attention_lse", .argument = "q"});
  check_scale("paged_attention_lse", args.scalars[kScale].f);
  check_softcap("paged_attention_lse", args.scalars[kSoftcap].f);
  check_window("paged_attention_lse", args.scalars[kWindow].i);
  check_pages(args, {.table = kPageTable,
                     .lengths = kSeqLens,
                     .indptr = kIndptr,
                     .starts = kCuSeqlensQ,
                     .count = args.letters[kP],
                     .tokens = args.letters[kPage],
                     .width = args.letters[kW],
                     .window = args.scalars[kWindow].i});
}

}  // namespace

OperatorDef paged_attention_lse();
OperatorDef paged_attention_lse() {
  using namespace paged;
  OperatorDef def;
  def.family = "attention";
  def.schema =
      "paged_attention_lse(q: f[T, Hkv*G, D], k_cache: like(q)|f8[P, page, Hkv, D], "
      "v_cache: like(k_cache)[P, page, Hkv, Dv], page_table: index[1|B, W] ~ index<P, "
      "seq_lens: index[B] ~ lengths<=W*page, cu_seqlens_q: index|none[B+1] ~ offsets<=T, "
      "indptr: index[B+1]? ~ offsets<=W, sinks: f32[Hkv*G]?, k_scale: f32[]? ~ positive, "
      "v_scale: f32[]? ~ positive, *, scale: float = 0, causal: bool = true, "
      "window: int = -1 key(set=256), softcap: float = 0 key(set=30)) "
      "-> (o: like(q)[T, Hkv*G, Dv], lse: f32[T, Hkv*G]) "
      "where T: bucket(tokens), B: bucket(tokens), W: bucket(tokens), P: free(B*W)";
  def.formula = "o = softmax(scale · q·kᵀ)·v over the keys of each row's sequence; lse = log Σ e^s";
  def.letters = {"T", "Hkv", "G", "D", "P", "page", "Dv", "B", "W"};
  def.reference = reference;
  def.bound = bound;
  def.check = check;
  def.work_per_row = [](const Problem& problem) {
    return static_cast<double>(problem.dims[kW] * problem.dims[kPage]) *
           static_cast<double>(8 * problem.dims[kD] + 8 * problem.dims[kDv] + 16);
  };
  def.implementations = cpu_tiles();
  for (const Implementation& impl : cpu()) def.implementations.push_back(impl);
  def.implementations.push_back(cuda_decode());
  def.implementations.push_back(cuda_wgmma());
  def.implementations.push_back(cuda_rows());
  return def;
}

}  // namespace dlblas::attention
