// Few rows of bf16 by AMX tiles, with b's columns contiguous along K: b is the operand with 16
// rows, read in place, once; a's rows are the other operand's 16 columns. So b is not packed, and a
// product of up to 64 rows takes the time of reading b. In: a job, packed rows of a. Out: what the
// epilogue stores. Numerics: the same order of sums as cpu/gemm/pairs.hpp, and so the same bits.
// Compiled only with -mamx-bf16. Read next: pairs.hpp, run.cpp (run_few_rows).
#pragma once

#include <utility>

#include "cpu/gemm/pairs.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Tiles of sums that a thread keeps; the other two are operands.
constexpr int kSumTiles = 6;
constexpr int kTileFloats = kTileRows * kTileRows;
constexpr int kTerms = Bf16Terms::kTerms;

/// a as pairs: for each chunk of K and each 16 rows, [pair][row][2]; zeros past the last row.
void pack_tile_rows(const GemmJob& p, const CpuGemmRowConfig&, float* rows) {
  const int64_t tiles = (p.m + kTileRows - 1) / kTileRows;
  const PackSource s{p.a.data, p.a.row, p.a.col};
  const auto* const data = static_cast<const uint16_t*>(s.data);
  for (int64_t k = 0; k < p.k; k += kTerms) {
    for (int64_t t = 0; t < tiles; ++t, rows += kTileFloats) {
      Chunk r[kWidth];
      const int64_t row = t * kTileRows;
      load_block<Bf16Terms>(s, data + row * s.lane + k * s.depth, p.m - row, p.k - k, true,
                            kTileRows, r);
      for (int i = 0; i < kWidth; ++i) _mm512_storeu_si512(rows + i * kWidth, r[i]);
    }
  }
}

/// One span of K, for N tiles of b times M tiles of rows.
struct TileRowArgs {
  const char* b;    // the first column, at the span's first depth
  int64_t b_pitch;  // bytes from column to column
  const char* rows;
  int64_t chunks;    // whole ones
  const char* tail;  // N · 16 columns of the last chunk, zeros past K's end; null: none
  int64_t ahead;     // bytes that b is fetched ahead; 0: none
  float* sums;       // [N][M] tiles, [column][row]
};

template <int M, int N, int... kTiles>
DLBLAS_INLINE void zero_sums(std::integer_sequence<int, kTiles...>) {
  (zero_tile<kTiles>(), ...);
}
template <int... kTiles>
DLBLAS_INLINE void store_sums(float* to, std::integer_sequence<int, kTiles...>) {
  (store_tile<kTiles>(to + kTiles * kTileFloats, kTileRowBytes), ...);
}

/// One chunk: N tiles of b, `pitch` bytes between columns, times M tiles of rows. A single tile of
/// rows stays in a register; with several, each tile of b is multiplied by all of them.
template <int M, int N, int... kColumns>
DLBLAS_INLINE void multiply_chunk(const char* b, int64_t pitch, const char* rows,
                                  std::integer_sequence<int, kColumns...>) {
  constexpr int kB = kSumTiles, kRows = kSumTiles + 1;
  if constexpr (M == 1) load_tile<kRows>(rows, kTileRowBytes);
  const auto column = [&]<int kColumn, int... kRow>(std::integral_constant<int, kColumn>,
                                                    std::integer_sequence<int, kRow...>)
      __attribute__((always_inline)) {
    load_tile<kB>(b + kColumn * kTileRows * pitch, pitch);
    if constexpr (M == 1) {
      multiply_bf16<kColumn, kB, kRows>();
    } else {
      ((load_tile<kRows>(rows + kRow * kTileBytes, kTileRowBytes),
        multiply_bf16<kColumn * M + kRow, kB, kRows>()),
       ...);
    }
  };
  (column(std::integral_constant<int, kColumns>(), std::make_integer_sequence<int, M>()), ...);
}

template <int M, int N>
void multiply_tile_rows(const TileRowArgs& t) {
  static_assert(M * N <= kSumTiles);
  constexpr auto kSums = std::make_integer_sequence<int, M * N>();
  constexpr auto kColumns = std::make_integer_sequence<int, N>();
  zero_sums<M, N>(kSums);
  const char *b = t.b, *rows = t.rows;
  for (int64_t c = 0; c < t.chunks; ++c, b += kChunkBytes, rows += M * kTileBytes) {
    if (t.ahead > 0)
      for (int i = 0; i < N * kTileRows; ++i) prefetch(b + i * t.b_pitch + t.ahead);
    multiply_chunk<M, N>(b, t.b_pitch, rows, kColumns);
  }
  if (t.tail) multiply_chunk<M, N>(t.tail, kTileRowBytes, rows, kColumns);
  store_sums(t.sums, kSums);
}

