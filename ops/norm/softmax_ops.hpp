// Shared by the definitions of softmax and log_softmax. Read next: ops/norm/softmax/softmax.cpp.
#pragma once

#include "kernels/rows.hpp"

namespace dlblas::norm {

/// Registers per thread. Over a cluster, 8 accesses need 64, as compiled for sm_90 (with
/// evict_last, 16 bytes spill); four blocks of 256 threads then fit a multiprocessor.
inline std::int32_t softmax_registers(const RowTraits&, const RowConfig& c) {
  return c.cluster > 1 && c.vectors == 8 && !c.evict_last ? 64 : 24 + 7 * c.vectors;
}

inline constexpr kernels::RowTuning kSoftmaxTuning = {nullptr, softmax_registers, nullptr};

}  // namespace dlblas::norm
