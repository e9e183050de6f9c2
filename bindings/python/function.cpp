// Builds Functions from the registry's schemas. See function.hpp.
#include "bindings/python/function.hpp"

#include <map>

#include "bindings/c/handle.hpp"
#include "bindings/c/literal.hpp"
#include "bindings/python/hooks.hpp"

namespace dlblas::py {
namespace {

std::map<std::string, Function*, std::less<>>& table() {
  static auto* const functions = new std::map<std::string, Function*, std::less<>>;
  return *functions;
}

}  // namespace

std::string signature(const Function& f) {
  std::string out;
  bool keyword_only = false;
  const bool dim_by_place = f.takes_dim && f.num_positional == 1;
  // Python forbids a parameter without a default after one with a default, so an optional parameter
  // before a required one must be passed.
  std::size_t required = 0;  // params up to the last by place without a default
  for (std::size_t i = 0; i < f.params.size() && !f.params[i].keyword_only; ++i) {
    const Parameter& p = f.params[i];
    if (p.tensor ? !p.tensor->optional : !p.scalar->has_default) required = i + 1;
  }
  for (std::size_t i = 0; i < f.params.size(); ++i) {
    const Parameter& p = f.params[i];
    if (i == 1 && dim_by_place) out += ", dim=-1";
    if (!out.empty()) out += ", ";
    if (p.keyword_only && !keyword_only) out += "*, ";
    keyword_only = p.keyword_only;
    out += p.name;
    if (i < required) continue;
    if (p.tensor && p.tensor->optional) out += "=None";
    if (p.scalar && p.scalar->has_default) out += "=" + literal(*p.scalar);
  }
  if (dim_by_place && f.params.size() == 1) out += ", dim=-1";
  if (f.takes_dim && !dim_by_place) {
    out += keyword_only ? ", dim=-1" : ", *, dim=-1";
    keyword_only = true;
  }
  if (f.num_results > 0) out += keyword_only ? ", out=None" : ", *, out=None";
  out += keyword_only || f.num_results > 0 ? ", stream=None" : ", *, stream=None";
  return out;
}

Function* make_function(const Form& form, const char* text, bool takes_dim) {
  const Schema& schema = form.op->schema;
  auto* f = new Function{};
  f->handle = handle_of(form);
  f->form = &form;
  f->name = std::string(form.name);
  for (const Param& p : *form.params) {
    const TensorSpec* tensor = p.is_tensor ? &schema.tensors[p.index] : nullptr;
    const ScalarSpec* scalar = p.is_tensor ? nullptr : &schema.scalars[p.index];
    const char* name = tensor ? tensor->name.c_str() : scalar->name.c_str();
    f->params.push_back(
        {name, api.intern(name), p.keyword_only, is_written(form, p), tensor, scalar});
    f->num_positional += !p.keyword_only;
  }
  f->num_results = form.num_outputs;
  for (int i = 0; i < f->num_results; ++i)
    f->result_names.push_back(schema.tensors[schema.num_inputs + form.result_of(i)].name);
  f->takes_dim = takes_dim;
  f->doc = f->name + "(" + signature(*f) + ")\n--\n\n" + text;
  table()[f->name] = f;
  return f;
}

const Function* find_function(const char* name) {
  const auto it = table().find(std::string_view(name));
  return it == table().end() ? nullptr : it->second;
}

}  // namespace dlblas::py
