// Loads tiles of rows of heads into shared memory, for ldmatrix: by cp.async where rows are 16-byte
// aligned, else by plain loads. Read next: attention_mma.cuh, attention_gradient_mma.cuh.
#pragma once

#include "device/cp_async.cuh"
#include "device/mma_tile.cuh"
#include "device/shared.cuh"
#include "ops/attention/cuda/attention_tile.cuh"
#include "ops/attention/cuda/f8_pair.cuh"

namespace dlblas::attention {

/// Bytes between rows of a tile: an odd number of 16-byte chunks, so that eight rows hit all banks.
constexpr int mma_pitch(int width) { return width * 2 + 16; }

/// Loads kRows rows of kWidth elements. row_of(row, offset) sets a row's offset, and returns false
/// for a row of zeros; columns from `real` on are zeros. f8 (kFrom) is converted to T by loads and
/// stores, which the barrier after cp_async_wait() makes visible too.
template <DType T, Reach kReach, int kWidth, int kRows, int kThreads, DType kFrom = T,
          typename RowOf>
__device__ __forceinline__ void load_tile(unsigned char* to, const void* base, int64_t column_step,
                                          int32_t real, const RowOf& row_of) {
  constexpr int kChunks = kWidth / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks, column = i % kChunks * 8;
    int64_t offset = 0;
    const bool valid = row_of(row, offset);
    unsigned char* place = to + row * mma_pitch(kWidth) + column * 2;
    if constexpr (kReach == Reach::kWide && is_f8(kFrom)) {  // real is a multiple of 16
      uint32_t words[4] = {0, 0, 0, 0};
      if (valid && column < real) {
        const Vec<kFrom, 8> codes = load_vec<kFrom, 8, 8>(base, offset + column);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          words[j] = widen_pair<kFrom, T>(codes.words[j / 2] >> (j % 2 * 16) & 0xffffu);
      }
      store_shared(shared_address(place), words);
    } else if constexpr (kReach == Reach::kWide) {  // whole chunks: real is a multiple of 8
      const bool there = valid && column < real;
      cp_async_or_zero(shared_address(place),
                       static_cast<const char*>(base) + (there ? (offset + column) * 2 : 0), there);
    } else {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float pair[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int c = column + 2 * j + e;
          pair[e] =
              valid && c < real ? load_one<kFrom, kReach>(base, offset + c * column_step) : 0.0f;
        }
        words[j] = pack_pair<T>(pair[0], pair[1]);
      }
      store_shared(shared_address(place), words);
    }
  }
}

}  // namespace dlblas::attention
