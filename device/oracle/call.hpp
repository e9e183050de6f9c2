// The parameters of a device oracle of rows. Plain values, shared by the host (filled by
// kernels/row_oracle.cpp) and NVRTC. Read next: device/oracle/row.hpp.
#pragma once

#include "device/view.hpp"

namespace dlblas {

/// One call of an oracle whose results are rows.
struct OracleCall {
  static constexpr int kTensors = 16, kResults = 8, kLetters = 12, kScalars = 12;
  struct Result {
    double *value, *magnitude;  // [listed rows, width]
    int64_t width;
    DType dtype;
  };
  StridedView tensors[kTensors];  // inputs; dtype kAbsent: not given
  int64_t widths[kTensors];       // their last dimensions
  Result results[kResults];
  int64_t letters[kLetters];
  double floats[kScalars];
  int64_t integers[kScalars];
  const int64_t* rows;  // null: all of them, in order
  double* shared;       // what rows share, 0 before the first pass
  int64_t pass;         // 0: what rows share is made; 1: the rows
};

}  // namespace dlblas