using TileRowFn = void (*)(const TileRowArgs&);
/// [tiles of rows − 1], and the most tiles of b for each.
constexpr int kMaxTileRows = 4;
constexpr int kTileColumns[kMaxTileRows] = {6, 3, 2, 1};
constexpr TileRowFn kTileRowFns[kMaxTileRows][kSumTiles] = {
    {multiply_tile_rows<1, 1>, multiply_tile_rows<1, 2>, multiply_tile_rows<1, 3>,
     multiply_tile_rows<1, 4>, multiply_tile_rows<1, 5>, multiply_tile_rows<1, 6>},
    {multiply_tile_rows<2, 1>, multiply_tile_rows<2, 2>, multiply_tile_rows<2, 3>},
    {multiply_tile_rows<3, 1>, multiply_tile_rows<3, 2>},
    {multiply_tile_rows<4, 1>}};

/// Sums of `tiles` tiles over all of K, to `sums`: [tile of b][tile of rows], [column][row].
void sum_tile_rows(const GemmJob& p, const GemmMatrix& b, const char* rows, int64_t j, int tiles,
                   int64_t ahead, float* sums) {
  const int64_t m = (p.m + kTileRows - 1) / kTileRows;
  const int64_t size = tiles * m * kTileFloats;
  alignas(64) char tail[kSumTiles * kTileBytes];
  alignas(64) float spans[2][kSumTiles * kTileFloats];  // of several spans: one, and total's error
  int64_t k = 0;
  do {
    const int64_t end = smaller(p.k, k + p.sums.span);
    TileRowArgs t{address(b, k, j),        b.col * 2, rows + k / kTerms * m * kTileBytes,
                  (end - k) / kTerms,      nullptr,   ahead,
                  k == 0 ? sums : spans[0]};
    if ((end - k) % kTerms != 0) {
      const int64_t last = end - (end - k) % kTerms;
      for (int i = 0; i < tiles * kTileRows; ++i) {
        const auto* const from = reinterpret_cast<const uint16_t*>(address(b, last, j + i));
        _mm512_storeu_si512(tail + i * kTileRowBytes, Bf16Terms::load(from, end - last));
      }
      t.tail = tail;
    }
    kTileRowFns[m - 1][tiles - 1](t);
    for (int64_t x = 0; k > 0 && x < size; x += kWidth) {
      Vec total = load<DType::kF32>(sums + x);
      Vec error = k == p.sums.span ? zero() : load<DType::kF32>(spans[1] + x);
      add_exactly(total, error, load<DType::kF32>(spans[0] + x));
      store<DType::kF32>(sums + x, end == p.k ? total_of(total, error) : total);
      store<DType::kF32>(spans[1] + x, error);
    }
    k = end;
  } while (k < p.k);
}

/// Columns [j0, j1) of at least 16 in all. `sums` is not used.
void row_of_tiles(const GemmJob& p, const CpuGemmRowConfig& c, int64_t j0, int64_t j1,
                  const float* rows, float* /*sums*/) {
  const GemmEpilogue& epilogue = *p.epilogue;
  const Tiles scope;
  const int64_t m = (p.m + kTileRows - 1) / kTileRows;
  const int most = kTileColumns[m - 1] < c.tiles ? kTileColumns[m - 1] : c.tiles;
  alignas(64) float sums[kMaxParts][kSumTiles * kTileFloats];
  alignas(64) float lines[kMaxParts][kTileRows][kTileRows];
  for (int64_t j = j0; j < j1;) {
    // A ragged tile begins among columns that are already stored, or are another thread's.
    const int64_t left = (j1 - j) / kTileRows;
    const int tiles = left > most ? most : left > 0 ? static_cast<int>(left) : 1;
    const int64_t first = left > 0 ? j : j1 - kTileRows < 0 ? 0 : j1 - kTileRows;
    for (int part = 0; part < epilogue.parts; ++part)
      sum_tile_rows(p, p.b[part], reinterpret_cast<const char*>(rows), first, tiles, c.prefetch,
                    sums[part]);
    for (int64_t t = 0; t < tiles * m; ++t) {
      const int64_t column = first + t / m * kTileRows, row = t % m * kTileRows;
      const int64_t from = column < j ? j - column : 0;
      const int64_t n = smaller(kTileRows, j1 - column) - from;
      for (int part = 0; part < epilogue.parts; ++part) {
        Vec r[kWidth];
        for (int i = 0; i < kWidth; ++i)
          r[i] = load<DType::kF32>(sums[part] + t * kTileFloats + i * kWidth);
        transpose(r);
        for (int i = 0; i < kWidth; ++i) store<DType::kF32>(lines[part][i], r[i]);
      }
      for (int64_t i = 0; i < smaller(kTileRows, p.m - row); ++i) {
        const float* of[kMaxParts];
        for (int part = 0; part < epilogue.parts; ++part) of[part] = lines[part][i] + from;
        epilogue.store(p.params, row + i, column + from, n, of);
      }
    }
    j = left > 0 ? first + tiles * kTileRows : j1;
  }
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
