// store_mla_heads, which writes latents and rotary keys to two paged caches: schema and oracle. The
// program is store_kv_cache's, whose two tensors may have different numbers of heads. Read next:
// ops/kv_cache/api.py (store_mla_cache), ops/kv_cache/store_kv_cache/store_kv_cache_program.hpp.
#include "ops/kv_cache/store_mla_heads/store_mla_heads_ref.hpp"

#include "kernels/rows.hpp"
#include "ops/common/check_scale.hpp"
#include "ops/kv_cache/store_kv_cache/store_kv_cache_program.hpp"

namespace dlblas::kv_cache {

OperatorDef store_mla_heads();
OperatorDef store_mla_heads() {
  OperatorDef def;
  def.family = "kv_cache";
  def.schema =
      "store_mla_heads(ckv: f[*T, Hc, D], kpe: like(ckv)[*T, Hp, D], "
      "ckv_cache: like(ckv)|f8[P, page, Hc, D]!, kpe_cache: like(ckv_cache)[P, page, Hp, D]!, "
      "slot_mapping: index[*T] ~ distinct<P*page|-1, ckv_scale: f32[]? ~ positive, "
      "kpe_scale: f32[]? ~ positive) -> () where T: bucket(tokens), P: free(2T/page+1)";
  def.formula =
      "ckv_cache[slot / page, slot % page] = ckv / ckv_scale; kpe_cache alike; slot −1 is skipped";
  def.letters = {"T", "Hc", "D", "Hp", "P", "page"};
  def.check = quant::check_scales<kKScale, kVScale>;
  kernels::set_shared_row_oracle<store_mla_heads_shared<kernels::HostRow>,
                                 store_mla_heads_row<kernels::HostRow>, store_mla_heads_size>(def);
  def.bound = store_kv_cache_bound;
  def.work_per_row = [](const Problem& problem) {
    return 2.0 * static_cast<double>(problem.dims[kMlaD]);
  };
  kernels::RowOp op = {
      .program = "store_kv_cache",
      .width = "D",
      .operands = {"ckv|kpe", "ckv_cache|kpe_cache", "ckv_scale|kpe_scale", "slot_mapping"}};
  op.heads = [](const std::int64_t* letters, bool) {
    return kernels::RowHeads{.width = letters[kMlaD], .split = 0};
  };
  op.registers = 32;
  op.choose = [](const Problem& problem, std::int32_t* options) {
    options[kScaled] = problem.tensors[kKScale].dtype != DType::kAbsent ||
                       problem.tensors[kVScale].dtype != DType::kAbsent;
  };
  kernels::add_row_implementations(def, op);
  return def;
}

}  // namespace dlblas::kv_cache
