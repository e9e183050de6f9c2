// The factor 1/√mean of a row, as a product of two, since the mean may lie outside f32's range.
// In: a mean of squares, in f32 or f64. Out: RowScale.
// Read next: device/row/values.cuh (scaled), ops/norm/rms_norm/rms_norm_program.hpp.
#pragma once

#include "device/numeric.cuh"

namespace dlblas {

/// `first` multiplies elements of type T, exactly: a power of 2 that brings rows outside f32's
/// range back into it, and 1 for all other rows. In f16 the only such rows are those of zeros and
/// of infinities, which stay right, and those with a large eps, whose whole factor is `second`: so
/// elements of f16 are not multiplied by `first`.
template <DType T>
struct RowScale {
  float first, second;

  __device__ static RowScale root(float mean) { return {1, reciprocal_root(mean)}; }
  /// For a mean outside f32's range. Large rows hardly shrink, so their small elements keep their
  /// values. Beyond 2^220, which only an eps reaches, whatever `first` brings below 2^-126 is 0 in
  /// the result as well: `first` shrinks with the scale, so that `second` stays within f32.
  __device__ static RowScale wide_root(double mean) {
    if (!(mean > 1)) {
      // Below 2^-330 the whole row is 0, and with an eps so is its result.
      const auto scaled = static_cast<float>(fmax(mean, mean > 0 ? 0x1p-330 : 0) * 0x1p220);
      return {0x1p110f, reciprocal_root(scaled)};
    }
    float first = 0x1p-16f, after = 0x1p-50f;
    double bring = 0x1p-132;
    if (mean > 0x1p220) first = 0x1p-60f, after = 0x1p-85f, bring = 0x1p-290;
    if (mean > 0x1p360) first = 0x1p-126f, after = 0x1p-90f, bring = 0x1p-432;
    const float second = reciprocal_root(static_cast<float>(mean * bring)) * after;
    return {first, T == DType::kF16 ? second * first : second};
  }
  /// The factor `first` for elements, in both halves of a word.
  __device__ uint32_t first_pair() const {
    const float factor = T == DType::kF16 ? 1 : first;
    return pack_pair<T>(factor, factor);
  }
};

}  // namespace dlblas
