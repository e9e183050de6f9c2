// Takes columns of a row in registers in order, for a program's select(). A thread's columns are
// ranks of 32 bits, value above column; the next one is the largest rank below the last: the
// largest of rank − last modulo 2³², one instruction per column on sm_90 (VIADDMNMX). If a rank
// cannot hold a whole value (f32), rows where that may have misordered two columns are taken again
// with 64-bit ranks. In: what a thread keeps. Read next: device/row/registers.cuh.
#pragma once

#include "device/row/access.cuh"

namespace dlblas::detail {

/// A column's rank: its value's high bits, which order as values do (NaN above all, −0 is 0), and
/// in the low kBits the column, counted from the right. 0 means none.
template <int kBits>
struct WordRank {
  static constexpr uint32_t kNone = 0, kColumn = (1u << kBits) - 1;
  /// The addition yields 0x7fffffff for any NaN, and +0 for −0.
  __device__ static uint32_t of(float value, int column) {
    const auto bits = static_cast<uint32_t>(__float_as_int(value + 0.0f));
    const uint32_t rank =
        bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
    return (rank & ~kColumn) | (kColumn - static_cast<uint32_t>(column));
  }
  /// The value is exact if its low kBits are 0.
  __device__ static RowPicked picked(uint32_t rank) {
    const uint32_t high = (rank >> 31 ? rank & 0x7fffffffu : ~rank) & ~kColumn;
    return {__int_as_float(static_cast<int>(high)), static_cast<int32_t>(~rank & kColumn)};
  }
};

/// Bits needed for a row's column numbers.
constexpr int column_bits(int columns) {
  int bits = 1;
  while ((1 << bits) < columns) ++bits;
  return bits;
}

/// RowPicks for WordRanks. kExact: a rank holds its value; otherwise the value is read again.
template <typename Rank, bool kExact, typename Next, typename Load>
struct WordPicks {
  const Next& next;
  const Load& load;
  int thread, threads;
  bool mine;
  uint32_t last = 0;
  bool close = false;  // two that follow each other differ in no bit of the value
  __device__ RowPicked take() {
    const uint32_t before = last;
    last = next(before);
    RowPicked one = Rank::picked(last);
    if constexpr (!kExact) {
      one.value = load(one.column);
      close |= (before ^ last) <= Rank::kColumn;
    }
    return one;
  }
  __device__ bool writes(int r) const { return mine && r % threads == thread; }
  __device__ int first(int count) const { return mine ? thread : count; }
  __device__ int step() const { return threads; }
  __device__ bool holds(int count) const { return count <= threads; }
};

/// The most columns of an f32 row with 32-bit ranks: 14 bits of mantissa distinguish values.
inline constexpr int kMaxWordColumns = 512;

/// P::select for a row in registers. `at(i)`: the thread's accesses; all threads of the row must
/// take part.
template <typename P, RowTraits T, RowConfig C, typename At, typename Threads>
__device__ inline void select_in_registers(const typename P::Kept (&kept)[C.vectors],
                                           const typename P::Stats& stats, const At& at,
                                           Threads& threads, const RowPlace<T>& row, int thread,
                                           bool written) {
  constexpr int V = C.vectors, N = T.n, kColumns = V * C.threads * N, kIndex = P::kRankedOperand;
  constexpr bool kExact =
      kIndex >= 0 && size_of(T.types[kIndex < 0 ? 0 : kIndex]) == 2 && kColumns <= 1 << 13;
  constexpr bool kWords = kExact || (kIndex >= 0 && kColumns <= kMaxWordColumns);
  // Computed once if registers can hold them.
  constexpr bool kMade = V * N * (kWords ? 4 : 8) <= 128;
  const auto take_wide = [&](const auto& rank_of) {
    const auto next = [&](uint64_t below) {
      uint64_t best = RowRank::kNone;
      rank_of([&](uint64_t rank) { best = rank < below && rank > best ? rank : best; });
      return threads.template all<RankOp<RowRank>>(best);
    };
    RowPicks<RowRank, decltype(next)> picks{next, thread, C.threads, written};
    P::select(picks, stats, row);
  };
  if constexpr (kWords) {
    using Rank = WordRank<kExact ? 13 : column_bits(kColumns)>;
    uint32_t made[kMade ? V : 1][N], low = 0;
    const auto rank = [&](int i, uint32_t(&ranks)[N]) {
      const Values<N> v = P::ranked(kept[i]);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        ranks[j] = at(i).holds ? Rank::of(v.v[j], at(i).column() + j) : 0;
        if constexpr (!kExact)
          if (kMade) low |= static_cast<uint32_t>(__float_as_int(v.v[j])) & Rank::kColumn;
      }
    };
    if constexpr (kMade)
#pragma unroll
      for (int i = 0; i < V; ++i) rank(i, made[i]);
    const auto next = [&](uint32_t last) {
      uint32_t best[4] = {0, 0, 0, 0};  // chains: one of them is the latency of a take
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if constexpr (!kMade) rank(i, made[0]);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          const uint32_t difference = made[kMade ? i : 0][j] - last;
          uint32_t& most = best[(i * N + j) % 4];
          most = difference > most ? difference : most;
        }
      }
      const auto larger = [](uint32_t a, uint32_t b) { return a > b ? a : b; };
      const uint32_t most = larger(larger(best[0], best[1]), larger(best[2], best[3]));
      if constexpr (C.threads == kWarp) return last + __reduce_max_sync(~0u, most);
      return last + threads.template all<RankOp<Rank>>(most);
    };
    const auto load = [&](int32_t column) {
      return row.load_element(Operand<(kIndex < 0 ? 0 : kIndex)>{}, column);
    };
    WordPicks<Rank, kExact, decltype(next), decltype(load)> picks{next, load, thread, C.threads,
                                                                  written};
    P::select(picks, stats, row);
    if constexpr (!kExact) {
      // The rank after the last must not be that close either. Computed regardless of `close`: rows
      // that share a warp differ in it, and all lanes take together.
      const uint32_t after = next(picks.last);
      bool again = picks.close | ((after ^ picks.last) <= Rank::kColumn);
      // Low bits that are 0 in the whole row, as in f32 from bf16, distinguish nothing.
      again &= !kMade || threads.template all<RankOp<Rank>>(low) != 0;
      if (!__any_sync(~0u, again)) return;
      take_wide([&](const auto& offer) {
#pragma unroll 1
        for (int i = 0; i < V; ++i)
#pragma unroll 1
          for (int j = 0; at(i).holds && j < N; ++j)
            offer(RowRank::of(load(at(i).column() + j), at(i).column() + j));
      });
    }
  } else {
    uint64_t made[kMade ? V : 1][N];
    const auto rank = [&](int i, uint64_t(&ranks)[N]) {
      rank_columns<RowRank>(ranks, P::ranked(kept[i]), at(i).column(), at(i).holds);
    };
    if constexpr (kMade)
#pragma unroll
      for (int i = 0; i < V; ++i) rank(i, made[i]);
    take_wide([&](const auto& offer) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if constexpr (!kMade) rank(i, made[0]);
#pragma unroll
        for (int j = 0; j < N; ++j) offer(made[kMade ? i : 0][j]);
      }
    });
  }
}

}  // namespace dlblas::detail
