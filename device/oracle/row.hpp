// One row of an oracle on a device: the counterpart of kernels::HostRow on the host, for the same
// source (a template over Row, in ops/**/<operator>_ref.hpp), computed by all threads of a block
// together. All threads call each function, in the same order; sum, walk and max return the same
// value to each. In: OracleCall, as a kernel's parameters. Out: values and magnitudes in f64.
// `Team` stands for the threads: thread(), threads(), barrier(); kTeamDoubles·threads() doubles of
// shared memory at scratch(); element(view, row-major index) and rounded(dtype, v), which read and
// round an element; and keep_most(place, v), atomic over all teams. Read next:
// kernels/row_reference.hpp, device/oracle/row.cuh.
#pragma once

#include "device/oracle/call.hpp"
#include "device/oracle/sum_error.hpp"

namespace dlblas {

/// Not inlined on a device: an oracle that sums at ten places would compile for seconds.
#if defined(__CUDACC_RTC__)
#define DLBLAS_ORACLE_CALL __noinline__
#else
#define DLBLAS_ORACLE_CALL
#endif

/// Doubles of shared memory that a team needs per thread.
inline constexpr int kTeamDoubles = 2;

template <typename Team>
class TeamRow {
 public:
  /// The `place`-th of the requested rows.
  TeamRow(const OracleCall& call, const Team& team, int64_t place)
      : call_(call), team_(team), index_(call.rows ? call.rows[place] : place), place_(place) {}

  int64_t index() const { return index_; }
  int64_t size(int letter) const { return call_.letters[letter]; }
  int64_t width(int tensor) const { return call_.widths[tensor]; }
  bool has(int tensor) const { return call_.tensors[tensor].dtype != DType::kAbsent; }
  double scalar(int i) const { return call_.floats[i]; }
  int64_t integer(int i) const { return call_.integers[i]; }
  DType dtype(int tensor) const { return call_.tensors[tensor].dtype; }
  DType result_dtype(int result) const { return call_.results[result].dtype; }

  double value(int tensor) const { return load_column(tensor, 0); }
  double load(int tensor, int64_t column) const { return load_row(tensor, index_, column); }
  double load_row(int tensor, int64_t row, int64_t column) const {
    return load_column(tensor, row * call_.widths[tensor] + column);
  }
  double load_value(int tensor, int64_t row) const { return load_column(tensor, row); }
  double load_column(int tensor, int64_t column) const {
    const StridedView& t = call_.tensors[tensor];
    return team_.element(t, column);
  }
  void store(int result, int64_t column, double value, double magnitude) const {
    const double stored = team_.rounded(result_dtype(result), value);
    store_as_is(result, column, std::isinf(stored) ? stored : value, magnitude);
  }
  void store_as_is(int result, int64_t column, double value, double magnitude) const {
    const OracleCall::Result& r = call_.results[result];
    r.value[place_ * r.width + column] = value;
    r.magnitude[place_ * r.width + column] = magnitude;
  }

  double kept(int64_t at) const { return call_.shared[at]; }
  void keep(int64_t at, double value) const {
    if (team_.thread() == 0) call_.shared[at] = value;
  }
  void keep_most(int64_t at, double value) const { team_.keep_most(call_.shared + at, value); }

