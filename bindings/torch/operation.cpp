// Translates schemas to torch's schemas; see operation.hpp.
#include "bindings/torch/operation.hpp"

#include "bindings/c/handle.hpp"
#include "bindings/c/literal.hpp"

namespace dlblas::torch {
namespace {

constexpr const char* kScalarTypes[] = {"int", "float", "bool", "str", "ScalarType?"};

/// True if the parameter comes after the required ones. A usual tensor keeps its position:
/// `rms_norm_out(x, w, y)`.
bool comes_last(const Schema& schema, const Param& p) {
  if (!p.is_tensor) return schema.scalars[p.index].has_default;
  return schema.tensors[p.index].optional && !schema.tensors[p.index].usual;
}

class Writer {
 public:
  explicit Writer(const Form& form) : form_(form), schema_(form.op->schema) {}

  /// `defaults`: every parameter after it has a default.
  void param(std::size_t index, Operation& op, bool defaults) {
    const Param& p = (*form_.params)[index];
    const auto at = static_cast<std::uint8_t>(index);
    if (p.is_tensor) {
      const TensorSpec& t = schema_.tensors[p.index];
      const bool written = is_written(form_, p);
      add(op, text(tensor_type(written), t.optional ? "? " : " ", t.name,
                   t.optional && defaults ? "=None" : ""));
      op.slots.push_back({Slot::Kind::kTensor, at, t.optional, written});
      op.written |= written;
    } else {
      const ScalarSpec& s = schema_.scalars[p.index];
      const char* const type = s.letter >= 0 ? "SymInt" : kScalarTypes[static_cast<int>(s.type)];
      add(op, text(type, " ", s.name, s.has_default ? "=" + literal(s) : ""));
      op.slots.push_back({Slot::Kind::kScalar, at, s.type == ScalarType::kDType, false, s.type});
    }
  }
  void result(int index, Operation& op) {
    add(op, text(tensor_type(true), " ", out_name(form_, index)));
    op.slots.push_back({Slot::Kind::kResult, static_cast<std::uint8_t>(index), false, true});
    op.written = true;
  }

 private:
  // Each written tensor is its own alias set: a, b, c, …
  std::string tensor_type(bool written) {
    return written ? text("Tensor(", static_cast<char>('a' + sets_++), "!)") : "Tensor";
  }
  static void add(Operation& op, const std::string& argument) {
    op.schema += text(op.slots.empty() ? "" : ", ", argument);
  }
  const Form& form_;
  const Schema& schema_;
  int sets_ = 0;
};

Operation make(const Form& form, std::string name, bool out) {
  const Schema& schema = form.op->schema;
  Operation op{&form, std::move(name), {}, {}, out};
  Writer writer(form);
  std::size_t required = out ? form.params->size() : 0;  // params behind the last without a default
  for (std::size_t i = required; i < form.params->size(); ++i) {
    const Param& p = (*form.params)[i];
    if (!comes_last(schema, p) && !(p.is_tensor && schema.tensors[p.index].optional))
      required = i + 1;
  }
  for (const bool defaults : {false, true}) {
    for (std::size_t i = 0; i < form.params->size(); ++i)
      if (comes_last(schema, (*form.params)[i]) == defaults)
        writer.param(i, op, defaults || i >= required);
    for (int r = 0; out && !defaults && r < form.num_outputs; ++r) writer.result(r, op);
  }
  op.num_returned = out ? 0 : form.num_outputs;
  std::string returned;
  for (int r = 0; r < op.num_returned; ++r) returned += r ? ", Tensor" : "Tensor";
  op.schema = text(op.name, "(", op.schema, ") -> ",
                   op.num_returned == 1 ? returned : text("(", returned, ")"));
  return op;
}

}  // namespace

std::string out_name(const Form& form, int output) {
  const Schema& schema = form.op->schema;
  std::string name =
      form.num_outputs == 1
          ? "out"
          : schema.tensors[static_cast<std::size_t>(schema.num_inputs + form.result_of(output))]
                .name;
  while (schema.find_param(name) >= 0) name += "_out";
  return name;
}

std::vector<Operation> operations_of(const Form& form, bool with_private) {
  const std::string name(form.name);
  std::vector<Operation> made;
  made.push_back(make(form, name, false));
  if (form.num_outputs == 0) return made;
  made.push_back(make(form, name + "_out", true));
  if (with_private && !form.inplace) made.push_back(make(form, "_" + name, false));
  return made;
}

}  // namespace dlblas::torch
