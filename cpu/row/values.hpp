// What a row program sees on a CPU: an access is two vectors (one at a row's end) of f32, whatever
// the tensors' types: loads and stores convert, by types known at compile time or by a switch that
// is the same for all accesses of a call.
// Compiled once per instruction set, like cpu/simd.hpp. Read next: cpu/row/walk.hpp.
#pragma once

#include "cpu/math.hpp"
#include "cpu/row/job.hpp"
#include "device/row/base.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

template <int kVectors>
struct Values {
  Vec v[kVectors];
  Values() = default;
  // Vector by vector: g++ copies a struct in pieces of 16 bytes, and a 32-byte load of data that
  // was stored as two pieces waits for both (rope, AVX2: twice the time).
  DLBLAS_INLINE Values(const Values& o) { *this = o; }
  DLBLAS_INLINE Values& operator=(const Values& o) {
    DLBLAS_UNROLL for (int i = 0; i < kVectors; ++i) v[i] = o.v[i];
    return *this;
  }
  DLBLAS_INLINE Values(float s) {
    DLBLAS_UNROLL for (int i = 0; i < kVectors; ++i) v[i] = broadcast(s);
  }
#define DLBLAS_ROW_OPERATOR(op, f)                                               \
  DLBLAS_INLINE friend Values operator op(const Values& a, const Values& b) {    \
    Values r;                                                                    \
    DLBLAS_UNROLL for (int i = 0; i < kVectors; ++i) r.v[i] = f(a.v[i], b.v[i]); \
    return r;                                                                    \
  }
  DLBLAS_ROW_OPERATOR(+, add)
  DLBLAS_ROW_OPERATOR(-, sub)
  DLBLAS_ROW_OPERATOR(*, mul)
  DLBLAS_ROW_OPERATOR(/, div)
#undef DLBLAS_ROW_OPERATOR
};

#define DLBLAS_ROW_FUNCTION(name)                                           \
  template <int kVectors>                                                   \
  DLBLAS_INLINE Values<kVectors> name(const Values<kVectors>& a) {          \
    Values<kVectors> r;                                                     \
    DLBLAS_UNROLL for (int i = 0; i < kVectors; ++i) r.v[i] = name(a.v[i]); \
    return r;                                                               \
  }
DLBLAS_ROW_FUNCTION(exp)
DLBLAS_ROW_FUNCTION(exp_of_negative)
DLBLAS_ROW_FUNCTION(exp2)
DLBLAS_ROW_FUNCTION(log)
DLBLAS_ROW_FUNCTION(tanh)
DLBLAS_ROW_FUNCTION(erf)
DLBLAS_ROW_FUNCTION(abs)
DLBLAS_ROW_FUNCTION(reciprocal)
DLBLAS_ROW_FUNCTION(sigmoid)
DLBLAS_ROW_FUNCTION(silu)
#undef DLBLAS_ROW_FUNCTION
#define DLBLAS_ROW_FUNCTION(name)                                                             \
  template <int kVectors>                                                                     \
  DLBLAS_INLINE Values<kVectors> name(const Values<kVectors>& a, const Values<kVectors>& b) { \
    Values<kVectors> r;                                                                       \
    DLBLAS_UNROLL for (int i = 0; i < kVectors; ++i) r.v[i] = name(a.v[i], b.v[i]);           \
    return r;                                                                                 \
  }
DLBLAS_ROW_FUNCTION(max)
DLBLAS_ROW_FUNCTION(min)
#undef DLBLAS_ROW_FUNCTION
/// One divisor for all values.
template <int kVectors>
DLBLAS_INLINE Values<kVectors> quotient(const Values<kVectors>& a, float divisor) {
  return a / Values<kVectors>(divisor);
}
/// May have errors of some roundings where that saves a GPU work.
template <int kVectors>
DLBLAS_INLINE Values<kVectors> near_quotient(const Values<kVectors>& a, float divisor) {
  return quotient(a, divisor);
}
template <int kVectors>
DLBLAS_INLINE Values<kVectors> fma(const Values<kVectors>& a, const Values<kVectors>& b,
                                   const Values<kVectors>& c) {
  Values<kVectors> r;
  DLBLAS_UNROLL for (int i = 0; i < kVectors; ++i) r.v[i] = fma(a.v[i], b.v[i], c.v[i]);
  return r;
}
/// To 1 ulp, at any size: libm's, lane by lane, 10 times the cost of an exp.
template <int kVectors>
DLBLAS_OUTLINE void sin_cos(const Values<kVectors>& a, Values<kVectors>& sin,
                            Values<kVectors>& cos) {
  for (int i = 0; i < kVectors; ++i) {
    for (int lane = 0; lane < kWidth; ++lane) {
      sin.v[i][lane] = __builtin_sinf(a.v[i][lane]);
      cos.v[i][lane] = __builtin_cosf(a.v[i][lane]);
    }
  }
}
/// `yes` where x < 0, `no` elsewhere and for NaN.
template <int kVectors>
DLBLAS_INLINE Values<kVectors> choose_negative(const Values<kVectors>& x,
                                               const Values<kVectors>& yes,
                                               const Values<kVectors>& no) {
  Values<kVectors> r;
  DLBLAS_UNROLL for (int i = 0; i < kVectors; ++i) r.v[i] =
      choose(less(x.v[i], zero()), yes.v[i], no.v[i]);
  return r;
}
/// Words of memory and values are the same here.
template <int kVectors>
DLBLAS_INLINE const Values<kVectors>& values(const Values<kVectors>& words) {
  return words;
}
template <int kVectors>
DLBLAS_INLINE const Values<kVectors>& values(const Values<kVectors>& words, const RowUnpack&) {
  return words;
}

