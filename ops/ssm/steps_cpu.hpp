// What the CPU implementations of state-space operators share: conversion of lines of any tensor to
// contiguous f32 and back, and one implementation per instruction-set level.
// Read next: steps_config.hpp, selective_state_update/selective_state_update_cpu.cpp.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "core/element.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/ssm/steps_config.hpp"

namespace dlblas::ssm {

struct StepLevel {
  SsmPasses (*passes)();
};
inline constexpr StepLevel kBaseline = {baseline::ssm_passes};
#if defined(__x86_64__)
inline constexpr StepLevel kAvx2 = {avx2::ssm_passes};
inline constexpr StepLevel kAvx512 = {avx512::ssm_passes};
#endif

/// `base` at each level; `op` as in kernels::per_level.
inline std::vector<Implementation> step_levels(const Implementation& base,
                                               const void* op = nullptr) {
  return kernels::per_level(
      base, "cpu_",
      {
#if defined(__x86_64__)
        {Isa::kAvx512, source_hash<"ops/ssm/steps_avx512.cpp">(), &kAvx512},
            {Isa::kAvx2, source_hash<"ops/ssm/steps_avx2.cpp">(), &kAvx2},
#endif
            {Isa::kBaseline, source_hash<"ops/ssm/steps_baseline.cpp">(), &kBaseline},
      },
      op);
}

/// The offset of an element, in elements.
inline std::int64_t place(const TensorView& t, std::initializer_list<std::int64_t> at) {
  std::int64_t offset = 0;
  int i = 0;
  for (const std::int64_t index : at) offset += index * t.strides[i++];
  return offset;
}

/// Elements at one stride.
struct Line {
  const TensorView& tensor;
  std::int64_t first, stride, count;
  char* data() const { return static_cast<char*>(tensor.data) + first * size_of(tensor.dtype); }
};
inline void read(const SsmPasses& passes, const Line& line, float* to) {
  if (line.stride == 1) return passes.widen(line.tensor.dtype, line.data(), line.count, to);
  for (std::int64_t i = 0; i < line.count; ++i)
    to[i] = static_cast<float>(load_element(line.tensor, line.first + i * line.stride));
}
inline void write(const SsmPasses& passes, const float* from, const Line& line) {
  if (line.stride == 1) return passes.narrow(line.tensor.dtype, from, line.count, line.data());
  for (std::int64_t i = 0; i < line.count; ++i)
    store_element(line.tensor, line.first + i * line.stride, static_cast<double>(from[i]));
}

/// Sets the row of A in SsmRow: one number if the stride is 0, else contiguous f32, in place if
/// possible, else in `scratch`.
inline void set_a(const SsmPasses& passes, const Line& line, float* scratch, SsmRow& row) {
  row.a = scratch;
  if (line.stride == 0 && line.count > 0) {
    row.same_a = static_cast<float>(load_element(line.tensor, line.first));
    row.a = nullptr;
  } else if (line.stride == 1 && line.tensor.dtype == DType::kF32) {
    row.a = line.data();
  } else {
    read(passes, line, scratch);
  }
}

}  // namespace dlblas::ssm
