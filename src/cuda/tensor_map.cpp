// Encodes a tensor map: from sizes, strides and a box to the 128 bytes that the copy engine reads.
// The driver checks everything (alignment to 16 bytes, boxes of at most 256, …), and its code is
// returned unchanged; no context is needed, nothing is enqueued. Read next: device/tma.cuh.
#include "cuda/cuda.hpp"
#include "cuda/driver.hpp"

namespace dlblas::cuda {
namespace {

// Values of the driver's enumerations; the swizzle's are those of Swizzle itself.
constexpr int kErrorInvalidValue = 1;
constexpr int kNotInterleaved = 0;
constexpr int kPromoteTo256Bytes = 3;  // a miss in L2 brings the 256 bytes around it
constexpr int kZerosOutside = 0;

/// CUtensorMapDataType; it matters only for zeros outside and for reductions, so a type that the
/// driver has no name for is mapped by its size.
int data_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 6;
    case DType::kF32:
      return 7;
    case DType::kF64:
      return 8;
    case DType::kBF16:
      return 9;
    default:
      break;
  }
  switch (size_of(dtype)) {
    case 1:
      return 0;
    case 2:
      return 1;
    case 4:
      return 2;
    default:
      return 4;
  }
}

}  // namespace

int encode_tensor_map(TensorMap& map, const TensorMapSpec& spec) {
  if (spec.rank < 1 || spec.rank > 5 || spec.dtype == DType::kAbsent) return kErrorInvalidValue;
  constexpr std::uint32_t kEveryElement[5] = {1, 1, 1, 1, 1};
  return require_driver().tensor_map_tiled(
      &map, data_type(spec.dtype), static_cast<unsigned>(spec.rank), const_cast<void*>(spec.data),
      spec.sizes, spec.strides_bytes, spec.box, kEveryElement, kNotInterleaved,
      static_cast<int>(spec.swizzle), kPromoteTo256Bytes, kZerosOutside);
}

}  // namespace dlblas::cuda
