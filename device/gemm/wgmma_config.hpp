// What host code and the WGMMA form of matrix products share: configurations (searched) and the
// parameters of one call. The kernel sees D[m, n] = A[m, K] · B[n, K]ᵀ; if `swapped`, A is the
// product's b and B its a, and the tile is stored transposed.
// In: plain values only; read by the host compiler and by NVRTC.
// Flow: [compile] writes traits, configuration and program as template values, [launch] the
// parameters. Read next: wgmma_mainloop.cuh, wgmma_program.cuh.
#pragma once

#include "device/gemm/config.hpp"
#include "device/gemm/stream_config.hpp"
#include "device/tensor_map.hpp"

namespace dlblas {

/// What the blocks of a cluster share.
enum class GemmShare : int32_t {
  kNone,
  kA,  // the same rows, neighbouring columns: A's tile is multicast
  kB,  // the same columns, neighbouring rows: B's tile is multicast
  kK,  // the same tile, each a part of K, of a stage at least: sums meet in the first block's
       // shared memory
};

/// One round of the epilogue: the bytes staged for the copy engine at a time, 64 rows × 128 bytes.
inline constexpr int32_t kGemmRoundBytes = 8192;

struct GemmWgmmaConfig {
  bool swapped;
  int32_t block_m, block_n;  // a tile of D: multiples of 64 and of 8; block_n counts all parts of B
  int32_t block_k;           // elements of K in a stage: 64, 128 or 256
  int32_t warpgroups;        // that multiply: 1 to 3
  bool pingpong;  // each has its own tile, one stores while the other multiplies; else they halve
                  // the rows of one
  GemmShare share;
  int32_t cluster;
  int32_t stages;
  bool weight_once;  // the product's b is read once: the first to leave L2
  int32_t group_m;   // rows of units (tiles, or clusters' worth of them) that are walked together
  bool stream = false;  // stream-K: see stream_config.hpp; else units are computed whole
  // A, B and D are stacks of matrices, maps of three dimensions. Each matrix has `rows_each` rows
  // of D, whole tiles: those beyond its own are read as zeros and not stored.
  bool batched = false;
  int32_t gain_bytes = 0;  // of an element of the gain, if rows of A are normalised on the way

  constexpr bool normed() const { return gain_bytes > 0; }  // see wgmma_norm.cuh
  constexpr int steps() const { return block_k / 64; }      // rows of 128 bytes along K
  constexpr int threads() const { return (warpgroups + 1 + (normed() ? 1 : 0)) * 128; }
  /// Units of 64 rows that one warpgroup multiplies.
  constexpr int row_blocks() const { return block_m / 64 / (pingpong ? 1 : warpgroups); }
  /// Sums per multiplying thread.
  constexpr int sums() const { return row_blocks() * block_n / 2; }
  constexpr bool multicast() const { return share == GemmShare::kA || share == GemmShare::kB; }
  /// Blocks that release a stage: those whose copies fill it.
  constexpr int sharers() const { return multicast() ? cluster : 1; }
  /// Threads that multiply one tile.
  constexpr int tile_threads() const { return (pingpong ? 1 : warpgroups) * 128; }

