// How far a strided tensor reaches from its first element, and whether any memory can hold that.
// In: a caller's sizes and strides, any numbers. Out: yes or no; nothing overflows.
// Flow: [call] > validate > select > compile > launch.
#pragma once

#include <cstdint>

namespace dlblas {

/// No address space holds more elements; up to this, no product of sizes overflows in any stage.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;

/// The elements furthest from the first one.
class Reach {
 public:
  /// Adds a dimension; false if it extends beyond any memory. One of size 1 may have any stride.
  bool add(std::int64_t size, std::int64_t stride) {
    if (size < 2) return true;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(stride, size - 1, &reach) || reach > kMaxElements ||
        reach < -kMaxElements)
      return false;
    (reach < 0 ? below_ : above_) += reach;
    return true;
  }
  /// Stores the first element's address, at `offset` from `data`, in `first`; false if an element
  /// lies outside the process's addresses, whose upper half is the system's.
  bool place(const void* data, std::uint64_t offset, std::int64_t element_bytes,
             std::int64_t* first) const {
    std::int64_t last = 0;
    return !__builtin_add_overflow(reinterpret_cast<std::uintptr_t>(data), offset, first) &&
           (!data || (*first >= -below_ * element_bytes &&
                      !__builtin_add_overflow(*first, (above_ + 1) * element_bytes, &last)));
  }

 private:
  std::int64_t below_ = 0, above_ = 0;
};

}  // namespace dlblas
