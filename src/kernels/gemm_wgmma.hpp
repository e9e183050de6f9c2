// The host side of the WGMMA form of matrix products: tensor maps, the grid, the launch, for any
// operator's program. In: matrices in their layouts, a configuration. Out: a GemmWgmmaCall and how
// to launch it; the caller adds the program's operands.
// Flow: call > validate > select > compile > [launch].  Read next: device/gemm/wgmma_mainloop.cuh,
// ops/gemm/matmul/cuda/matmul_wgmma_cuda.cpp (an operator).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/config.hpp"
#include "cuda/cuda.hpp"
#include "device/gemm/wgmma_config.hpp"

namespace dlblas::kernels {

/// `outer` runs of `inner` contiguous elements, `pitch` elements apart; data and pitch are 16-byte
/// aligned. With `count` matrices, `apart` elements from one to the next, the map has three
/// dimensions; with 0, two. Null data: a, which the kernel then reads without a map.
struct WgmmaMatrix {
  const void* data;
  std::int64_t inner, outer, pitch;
  std::int64_t count = 0, apart = 0;
};

/// out[m, n] = program(a[m, k] · b[p][k, n], …) for `parts` matrices b.
struct WgmmaProduct {
  DType type, out_type;
  WgmmaMatrix a, b[2], out;
  bool a_by_depth, b_by_depth;  // contiguous along K
  int parts;
  std::int64_t m, n, k;
  bool folded = false;  // see gemm_unfolded
};

/// 0, or the driver's code. `units`: multiprocessors. With stream-K, `room` is wgmma_room_bytes()
/// of the workspace, whose counters this zeroes on the stream where the kernel reads them.
int prepare_wgmma(const WgmmaProduct& product, const GemmWgmmaConfig& config, int units,
                  GemmWgmmaCall& call, cuda::Launch& how, void* room = nullptr,
                  void* stream = nullptr);

/// What stream-K takes of the workspace, for any product; 0 without it.
std::size_t wgmma_room_bytes(const GemmWgmmaConfig& config, int units);

/// How stream-K divides a product on a device of so many multiprocessors.
GemmStreamPlan wgmma_stream(const GemmWgmmaConfig& config, std::int64_t tiles_m,
                            std::int64_t tiles_n, std::int64_t k, int units);

/// `dlblas::gemm_wgmma<…>` with a program, given as C++ text. `traits` are those of a product's
/// operands; whatever the kernel does not depend on is normalised, so that configurations which
/// differ only in the order of tiles share a cubin. `kernel`: or another of the same parameters.
std::string wgmma_entry(GemmTraits traits, GemmWgmmaConfig config, std::string_view program,
                        std::string_view kernel = "dlblas::gemm_wgmma");

/// Knobs of the form; a table of them is also how the JIT gets a configuration's text.
const ConfigTable<GemmWgmmaConfig>& wgmma_table();

}  // namespace dlblas::kernels
