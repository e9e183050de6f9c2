// What the two operators of weights in panels share: where an element of a weight [N, K] is among
// panels (cpu/gemm/job.hpp), and the refusal of GPUs. Read next: ../weight_panels/, ../linear_panels/.
#pragma once

#include "core/error.hpp"
#include "cpu/gemm/job.hpp"
#include "registry/operator.hpp"

namespace dlblas::gemm {

/// The place of element (row, depth) of a weight of n rows and k depths.
inline std::int64_t place_in_panels(DType type, std::int64_t n, std::int64_t k, std::int64_t row,
                                    std::int64_t depth) {
  const std::int64_t lane = row % kPanelColumns, j = row - lane;
  if (j >= panel_columns(n)) return row * k + depth;
  const std::int64_t of_chunk = depth % kPanelChunk, chunk = depth - of_chunk;
  const std::int64_t start = panel_start(n, k, j, chunk);
  // The last chunk of a block of depths may not be whole.
  const bool pairs = has_panel_pairs(type) && k - chunk >= kPanelChunk;
  if (!pairs) return start + of_chunk * kPanelColumns + lane;
  return start + of_chunk / 2 * (2 * kPanelColumns) + 2 * lane + of_chunk % 2;
}

/// Are panels, tensor `i`, without gaps? One without elements has any strides.
inline bool is_whole(const Problem& p, int i, int n, int k) {
  if (p.tensors[i].layout == Layout::kContiguous) return true;
  return p.dims[n] == 0 || p.dims[k] == 0;
}

/// Raises DeviceError for a call on a GPU, whose products read a weight as it is.
inline void check_on_cpu(const Args& args, int tensor) {
  if (args.tensors[tensor].device.type != DeviceType::kCuda) return;
  const std::string& op = args.schema->name;
  const std::string& name = args.schema->tensors[static_cast<std::size_t>(tensor)].name;
  throw Error(ErrorKind::kDevice,
              text(op, ": ", name, " is on a GPU; expected a CPU, whose panels these are, got cuda; "
                   "use linear with the weight itself there"),
              {op, name, "a CPU", "cuda"});
}

}  // namespace dlblas::gemm
