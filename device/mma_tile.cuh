// Loads one operand's tile of a tensor-core product: cp_async from global memory into a swizzled
// buffer, then load_tiles into the registers of mma_16x8x16.
// "outer" is M for a and N for b, "depth" is K. Either may be contiguous: a tile keeps its memory
// layout, rows of 16-byte chunks, and is transposed while it is loaded into registers. Chunks are
// permuted by the row's number, so that eight rows of one column touch all banks, both when the
// copies write and when load_tiles reads. In: 16-byte aligned rows. Read next:
// device/gemm/mma_mainloop.cuh.
#pragma once

#include "device/cp_async.cuh"
#include "device/gemm/source_rows.cuh"
#include "device/mma.cuh"

namespace dlblas {

/// Copies 16 bytes, or writes 16 zeros and reads nothing.
__device__ __forceinline__ void cp_async_or_zero(uint32_t to_shared, const void* from, bool valid) {
  asm volatile(
      "{\n.reg .pred nothing;\nsetp.eq.s32 nothing, %2, 0;\n"
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, nothing;\n}" ::"r"(to_shared),
      "l"(from), "r"(static_cast<int32_t>(valid))
      : "memory");
}

enum class MmaOperand : int32_t { kA, kB };

/// The source of one thread's share of a tile.
struct TileSource {
  const char* from;      // this thread's next chunk
  int64_t next_row;      // bytes between this thread's rows (kRowStep rows of the matrix)
  int64_t next_tile;     // bytes from the end of its last row to the first of the next tile
  int32_t row;           // of the first chunk, in the tile
  int32_t column_bytes;  // before the first chunk, in the tile
};

/// kWhole: storage rows end on a chunk boundary, so a chunk is copied whole or not at all. That
/// takes 4 instructions per copy; counting bytes takes 12.
template <MmaOperand kOperand, int kOuter, int kDepth, bool kDepthContiguous, bool kWhole,
          int kThreads>
struct MmaTile {
  static constexpr int kRows = kDepthContiguous ? kOuter : kDepth;
  static constexpr int kRowChunks = (kDepthContiguous ? kDepth : kOuter) / 8;
  static constexpr int kRowBytes = kRowChunks * 16;
  static constexpr int kBytes = kRows * kRowBytes;
  static constexpr int kChunks = kRows * kRowChunks;
  static constexpr int kCopies = (kChunks + kThreads - 1) / kThreads;  // of one thread
  static constexpr int kRowStep = kThreads / kRowChunks;
  static_assert((kRowChunks & (kRowChunks - 1)) == 0 && kThreads % kRowChunks == 0);

  /// Two rows of 64 bytes share a line of banks: there the swizzle uses the row's higher bits.
  __device__ static __forceinline__ int swizzle(int row) {
    if constexpr (kRowChunks >= 8) return row & 7;
    if constexpr (kRowChunks == 4) return row >> 1 & 3;
    return kRowChunks == 2 ? row >> 2 & 1 : 0;
  }

  /// `matrix`: the block's first element at depth 0. `pitch`: bytes between rows of the storage.
  __device__ static __forceinline__ TileSource source(const void* matrix, int64_t pitch) {
    const int row = static_cast<int>(threadIdx.x) / kRowChunks;
    const int chunk = static_cast<int>(threadIdx.x) % kRowChunks;
    const int64_t tile = kDepthContiguous ? kDepth * 2 : kDepth * pitch;
    return {static_cast<const char*>(matrix) + row * pitch + chunk * 16, kRowStep * pitch,
            tile - kCopies * kRowStep * pitch, row, chunk * 16};
  }

  /// The tile's rows alternate between two matrices: row r is row r / 2 of matrix r % 2.
  __device__ static __forceinline__ TileSource source_of_pairs(const void* even, const void* odd,
                                                               int64_t pitch) {
    static_assert(kDepthContiguous && kRowStep % 2 == 0, "a thread copies rows of one matrix");
    const int row = static_cast<int>(threadIdx.x) / kRowChunks;
    const int chunk = static_cast<int>(threadIdx.x) % kRowChunks;
    const auto* matrix = static_cast<const char*>(row % 2 == 0 ? even : odd);
    constexpr int kStep = kRowStep / 2;
    return {matrix + row / 2 * pitch + chunk * 16, kStep * pitch,
            kDepth * 2 - kCopies * kStep * pitch, row, chunk * 16};
  }

