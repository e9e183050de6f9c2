// The oracle of gated_delta_rule_packed: all sequences and heads in f64, token by token.
// Error bounds, in units u = 2^-24. The error of a column of the state is a vector, whose length N
// is carried from token to token: a token multiplies it by I − β·k·kᵀ, which makes it at most
// max(1, |1 − β·|k|²|) times as long, and by e^g; then the token's own roundings are added. Element
// i receives k_i times the error of k·state, at most |k|·N, and its own roundings; this bound is
// carried beside N, and the smaller one counts. N alone would allow each element the error of the
// whole column.
//   A sum over K: sum_error of one chain (device/oracle/sum_error.hpp). e^g: 4, the same for the
// whole state; its product 1. The effect of a token's own roundings on its o follows from q·k and
// q's
// products; six standard deviations of what differs. The factor that normalises k or q has half of
// its sum's error and 3 more, relative to what it multiplies; each product with it rounds once
// more. Errors of tokens add up linearly: a constant g has the same error each time. Keys that are
// not normalised multiply errors by β·|k|² per token, in any kernel. Read next:
// gated_delta_rule_packed.cpp, device/oracle/sum_error.hpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed.hpp"

namespace dlblas::ssm::delta {
namespace {

constexpr double kLost = 0x1p100;              // f32 may not hold more: not judged
constexpr double kMin = 0x1p-125 / kRounding;  // kernels make 0 of what is smaller

/// Results and error bounds of all rows.
struct Whole {
  std::vector<double> o, o_off, state, state_off;
};

class Head {
 public:
  Head(const Args& args, Whole& to, std::int64_t s, std::int64_t head)
      : args_(args),
        to_(to),
        s_(s),
        head_(head),
        heads_(args.letters[kH] * args.letters[kR]),
        rows_(args.letters[kK]),
        columns_(args.letters[kV]),
        state_(static_cast<std::size_t>(rows_ * columns_)),
        off_(static_cast<std::size_t>(columns_)),
        element_off_(state_.size()),
        k_(static_cast<std::size_t>(rows_)),
        q_(k_.size()) {
    for (std::int64_t i = 0; i < rows_; ++i)
      for (std::int64_t j = 0; j < columns_; ++j) at(i, j) = load(kState, {s, head, i, j});
  }
  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) step(t);
    for (std::int64_t i = 0; i < rows_; ++i)
      for (std::int64_t j = 0; j < columns_; ++j) {
        const auto place =
            static_cast<std::size_t>(((s_ * heads_ + head_) * rows_ + i) * columns_ + j);
        to_.state[place] = at(i, j);
        to_.state_off[place] = magnitude(begin < end ? off_of(i, j) : 0);
      }
  }

