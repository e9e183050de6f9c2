// Problem sizes and packing cost for the CPU estimates of attention over unpaged keys.
// Read next: attention_cpu.cpp, attention_tiles_cpu.cpp.
#pragma once

#include <algorithm>

#include "core/rates.hpp"
#include "ops/attention/attention_host.hpp"

namespace dlblas::attention {

struct AttentionSizes {
  double rows;     // of all heads and sequences
  double heads;    // of k, of all sequences
  double keys;     // of a sequence
  double columns;  // D + Dv
};

inline AttentionSizes sizes_of(const Problem& p, const AttentionOp& op) {
  const auto size = [&](int letter) { return static_cast<double>(p.dims[letter]); };
  const double batch = std::max(1.0, size(op.batch));
  return {size(op.q_rows) * size(op.heads) * size(op.group) * (op.packed() ? 1 : batch),
          std::max(1.0, size(op.heads) * batch), size(op.k_rows) / (op.packed() ? batch : 1),
          size(op.d) + size(op.dv)};
}
/// Seconds for one thread to pack the keys and values of one head, at `part` of the memory
/// bandwidth.
inline double packing_s(const Query& q, const AttentionSizes& s, double part) {
  const double memory = unit_rates(q.device, q.device.isa_hardware).memory_bytes_per_s;
  return s.keys * s.columns * size_of(q.problem.tensors[0].dtype) / (part * memory);
}

}  // namespace dlblas::attention
