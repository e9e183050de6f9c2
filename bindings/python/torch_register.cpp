// Describes the operators registered with torch to Python, and keeps Python's callables for them,
// for calls. The arguments come from python/dlblas/torch/_register.py, the only caller, and are not
// checked again here. See torch.hpp.  Read next: bindings/torch/register.cpp.
#include "bindings/torch/register.hpp"

#include <string_view>

#include "bindings/python/hooks.hpp"
#include "bindings/python/torch.hpp"

namespace dlblas::py {
namespace {

Object* number(std::int64_t value) { return api.long_from(value); }

// A tuple of new references; takes them over.
Object* tuple_of(const std::vector<Object*>& items) {
  Object* tuple = api.tuple_new(static_cast<Size>(items.size()));
  for (std::size_t i = 0; i < items.size(); ++i)
    api.tuple_set(tuple, static_cast<Size>(i), items[i]);
  return tuple;
}

// In the form that python/dlblas/_dims.py reads.
Object* describe(const Schema& schema, const DimExpr& d) {
  const auto name = [&](std::int8_t letter) {
    return make_text(letter < 0 ? std::string_view()
                                : schema.letters[static_cast<std::size_t>(letter)].name);
  };
  std::vector<Object*> terms;
  for (int i = 0; i < d.num_terms; ++i)
    terms.push_back(tuple_of(
        {number(d.terms[i].coefficient), name(d.terms[i].letter), name(d.terms[i].times)}));
  return tuple_of({make_text(d.print(schema.letters)), tuple_of(terms), number(d.divisor),
                   name(d.divisor_letter), number(d.whole), number(d.addend), number(d.leading),
                   number(d.may_be_one), number(d.may_be_half)});
}

Object* names_of(DTypeSet set) {
  std::vector<Object*> names;
  for (int i = 0; i < kNumDTypes; ++i)
    if (set >> i & 1u) names.push_back(make_text(name_of(static_cast<DType>(i))));
  return tuple_of(names);
}

// (name, (dimension …), dtypes, like, dtypes if that one is absent, dtype scalar, optional)
Object* describe(const Schema& schema, const TensorSpec& t) {
  std::vector<Object*> dims;
  for (const DimExpr& d : t.dims) dims.push_back(describe(schema, d));
  return tuple_of({make_text(t.name), tuple_of(dims), names_of(t.dtypes), number(t.like),
                   names_of(t.like_absent), number(t.dtype_scalar), number(t.optional)});
}

// ("tensor" | "result" | "scalar", index in the operator's schema)
Object* describe(const Form& form, const dlblas::torch::Slot& slot) {
  using Kind = dlblas::torch::Slot::Kind;
  const char* const kinds[] = {"tensor", "result", "scalar"};
  const int index =
      slot.kind == Kind::kResult ? form.result_of(slot.index) : (*form.params)[slot.index].index;
  return tuple_of({make_text(kinds[static_cast<int>(slot.kind)]), number(index)});
}

// (name, torch's schema, form, operator, arguments, ((scalar, its letter, default or None) …),
// tensors, number of inputs, returned results, writes, whether its kernel refuses requires_grad)
Object* describe(const dlblas::torch::Operation& op) {
  const Schema& schema = op.form->op->schema;
  std::vector<Object*> arguments, sizes, tensors, returned;
  for (const dlblas::torch::Slot& slot : op.slots) arguments.push_back(describe(*op.form, slot));
  for (const Letter& letter : schema.letters)
    if (letter.scalar >= 0) {
      const ScalarSpec& s = schema.scalars[static_cast<std::size_t>(letter.scalar)];
      sizes.push_back(
          tuple_of({number(letter.scalar), make_text(letter.name),
                    s.has_default ? number(s.default_value.i) : Ref::borrow(api.none).release()}));
    }
  for (const TensorSpec& tensor : schema.tensors) tensors.push_back(describe(schema, tensor));
  for (int i = 0; i < op.num_returned; ++i) returned.push_back(number(op.form->result_of(i)));
  return tuple_of({make_text(op.name), make_text(op.schema), make_text(op.form->name),
                   make_text(schema.name), tuple_of(arguments), tuple_of(sizes), tuple_of(tensors),
                   number(schema.num_inputs), tuple_of(returned), number(op.written),
                   number(dlblas::torch::shims.impl_requires_grad != nullptr)});
}

Object* default_value(const Parameter& p) {
  if (p.tensor || !p.scalar->has_default) return Ref::borrow(api.none).release();
  const ScalarValue& value = p.scalar->default_value;
  switch (p.scalar->type) {
    case ScalarType::kInt:
      return number(value.i);
    case ScalarType::kFloat:
      return api.float_from(value.f);
    case ScalarType::kBool:
      return Ref::borrow(value.i ? api.true_object : api.false_object).release();
    case ScalarType::kEnum:
      return make_text(p.scalar->labels[static_cast<std::size_t>(value.i)]);
    case ScalarType::kDType:
      break;
  }
  return Ref::borrow(api.none).release();
}

// The positions of a form's parameters, and then of its results, among an operation's arguments.
std::vector<std::int8_t> places_in(const dlblas::torch::Operation& op, std::size_t num_params) {
  std::vector<std::int8_t> places(num_params + kMaxResults, -1);
  for (std::size_t i = 0; i < op.slots.size(); ++i) {
    const dlblas::torch::Slot& slot = op.slots[i];
    const bool result = slot.kind == dlblas::torch::Slot::Kind::kResult;
    places[(result ? num_params : 0u) + slot.index] = static_cast<std::int8_t>(i);
  }
  return places;
}

Object* keep(Object* object) {  // for the life of the process
  if (object == api.none) return nullptr;
  api.inc_ref(object);
  return object;
}

// (form, plain, formula or None, grad or None, out or None)
void attach_form(Object* row) {
  const Function* function = find_function(api.utf8(api.tuple_get(row, 0), nullptr));
  if (!function) return;
  const auto operations = dlblas::torch::operations_of(*function->form, false);
  const std::size_t num_params = function->params.size();
  auto* calls = new TorchCalls{keep(api.tuple_get(row, 1)),
                               keep(api.tuple_get(row, 2)),
                               keep(api.tuple_get(row, 3)),
                               keep(api.tuple_get(row, 4)),
                               places_in(operations[0], num_params),
                               {},
                               {}};
  if (operations.size() > 1) calls->out_places = places_in(operations[1], num_params);
  for (const Parameter& p : function->params) calls->defaults.push_back(default_value(p));
  function->torch.store(calls, std::memory_order_release);
}

// Checks against torch's own answers: Tensor._cdata is the address of its implementation.
bool is_impl(Object* tensor, const void* impl) {
  Ref address(api.get_attr(tensor, "_cdata")), grad(api.get_attr(tensor, "requires_grad"));
  if (!address || !grad) return api.err_clear(), false;
  return reinterpret_cast<std::uintptr_t>(impl) == api.long_as_unsigned(address.get()) &&
         dlblas::torch::shims.impl_requires_grad(impl) == (grad.get() == api.true_object);
}

// The offset of the word in a torch.Tensor object that holds the address of its implementation: the
// same in all samples, both those that require grad and those that do not. 0 if not found.
int find_impl(Object* type, Object* samples) {
  Ref size(api.get_attr(type, "__basicsize__"));
  const long long bytes = size ? api.long_as(size.get()) : 0;
  constexpr int kWord = sizeof(void*);
  const bool can = dlblas::torch::shims.impl_requires_grad && api.tuple_size(samples) > 0;
  for (int at = 2 * kWord; can && at + kWord <= bytes; at += kWord) {
    bool same = true;
    for (Size i = 0; same && i < api.tuple_size(samples); ++i)
      same = is_impl(api.tuple_get(samples, i), impl_at(api.tuple_get(samples, i), at));
    if (same) return at;
  }
  api.err_clear();
  return 0;
}

}  // namespace

Object* set_torch(Object*, Object* const* args, Size, Object*) {
  hooks.attach = keep(args[0]);
  hooks.torch_error = keep(args[1]);
  return Ref::borrow(api.none).release();
}

Object* torch_register(Object*, Object* const* args, Size, Object*) {
  std::vector<std::string_view> differentiable;
  for (Size i = 0; i < api.tuple_size(args[0]); ++i)
    differentiable.push_back(api.utf8(api.tuple_get(args[0], i), nullptr));
  try {
    std::vector<Object*> rows;
    for (const dlblas::torch::Operation* op : dlblas::torch::register_operators(differentiable))
      rows.push_back(describe(*op));
    return tuple_of(rows);
  } catch (const Error& error) {
    return raise(error);
  }
}

Object* torch_attach(Object*, Object* const* args, Size, Object*) {
  if (!g_torch.load(std::memory_order_acquire)) {
    const auto item = [&](Size i) { return keep(api.tuple_get(args[0], i)); };
    g_torch.store(
        new Torch{item(0), item(1), item(2), item(3), item(4), item(5), api.intern("requires_grad"),
                  api.intern("_current_level"), find_impl(item(0), api.tuple_get(args[0], 6))},
        std::memory_order_release);
  }
  for (Size i = 0; i < api.tuple_size(args[1]); ++i) attach_form(api.tuple_get(args[1], i));
  return Ref::borrow(api.none).release();
}

}  // namespace dlblas::py
