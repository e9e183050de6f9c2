// Picks the loops of the level in force; see peak.hpp.
#include "cpu/peak.hpp"

#define DLBLAS_DECLARE_PEAK(level)                                       \
  namespace level {                                                      \
  float peak_multiply_adds(std::int64_t iterations);                     \
  std::int64_t peak_flops_per_iteration();                               \
  void peak_stream_copy(void* to, const void* from, std::int64_t bytes); \
  }

namespace dlblas {

DLBLAS_DECLARE_PEAK(baseline)
#if defined(DLBLAS_X86)
DLBLAS_DECLARE_PEAK(avx2)
DLBLAS_DECLARE_PEAK(avx512)
#endif

PeakKernels peak_kernels(Isa isa) {
#if defined(DLBLAS_X86)
  if (isa == Isa::kAvx512)
    return {avx512::peak_multiply_adds, avx512::peak_flops_per_iteration(),
            avx512::peak_stream_copy};
  if (isa == Isa::kAvx2)
    return {avx2::peak_multiply_adds, avx2::peak_flops_per_iteration(), avx2::peak_stream_copy};
#endif
  static_cast<void>(isa);
  return {baseline::peak_multiply_adds, baseline::peak_flops_per_iteration(),
          baseline::peak_stream_copy};
}

}  // namespace dlblas
