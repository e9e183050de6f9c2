// Operators with any schema, and calls on them up to `validate`: shared by the tests of schemas and
// of argument errors. The only thing that computes is `register_schema`'s oracle, which writes
// zeros. Read next: tests/cpp/test_validate.cpp.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "dispatch/dispatch.hpp"
#include "registry/registry.hpp"

namespace dlblas::test {

/// A new operator of this schema; its text lives as long as the process.
inline const Operator& register_schema(const std::string& schema,
                                       const std::vector<std::string>& inplace = {}) {
  static auto* texts = new std::deque<std::string>;
  OperatorDef def;
  def.family = "test";
  def.schema = texts->emplace_back(schema);
  for (const std::string& form : inplace) def.inplace.push_back(texts->emplace_back(form));
  def.reference = [](const Args& args, const std::int64_t*, std::int64_t rows, OracleOut* out) {
    for (int r = 0; r < args.schema->num_results; ++r) {
      const TensorView& t = args.result(r);
      const std::int64_t width = t.rank ? t.shape[t.rank - 1] : 1;
      for (std::int64_t i = 0; i < rows * width; ++i) out[r].value[i] = out[r].magnitude[i] = 0;
    }
  };
  def.bound = [](const Problem&, int) { return Bound{}; };
  def.work_per_row = [](const Problem&) { return 1.0; };
  return Registry::process().add(std::move(def));
}

/// The message of the Error thrown; "" if none is.
template <typename F>
std::string error_of(F&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// A tensor descriptor with its own sizes; contiguous unless strides are given.
struct Array {
  std::vector<std::int64_t> shape, strides;
  DType dtype = DType::kF32;
  void* data = nullptr;
  dlblas_device device = {1, 0};

  dlblas_tensor tensor() {
    return {data,
            device,
            static_cast<std::int32_t>(shape.size()),
            {dlpack_code_of(dtype), dlpack_bits_of(dtype), dlpack_lanes_of(dtype)},
            shape.data(),
            strides.empty() ? nullptr : strides.data(),
            0};
  }
};

/// One call on a form: values in order, then destinations; `problem()` binds and validates it.
class Call {
 public:
  explicit Call(const Form& form) : form_(form) {}
  Call& tensor(Array array) {
    inputs_.push_back(std::move(array));
    return value(DLBLAS_TENSOR, {.i = static_cast<std::int64_t>(inputs_.size()) - 1});
  }
  Call& none() { return value(DLBLAS_NONE, {}); }
  Call& integer(std::int64_t i) { return value(DLBLAS_INT, {.i = i}); }
  Call& number(double f) { return value(DLBLAS_FLOAT, {.f = f}); }
  Call& boolean(bool b) { return value(DLBLAS_BOOL, {.i = b}); }
  Call& word(const char* s) { return value(DLBLAS_STRING, {.s = s}); }
  /// Names the last value.
  Call& named(const char* name) { return names_.push_back(name), *this; }
  Call& out(Array array) {
    outputs_.push_back(std::move(array));
    return *this;
  }
  Call& flags(std::uint32_t f) { return flags_ = f, *this; }

  Problem problem(int threads = 1) {
    std::vector<dlblas_tensor> inputs, outputs;
    for (Array& a : inputs_) inputs.push_back(a.tensor());
    for (Array& a : outputs_) outputs.push_back(a.tensor());
    std::vector<dlblas_value> values = values_;
    for (dlblas_value& v : values)
      if (v.kind == DLBLAS_TENSOR) v.as.tensor = &inputs[static_cast<std::size_t>(v.as.i)];
    dlblas_args call{sizeof(dlblas_args),
                     values.data(),
                     static_cast<std::int32_t>(values_.size()),
                     static_cast<std::int32_t>(names_.size()),
                     names_.data(),
                     outputs.empty() ? nullptr : outputs.data(),
                     static_cast<std::int32_t>(outputs_.size()),
                     flags_};
    Problem problem;
    bind(form_, call, args);
    validate(*form_.op, call, threads, args, problem);
    return problem;
  }
  std::string error() {
    return error_of([&] { problem(); });
  }

  Args args;

 private:
  using As = decltype(dlblas_value::as);
  Call& value(dlblas_kind kind, As as) { return values_.push_back({kind, 0, as}), *this; }
  const Form& form_;
  std::vector<Array> inputs_, outputs_;
  std::vector<dlblas_value> values_;  // a tensor's is its index in inputs_
  std::vector<const char*> names_;
  std::uint32_t flags_ = 0;
};

}  // namespace dlblas::test
