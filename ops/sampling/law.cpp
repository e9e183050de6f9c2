// See law.hpp. Read next: sampling.cpp.
#include "ops/sampling/law.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/element.hpp"
#include "kernels/row_reference.hpp"

namespace dlblas::sampling {

Law::Law(const SamplingOp& op, const Args& args, std::int64_t row)
    : x(kernels::row_values(args.tensors[kX], row)), rule_(rule_of(op, args, row)) {
  const bool probs = args.scalars[op.probs].i != 0;
  max_ = -INFINITY;
  for (const double v : x) {
    bad_ |= std::isnan(v) || v == INFINITY || (probs && v < 0);
    max_ = std::max(max_, v);
  }
  bad_ |= probs ? !(max_ > 0) : !(max_ > -INFINITY);
  bad_ |= op.samples && !probs && !rule_.has_temperature();
  greedy_ = op.samples && !probs && rule_.greedy();
  if (bad_ || greedy_) return;
  p.resize(x.size()), errors.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = probs ? 0 : (x[i] - max_) / static_cast<double>(rule_.temperature);
    const bool nothing = x[i] == -INFINITY;
    p[i] = x[i] == max_ ? 1 : nothing ? 0 : probs ? x[i] / max_ : std::exp(d);
    const double roundings =
        nothing || std::isinf(d) ? 0 : p[i] * (4 + 5 * std::abs(d)) * kRounding;
    errors[i] = x[i] == max_ ? 0 : roundings + 0x1p-41;
  }
  find_thresholds();
}

void Law::find_thresholds() {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  double floor = x[order.back()];
  if (rule_.cuts_k(width())) floor = x[order[static_cast<std::size_t>(rule_.top_k - 1)]];
  const double all = mass(floor), slack = 2 * error(floor) + 4 * kRounding * kRounding * all;
  const double wanted = std::max(0.0, static_cast<double>(rule_.top_p)) * all;
  const double least = std::min(1.0, static_cast<double>(rule_.min_p));
  double above = 0;
  bool certain = true;  // nothing before this value may be the last
  nominal_ = max_;
  for (std::size_t i = 0; i < order.size();) {
    const double v = x[order[i]], part = p[order[i]], off = errors[order[i]];
    if (v < floor) break;
    const bool top = v == max_;
    // Whether this value is certainly kept, may be kept, and is kept in exact arithmetic.
    bool stays = true, may = true, exact = true;
    if (rule_.cuts_p() && !top) {
      stays &= above < wanted - slack, may &= above < wanted + slack, exact &= above < wanted;
    }
    if (rule_.cuts_min() && !top) {
      const double near = off + least * 2 * kRounding;
      stays &= part >= least + near, may &= part >= least - near, exact &= part >= least;
    }
    if (!may) break;
    if (stays && certain) possible_.clear();
    certain &= stays;
    possible_.push_back(v);
    if (exact) nominal_ = v;
    for (; i < order.size() && x[order[i]] == v; ++i) above += p[order[i]];
  }
}

double Law::mass(double least) const {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] >= least ? p[i] : 0;
  return sum;
}
double Law::error(double least) const {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] >= least ? errors[i] : 0;
  return sum;
}
std::int64_t Law::first_largest() const { return std::find(x.begin(), x.end(), max_) - x.begin(); }

std::int64_t Law::pick(double least, double u) const {
  const double target = u * mass(least);
  double before = 0;
  std::int64_t last = -1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] >= least) || p[i] == 0) continue;
    last = static_cast<std::int64_t>(i), before += p[i];
    if (before > target) break;
  }
  return last;
}

bool Law::may_pick(double least, double u, std::int64_t column) const {
  if (column < 0 || column >= width() || !(x[static_cast<std::size_t>(column)] >= least) ||
      p[static_cast<std::size_t>(column)] == 0)
    return false;
  const double all = mass(least), slack = 2 * error(least) + 8 * kRounding * kRounding * all;
  double before = 0;
  for (std::int64_t i = 0; i < column; ++i)
    before += x[static_cast<std::size_t>(i)] >= least ? p[static_cast<std::size_t>(i)] : 0;
  const double after = before + p[static_cast<std::size_t>(column)];
  return before - slack <= u * all && u * all <= after + slack;
}

}  // namespace dlblas::sampling
