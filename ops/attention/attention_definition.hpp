// What the definitions of attention operators over unpaged keys share: everything but the schema,
// its formula and its letters. kOp holds the positions of tensors and letters, including those of
// f8 factors and of packed sequences. Read next: attention_host.hpp, flash_attention_lse.cpp (a
// user).
#pragma once

#include "ops/attention/attention_host.hpp"

namespace dlblas::attention {

template <const AttentionOp& kOp>
void define_attention(OperatorDef& def) {
  def.family = "attention";
  def.by_element = {"lse"};
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                     OracleOut* out) { attention_reference(kOp, args, rows, num_rows, out); };
  def.bound = [](const Problem& problem, int result) {
    return attention_bound(problem, kOp, result);
  };
  def.check = [](const Args& args) { check_attention(kOp.name, args); };
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kOp.k_rows]) *
           static_cast<double>(p.dims[kOp.d] + 3 * p.dims[kOp.dv]);
  };
  def.implementations = attention_tiles_cpu(kOp);
  for (const Implementation& impl : attention_cpu(kOp)) def.implementations.push_back(impl);
  for (const Implementation& impl : attention_cuda(kOp)) def.implementations.push_back(impl);
}

template <const AttentionGradientOp& kOp>
void define_attention_gradient(OperatorDef& def) {
  def.family = "attention";
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                     OracleOut* out) {
    attention_gradient_reference(kOp, args, rows, num_rows, out);
  };
  def.inputs_related = true;  // lse is that of q and k
  def.bound = [](const Problem& problem, int) { return attention_gradient_bound(problem, kOp); };
  def.check = [](const Args& args) { check_attention(kOp.of.name, args); };
  def.work_per_row = [](const Problem& p) {
    const auto size = [&](int letter) { return static_cast<double>(p.dims[letter]); };
    return (size(kOp.of.k_rows) + size(kOp.of.q_rows) * size(kOp.of.group)) * 3 *
           (size(kOp.of.d) + size(kOp.of.dv));
  };
  def.implementations = attention_gradient_cpu(kOp);
  for (const Implementation& impl : attention_gradient_cuda(kOp))
    def.implementations.push_back(impl);
}

}  // namespace dlblas::attention
