// The columns of a row on a CPU: in accesses of two vectors, several at a time, then of one; how
// far ahead of them bytes are prefetched, and which stores bypass the caches. Compiled once per
// instruction set, like cpu/simd.hpp. Read next: cpu/row/walk.hpp.
#pragma once

#include "cpu/row/access.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Columns that are summed in f32 before the sum is added in f64.
constexpr int64_t kRowBlock = 4096;
/// Accesses in flight: accumulators of a reduction, loads of a pass.
constexpr int kRowUnroll = 2;
constexpr int kRowStep = 2 * kWidth;  // columns of an access

/// An access of two vectors, or of `lanes` lanes of one.
template <int kVectors>
struct Width {
  static constexpr int vectors = kVectors;
};

/// body(Width, index in the unroll, column, lanes) over columns [begin, end): kTogether accesses at
/// a time, unrolled if kUnrolled.
template <int kTogether, bool kUnrolled, typename Body>
DLBLAS_INLINE void for_columns(int64_t begin, int64_t end, const Body& body) {
  int64_t c = begin;
  for (; kTogether > 1 && c + kTogether * kRowStep <= end; c += kTogether * kRowStep) {
    if constexpr (kUnrolled) {
      DLBLAS_UNROLL for (int u = 0; u < kTogether; ++u)
          body(Width<2>{}, u, c + u * kRowStep, kWidth);
    } else {
      for (int u = 0; u < kTogether; ++u) body(Width<2>{}, u, c + u * kRowStep, kWidth);
    }
  }
  for (; c + kRowStep <= end; c += kRowStep) body(Width<2>{}, 0, c, kWidth);
  for (; c < end; c += kWidth)
    body(Width<1>{}, 0, c, end - c < kWidth ? static_cast<int>(end - c) : kWidth);
}

/// How far ahead a row that is walked once is prefetched, and the lines of results that are written
/// through the caches.
constexpr int kAheadBytes = 2048, kWrittenAheadBytes = 1024;
constexpr int kLine = 64;  // bytes of a cache line
/// Stores that bypass the caches go to whole lines.
constexpr int streamed_step(int element_bytes) {
  return kRowStep * element_bytes < kLine ? kRowStep * element_bytes : kLine;
}

/// What is prefetched: at most two rows, the second null if there is only one, and a result's
/// lines, null if it is streamed.
struct Ahead {
  const char* rows[2];
  const char* written = nullptr;
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
