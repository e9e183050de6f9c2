// The only header that an oracle's text, ops/**/<operator>_ref.hpp, includes. An oracle is a
// template over Row, compiled by g++ with kernels::HostRow and by NVRTC with TeamRow. It may use
// Row's functions, those of device/oracle/math.hpp and sum_error.hpp, and FloatTraits.
//   template <typename Row> void softmax_row(Row& row) {
//     const double most = row.max(row.size(kC), [&](auto c) { return row.load(kX, c); });
//     row.each(row.size(kC), [&](auto c) { row.store(0, c, value, magnitude); });
//   }
// kernels::set_row_oracle<softmax_row<kernels::HostRow>> hands it to OperatorDef.
// Read next: kernels/row_reference.hpp, device/oracle/row.cuh.
#pragma once

#if defined(__CUDACC_RTC__)
#include "device/oracle/row.cuh"
#else
#include "kernels/row_oracle.hpp"
#include "kernels/row_reference.hpp"
#endif