  /// Bytes of an operand's tile in shared memory. Along M or N, boxes are 64 wide and always whole.
  constexpr int a_bytes() const { return block_m * block_k * 2; }
  constexpr int b_bytes(bool by_depth) const {
    return (by_depth ? block_n : (block_n + 63) / 64 * 64) * block_k * 2;
  }
  constexpr int stage_bytes(bool b_by_depth) const { return a_bytes() + b_bytes(b_by_depth); }
  /// A warpgroup's rounds in shared memory. Each of three warpgroups has one, so that a tile of 192
  /// × 192 keeps four stages.
  constexpr int rounds() const { return warpgroups == 3 ? 1 : 2; }
  constexpr int staging_bytes() const { return warpgroups * rounds() * kGemmRoundBytes; }
  /// 1024 bytes to align to a multiple of that, and two barriers per stage.
  constexpr int shared_bytes(bool b_by_depth, int32_t span) const {
    return 1024 + stages * (stage_bytes(b_by_depth) + 16) + staging_bytes() +
           carried_bytes(span, block_m * block_n) + norm_bytes();
  }
  /// Stages of the gain; a barrier per stage and two per block, a factor per row, and whether a
  /// second pass follows.
  constexpr int gains_bytes() const { return stages * block_k * gain_bytes; }
  constexpr int norm_bytes() const {
    return normed() ? gains_bytes() + (stages + 2) * 8 + block_m * 4 + 8 : 0;
  }
};

/// What the kernel supports. 192 sums leave 40 of the 232 registers that a thread may have; with
/// three warpgroups a thread has 152.
constexpr bool valid(const GemmWgmmaConfig& c) {
  if (c.block_m % 64 != 0 || c.block_n % 8 != 0 || c.block_n > 256 || c.block_k % 64 != 0 ||
      c.block_k > 256 || c.stages < 2)
    return false;
  if (c.pingpong ? c.warpgroups != 2 : c.block_m % (64 * c.warpgroups) != 0) return false;
  if (c.warpgroups > 3 || c.row_blocks() > 2 || c.sums() > (c.warpgroups == 3 ? 96 : 192))
    return false;
  if ((c.share == GemmShare::kNone) != (c.cluster == 1)) return false;
  if (c.batched && (c.swapped || c.stream || c.share != GemmShare::kNone)) return false;
  // 512 threads have 128 registers each; the multiplying ones get 168, of the copying ones.
  if (c.normed() && (c.swapped || c.stream || c.batched || c.pingpong ||
                     c.share != GemmShare::kNone || c.sums() > (c.warpgroups == 1 ? 112 : 88)))
    return false;
  if (c.multicast()) return c.cluster == 2 && (c.share == GemmShare::kA || c.block_n % 16 == 0);
  if (c.share == GemmShare::kK)  // the others' sums lie in the ring of the first
    return !c.pingpong && !c.stream &&
           (c.cluster - 1) * c.warpgroups * 128 * c.sums() * 4 <=
               c.stages * (c.block_m + c.block_n) * c.block_k * 2;
  return true;
}

/// The same configuration with rows of A normalised.
constexpr GemmWgmmaConfig with_norm(GemmWgmmaConfig c, int32_t gain_bytes) {
  c.gain_bytes = gain_bytes;
  return c;
}
/// Where a call has what the norm needs: the gain, one factor per column of A; A itself, for rows
/// whose mean square f32 does not hold. The scalars: eps, 1 / K, and eps in f64, in two words.
inline constexpr int32_t kGemmGainPlace = 4, kGemmNormedPlace = 5;
enum GemmNormScalar : int { kGemmEps, kGemmInverseK, kGemmEps64 };

/// Columns per store of the epilogue: the largest power of two up to `most` that divides n.
constexpr int gemm_segment(int n, int most) {
  while (n % most) most /= 2;
  return most;
}

/// Folded columns: D's columns are heads of kFold, and a kernel takes them 64 at a time, 32 of a
/// head's first half and the 32 that pair with them. So a tile's width need not be whole heads.
inline constexpr int32_t kGemmFoldPiece = 32;
/// The column of D behind a tile's column `folded`, which begins a piece.
template <int32_t kFold>
constexpr int32_t gemm_unfolded(int32_t folded) {
  if constexpr (kFold == 0) {
    return folded;
  } else {
    constexpr int32_t kPairs = kFold / (2 * kGemmFoldPiece);  // of pieces, of a head
    const int32_t piece = folded / kGemmFoldPiece, pair = piece / 2;
    return pair / kPairs * kFold + piece % 2 * (kFold / 2) + pair % kPairs * kGemmFoldPiece;
  }
}

/// One operand of an epilogue program: a vector, or a matrix stored by rows.
struct GemmOperand {
  void* data;
  int64_t stride;  // of a matrix: elements from row to row
};

/// Stream-K's part of a call. A block has room for the sums of one tile, and counts the warpgroups
/// that have written theirs: zero at the launch.
struct GemmStreamCall {
  float* sums;
  uint32_t* given;
  GemmStream plan;
};

/// One product, for every program.
struct GemmWgmmaCall {
  TensorMap a, b[2], out[2];  // b: a map a part; out: a map a result
  int32_t m, n, k;            // of D as the kernel sees it; n: columns of each part
  int32_t units_m, units_n;   // tiles; under multicast, clusters of them
  int32_t group;
  int32_t rows_each;  // batched: of D, per matrix; a multiple of block_m
  int32_t absent;     // bytes of a stage that are not copied: rows beyond the product's last
  GemmOperand operands[6];
  float scalars[4];
  int32_t numbers[4];
  GemmStreamCall stream;  // where the configuration has it
};
static_assert(sizeof(GemmWgmmaCall) == 832 && alignof(GemmWgmmaCall) == 64,
              "the host and the kernel agree");

}  // namespace dlblas
