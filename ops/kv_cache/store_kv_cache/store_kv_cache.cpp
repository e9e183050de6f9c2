// store_kv_cache, which writes new keys and values to a paged cache: schema, oracle and program.
// Values of another width than keys: store_kv_widths.cpp.
// Read next: store_kv_cache_program.hpp (what it computes), store_kv_cache_ref.hpp (how exactly).
#include "kernels/rows.hpp"
#include "ops/common/check_scale.hpp"
#include "ops/kv_cache/store_kv_cache/store_kv_cache_program.hpp"
#include "ops/kv_cache/store_kv_cache/store_kv_cache_ref.hpp"
#include "ops/kv_cache/store_kv_widths.hpp"

namespace dlblas::kv_cache {

OperatorDef store_kv_cache();
OperatorDef store_kv_cache() {
  OperatorDef def;
  def.family = "kv_cache";
  def.schema =
      "store_kv_cache(k: f[*T, Hkv, D], v: like(k)[*T, Hkv, Dv], "
      "k_cache: like(k)|f8[P, page, Hkv, D]!, v_cache: like(k_cache)[P, page, Hkv, Dv]!, "
      "slot_mapping: index[*T] ~ distinct<P*page|-1, k_scale: f32[]? ~ positive, "
      "v_scale: f32[]? ~ positive) -> () where T: bucket(tokens), P: free(2T/page+1)";
  def.formula =
      "k_cache[slot / page, slot % page] = k / k_scale; v_cache alike; slot −1 is skipped";
  def.letters = {"T", "Hkv", "D", "Dv", "P", "page"};
  def.check = quant::check_scales<kKScale, kVScale>;
  kernels::set_shared_row_oracle<store_kv_cache_shared<kernels::HostRow>,
                                 store_kv_cache_row<kernels::HostRow>, store_kv_cache_size>(def);
  def.bound = store_kv_cache_bound;
  def.work_per_row = [](const Problem& problem) {
    return static_cast<double>(problem.dims[kD] + problem.dims[kDv]);
  };
  kernels::RowOp op = {.program = "store_kv_cache",
                       .width = "D",
                       .operands = {"k|v", "k_cache|v_cache", "k_scale|v_scale", "slot_mapping"}};
  op.heads = [](const std::int64_t* letters, bool) {
    return kernels::RowHeads{.width = letters[kD], .split = 0};
  };
  op.registers = 32;
  op.serves = one_width;
  op.choose = [](const Problem& problem, std::int32_t* options) {
    options[kScaled] = problem.tensors[kKScale].dtype != DType::kAbsent ||
                       problem.tensors[kVScale].dtype != DType::kAbsent;
  };
  kernels::add_row_implementations(def, op);
  def.implementations.push_back(one_by_one("one_by_one", DeviceType::kCpu));
  def.implementations.push_back(one_by_one("cuda_one_by_one", DeviceType::kCuda));
  return def;
}

}  // namespace dlblas::kv_cache
