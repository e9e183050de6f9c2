// mla_decode_lse, DeepSeek's latent attention of one token per sequence: schema, oracle and
// implementations. Keys are a latent and a rotary part; values are the latents.
// Read next: mla_decode_lse_ref.cpp (what it computes), mla_decode_lse_cpu.cpp, mla_rows.cuh,
// mla_decode.cuh and mla_wgmma.cuh (how).
#include "ops/attention/mla_decode_lse/mla_decode_lse.hpp"
#include "ops/attention/pages.hpp"
#include "ops/attention/scores.hpp"

namespace dlblas::attention {

OperatorDef mla_decode_lse();
OperatorDef mla_decode_lse() {
  using namespace mla;
  OperatorDef def;
  def.family = "attention";
  def.schema =
      "mla_decode_lse(q_nope: f[T, H, R], q_pe: like(q_nope)[T, H, Dr], "
      "ckv_cache: like(q_nope)|f8[P, page, R], kpe_cache: like(ckv_cache)[P, page, Dr], "
      "page_table: index[1|T, W] ~ index<P, seq_lens: index[T] ~ lengths<=W*page, scale: float = "
      "0, ckv_scale: f32[]? ~ positive, kpe_scale: f32[]? ~ positive) "
      "-> (o: like(q_nope)[T, H, R], lse: f32[T, H]) "
      "where T: bucket(tokens), W: bucket(tokens), P: free(T*W)";
  def.formula =
      "o = softmax(scale · (ckv_scale·q_nope·ckvᵀ + kpe_scale·q_pe·kpeᵀ))·ckv·ckv_scale; "
      "lse = log Σ e^s";
  def.letters = {"T", "H", "R", "Dr", "P", "page", "W"};
  def.check = [](const Args& args) {
    check_scale("mla_decode_lse", args.scalars[kScale].f);
    check_pages(args, {.table = kPageTable,
                       .lengths = kSeqLens,
                       .indptr = -1,
                       .starts = -1,
                       .count = args.letters[kP],
                       .tokens = args.letters[kPage],
                       .width = args.letters[kW],
                       .window = -1});
  };
  def.reference = reference;
  def.bound = bound;
  def.work_per_row = [](const Problem& problem) {
    return static_cast<double>(problem.dims[kW] * problem.dims[kPage]) *
           static_cast<double>(16 * problem.dims[kR] + 8 * problem.dims[kDr] + 16);
  };
  def.implementations = cpu();
  def.implementations.push_back(cuda_wgmma());
  def.implementations.push_back(cuda_decode());
  def.implementations.push_back(cuda_rows());
  return def;
}

}  // namespace dlblas::attention
