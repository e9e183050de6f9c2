// What the norm kernels agree on: traits from the Problem, the searched configuration, one row's
// arguments. PODs and enums only: the instruction-set objects include this file and must hold no
// shared function. One row is the unit: `first` sums its squares, the host turns the sum into a
// scale, `second` writes it. Flow: call > validate > select > compile > [launch].  Read next:
// ops/norm/cpu/norm_cpu.cpp, norm_simd.hpp.
#pragma once

#include <stdint.h>

#include "cpu/element.hpp"

namespace dlblas {

/// Squares are summed in f32 over at most this many elements, then added up in f64: the error of a
/// sum does not grow with the width, and the order depends on nothing but the width and the
/// configuration.
inline constexpr int64_t kNormBlock = 4096;

/// Bytes of the widest row that `source=scratch` keeps, on the task's stack.
inline constexpr int64_t kNormScratchBytes = 65536;

struct NormTraits {
  Element element;          // of x, residual and both results
  Element weight;           // element, or f32
  bool add;                 // h = round(x + residual) first
  bool cast_before_weight;  // rounds to `element` before the weight
};

/// Where the second pass finds what it normalises.
enum class NormSource : int32_t {
  kRow,      // x again, or residual_out, which the first pass then writes
  kScratch,  // `add` only: h on the task's stack; the second pass writes residual_out, so it may
             // stream it
};

enum class NormStore : int32_t {
  kCached,    // through the caches
  kStreamed,  // past them: the lines written are not read first; for results larger than the caches
};

enum class NormPrefetch : int32_t {
  kNone,
  kNextRow,  // the second pass, which reads from cache, asks memory for the next row
};

/// The searched knobs; the table is in norm_cpu.cpp.
struct NormConfig {
  int32_t unroll =
      2;  // pairs of vectors in flight: accumulators of the first pass, loads of the second
  NormSource source = NormSource::kRow;
  NormStore store = NormStore::kCached;
  NormPrefetch prefetch = NormPrefetch::kNone;
  int32_t task_kib = 64;  // bytes of x per task: below, threads cost more than they bring
};

/// One row. Elements are contiguous; pointers may be aligned to nothing.
struct NormRow {
  int64_t width;
  const void* x;
  const void* residual;  // with `add`
  const void* weight;
  void* y;
  void* kept;                 // with `add`: where the first pass leaves h
  const void* normed;         // what the second pass reads: x or h
  void* residual_out;         // source=scratch: where the second pass writes h
  const void* next_x;         // prefetch=next_row: the row after this one, or this one
  const void* next_residual;  // with `add`
  float weight_offset;
};

struct NormPasses {
  double (*first)(const NormRow& row);              // the sum of squares
  void (*second)(const NormRow& row, float scale);  // scale = rsqrt(mean + eps)
};

// One entry an instruction set, in objects of their own: norm_<isa>.cpp.
namespace baseline {
NormPasses norm_passes(const NormTraits& traits, const NormConfig& config);
}
namespace avx2 {
NormPasses norm_passes(const NormTraits& traits, const NormConfig& config);
}
namespace avx512 {
NormPasses norm_passes(const NormTraits& traits, const NormConfig& config);
}

}  // namespace dlblas
