// Any operator by name: call it, explain it, pin an implementation, compare with the oracle.
// In: a name and values, which the library checks against the operator's schema. Out: results,
// texts, verdicts. The typed functions of <dlblas/ops.hpp> make the same calls with the schema's
// names and defaults. Flow: Operator > [Arguments] > dlblas_call. Read next: tune.hpp.
#ifndef DLBLAS_OPERATOR_HPP_
#define DLBLAS_OPERATOR_HPP_

#include <dlblas/dlblas.h>
#include <dlblas/cpp20.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include <dlblas/context.hpp>
#include <dlblas/value.hpp>

namespace dlblas {
inline namespace v1 {

/// Positional arguments in schema order: `{a, b}`.
using Values = std::initializer_list<Value>;
/// Arguments by name: `{{"activation", "relu"}, {"bias", bias}}`.
using NamedValues = std::initializer_list<NamedValue>;

/// Format of a text about a call: JSON for programs, a table for people.
enum class Format { kJson = 0, kTable = 1 };

/// The oracle's verdict on results; see dlblas_verdict.
using Verdict = dlblas_verdict;

namespace detail {

/// The arguments of a generic call; throws ArgumentError beyond the schema's limits.
struct AnyArguments : Arguments<kMaxArguments> {
  AnyArguments(Values values, NamedValues named) {
    if (values.size() + named.size() > kMaxArguments)
      raise(DLBLAS_ARGUMENT, "call", "has too many arguments", "at most 28",
            std::to_string(values.size() + named.size()));
    for (const Value& v : values) add(v);
    for (const NamedValue& v : named) add(v);
  }
};

/// Every argument that the form writes into must have been passed as writable memory.
inline void check_writable(dlblas_op_t op, Values values, NamedValues named) {
  const auto check_one = [op](const Value& v, std::int32_t position, const char* name) {
    if (!v.tensor() || v.writable()) return;
    if (const char* written = dlblas_written(op, position, name))
      raise(DLBLAS_ARGUMENT, written, "is written by this operator",
            "an OutRef over memory that is not const", "memory that is read only");
  };
  std::int32_t position = 0;
  for (const Value& v : values) check_one(v, position++, nullptr);
  for (const NamedValue& v : named) check_one(v.value, -1, v.name);
}

/// The arguments of a call that runs.
struct CallArguments : AnyArguments {
  CallArguments(dlblas_op_t op, Values values, NamedValues named) : AnyArguments(values, named) {
    check_writable(op, values, named);
  }
};

/// Copies a text of the library's into a string and releases it.
inline std::string take_text(char* text) {
  struct Guard {
    char* text;
    ~Guard() { dlblas_free(text); }
  } guard{text};
  return text ? std::string(text) : std::string();
}

}  // namespace detail

/// One form of an operator, such as "matmul" or "add_rms_norm_". Cheap to copy, valid for the life
/// of the process, usable from any thread.
class Operator {
 public:
  /// Throws UnknownOperatorError, which lists the existing names.
  Operator(const char* name) : op_(detail::find_op(name)) {}
  Operator(const std::string& name) : Operator(name.c_str()) {}

  /// `Tensor y = matmul({a, b}, {{"activation", "relu"}})`: returns the single result, newly
  /// allocated.
  Tensor operator()(Values values, NamedValues named = {}, const Context& context = {}) const {
    return std::move(call<1>(values, named, context)[0]);
  }
  /// `auto [y, h] = add_rms_norm.call<2>({x, w, residual})`: returns R new results.
  template <std::size_t R>
  std::array<Tensor, R> call(Values values, NamedValues named = {},
                             const Context& context = {}) const {
    return detail::call_new<R>(op_, detail::CallArguments(op_, values, named), context);
  }
  /// `matmul({a, b}, {{"activation", "relu"}}, {out})`: writes into the caller's memory, one
  /// destination per result; allocates nothing.
  void operator()(Values values, NamedValues named, std::initializer_list<OutRef> outs,
                  const Context& context = {}) const {
    detail::Outputs outputs;
    int given = 0;
    for (const OutRef& out : outs) outputs.put(given++, out);
    detail::run(op_, detail::CallArguments(op_, values, named), context, outputs, given, given);
  }
  /// An in-place form: writes its results into the arguments that its schema names.
  void inplace(Values values, NamedValues named = {}, const Context& context = {}) const {
    detail::call_inplace(op_, detail::CallArguments(op_, values, named), context);
  }

  /// What a call would run and why, without running it: every candidate, with yes or the reason for
  /// its no.
  std::string explain(Values values, NamedValues named = {}, Format format = Format::kTable,
                      const Context& context = {}) const {
    const detail::AnyArguments arguments(values, named);
    const dlblas_args args = arguments.pack(nullptr, 0, context.flags());
    char* text = nullptr;
    detail::check(
        dlblas_explain(op_, &args, context.get(), static_cast<std::int32_t>(format), &text));
    return detail::take_text(text);
  }

  /// Prepares the kernel that a call with these arguments would run. Nothing runs, and tensors may
  /// have no memory. Calls captured into a CUDA graph must be warmed up first.
  void warmup(Values values, NamedValues named = {}, const Context& context = {}) const {
    const detail::AnyArguments arguments(values, named);
    const dlblas_args args = arguments.pack(nullptr, 0, context.flags());
    detail::check(dlblas_warmup(op_, &args, context.get()));
  }

  /// Serves this operator with one implementation in this process; an empty config means its
  /// default.
  void pin(const std::string& implementation, const std::string& config = "") const {
    detail::check(
        dlblas_pin(op_, implementation.c_str(), config.empty() ? nullptr : config.c_str()));
  }
  /// Removes the pin: the library chooses again.
  void unpin() const { detail::check(dlblas_pin(op_, nullptr, nullptr)); }

  /// Compares results with the oracle; `values` are as before the call. Without rows, checks every
  /// row.
  Verdict verify(Values values, NamedValues named, std::initializer_list<OutRef> outs,
                 std::span<const std::int64_t> rows = {}) const {
    const detail::AnyArguments arguments(values, named);
    detail::Outputs outputs;
    int given = 0;
    for (const OutRef& out : outs) outputs.put(given++, out);
    const dlblas_args args = arguments.pack(outputs.data(), given, 0);
    Verdict verdict = {};
    verdict.size = sizeof verdict;
    detail::check(
        dlblas_verify(op_, &args, rows.data(), static_cast<std::int64_t>(rows.size()), &verdict));
    return verdict;
  }

  /// The handle for calls of the C ABI.
  dlblas_op_t handle() const { return op_; }

 private:
  dlblas_op_t op_;
};

/// Operator::explain by name: `std::cout << explain("matmul", {a, b})`.
inline std::string explain(const Operator& op, Values values, NamedValues named = {},
                           Format format = Format::kTable, const Context& context = {}) {
  return op.explain(values, named, format, context);
}

}  // namespace v1
}  // namespace dlblas

#endif  // DLBLAS_OPERATOR_HPP_
