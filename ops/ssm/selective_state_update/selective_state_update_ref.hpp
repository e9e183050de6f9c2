// The oracle of selective_state_update, in f64. A row of y is a head, a row of the state a channel.
// Read next: ops/ssm/step_oracle.hpp (the step, and what it allows).
#pragma once

#include "ops/ssm/step_oracle.hpp"

namespace dlblas::ssm {
namespace update {

enum Tensor : int { kState, kX, kDt, kA, kB, kC, kD, kZ, kDtBias, kY };
enum Letter : int { kBatch, kG, kR, kP, kN };
enum Scalar : int { kSoftplus };

/// One channel of a head; heads are numbered over all batches.
template <typename Row>
struct Channel {
  const Row& row;
  std::int64_t head, p;

  std::int64_t heads() const { return row.size(kG) * row.size(kR); }
  std::int64_t group() const { return head / row.size(kR); }  // of all batches'
  double x() const { return row.load_row(kX, head, p); }
  double parameter(int i) const { return row.has(i) ? row.load_row(i, head % heads(), p) : 0; }
  Rounded dt() const {
    return time_step(row.load_row(kDt, head, p), parameter(kDtBias), row.integer(kSoftplus) != 0);
  }
  StateElement state(const Rounded& dt, std::int64_t n) const {
    const std::int64_t channels = row.size(kP);
    StateElement s(row.load_row(kState, head * channels + p, n));
    s.step(dt, x(), row.load_row(kA, head % heads() * channels + p, n),
           row.load_row(kB, group(), n));
    return s;
  }
  Rounded output(bool& lost) const {
    Output sum;
    const Rounded time = dt();
    for (std::int64_t n = 0; n < row.size(kN); ++n)
      sum.add(state(time, n), row.load_row(kC, group(), n));
    lost = sum.lost();
    const double z = row.has(kZ) ? row.load_row(kZ, head, p) : 0;
    return sum.finish(parameter(kD), x(), row.has(kZ) ? &z : nullptr);
  }
};

}  // namespace update

template <typename Row>
void selective_state_update_row(Row& row) {
  using namespace update;
  const std::int64_t channels = row.size(kP), at = row.index();
  const std::int64_t all = row.size(kBatch) * row.size(kG) * row.size(kR);
  if (at < all * channels) {
    const Channel<Row> channel{row, at / channels, at % channels};
    const Rounded time = channel.dt();
    row.each(row.size(kN), [&](auto n) {
      const StateElement s = channel.state(time, n);
      put(row, 1, n, {s.value(), s.off()}, s.lost());
    });
  }
  if (at >= all) return;
  row.each(channels, [&](auto p) {
    bool lost = false;
    const Rounded y = Channel<Row>{row, at, p}.output(lost);
    put(row, 0, p, y, lost);
  });
}

}  // namespace dlblas::ssm
