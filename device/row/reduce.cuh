// Reductions of row programs: what one thread accumulates (Sum, Max, …), how two parts combine
// (SumOp, …), and over what: lanes of a group, a row's threads, the blocks of a cluster.
// The order of additions depends only on the configuration: same bits in any batch.
// Read next: device/row/registers.cuh.
#pragma once

#include "device/cluster.cuh"
#include "device/reduce.cuh"
#include "device/row/values.cuh"

namespace dlblas {

// An operation: V (at most 8 bytes), none() the neutral value, combine_lane() with the lane at a
// distance, combine() between blocks, where parts travel as 8 bytes: sums as f64.
struct SumOp {
  using V = float;
  __device__ static V none() { return 0; }
  __device__ static void combine_lane(V& v, int distance) { detail::add_other_lane(v, distance); }
  __device__ static double widen(V v) { return v; }
  __device__ static V narrow(double v) { return static_cast<float>(v); }
  __device__ static double combine(double a, double b) { return a + b; }
};

/// For sums in f64.
struct WideSumOp {
  using V = double;
  __device__ static V none() { return 0; }
  __device__ static void combine_lane(V& v, int distance) { detail::add_other_lane(v, distance); }
  __device__ static double widen(V v) { return v; }
  __device__ static V narrow(double v) { return v; }
  __device__ static double combine(double a, double b) { return a + b; }
};

/// NaN wins.
struct MaxOp {
  using V = float;
  __device__ static V none() { return -DeviceMath::infinity(); }
  __device__ static void combine_lane(V& v, int distance) {
    asm volatile(
        "{\n .reg .f32 other;\n shfl.sync.bfly.b32 other, %0, %1, 31, -1;\n"
        " max.NaN.f32 %0, %0, other;\n}"
        : "+f"(v)
        : "r"(distance));
  }
  __device__ static double widen(V v) { return v; }
  __device__ static V narrow(double v) { return static_cast<float>(v); }
  __device__ static double combine(double a, double b) { return a > b || a != a ? a : b; }
};

/// The first (largest) of two ranks: RowRanks, or 32-bit ranks (device/row/select.cuh).
template <typename Rank>
struct RankOp {
  using V = decltype(Rank::of(0.0f, 0));
  __device__ static V none() { return Rank::kNone; }
  __device__ static void combine_lane(V& v, int distance) {
    V other = __shfl_xor_sync(0xffffffffu, static_cast<uint32_t>(v), distance);
    if constexpr (sizeof(V) == 8) {
      const auto high = static_cast<uint32_t>(v >> 32);
      other |= static_cast<V>(__shfl_xor_sync(0xffffffffu, high, distance)) << 32;
    }
    if (other > v) v = other;
  }
};

/// The source of select()'s columns; `next(below)` returns the first rank below another one, in
/// every thread of the row.
template <typename Rank, typename Next>
struct RowPicks {
  const Next& next;
  int thread, threads;
  bool mine;  // the row is there
  typename RankOp<Rank>::V last = Rank::kAbove;
  __device__ RowPicked take() {
    last = next(last);
    return Rank::picked(last);
  }
  /// True if this thread writes element r of a result: always the same thread.
  __device__ bool writes(int r) const { return mine && r % threads == thread; }
  /// The first of `count` elements that it writes, and the distance between them.
  __device__ int first(int count) const { return mine ? thread : count; }
  __device__ int step() const { return threads; }
  /// True if each thread writes at most one of `count` elements.
  __device__ bool holds(int count) const { return count <= threads; }
};

/// The ranks of an access's columns; kNone outside the row.
template <typename Rank, int N>
__device__ inline void rank_columns(typename RankOp<Rank>::V (&ranks)[N], const Values<N>& v,
                                    int column, bool holds) {
#pragma unroll
  for (int j = 0; j < N; ++j) ranks[j] = holds ? Rank::of(v.v[j], column + j) : Rank::kNone;
}

/// The first of these ranks below `below`, or `best` if that comes first.
template <typename V, int N>
__device__ inline V first_below(const V (&ranks)[N], V below, V best) {
#pragma unroll
  for (int j = 0; j < N; ++j)
    if (ranks[j] < below && ranks[j] > best) best = ranks[j];
  return best;
}

/// A maximum and Σ e^(x − maximum), combined in one step.
struct MaxSum {
  float max, sum;
};
struct MaxSumOp {
  using V = MaxSum;
  __device__ static V none() { return {MaxOp::none(), 0}; }
  __device__ static V combine(V a, V b) {
    const float m = DeviceMath::max(a.max, b.max);
    // A part that is −inf so far counts nothing: −inf − −inf is NaN.
    const float base = m == MaxOp::none() ? 0 : m;
    return {m, a.sum * DeviceMath::exp(a.max - base) + b.sum * DeviceMath::exp(b.max - base)};
  }
  __device__ static void combine_lane(V& v, int distance) {
    const V other = {__shfl_xor_sync(0xffffffffu, v.max, distance),
                     __shfl_xor_sync(0xffffffffu, v.sum, distance)};
    v = combine(v, other);
  }
  __device__ static double widen(V v) {
    return __hiloint2double(__float_as_int(v.sum), __float_as_int(v.max));
  }
  __device__ static V narrow(double w) {
    return {__int_as_float(__double2loint(w)), __int_as_float(__double2hiint(w))};
  }
  __device__ static double combine(double a, double b) {
    return widen(combine(narrow(a), narrow(b)));
  }
};

/// A thread's sum in four chains: for a row in registers, a chain's latency dominates.
struct SumPart {
  using Op = SumOp;
  float chains[4] = {0, 0, 0, 0};
  template <int N>
  __device__ void add(const Values<N>& a) {
#pragma unroll
    for (int i = 0; i < N; ++i) chains[i % 4] += a.v[i];
  }
  template <int N>
  __device__ void add_product(const Values<N>& a, const Values<N>& b) {
#pragma unroll
    for (int i = 0; i < N; ++i) chains[i % 4] = fmaf(a.v[i], b.v[i], chains[i % 4]);
  }
  /// Squares of words in memory: 16-bit elements in one statement per access.
  template <DType T, int N>
  __device__ void add_squares(const Vec<T, N>& w) {
    if constexpr (size_of(T) == 2 && (N == 8 || N <= 4)) {
      dlblas::add_squares<T, Vec<T, N>::kWords>(w.words, chains);
    } else {
      const Values<N> a = values(w);
      add_product(a, a);
    }
  }
  __device__ float value() const { return (chains[0] + chains[1]) + (chains[2] + chains[3]); }
};

/// A thread's sum in f64, where SumPart's would leave f32's range.
struct WideSumPart {
  using Op = WideSumOp;
  double sum = 0;
  template <int N>
  __device__ void add(const Values<N>& a) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum += a.v[i];
  }
  template <int N>
  __device__ void add_product(const Values<N>& a, const Values<N>& b) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum += static_cast<double>(a.v[i]) * b.v[i];
  }
  template <DType T, int N>
  __device__ void add_squares(const Vec<T, N>& w) {
    const Values<N> a = values(w);
    add_product(a, a);
  }
  __device__ double value() const { return sum; }
};

