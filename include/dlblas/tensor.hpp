// Tensors of the C++ API: TensorRef (memory that is read), OutRef (memory that is written), Tensor
// (a result). In: the caller's pointers, spans or vectors with a shape and strides in elements, in
// host memory unless on() names a GPU. Out: dlblas_tensor descriptors. References own nothing and
// allocate nothing; copy them by value, and let none outlive its memory. Read next: value.hpp,
// operator.hpp.
#ifndef DLBLAS_TENSOR_HPP_
#define DLBLAS_TENSOR_HPP_

#include <dlblas/dlblas.h>
#include <dlblas/cpp20.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <dlblas/error.hpp>

namespace dlblas {
inline namespace v1 {

/// The element type of a tensor.
enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI8,
  kI32,
  kI64,
  kU8,
  kBool,
  kF64,
  kF8E8M0,  // a scale: 2^(byte - 127)
  kF4X2     // two e2m1 numbers a byte
};

namespace detail {
struct DTypeRow {
  const char* name;
  dlblas_dtype code;  // DLPack's
};
inline constexpr int kNumDTypes = 13;
inline constexpr DTypeRow kDTypes[kNumDTypes] = {
    {"f32", {2, 32, 1}},    {"f16", {2, 16, 1}}, {"bf16", {4, 16, 1}}, {"f8e4m3", {10, 8, 1}},
    {"f8e5m2", {12, 8, 1}}, {"i8", {0, 8, 1}},   {"i32", {0, 32, 1}},  {"i64", {0, 64, 1}},
    {"u8", {1, 8, 1}},      {"bool", {6, 8, 1}}, {"f64", {2, 64, 1}},  {"f8e8m0", {14, 8, 1}},
    {"f4x2", {17, 4, 2}},
};
}  // namespace detail

/// The name a schema uses: "bf16".
constexpr const char* name_of(DType t) { return detail::kDTypes[static_cast<int>(t)].name; }
/// Bytes of one element.
constexpr std::size_t size_of(DType t) {
  const dlblas_dtype code = detail::kDTypes[static_cast<int>(t)].code;
  return code.bits * code.lanes / 8u;
}

/// Where memory resides: on the host (the default) or on a CUDA device.
struct Device {
  enum class Type : std::int32_t { kCpu = 1, kCuda = 2 };
  Type type = Type::kCpu;
  std::int32_t index = 0;
  /// The CUDA device with this index in the driver's order.
  static constexpr Device cuda(std::int32_t index = 0) { return {Type::kCuda, index}; }
  friend constexpr bool operator==(const Device&, const Device&) = default;
};

/// The bits of a half-precision number: storage only, without arithmetic.
struct F16 {
  std::uint16_t bits;
};
/// The bits of a bfloat16 number: storage only, without arithmetic.
struct BF16 {
  std::uint16_t bits;
};
/// The bits of an 8-bit float with 4 exponent and 3 fraction bits, no infinity, at most 448:
/// storage only.
struct F8E4M3 {
  std::uint8_t bits;
};
/// The bits of an 8-bit float with 5 exponent and 2 fraction bits, at most 57344: storage only.
struct F8E5M2 {
  std::uint8_t bits;
};

/// The DType that a C++ type stores. Specialise it for your own type, to use it everywhere:
/// `template <> struct dlblas::DTypeOf<my_half> { static constexpr DType value = DType::kF16; };`
template <typename T>
struct DTypeOf;
namespace detail {
template <DType D>
struct IsDType {
  static constexpr DType value = D;
};
}  // namespace detail
template <>
struct DTypeOf<float> : detail::IsDType<DType::kF32> {};
template <>
struct DTypeOf<double> : detail::IsDType<DType::kF64> {};
template <>
struct DTypeOf<F16> : detail::IsDType<DType::kF16> {};
template <>
struct DTypeOf<BF16> : detail::IsDType<DType::kBF16> {};
template <>
struct DTypeOf<F8E4M3> : detail::IsDType<DType::kF8E4M3> {};
template <>
struct DTypeOf<F8E5M2> : detail::IsDType<DType::kF8E5M2> {};
template <>
struct DTypeOf<std::int8_t> : detail::IsDType<DType::kI8> {};
template <>
struct DTypeOf<std::int32_t> : detail::IsDType<DType::kI32> {};
template <>
struct DTypeOf<std::int64_t> : detail::IsDType<DType::kI64> {};
template <>
struct DTypeOf<std::uint8_t> : detail::IsDType<DType::kU8> {};
template <>
struct DTypeOf<bool> : detail::IsDType<DType::kBool> {};
#if defined(__FLT16_MANT_DIG__)
template <>
struct DTypeOf<_Float16> : detail::IsDType<DType::kF16> {};
#endif

/// A type with a DType.
template <typename T>
concept Element = requires {
  DTypeOf<std::remove_cv_t<T>>::value;
};

/// Up to DLBLAS_MAX_RANK sizes or strides, by value: `{16, 4096}`, a span, a vector<int64_t>.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) { assign(values.begin(), values.size()); }
  template <typename R>
  requires(!std::same_as<std::remove_cvref_t<R>, Dims>) &&
      std::convertible_to<const R&, std::span<const std::int64_t>> Dims(const R& values) {
    const std::span<const std::int64_t> view(values);
    assign(view.data(), view.size());
  }
  int size() const { return size_; }
  std::int64_t operator[](int i) const { return values_[i]; }
  const std::int64_t* begin() const { return values_; }
  const std::int64_t* end() const { return values_ + size_; }
  /// The product of the sizes: how many elements this shape has.
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (std::int64_t v : *this) n *= v;
    return n;
  }
  /// Row-major strides of this shape.
  Dims packed() const {
    Dims strides;
    strides.size_ = size_;
    std::int64_t stride = 1;
    for (int i = size_ - 1; i >= 0; --i) {
      strides.values_[i] = stride;
      stride *= values_[i];
    }
    return strides;
  }
  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.size_; ++i)
      if (a.values_[i] != b.values_[i]) return false;
    return true;
  }

 private:
  void assign(const std::int64_t* values, std::size_t count) {
    if (count > DLBLAS_MAX_RANK)
      detail::raise(DLBLAS_SHAPE, "shape", "has too many dimensions", "at most 8",
                    std::to_string(count));
    size_ = static_cast<int>(count);
    for (int i = 0; i < size_; ++i) values_[i] = values[i];
  }
  std::int64_t values_[DLBLAS_MAX_RANK];  // only the first size_ count
  int size_ = 0;
};