/// Functions of one value: what finalize() uses.
struct CpuMath {
  DLBLAS_INLINE static float reciprocal(float x) { return 1 / x; }
  DLBLAS_INLINE static float reciprocal(double x) { return static_cast<float>(1 / x); }
  DLBLAS_INLINE static float rsqrt(double x) { return static_cast<float>(1 / __builtin_sqrt(x)); }
  DLBLAS_INLINE static float exp(float x) { return DLBLAS_ISA::exp(broadcast(x))[0]; }
  /// e^(x − max), given the difference.
  template <int kVectors>
  DLBLAS_INLINE static Values<kVectors> power(const Values<kVectors>& difference) {
    return exp_of_negative(difference);
  }
  DLBLAS_INLINE static float tanh(float x) { return DLBLAS_ISA::tanh(broadcast(x))[0]; }
  DLBLAS_INLINE static float log(float x) { return DLBLAS_ISA::log(broadcast(x))[0]; }
  DLBLAS_INLINE static float rsqrt(float x) { return rsqrt(static_cast<double>(x)); }
  DLBLAS_INLINE static double quotient(double a, double b, double) { return a / b; }
  DLBLAS_INLINE static float quotient(float a, float b) { return a / b; }
  /// Never: sums are f64.
  DLBLAS_INLINE static bool overflows(double) { return false; }
  DLBLAS_INLINE static float max(float a, float b) { return a > b || a != a ? a : b; }
  DLBLAS_INLINE static float min(float a, float b) { return a < b || a != a ? a : b; }
};

/// The factor 1/√mean, for a mean within f32's range.
struct CpuScale {
  float factor;
  DLBLAS_INLINE static CpuScale root(double mean) { return {CpuMath::rsqrt(mean)}; }
};
template <int kVectors>
DLBLAS_INLINE Values<kVectors> scaled(const Values<kVectors>& x, CpuScale s) {
  return x * Values<kVectors>(s.factor);
}

// ---- reductions: two vectors of accumulators; the end of a row adds to the first ----

struct SumPart {
  using Total = double;
  Vec a = zero(), b = zero();
  int lanes = kWidth;  // of a row's end that count
  DLBLAS_INLINE void add(const Values<2>& x) { a = a + x.v[0], b = b + x.v[1]; }
  DLBLAS_INLINE void add(const Values<1>& x) { a = a + choose(lanes_below(lanes), x.v[0], zero()); }
  DLBLAS_INLINE void add_product(const Values<2>& x, const Values<2>& y) {
    a = fma(x.v[0], y.v[0], a), b = fma(x.v[1], y.v[1], b);
  }
  DLBLAS_INLINE void add_product(const Values<1>& x, const Values<1>& y) {
    a = fma(choose(lanes_below(lanes), x.v[0], zero()), y.v[0], a);
  }
  template <int kVectors>
  DLBLAS_INLINE void add_squares(const Values<kVectors>& x) {
    add_product(x, x);
  }
  DLBLAS_INLINE void merge(const SumPart& o) { a = a + o.a, b = b + o.b; }
  DLBLAS_INLINE static Total none() { return 0; }
  DLBLAS_INLINE void add_to(Total& total) const { total += static_cast<double>(reduce_add(a + b)); }
};