/// Σx and Σx·y, reduced together. Between blocks they travel as f32.
struct Sums {
  float sum, products;
};
struct SumsOp {
  using V = Sums;
  __device__ static V none() { return {0, 0}; }
  __device__ static void combine_lane(V& v, int distance) {
    detail::add_other_lane(v.sum, distance);
    detail::add_other_lane(v.products, distance);
  }
  __device__ static double widen(V v) {
    return __hiloint2double(__float_as_int(v.products), __float_as_int(v.sum));
  }
  __device__ static V narrow(double w) {
    return {__int_as_float(__double2loint(w)), __int_as_float(__double2hiint(w))};
  }
  __device__ static double combine(double a, double b) {
    const V x = narrow(a), y = narrow(b);
    return widen({x.sum + y.sum, x.products + y.products});
  }
};
struct SumsPart {
  using Op = SumsOp;
  SumPart sum, products;
  template <int N>
  __device__ void add(const Values<N>& x, const Values<N>& y) {
    sum.add(x);
    products.add_product(x, y);
  }
  __device__ Sums value() const { return {sum.value(), products.value()}; }
};

/// What the values of a thread's parts add up to, in f64, where one part would be a long chain.
/// Operations that are no sums have none.
template <typename Op>
struct LongSum {
  static constexpr bool kExists = false;
};
template <>
struct LongSum<SumOp> {
  static constexpr bool kExists = true;
  double sum = 0;
  __device__ void add(float v) { sum += v; }
  __device__ float value() const { return static_cast<float>(sum); }
};
template <>
struct LongSum<SumsOp> {
  static constexpr bool kExists = true;
  LongSum<SumOp> sum, products;
  __device__ void add(const Sums& v) { sum.add(v.sum), products.add(v.products); }
  __device__ Sums value() const { return {sum.value(), products.value()}; }
};