namespace detail {
template <typename R>
using PointeeOf = std::remove_pointer_t<decltype(std::data(std::declval<R&>()))>;
/// vector, array, span, C array, … of an Element.
template <typename R>
concept ElementRange = requires(R& r) {
  std::data(r);
  std::size(r);
}
&&Element<PointeeOf<R>>;
}  // namespace detail

/// Memory that an operator reads. An empty one stands for an optional tensor that is not given.
class TensorRef {
 public:
  TensorRef() = default;
  TensorRef(std::nullopt_t) {}
  template <Element T>
  TensorRef(T* data, const Dims& shape) : TensorRef(data, shape, shape.packed()) {}
  template <Element T>
  TensorRef(T* data, const Dims& shape, const Dims& strides)
      : TensorRef(data, DTypeOf<std::remove_cv_t<T>>::value, shape, strides) {}
  /// The whole range as one dimension.
  template <detail::ElementRange R>
  TensorRef(R&& values)
      : TensorRef(std::data(values), {static_cast<std::int64_t>(std::size(values))}) {}
  /// The range as a contiguous tensor of this shape; throws ShapeMismatchError if too short.
  template <detail::ElementRange R>
  TensorRef(R&& values, const Dims& shape) : TensorRef(std::data(values), shape) {
    if (shape.numel() > static_cast<std::int64_t>(std::size(values)))
      detail::raise(DLBLAS_SHAPE, "data", "is shorter than its shape",
                    "at least " + std::to_string(shape.numel()) + " elements",
                    std::to_string(std::size(values)));
  }
  /// For a dtype known only at run time.
  TensorRef(const void* data, DType dtype, const Dims& shape)
      : TensorRef(data, dtype, shape, shape.packed()) {}
  TensorRef(const void* data, DType dtype, const Dims& shape, const Dims& strides)
      : data_(const_cast<void*>(data)),
        shape_(shape),
        strides_(strides),
        dtype_(dtype),
        present_(true) {
    if (shape.size() != strides.size())
      detail::raise(DLBLAS_SHAPE, "strides", "do not match the shape",
                    std::to_string(shape.size()) + " strides", std::to_string(strides.size()));
  }

  /// The same reference, into that device's memory: `TensorRef(p, {T, C}).on(Device::cuda())`.
  /// Without it a tensor counts as host memory; the pointer is not examined.
  TensorRef on(Device device) const {
    TensorRef there = *this;
    there.device_ = device;
    return there;
  }

