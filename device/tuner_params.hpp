// Parameters of the tuner's kernels, shared by the host and NVRTC. Read next:
// device/tuner_inputs.cuh, device/tuner_compare.cuh, device/tuner_dispute.cuh.
#pragma once

#include "device/view.hpp"

namespace dlblas {

struct TunerFillParams {
  StridedView t;
  int64_t numel;
  uint64_t seed, first;
  int64_t width;     // of a row
  int64_t zero_row;  // -1: none
  double large;      // sigma; 0: none
  int32_t fill;      // the host's Fill
  int32_t in_part, large_rows, small;
};

struct TunerBytesParams {
  StridedView t;
  int64_t numel;  // elements; count_other: bytes
  int32_t byte;
  uint32_t* bits;               // find_equal: a bit an element
  unsigned long long* count;    // find_equal, count_other
  const unsigned char* memory;  // count_other
};

/// The totals of comparing one part of a result.
struct ComparePart {
  double worst, distance, norm, least, most;
  int64_t wrong, checked, zeros, nans, infinite;
  int64_t first_wrong;  // the row-major index; no element: above every index
};

struct CompareParams {
  static constexpr int kThreads = 256;
  StridedView out;
  const double* values;  // of the listed rows, [num_rows, width]
  const double* magnitudes;
  const int64_t* rows;
  int64_t num_rows, width;
  int64_t row_limit;  // rows of this result: another may have more
  double bound_magnitude, bound_value, bound_absolute;
  ComparePart* parts;  // one per block
};

struct DisputeParams {
  static constexpr int kThreads = 256;
  StridedView one, other;  // of one shape
  const double* largest;   // magnitude of each column; −1: not defined
  int64_t numel, width;
  double bound_magnitude, bound_value, bound_absolute;
  uint8_t* flags;  // one a row, 0 before
};

struct PeakParams {
  static constexpr int kThreads = 256, kChains = 16;
  int64_t iterations;
  float factor, addend;
  float never;  // no sum has this value
  float* out;
};

}  // namespace dlblas