  template <typename F>
  void each(int64_t count, const F& f) const {
    for (int64_t c = team_.thread(); c < count; c += team_.threads()) f(c);
  }
  template <typename F>
  double sum(int64_t count, const F& f) const {
    double mine = 0;
    each(count, [&](int64_t c) { mine += f(c); });
    return added(mine);
  }
  template <int kCount, typename F>
  RowSums<kCount> sums(int64_t count, const F& f) const {
    RowSums<kCount> total;
    each(count, [&](int64_t c) {
      double terms[kCount];
      f(c, terms);
      for (int i = 0; i < kCount; ++i) total.of[i] += terms[i];
    });
    for (double& v : total.of) v = added(v);
    return total;
  }
  template <typename F>
  double max(int64_t count, const F& f) const {
    const auto larger = [](double a, double b) { return b > a || std::isnan(b) ? b : a; };
    double mine = -infinity();
    each(count, [&](int64_t c) { mine = larger(mine, f(c)); });
    return all(mine, larger);
  }
  /// Each thread computes the terms of one part of the row twice: the first time for their sum,
  /// with which all later parts begin.
  template <typename F>
  SumWalk sum_walk(int64_t count, const F& f) const {
    const int64_t steps = (count + kSumStep - 1) / kSumStep;
    const int64_t part = (steps + team_.threads() - 1) / team_.threads() * kSumStep;
    const int64_t begin = std::min<int64_t>(team_.thread() * part, count);
    const int64_t end = std::min<int64_t>(begin + part, count);
    double even = 0, odd = 0;
    for (int64_t c = begin; c < end; ++c) ((c - begin) % 2 == 0 ? even : odd) += f(c);
    before(even, odd);
    SumWalk mine;
    mine.begin(even, odd);
    for (int64_t c = begin; c < end; ++c) mine.add(f(c));
    return added(mine.parts());
  }
  /// Computes the terms of this thread's chains a third time.
  template <typename F>
  kernels::RowWalk walk(int64_t count, const F& f) const {
    const SumWalk sums = sum_walk(count, f);
    return {sums, added(chains(count, f)), count};
  }

 private:
  using Chains = kernels::RowWalk::Parts;
  /// This thread's chains: the i-th of each block, for some i.
  template <typename F>
  Chains chains(int64_t count, const F& f) const {
    constexpr int64_t kBlock = kernels::RowWalk::kBlock, kEach = kernels::RowWalk::kChains;
    const int64_t all = (count + kBlock - 1) / kBlock * kEach;
    Chains mine;
    for (int64_t i = team_.thread(); i < all; i += team_.threads()) {
      const int64_t first = i / kEach * kBlock + i % kEach;
      const int64_t end = std::min<int64_t>(i / kEach * kBlock + kBlock, count);
      double chain = 0;
      for (int64_t c = first; c < end; c += kEach) {
        const double term = f(c);
        mine.count(term);
        chain = c == first ? term : chain + term;
        if (c > first) mine.step(chain);
      }
    }
    return mine;
  }
  DLBLAS_ORACLE_CALL double added(double mine) const {
    return all(mine, [](double a, double b) { return a + b; });
  }
  SumWalk added(const SumWalk::Parts& p) const {
    return SumWalk({.even = added(p.even),
                    .odd = added(p.odd),
                    .size = added(p.size),
                    .squares = added(p.squares),
                    .path = added(p.path),
                    .lanes = added(p.lanes),
                    .steps = added(p.steps)});
  }
  Chains added(const Chains& p) const {
    return {.squares = added(p.squares),
            .alike = added(p.alike),
            .above = added(p.above),
            .below = added(p.below)};
  }
  /// Combines the values of all threads, in the same order for each.
  template <typename Join>
  double all(double mine, const Join& join) const {
    double* const values = team_.scratch();
    team_.barrier();  // the values before these have been read
    values[team_.thread()] = mine;
    for (int half = team_.threads() / 2; half > 0; half /= 2) {
      team_.barrier();
      if (team_.thread() < half)
        values[team_.thread()] = join(values[team_.thread()], values[team_.thread() + half]);
    }
    team_.barrier();
    return values[0];
  }
  /// Becomes the sum over the threads before this one.
  void before(double& even, double& odd) const {
    double* const values = team_.scratch();
    team_.barrier();
    values[2 * team_.thread()] = even;
    values[2 * team_.thread() + 1] = odd;
    team_.barrier();
    even = odd = 0;
    for (int i = 0; i < team_.thread(); ++i) even += values[2 * i], odd += values[2 * i + 1];
  }

  const OracleCall& call_;
  const Team& team_;
  int64_t index_, place_;
};

}  // namespace dlblas