  /// False for an empty reference.
  explicit operator bool() const { return present_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Dims& shape() const { return shape_; }
  /// In elements.
  const Dims& strides() const { return strides_; }
  const void* data() const { return data_; }
  /// The number of elements.
  std::int64_t numel() const { return shape_.numel(); }
  /// The C ABI's view; its shape and strides point into this object.
  dlblas_tensor descriptor() const {
    return {data_,
            {static_cast<std::int32_t>(device_.type), device_.index},
            shape_.size(),
            detail::kDTypes[static_cast<int>(dtype_)].code,
            const_cast<std::int64_t*>(shape_.begin()),
            const_cast<std::int64_t*>(strides_.begin()),
            0};
  }

 protected:
  void* data_ = nullptr;
  Dims shape_, strides_;
  Device device_;
  DType dtype_ = DType::kF32;
  bool present_ = false;
};

/// Memory that an operator writes: a destination, or an argument of an in-place form. Const memory
/// does not convert to it.
class OutRef : public TensorRef {
 public:
  OutRef() = default;
  template <Element T>
  requires(!std::is_const_v<T>) OutRef(T* data, const Dims& shape) : TensorRef(data, shape) {}
  template <Element T>
  requires(!std::is_const_v<T>) OutRef(T* data, const Dims& shape, const Dims& strides)
      : TensorRef(data, shape, strides) {}
  template <detail::ElementRange R>
  requires(!std::is_const_v<detail::PointeeOf<R>>) OutRef(R&& values) : TensorRef(values) {}
  template <detail::ElementRange R>
  requires(!std::is_const_v<detail::PointeeOf<R>>) OutRef(R&& values, const Dims& shape)
      : TensorRef(values, shape) {}
  OutRef(void* data, DType dtype, const Dims& shape) : TensorRef(data, dtype, shape) {}
  OutRef(void* data, DType dtype, const Dims& shape, const Dims& strides)
      : TensorRef(data, dtype, shape, strides) {}
  /// The same reference, into that device's memory.
  OutRef on(Device device) const {
    OutRef there = *this;
    there.device_ = device;
    return there;
  }
  void* data() const { return data_; }
};

/// A contiguous result that the library allocated; the destructor releases its memory. Movable, not
/// copyable. A result made by a Context's own new_output belongs to that allocator and is not
/// released here.
class Tensor {
 public:
  Tensor() = default;
  /// Takes ownership of the memory; `release` may be null.
  Tensor(const OutRef& view, void (*release)(void*)) : view_(view), release_(release) {}
  Tensor(Tensor&& other) noexcept
      : view_(std::exchange(other.view_, {})), release_(std::exchange(other.release_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Tensor() {
    if (release_ && view_.data()) release_(view_.data());
  }

  /// The memory of the result, for a call to read (TensorRef) or write (OutRef).
  operator OutRef() { return view_; }
  operator TensorRef() const { return view_; }
  /// True if there is a result.
  explicit operator bool() const { return static_cast<bool>(view_); }
  /// Properties of the result; strides are in elements.
  DType dtype() const { return view_.dtype(); }
  Device device() const { return view_.device(); }
  const Dims& shape() const { return view_.shape(); }
  const Dims& strides() const { return view_.strides(); }
  std::int64_t numel() const { return view_.numel(); }
  void* data() { return view_.data(); }
  const void* data() const { return view_.data(); }
  /// The elements in row-major order; throws UnsupportedDtypeError if T is not the tensor's type,
  /// DeviceError if the tensor is not in host memory.
  template <Element T>
  requires(!std::is_const_v<T>) std::span<T> span() {
    check_type(DTypeOf<T>::value);
    return {static_cast<T*>(view_.data()), static_cast<std::size_t>(numel())};
  }
  template <Element T>
  std::span<const T> span() const {
    check_type(DTypeOf<std::remove_cv_t<T>>::value);
    return {static_cast<const T*>(view_.data()), static_cast<std::size_t>(numel())};
  }

 private:
  void check_type(DType wanted) const {
    if (!view_ || dtype() != wanted)
      detail::raise(DLBLAS_DTYPE, "tensor", "is read as another type",
                    view_ ? name_of(dtype()) : "a tensor", name_of(wanted));
    if (device().type != Device::Type::kCpu)
      detail::raise(DLBLAS_DEVICE, "tensor", "is not in the host's memory", "one on the CPU",
                    "cuda:" + std::to_string(device().index));
  }
  OutRef view_;
  void (*release_)(void*) = nullptr;
};

}  // namespace v1
}  // namespace dlblas

#endif  // DLBLAS_TENSOR_HPP_