/// Σx and Σx·y.
struct SumsPart {
  struct Total {
    double sum, products;
  };
  SumPart sum, products;
  int lanes = kWidth;
  template <int kVectors>
  DLBLAS_INLINE void add(const Values<kVectors>& x, const Values<kVectors>& y) {
    sum.lanes = products.lanes = lanes;
    sum.add(x);
    products.add_product(x, y);
  }
  DLBLAS_INLINE void merge(const SumsPart& o) { sum.merge(o.sum), products.merge(o.products); }
  DLBLAS_INLINE static Total none() { return {0, 0}; }
  DLBLAS_INLINE void add_to(Total& total) const {
    sum.add_to(total.sum), products.add_to(total.products);
  }
};

struct MaxPart {
  using Total = float;
  Vec most = broadcast(-__builtin_inff());
  Mask nan = {};  // lanes that had one: a comparison for two vectors
  int lanes = kWidth;
  DLBLAS_INLINE void add(const Values<2>& x) {
    nan |= any_nan(x.v[0], x.v[1]);
    most = max_number(max_number(x.v[0], x.v[1]), most);
  }
  DLBLAS_INLINE void add(const Values<1>& x) {
    const Vec inside = choose(lanes_below(lanes), x.v[0], broadcast(-__builtin_inff()));
    nan |= is_nan(inside);
    most = max_number(inside, most);
  }
  // Magnitudes order as integers do, NaN above all; −inf is below them.
  DLBLAS_INLINE void add_abs(const Values<2>& x) {
    const Ints larger = DLBLAS_ISA::max((Ints)abs(x.v[0]), (Ints)abs(x.v[1]));
    most = (Vec)DLBLAS_ISA::max((Ints)most, larger);
  }
  DLBLAS_INLINE void add_abs(const Values<1>& x) {
    const Vec inside = choose(lanes_below(lanes), abs(x.v[0]), zero());
    most = (Vec)DLBLAS_ISA::max((Ints)most, (Ints)inside);
  }
  DLBLAS_INLINE void merge(const MaxPart& o) { most = max(most, o.most), nan |= o.nan; }
  DLBLAS_INLINE static Total none() { return -__builtin_inff(); }
  DLBLAS_INLINE void add_to(Total& total) const {
    total = CpuMath::max(any(nan) ? __builtin_nanf("") : reduce_max(most), total);
  }
};

/// The first columns of a row, in order: `count` of those offered, or as many as there is room for,
/// and after restart() those that follow them.
class RowPicks {
 public:
  static constexpr int kMax = 64;
  explicit RowPicks(int64_t count) : count_(static_cast<int>(count < kMax ? count : kMax)) {}
  DLBLAS_INLINE bool empty() const { return taken_ == size_; }
  DLBLAS_INLINE RowPicked take() { return RowRank::picked(ranks_[taken_++]); }
  DLBLAS_OUTLINE void restart() {
    below_ = ranks_[size_ - 1];
    size_ = taken_ = 0;
    full_ = bounded_ = false;
  }

  /// Whether bound() pays: `count` maxima of disjoint parts of a row are at hand.
  DLBLAS_INLINE bool can_bound() const { return count_ <= 2 * kWidth; }
  /// Sets a bound that `count` of the row's values reach, so that offer() passes over those below
  /// it. In: maxima of disjoint parts, which cover the row; NaN apart.
  DLBLAS_INLINE void bound(const Values<2>& largest) {
    const bool both = 2 * count_ > kWidth;
    const Vec a = both ? largest.v[0] : max_number(largest.v[0], largest.v[1]), b = largest.v[1];
    float parts[2 * kWidth];
    store<DType::kF32>(parts, a), store<DType::kF32>(parts + kWidth, b);
    Vec above_a = zero(), above_b = zero();  // how many parts have a larger maximum
    for (int i = 0; i < (both ? 2 : 1) * kWidth; ++i) {
      const Vec one = broadcast(parts[i]);
      above_a = above_a + choose(less(a, one), broadcast(1), zero());
      if (both) above_b = above_b + choose(less(b, one), broadcast(1), zero());
    }
    const Vec count = broadcast(static_cast<float>(count_)), none = broadcast(__builtin_inff());
    Vec least = choose(less(above_a, count), a, none);
    if (both) least = min_number(least, choose(less(above_b, count), b, none));
    least_ = broadcast(-reduce_max(zero() - least)), bounded_ = true;
  }

