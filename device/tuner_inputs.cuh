// The tuner's access to device memory: generated inputs, poisoned results, and what a kernel left
// behind. In: a view, a counter's seed, a byte. Out: elements, one bit per element, a count. Values
// equal those of tuner/filler.hpp bit for bit, so that a seed means the same on every device. Flow:
// tune > [inputs] > measure. Read next: src/tuner/cuda_memory.cpp, which launches these.
#pragma once

#include "device/element_f64.cuh"
#include "device/tuner_params.hpp"

namespace dlblas {

namespace tuner {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15ull;

__device__ inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

// Intrinsics, because a contracted multiply-add would round once where the host rounds twice.
__device__ inline double normal(uint64_t bits) {
  const double sum = static_cast<double>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                         (bits >> 32 & 0xffff) + (bits >> 48));
  return __dmul_rn(__dadd_rn(sum, -2 * 65535.0), 1.7320508075688772 / 65535.0);
}

// Values of Fill; the host supplies index-valued fills.
constexpr int32_t kFillPositive = 1, kFillZeros = 5, kFillNegative = 9, kFillBits = 10;

__device__ inline bool stays(const TunerFillParams& p, int64_t i) {
  constexpr int64_t kFew = 16, kStride = 64;
  if (!p.in_part || p.numel < kFew) return false;
  const int64_t row = i / p.width, column = i % p.width, rows = p.numel / p.width;
  if (i % kStride == 0 || i == p.numel - 1) return true;
  if (p.width >= kFew && (column == 0 || column == p.width - 1)) return true;
  if (rows >= kFew && (row == 0 || row == rows - 1)) return true;
  return mix(p.seed ^ mix(static_cast<uint64_t>(i))) & 1;
}

__device__ inline double enlarged(const TunerFillParams& p, int64_t i, double v) {
  const int64_t row = i / p.width;
  const uint64_t bits = mix(mix(p.seed) + static_cast<uint64_t>(row) * kStep);
  const uint64_t kind = row == 0 ? 1 : bits & 3;
  if (kind == 2 && p.large_rows) return p.large / 3 * v;
  const auto width = static_cast<uint64_t>(p.width);
  if (kind != 1 || static_cast<uint64_t>(i % p.width) != (bits >> 8) % width) return v;
  const double share = static_cast<double>(bits >> 40) * 0x1p-24;
  const double size = __dadd_rn(p.large, __dmul_rn(p.large / 3, share));
  return row == 0 || (bits & 4) != 0 ? size : -size;
}

__device__ inline double signed_of(uint64_t bits, int count) {
  return static_cast<double>(static_cast<int64_t>(bits << (64 - count)) >> (64 - count));
}

__device__ inline double integer(const TunerFillParams& p, int64_t i, uint64_t bits) {
  const DType type = p.t.dtype;
  if (type == DType::kF4X2) return static_cast<double>(bits & 255);
  if (type == DType::kU8) return static_cast<double>(bits & (p.small ? 63 : 255));
  if (type == DType::kI8) return bits >> 58 == 0 ? signed_of(bits, 8) : rint(32 * normal(bits));
  if (p.fill == kFillBits) return signed_of(bits, type == DType::kI32 ? 32 : 53);
  const uint64_t kind = i == p.numel / 2 ? 7 : bits >> 61;
  if (p.small || p.numel < 2 || kind < 5) return static_cast<double>(bits & 63);
  if (kind == 7) return signed_of(bits, type == DType::kI32 ? 25 : 36);
  return -1 - static_cast<double>(bits & 63);
}

__device__ inline double value(const TunerFillParams& p, int64_t i) {
  if (p.fill == kFillZeros) return 0;
  const uint64_t bits = mix((stays(p, i) ? p.first : p.seed) + static_cast<uint64_t>(i) * kStep);
  if (p.fill == kFillPositive) return __dadd_rn(fabs(normal(bits)), 0.125);
  if (p.fill == kFillNegative) return -__dadd_rn(fabs(normal(bits)), 0.125);
  switch (p.t.dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF64:
      if (p.zero_row >= 0 && i / p.width == p.zero_row) return 0;
      return p.large > 0 && p.numel > 1 ? enlarged(p, i, normal(bits)) : normal(bits);
    case DType::kF8E8M0:
      return ldexp(1.0, static_cast<int>(bits & 7) - 4);
    case DType::kBool:
      return static_cast<double>(bits & 1);
    default:
      return integer(p, i, bits);
  }
}

__device__ inline int64_t first_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t index_step() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace tuner

__global__ void tuner_fill(const __grid_constant__ TunerFillParams p) {
  for (int64_t i = tuner::first_index(); i < p.numel; i += tuner::index_step())
    store_element(p.t, offset_of(p.t, i), tuner::value(p, i));
}

/// Sets every byte of every element to `byte`; gaps keep their contents.
__global__ void tuner_set_elements(const __grid_constant__ TunerBytesParams p) {
  const int size = size_of(p.t.dtype);
  for (int64_t i = tuner::first_index(); i < p.numel; i += tuner::index_step()) {
    unsigned char* at = static_cast<unsigned char*>(p.t.data) + offset_of(p.t, i) * size;
    for (int b = 0; b < size; ++b) at[b] = static_cast<unsigned char>(p.byte);
  }
}

/// Bit i: all bytes of element i equal `byte`. Blocks are whole warps, so each warp owns a word.
__global__ void tuner_find_equal(const __grid_constant__ TunerBytesParams p) {
  const int size = size_of(p.t.dtype);
  const int64_t padded = (p.numel + 31) / 32 * 32;
  for (int64_t i = tuner::first_index(); i < padded; i += tuner::index_step()) {
    bool equal = i < p.numel;
    if (equal) {
      const auto* at = static_cast<const unsigned char*>(p.t.data) + offset_of(p.t, i) * size;
      for (int b = 0; b < size; ++b) equal = equal && at[b] == p.byte;
    }
    const unsigned word = __ballot_sync(0xffffffffu, equal);
    if (i % 32 != 0) continue;
    p.bits[i / 32] = word;
    if (word != 0) atomicAdd(p.count, static_cast<unsigned long long>(__popc(word)));
  }
}

/// Counts how many of `numel` bytes are not `byte`.
__global__ void tuner_count_other(const __grid_constant__ TunerBytesParams p) {
  unsigned long long other = 0;
  for (int64_t i = tuner::first_index(); i < p.numel; i += tuner::index_step())
    other += p.memory[i] != p.byte;
  if (other != 0) atomicAdd(p.count, other);
}

}  // namespace dlblas