  /// This thread's copy `i` of a tile, 0 … kCopies - 1 in turn. `outer_left`, `depth_left`:
  /// elements of the matrix from the tile's start on; elements beyond become zero, and no address
  /// beyond is read. Gathered rows have a source without a pitch, whose matrix is the first row.
  template <typename Rows = RowsInOrder>
  __device__ static __forceinline__ void copy(uint32_t buffer, TileSource& s, int i,
                                              int32_t outer_left, int32_t depth_left,
                                              const Rows& rows = Rows()) {
    const int32_t rows_left = (kDepthContiguous ? outer_left : depth_left) - s.row;
    const int32_t bytes_left = (kDepthContiguous ? depth_left : outer_left) * 2 - s.column_bytes;
    const int row = s.row + i * kRowStep;
    if (kChunks % kThreads == 0 || i < kCopies - 1 || row < kRows) {
      const int at = row * kRowBytes + ((s.column_bytes / 16) ^ swizzle(row)) * 16;
      const char* from = s.from;
      bool there = i * kRowStep < rows_left;
      if constexpr (Rows::kGathered) {
        static_assert(kDepthContiguous, "a row of the storage is a row of a");
        const int64_t offset = rows.offsets[row];
        there = offset != kNoRow;
        from += there ? 2 * offset : 0;
      }
      if constexpr (kWhole) {
        cp_async_or_zero(buffer + at, from, there && bytes_left > 0);
      } else {
        const int32_t valid = bytes_left < 0 ? 0 : bytes_left > 16 ? 16 : bytes_left;
        cp_async(buffer + at, from, there ? valid : 0);
      }
    }
    s.from += s.next_row;
    if (i == kCopies - 1) s.from += s.next_tile;
  }

  /// Byte offset in the buffer of what this lane loads for outer 0 … 15 of the warp's share and
  /// depth 0 … 15. Bits 3 and 4 of the lane select the tile's halves, in the operand's order.
  __device__ static __forceinline__ uint32_t lane_offset(int warp_outer) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int bit3 = lane >> 3 & 1, bit4 = lane >> 4;
    const int outer_half = kOperand == MmaOperand::kA ? bit3 : bit4;
    const int depth_half = kOperand == MmaOperand::kA ? bit4 : bit3;
    const int row =
        kDepthContiguous ? warp_outer + outer_half * 8 + (lane & 7) : depth_half * 8 + (lane & 7);
    const int chunk = kDepthContiguous ? depth_half : warp_outer / 8 + outer_half;
    return static_cast<uint32_t>(row * kRowBytes + (chunk ^ swizzle(row)) * 16);
  }

  /// Loads the 16 × 16 part at (outer 16·i, depth 16·k) of the warp's share. The lane's chunk
  /// number and the part's have no common bit, so an exclusive or adds them under the swizzle.
  __device__ static __forceinline__ void load(uint32_t (&r)[4], uint32_t buffer, uint32_t offset,
                                              int i, int k) {
    load_tiles<!kDepthContiguous>(r, buffer + part_offset(offset, i, k));
  }
  /// Loads the first eight of b's 16, where a warp's share ends with them.
  __device__ static __forceinline__ void load_eight(uint32_t (&r)[4], uint32_t buffer,
                                                    uint32_t offset, int i, int k) {
    static_assert(kOperand == MmaOperand::kB, "lanes 16 … 31 name the other eight");
    load_two_tiles<!kDepthContiguous>(r[0], r[1], buffer + part_offset(offset, i, k));
  }

 private:
  __device__ static __forceinline__ uint32_t part_offset(uint32_t offset, int i, int k) {
    return kDepthContiguous ? (offset ^ (k * 32)) + i * 16 * kRowBytes
                            : (offset ^ (i * 32)) + k * 16 * kRowBytes;
  }
};

}  // namespace dlblas