 private:
  double load(int tensor, std::initializer_list<std::int64_t> place) const {
    const TensorView& t = args_.tensors[tensor];
    std::int64_t offset = 0;
    int i = 0;
    for (const std::int64_t index : place) offset += index * t.strides[i++];
    return load_element(t, offset);
  }
  double& at(std::int64_t i, std::int64_t j) {
    return state_[static_cast<std::size_t>(i * columns_ + j)];
  }
  double& element_off(std::int64_t i, std::int64_t j) {
    return element_off_[static_cast<std::size_t>(i * columns_ + j)];
  }
  double off_of(std::int64_t i, std::int64_t j) {
    return std::min(element_off(i, j), off_[static_cast<std::size_t>(j)]);
  }
  double magnitude(double off) const { return lost_ ? -1 : 1.05 * off; }
  /// The length of a row of q or k, and the error of the factor that normalises it.
  struct Row {
    double length, factor_off;
  };
  Row read(int tensor, std::int64_t t, std::vector<double>& to) const {
    SumWalk squares;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const double v = load(tensor, {t, head_ / args_.letters[kR], i});
      to[static_cast<std::size_t>(i)] = v, squares.add(v * v);
    }
    const double sum = squares.sum();
    if (args_.scalars[kL2Norm].i == 0) return {std::sqrt(sum), 0};
    const double factor = 1 / std::sqrt(sum + static_cast<double>(kDeltaEps));
    for (double& v : to) v *= factor;
    const double sum_off = sum > 0 ? sum_error(model_, squares.sizes()) / sum : 0;
    return {std::sqrt(sum) * factor, 3 + sum_off / 2};
  }
  void step(std::int64_t t) {
    const Row k_row = read(kKey, t, k_), q_row = read(kQ, t, q_);
    const double k_size = k_row.length;
    const double g = load(kG, {t, head_}), beta = load(kBeta, {t, head_});
    const double scale = args_.scalars[kScale].f, a = std::exp(g);
    const double each = args_.scalars[kL2Norm].i != 0 ? 1 : 0;  // of a product with the factor
    const double turn = std::max(1.0, std::abs(1 - beta * k_size * k_size));
    double qk = 0;
    for (std::size_t i = 0; i < k_.size(); ++i) qk += q_[i] * k_[i];
    for (std::int64_t j = 0; j < columns_; ++j) {
      double& off = off_[static_cast<std::size_t>(j)];
      const double old = a * off;  // of the column, before this token's own
      SumWalk dot, out;
      double squares = 0, after = 0, old_out = 0, own_squares = 0, with_q = 0;
      for (std::int64_t i = 0; i < rows_; ++i) {
        const double s = at(i, j) *= a;
        dot.add(k_[static_cast<std::size_t>(i)] * s), squares += s * s;
        with_q += q_[static_cast<std::size_t>(i)] * s;
        own_squares += std::pow(q_[static_cast<std::size_t>(i)] * s, 2);
      }
      const double value = load(kValue, {t, head_, j}), rest = value - dot.sum();
      const double change = beta * rest;
      const double change_off =
          std::abs(beta) * (sum_off(dot, k_row, each) + std::abs(rest)) + 2 * std::abs(change);
      // Error of what is added to the state, relative to k: from this token's roundings, and from
      // old ones.
      const double added_off = change_off + (k_row.factor_off + each) * std::abs(change) +
                               std::abs(beta) * scaled_off(dot);
      const double passed = std::abs(beta) * k_size * old;
      for (std::int64_t i = 0; i < rows_; ++i) {
        const double k = k_[static_cast<std::size_t>(i)], q = q_[static_cast<std::size_t>(i)];
        const double scaled = at(i, j), s = at(i, j) += k * change;
        const double own = 2 * (std::abs(s) + std::abs(k * change));
        out.add(q * s), after += s * s, own_squares += q * q * own * own;
        const double was = a * element_off(i, j) + std::abs(k) * passed;
        old_out += std::abs(q) * was;
        element_off(i, j) = was + 5 * std::abs(scaled) + std::abs(k) * added_off + own + kMin;
      }
      const double least = kMin * static_cast<double>(rows_);
      const double o_off = std::min(q_row.length * turn * old, old_out) + 4 * std::abs(with_q) +
                           2.5 * std::sqrt(own_squares) + std::abs(qk) * added_off +
                           sum_off(out, q_row, each) + 2 * std::abs(out.sum()) +
                           q_row.length * least;
      off = turn * old + 5 * std::sqrt(squares) + k_size * added_off +
            2 * (std::sqrt(after) + k_size * std::abs(change)) + least;
      lost_ |= !(after < kLost * kLost) || !(off < kLost);
      const auto place = static_cast<std::size_t>((t * heads_ + head_) * columns_ + j);
      to_.o[place] = scale * out.sum();
      to_.o_off[place] = magnitude(std::abs(scale) * o_off);
    }
  }
  /// Error of a sum of products from its second factors, which are scaled by e^g: 4 that they have
  /// in common, and one rounding of each.
  static double scaled_off(const SumWalk& sum) {
    return 4 * std::abs(sum.sum()) + 2.5 * std::sqrt(sum.sizes().squares);
  }
  /// Error of a sum of products with a normalised row.
  double sum_off(const SumWalk& sum, const Row& row, double each) const {
    const SumSizes sizes = sum.sizes();
    const double products =
        each * std::min(sizes.size, 2.5 * std::sqrt(sizes.squares) + std::sqrt(sizes.path));
    return sum_error(model_, sizes) + row.factor_off * std::abs(sum.sum()) + products +
           kMin * static_cast<double>(rows_);
  }

  const Args& args_;
  Whole& to_;
  std::int64_t s_, head_, heads_, rows_, columns_;
  const SumModel model_ = sum_model(rows_, false);
  std::vector<double> state_, off_, element_off_, k_, q_;
  bool lost_ = false;
};

}  // namespace

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  const std::int64_t heads = args.letters[kH] * args.letters[kR], columns = args.letters[kV];
  const std::int64_t outputs = args.letters[kT] * heads;
  const std::int64_t states = args.letters[kS] * heads * args.letters[kK];
  Whole made;
  made.o.assign(static_cast<std::size_t>(outputs * columns), 0);
  made.o_off.assign(made.o.size(), -1);  // tokens of no sequence
  made.state.assign(static_cast<std::size_t>(states * columns), 0);
  made.state_off = made.state;
  const TensorView& offsets = args.tensors[kOffsets];
  const auto offset = [&](std::int64_t s) {
    const auto at = static_cast<std::int64_t>(load_element(offsets, s * offsets.strides[0]));
    return std::clamp<std::int64_t>(at, 0, args.letters[kT]);
  };
  for (std::int64_t s = 0; s < args.letters[kS]; ++s)
    for (std::int64_t head = 0; head < heads; ++head)
      Head(args, made, s, head).run(offset(s), offset(s + 1));
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const auto from = static_cast<std::ptrdiff_t>(rows[r] * columns);
    if (rows[r] < outputs) {
      std::copy_n(made.o.begin() + from, columns, out[0].value + r * columns);
      std::copy_n(made.o_off.begin() + from, columns, out[0].magnitude + r * columns);
    }
    if (rows[r] < states) {
      std::copy_n(made.state.begin() + from, columns, out[1].value + r * columns);
      std::copy_n(made.state_off.begin() + from, columns, out[1].magnitude + r * columns);
    }
  }
}

}  // namespace dlblas::ssm::delta
