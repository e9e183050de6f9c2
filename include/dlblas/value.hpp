// Arguments of one call: Value (anything that can be an argument) and the array that the C ABI
// reads. In: tensors, numbers, booleans, enumerated names, dtypes. Out: dlblas_args on the caller's
// stack. Nothing here allocates: a call with its destination given makes no heap allocation. Flow:
// generated operator functions and Operator > [Arguments] > dlblas_call. Read next: operator.hpp.
#ifndef DLBLAS_VALUE_HPP_
#define DLBLAS_VALUE_HPP_

#include <dlblas/dlblas.h>
#include <dlblas/cpp20.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <dlblas/context.hpp>
#include <dlblas/error.hpp>
#include <dlblas/tensor.hpp>

namespace dlblas {
inline namespace v1 {

/// One argument. Texts are not copied: they must live until the call returns, as temporaries in the
/// call expression do.
class Value {
 public:
  Value(std::nullopt_t) {}
  template <typename T>
  requires std::convertible_to<const T&, TensorRef> Value(T&& tensor)
      : tensor_(std::as_const(tensor)), writable_(std::convertible_to<T&&, OutRef>) {
    value_.kind = tensor_ ? DLBLAS_TENSOR : DLBLAS_NONE;
  }
  template <std::same_as<bool> B>
  Value(B flag) {
    value_.kind = DLBLAS_BOOL;
    value_.as.i = flag;
  }
  template <std::integral I>
  requires(!std::same_as<I, bool>) Value(I number) {
    value_.kind = DLBLAS_INT;
    value_.as.i = static_cast<std::int64_t>(number);
  }
  template <std::floating_point F>
  Value(F number) {
    value_.kind = DLBLAS_FLOAT;
    value_.as.f = static_cast<double>(number);
  }
  Value(const char* text) {
    value_.kind = DLBLAS_STRING;
    value_.as.s = text;
  }
  Value(const std::string& text) : Value(text.c_str()) {}
  Value(DType dtype) : Value(name_of(dtype)) {}

  /// The tensor, or the scalar in C ABI form; an absent tensor is empty.
  const TensorRef& tensor() const { return tensor_; }
  const dlblas_value& scalar() const { return value_; }
  /// True if the tensor came as an OutRef or as something that converts to one: a non-const Tensor
  /// or vector.
  bool writable() const { return writable_; }

 private:
  dlblas_value value_ = {};
  TensorRef tensor_;
  bool writable_ = false;
};

/// An argument by name: `{"activation", "relu"}`.
struct NamedValue {
  const char* name;
  Value value;
};

namespace detail {

inline constexpr int kMaxResults = 6;
inline constexpr int kMaxArguments = 28;  // 16 tensors and 12 scalars: the schema's limits

/// The values of one call, at most N. They point into this object and into the caller's references,
/// so it cannot be copied.
template <std::size_t N>
class Arguments {
 public:
  template <typename... A>
  explicit Arguments(const A&... values) {
    (add(values), ...);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void add(const TensorRef& t) {
    dlblas_value& v = values_[count_];
    v.kind = DLBLAS_NONE;
    if (t) {
      tensors_[count_] = t.descriptor();
      v.kind = DLBLAS_TENSOR;
      v.as.tensor = &tensors_[count_];
    }
    ++count_;
  }
  void add(const Value& v, const char* name = "a text") {
    if (v.tensor()) return add(v.tensor());
    if (v.scalar().kind == DLBLAS_STRING && !v.scalar().as.s)
      raise(DLBLAS_ARGUMENT, name, "is null", "an enumerated name or a dtype", "a null pointer");
    values_[count_++] = v.scalar();
  }
  void add(const NamedValue& v) {
    if (!v.name)
      raise(DLBLAS_ARGUMENT, "call", "has a nameless argument", "a name", "a null pointer");
    names_[named_++] = v.name;
    add(v.value, v.name);
  }
  template <typename T>
  requires(!std::convertible_to<const T&, TensorRef> &&
           std::constructible_from<Value, const T&>) void add(const T& scalar) {
    values_[count_++] = Value(scalar).scalar();
  }
  void add(const std::optional<DType>& dtype) {
    if (dtype) return add(*dtype);
    values_[count_++].kind = DLBLAS_NONE;
  }

  dlblas_args pack(dlblas_tensor* outputs, int num_outputs, std::uint32_t flags) const {
    return {sizeof(dlblas_args), values_, count_, named_, names_, outputs, num_outputs, flags};
  }

 private:
  std::int32_t count_ = 0, named_ = 0;
  dlblas_value values_[N ? N : 1];  // not initialised: only the first count_ are read
  dlblas_tensor tensors_[N ? N : 1];
  const char* names_[N ? N : 1];
};
template <typename... A>
Arguments(const A&...) -> Arguments<sizeof...(A)>;

inline dlblas_op_t find_op(const char* name) {
  dlblas_op_t op = nullptr;
  check(dlblas_op(name, &op));
  return op;
}

/// The results of one call. Always has room for the schema's maximum, whatever the caller expects,
/// so that a wrong count is detected instead of overrunning.
class Outputs {
 public:
  Outputs() {
    for (int r = 0; r < kMaxResults; ++r) {
      tensors_[r].data = nullptr;
      tensors_[r].ndim = -1;  // filled in by the library where it makes a result
      tensors_[r].byte_offset = 0;
      tensors_[r].shape = shapes_[r];
      tensors_[r].strides = strides_[r];
    }
  }
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  /// Result r goes here. An empty destination needs an address too: a null one would request a new
  /// result.
  void put(int r, const OutRef& out) {
    static char nowhere;
    if (r >= kMaxResults)
      raise(DLBLAS_ARGUMENT, "out", "has too many destinations", "at most 6",
            std::to_string(r + 1));
    tensors_[r] = out.descriptor();
    if (out.data()) return;
    if (!out || out.numel() > 0)
      raise(DLBLAS_ARGUMENT, "out", "has no memory", "memory for every result", "a null pointer");
    tensors_[r].data = &nowhere;
  }
  dlblas_tensor* data() { return tensors_; }
  /// True if the library made result r.
  bool made(int r) const { return made_by_library_[r]; }
  void note_made(int given) {
    for (int r = 0; r < kMaxResults; ++r)
      made_by_library_[r] = r >= given && tensors_[r].ndim >= 0 && tensors_[r].data;
  }
  Tensor take(int r, void (*release)(void*)) {
    const dlblas_tensor& t = tensors_[r];
    const auto rank = static_cast<std::size_t>(t.ndim);
    const Device device = {static_cast<Device::Type>(t.device.type), t.device.index};
    return Tensor(OutRef(t.data, dtype_from(t.dtype), std::span<const std::int64_t>(t.shape, rank),
                         std::span<const std::int64_t>(t.strides, rank))
                      .on(device),
                  release);
  }

 private:
  dlblas_tensor tensors_[kMaxResults];
  std::int64_t shapes_[kMaxResults][DLBLAS_MAX_RANK];
  std::int64_t strides_[kMaxResults][DLBLAS_MAX_RANK];
  bool made_by_library_[kMaxResults];
};

/// Runs the call. `given` results already have their memory; the caller expects `wanted` results. A
/// failed call, or one with another number of results, releases what the library allocated.
template <std::size_t N>
void run(dlblas_op_t op, const Arguments<N>& arguments, const Context& context, Outputs& outputs,
         int given, int wanted) {
  const dlblas_args args = arguments.pack(outputs.data(), kMaxResults, context.flags());
  const dlblas_status status = dlblas_call(op, &args, context.get());
  outputs.note_made(given);
  int results = given;
  for (int r = given; r < kMaxResults; ++r) results += outputs.made(r);
  if (status == DLBLAS_OK && results == wanted) [[likely]]
    return;
  auto raise_now = [&] {
    if (status != DLBLAS_OK) raise_last();
    raise(DLBLAS_ARGUMENT, "out", "has a wrong number of results", std::to_string(results),
          std::to_string(wanted));
  };
  try {
    raise_now();
  } catch (...) {  // the error's texts are copied before dlblas_free may drop them
    for (int r = given; r < kMaxResults; ++r)
      if (outputs.made(r) && !context.get()->new_output) dlblas_free(outputs.data()[r].data);
    throw;
  }
}

/// Calls with all destinations given, in result order.
template <std::size_t N, typename... Outs>
void call_into(dlblas_op_t op, const Arguments<N>& arguments, const Context& context,
               const Outs&... outs) {
  Outputs outputs;
  int given = 0;
  (outputs.put(given++, outs), ...);
  run(op, arguments, context, outputs, given, given);
}

/// Calls for R new results.
template <std::size_t R, std::size_t N>
std::array<Tensor, R> call_new(dlblas_op_t op, const Arguments<N>& arguments,
                               const Context& context) {
  Outputs outputs;
  run(op, arguments, context, outputs, 0, R);
  void (*release)(void*) = context.get()->new_output ? nullptr : &dlblas_free;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Tensor, R>{outputs.take(I, release)...};
  }
  (std::make_index_sequence<R>());
}

/// Calls an in-place form.
template <std::size_t N>
void call_inplace(dlblas_op_t op, const Arguments<N>& arguments, const Context& context) {
  const dlblas_args args = arguments.pack(nullptr, 0, context.flags());
  check(dlblas_call(op, &args, context.get()));
}

}  // namespace detail
}  // namespace v1
}  // namespace dlblas

#endif  // DLBLAS_VALUE_HPP_