/// A thread's maximum; NaN wins.
struct MaxPart {
  using Op = MaxOp;
  float most = MaxOp::none();
  template <int N>
  __device__ void add(const Values<N>& a) {
#pragma unroll
    for (int i = 0; i < N; ++i) most = DeviceMath::max(most, a.v[i]);
  }
  template <int N>
  __device__ void add_abs(const Values<N>& a) {
#pragma unroll
    for (int i = 0; i < N; ++i) most = DeviceMath::max(most, fabsf(a.v[i]));
  }
  /// 16-bit words two at a time.
  template <DType T, int N>
  __device__ void add(const Vec<T, N>& w) {
    if constexpr (size_of(T) != 2 || N < 2) {
      add(values(w));
    } else {
      uint32_t m = w.words[0];
#pragma unroll
      for (int i = 1; i < Vec<T, N>::kWords; ++i) {
        if constexpr (T == DType::kBF16)
          asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(m), "r"(w.words[i]));
        else
          asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(m) : "r"(m), "r"(w.words[i]));
      }
      const FloatPair pair = unpack_pair<T>(m);
      most = DeviceMath::max(most, DeviceMath::max(pair.low, pair.high));
    }
  }
  __device__ float value() const { return most; }
};

/// A thread's maximum and Σ e^(x − maximum) in one pass: the sum is scaled when the maximum grows.
struct MaxSumPart {
  using Op = MaxSumOp;
  float max = MaxOp::none();
  SumPart sum;
  template <int N>
  __device__ void add(const Values<N>& a) {
    float most = max;
#pragma unroll
    for (int i = 0; i < N; ++i) most = DeviceMath::max(most, a.v[i]);
    const float base = most == MaxOp::none() ? 0 : most;  // −inf − −inf is NaN
    const float scale = DeviceMath::exp(max - base);
#pragma unroll
    for (float& chain : sum.chains) chain *= scale;
    sum.add(exp(a - Values<N>(base)));
    max = most;
  }
  __device__ MaxSum value() const { return {max, sum.value()}; }
};

/// Over kLanes lanes; all lanes of the warp must take part.
template <typename Op, int kLanes>
__device__ inline typename Op::V reduce_lanes(typename Op::V v) {
#pragma unroll
  for (int d = kLanes / 2; d > 0; d /= 2) Op::combine_lane(v, d);
  return v;
}

/// RowSum (device/reduce.cuh) for any operation.
template <int kThreads>
class RowReduce {
 public:
  static constexpr int kWarps = kThreads > kWarp ? kThreads / kWarp : 1;
  static constexpr int kSlots = kWarps > 1 ? 2 * kWarps : 0;
  static_assert(kThreads <= kWarp ? kWarp % kThreads == 0 : kThreads % kWarp == 0);

  __device__ RowReduce(double* slots, int barrier, int thread)
      : slots_(slots), barrier_(barrier), thread_(thread) {}

  template <typename Op>
  __device__ typename Op::V all(typename Op::V v) {
    using V = typename Op::V;
    v = reduce_lanes<Op, (kThreads < kWarp ? kThreads : kWarp)>(v);
    if constexpr (kWarps > 1) {
      V* slots = reinterpret_cast<V*>(slots_ + odd_ * kWarps);
      odd_ ^= 1;
      if (thread_ % kWarp == 0) slots[thread_ / kWarp] = v;
      barrier_sync(barrier_, kThreads);
      constexpr int kLanes = kWarps <= 2    ? 2
                             : kWarps <= 4  ? 4
                             : kWarps <= 8  ? 8
                             : kWarps <= 16 ? 16
                                            : 32;
      const int lane = thread_ % kLanes;
      v = reduce_lanes<Op, kLanes>(lane < kWarps ? slots[lane] : Op::none());
    }
    return v;
  }

