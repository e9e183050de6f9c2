// Lets an operator's steps call another operator's selected implementation. In: an implementation's
// `parts`, which describes the calls that its steps will make. Out: one Nested per part, filled
// when the kernel is prepared; the step calls it with tensors, scalars and its caller's Context.
// Flow: call > validate > select > [compile] > [launch].  Read next: dispatch/nested.cpp,
// docs/add_an_operator.md ("An operator made of others").
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "core/implementation.hpp"

namespace dlblas {

/// An argument of a nested call. It points to its tensor: create it where it is passed. Positional
/// arguments come first, in schema order, then named ones: `{"eps", 1e-6}`.
struct Value {
  enum class Kind : std::uint8_t { kNone, kTensor, kInt, kFloat, kBool, kWord };
  Kind kind = Kind::kNone;  // kNone: not given, so absent or its default
  const char* name = nullptr;
  union {
    const TensorView* tensor;
    std::int64_t integer = 0;
    double number;
    const char* word;  // of an enumeration, or a dtype's name
  };

  Value() = default;
  Value(const TensorView& t) : kind(Kind::kTensor), tensor(&t) {}
  Value(int i) : kind(Kind::kInt), integer(i) {}
  Value(std::int64_t i) : kind(Kind::kInt), integer(i) {}
  template <std::same_as<bool> B>  // no pointer is one
  Value(B b) : kind(Kind::kBool), integer(b) {}
  Value(double d) : kind(Kind::kFloat), number(d) {}
  Value(const char* w) : kind(Kind::kWord), word(w) {}
  Value(const char* its_name, Value value) : Value(value) { name = its_name; }
};

/// An argument as the caller gave it, or none.
inline Value argument(const Args& args, int tensor) {
  return args.has(tensor) ? Value(args.tensors[tensor]) : Value();
}

/// An argument of a part before any memory exists: a tensor's shape and layout, or a scalar.
struct PartValue {
  Value value;
  bool is_tensor = false;
  DType dtype = DType::kAbsent;
  std::vector<std::int64_t> shape;
  std::optional<TensorTraits> lies;  // none: packed, at an address of 16

  PartValue(Value scalar) : value(scalar) {}
  PartValue(int i) : value(i) {}
  PartValue(std::int64_t i) : value(i) {}
  template <std::same_as<bool> B>
  PartValue(B b) : value(b) {}
  PartValue(double d) : value(d) {}
  PartValue(const char* word) : value(word) {}
  PartValue(const char* name, PartValue from) : PartValue(std::move(from)) { value.name = name; }
  /// A packed tensor: one in the workspace.
  PartValue(DType type, std::vector<std::int64_t> sizes)
      : is_tensor(true), dtype(type), shape(std::move(sizes)) {}
  /// A tensor of the enclosing operator's problem, with its layout; absent if it is absent there.
  PartValue(const TensorTraits& traits, std::vector<std::int64_t> sizes)
      : is_tensor(traits.dtype != DType::kAbsent),
        dtype(traits.dtype),
        shape(std::move(sizes)),
        lies(traits) {}
};

/// A call that steps will make. The actual call must map to the same problem; sizes may differ
/// where both operators bucket them. A call of another problem is also correct, but is selected
/// when it is made and allocates its workspace; under graph capture it must have been warmed up by
/// itself.
struct Part {
  const char* op;  // a form's name: "matmul", "rms_norm_"
  std::vector<PartValue> values;
  std::vector<PartValue> outputs;
};

/// A part, ready to be called.
class Nested {
 public:
  /// Runs it on the caller's stream and threads. `outputs` are written, so all must have memory.
  /// `workspace` is the step's own. Call it on the step's own thread. Throws a typed Error that
  /// names the part; never returns a code.
  void operator()(std::initializer_list<Value> values, std::initializer_list<Value> outputs,
                  const Context& context, void* workspace) const {
    call(values, outputs, context, workspace);
  }
  /// The same for each matrix of a batch on a CPU: `count` calls, each with its tensors `steps`
  /// elements behind those of the call before: one step per value, then one per output (0 where the
  /// value is no tensor or stays). Binds and validates once where that is the planned problem, and
  /// then divides the calls among the threads.
  void each(std::int64_t count, std::initializer_list<Value> values,
            std::initializer_list<Value> outputs, std::initializer_list<std::int64_t> steps,
            const Context& context, void* workspace) const {
    call_each(count, values, outputs, steps, context, workspace);
  }
  Nested() = default;
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  virtual ~Nested() = default;

 private:
  virtual void call(std::initializer_list<Value> values, std::initializer_list<Value> outputs,
                    const Context& context, void* workspace) const = 0;
  virtual void call_each(std::int64_t count, std::initializer_list<Value> values,
                         std::initializer_list<Value> outputs,
                         std::initializer_list<std::int64_t> steps, const Context& context,
                         void* workspace) const = 0;
};

}  // namespace dlblas