  /// Offers an access's values from column `first` on, split into even and odd elements if
  /// `paired`. Accesses come from left to right, so the first of equal values wins.
  template <int kVectors>
  DLBLAS_INLINE void offer(const Values<kVectors>& x, int64_t first, int lanes, bool paired) {
    const bool pairs = paired && kVectors == 2;
    const auto one = [&](int v, int i) DLBLAS_ROW_LAMBDA {
      const uint64_t rank = RowRank::of(
          x.v[v][i], static_cast<int32_t>(first + (pairs ? kVectors * i + v : v * kWidth + i)));
      if (rank < below_ && (size_ < count_ || rank > ranks_[size_ - 1])) insert(rank);
    };
    if (!full_ && !bounded_) {
      for (int i = 0; i < lanes; ++i)
        for (int v = 0; v < kVectors; ++v) one(v, i);
      return;
    }
    uint32_t better[kVectors], some = 0;
    for (int v = 0; v < kVectors; ++v)
      some |= better[v] = full_ ? bits_of(less(least_, x.v[v])) | bits_of(is_nan(x.v[v]))
                                : kAllLanes & ~bits_of(less(x.v[v], least_));
    if (some == 0) return;
    for (int v = 0; v < kVectors; ++v)
      for (uint32_t left = better[v]; left != 0; left &= left - 1)
        if (const int i = __builtin_ctz(left); i < lanes) one(v, i);
  }

 private:
  DLBLAS_OUTLINE void insert(uint64_t rank) {
    int at = size_ < count_ ? size_++ : size_ - 1;
    for (; at > 0 && ranks_[at - 1] < rank; --at) ranks_[at] = ranks_[at - 1];
    ranks_[at] = rank;
    full_ = size_ == count_;
    if (full_) least_ = broadcast(RowRank::picked(ranks_[size_ - 1]).value);
  }

  uint64_t ranks_[kMax], below_ = RowRank::kAbove;
  static constexpr uint32_t kAllLanes = (uint32_t{1} << kWidth) - 1;
  Vec least_;  // of those that are there, once they are as many as are wanted; before, the bound
  int count_, size_ = 0, taken_ = 0;
  bool full_ = false, bounded_ = false;
};

/// The source of select()'s columns. `gather` offers the whole row, once per RowPicks::kMax takes.
template <typename Gather>
class RowTakes {
 public:
  RowTakes(RowPicks& picks, const Gather& gather) : picks_(picks), gather_(gather) {}
  DLBLAS_INLINE RowPicked take() {
    if (picks_.empty()) picks_.restart(), gather_();
    return picks_.take();
  }
  DLBLAS_INLINE bool writes(int) const { return true; }
  DLBLAS_INLINE int first(int) const { return 0; }
  DLBLAS_INLINE int step() const { return 1; }
  DLBLAS_INLINE bool holds(int) const { return false; }

 private:
  RowPicks& picks_;
  const Gather& gather_;
};

/// A maximum and Σ e^(x − maximum), per lane; rescaled only when a maximum grows: some ten times in
/// a row's first block, and seldom in others, which start from the maximum so far.
struct MaxSumPart {
  struct Total {
    float max;
    double sum;
  };
  // Not −inf: −inf − −inf is NaN, and rows may begin with −inf.
  Vec most = broadcast(-__FLT_MAX__), a = zero(), b = zero();
  int lanes = kWidth;
  DLBLAS_INLINE void add(const Values<2>& x) {
    const Vec larger = max_number(x.v[0], x.v[1]);
    if (any(less(most, larger))) grow(larger);
    a = a + exp_of_negative(x.v[0] - most), b = b + exp_of_negative(x.v[1] - most);
  }
  DLBLAS_INLINE void add(const Values<1>& x) {
    const Mask inside = lanes_below(lanes);
    const Vec y = choose(inside, x.v[0], broadcast(-__FLT_MAX__));
    if (any(less(most, y))) grow(y);
    a = a + choose(inside, exp_of_negative(y - most), zero());
  }
  DLBLAS_INLINE void merge(const MaxSumPart& o) {
    grow(o.most);
    const Vec scale = exp(o.most - most);
    a = a + o.a * scale, b = b + o.b * scale;
  }
  DLBLAS_INLINE static Total none() { return {-__FLT_MAX__, 0}; }
  DLBLAS_INLINE void start(const Total& total) { most = broadcast(total.max); }
  DLBLAS_OUTLINE void add_to(Total& total) const {
    float largest = total.max;
    for (int i = 0; i < kWidth; ++i) largest = most[i] > largest ? most[i] : largest;
    const Vec scaled = (a + b) * exp(most - broadcast(largest));
    total.sum = total.sum * static_cast<double>(CpuMath::exp(total.max - largest)) +
                static_cast<double>(reduce_add(scaled));
    total.max = largest;
  }

 private:
  DLBLAS_INLINE void grow(Vec larger) {
    const Vec before = most;
    most = choose(less(most, larger), larger, most);
    const Vec scale = exp(before - most);
    a = a * scale, b = b * scale;
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
