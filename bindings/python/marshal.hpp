// The only marshaller: Python arguments → dlblas_args, for operator calls and for every control
// function. In: a Function and the interpreter's argument vector. Out: Call, whose `args` are ready
// for the C ABI. The library checks names, defaults and types (dispatch/call.cpp); this file
// handles only what the library cannot see. Read next: bindings/python/marshal.cpp.
#pragma once

#include <memory>

#include "bindings/python/array.hpp"
#include "bindings/python/function.hpp"
#include "core/lender.hpp"

namespace dlblas::py {

enum class Data { kRequired, kOptional };  // whether dlblas.Spec may stand for an array

class Call final {
 public:
  Call(const Function& function, Data data) : function_(function), data_(data) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Positional values args[0 … nargs), then one value for each of kwnames (a tuple, or null).
  bool read(Object* const* args, Size nargs, Object* kwnames);
  /// From a tuple and a dict.
  bool read(Object* args, Object* kwargs);
  /// Takes `out`: an array, or a tuple in result order. verify() always has one, which must also
  /// hold what the operator wrote into its inputs (`judged`), None for an absent one.
  bool read_out(Object* out, bool judged = false);

  const dlblas_args& args() const { return args_; }
  const Function& function() const { return function_; }
  /// The caller's side of a query that runs nothing: the threads and the stream that a call would
  /// use. False with an error set.
  bool fill_context(dlblas_context* context);
  /// dlblas_call, with new results where no `out` was given. Returns what the Python caller gets,
  /// or null with an error set.
  Object* run();

  static constexpr int kMaxParams = kMaxTensors + kMaxScalars;

 private:
  class Lent;
  bool place(Object* name, Object* value);
  bool read_stream(Object* value);
  bool find_stream(void** stream);
  bool convert(std::size_t parameter, Object* value);
  bool convert_scalar(const Parameter& parameter, Object* value, dlblas_value& out);
  bool make_numbers();
  bool make_number(const Parameter& parameter, const Array& like, dlblas_value& value);
  bool convert_integer(const Parameter& parameter, Object* integer, dlblas_value& out);
  bool refuse(const char* name, const dlblas_value* twice);
  static int new_output(void* self, std::int32_t index, dlblas_tensor* out);
  const Array* first() const;
  bool tell_written();
  Object* results();

  const Function& function_;
  const Data data_;
  dlblas_args args_{};
  int num_arrays_ = 0;
  int num_outputs_ = 0;
  int num_held_ = 0;
  std::uint32_t numbers_ = 0;  // bit i: parameter i is a tensor f32[], and came as a number
  std::int64_t bytes_ = 0;
  void* thread_ = nullptr;          // the released interpreter lock
  Object* out_ = nullptr;           // borrowed: the caller's `out`
  Object* stream_ = nullptr;        // borrowed: the caller's `stream`, an int
  Object* made_[kMaxResults] = {};  // owned: results made in this call
  // Not initialised beyond num_arrays_, num_outputs_ and the function's parameters.
  dlblas_value values_[kMaxParams];
  Array arrays_[kMaxTensors];
  std::shared_ptr<double[]> number_memory_;  // of numbers_
  Object* held_[kMaxTensors];                // owned: numbers as arrays on a GPU
  Array out_arrays_[kMaxJudged];
  dlblas_tensor outputs_[kMaxJudged];
};

/// raise_last_error() for a call with `out`, under which name its caller knows the result: "y has
/// …" becomes "out has …".
Object* raise_for_out(const Function& function);

}  // namespace dlblas::py