  /// A barrier of the row's threads: what they wrote before it is visible to all of them after it.
  __device__ void meet() const { RowSum<kThreads>(slots_, barrier_, thread_).meet(); }

 private:
  double* slots_;
  int barrier_, thread_, odd_ = 0;
};

/// Reduces over a cluster's blocks: each writes its part into all the others, as 8 bytes, and
/// combines them in rank order. There are two sets of parts, since a block may be one reduction
/// ahead. The threads that call `all` hold the same part, get the same total, and pass a barrier of
/// their own between two reductions.
template <int kBlocks>
class ClusterReduce {
 public:
  struct Shared {
    double parts[2][kBlocks];
    Mbarrier full[2];
  };
  /// Called by all threads of the cluster. `thread`: index among the threads of the block that call
  /// `all`, of which there are at least kBlocks.
  __device__ ClusterReduce(Shared& shared, int thread) : shared_(shared), thread_(thread) {
    if (threadIdx.x == 0) {
      for (Mbarrier& full : shared.full) {
        full.init(1);
        full.arrive_expect_tx(sizeof(shared.parts[0]));
      }
      fence_mbarrier_init();
    }
    cluster_arrive_relaxed();
  }
  /// Called once by all threads of the cluster: no block writes into one that has not started.
  __device__ void start() const { cluster_wait(); }
  template <typename Op>
  __device__ typename Op::V all(typename Op::V part) {
    put(turn_, Op::widen(part));
    const double(&parts)[kBlocks] = wait(turn_++);
    double total = parts[0];
#pragma unroll
    for (int i = 1; i < kBlocks; ++i) total = Op::combine(total, parts[i]);
    return Op::narrow(total);
  }
  /// The moments of a row of `width` columns, of which each block has at most `share`. The last
  /// reduction, since it uses both sets. Each lane reads one block's.
  __device__ RowMoments moments(const RowMoments& mine, int share, int width) {
    put(turn_, mine.mean), put(turn_ + 1, mine.squares);
    const int block = static_cast<int>(threadIdx.x % kBlocks), left = width - block * share;
    const double n = left < 0 ? 0 : left < share ? left : share;
    const double mean = wait(turn_)[block], squares = wait(turn_ + 1)[block];
    const double near = DeviceMath::reciprocal(static_cast<float>(width));
    const double inverse = near * (2 - width * near);  // relative 2^-44
    RowMoments all;
    all.mean = warp_sum<kBlocks>(n * mean) * inverse;
    const double apart = mean - all.mean;
    all.squares = warp_sum<kBlocks>(squares + n * apart * apart);
    return all;
  }

 private:
  /// Writes this block's part of reduction `turn` into all blocks.
  __device__ void put(uint32_t turn, double part) {
    if (thread_ < kBlocks)
      store_async(map_to_rank(&shared_.parts[turn & 1][cluster_rank()], thread_), part,
                  map_to_rank(&shared_.full[turn & 1], thread_));
  }
  /// Waits for all parts of reduction `turn`.
  __device__ const double (&wait(uint32_t turn))[kBlocks] {
    const double(&parts)[kBlocks] = shared_.parts[turn & 1];
    Mbarrier& full = shared_.full[turn & 1];
    // Not wait_cluster: parts come with the barrier's bytes, and its acquire would invalidate L1.
    full.wait(turn >> 1 & 1);
    // For the next turn but one: its bytes arrive only when all threads here have passed this wait.
    if (thread_ == 0) full.arrive_expect_tx(sizeof(parts));
    return parts;
  }

  Shared& shared_;
  int thread_;
  uint32_t turn_ = 0;
};
template <>
class ClusterReduce<1> {
 public:
  struct Shared {};
  __device__ ClusterReduce(Shared&, int) {}
  __device__ void start() const {}
};

}  // namespace dlblas
