// The oracle of gated_delta_rule_packed: all sequences and heads in f64, a token after the other.
// Errors: a column of the state is off by a vector whose length N is carried from token to token. A
// token turns it by I − β·k·kᵀ, which makes it no longer than max(1, |1 − β·|k|²|) times, and e^g
// shrinks it; what a token's own roundings add has a length, too. Units u = 2^-24: sums of K terms
// K + 2 of all terms of one sign; a normalised k or q 6 + K / 4 of itself; e^ 4.
// Read next: gated_delta_rule_packed.cpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed.hpp"

namespace dlblas::ssm::delta {
namespace {

constexpr double kU = kRounding, kLost = 0x1p100;  // what f32 may not hold is not judged

/// Results and errors of all rows.
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
        to_.state_off[place] = magnitude(begin < end ? off_[static_cast<std::size_t>(j)] : 0);
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
  double magnitude(double off) const { return lost_ ? -1 : 1.05 * off / kU; }
  /// A row of q or k, normalised where that is asked for; its length.
  double read(int tensor, std::int64_t t, std::vector<double>& to) const {
    double squares = 0;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const double v = load(tensor, {t, head_ / args_.letters[kR], i});
      to[static_cast<std::size_t>(i)] = v, squares += v * v;
    }
    if (args_.scalars[kL2Norm].i == 0) return std::sqrt(squares);
    const double factor = 1 / std::sqrt(squares + static_cast<double>(kDeltaEps));
    for (double& v : to) v *= factor;
    return std::sqrt(squares) * factor;
  }
  void step(std::int64_t t) {
    const double k_size = read(kKey, t, k_), q_size = read(kQ, t, q_);
    const double g = load(kG, {t, head_}), beta = load(kBeta, {t, head_});
    const double scale = args_.scalars[kScale].f, a = std::exp(g);
    const double normed = args_.scalars[kL2Norm].i != 0 ? 6 + static_cast<double>(rows_) / 4 : 0;
    const double sums = static_cast<double>(rows_) + 2;
    const double turn = std::max(1.0, std::abs(1 - beta * k_size * k_size));
    for (std::int64_t j = 0; j < columns_; ++j) {
      double dot = 0, dot_size = 0, squares = 0;
      for (std::int64_t i = 0; i < rows_; ++i) {
        const double s = at(i, j) *= a, term = k_[static_cast<std::size_t>(i)] * s;
        dot += term, dot_size += std::abs(term), squares += s * s;
      }
      const double value = load(kValue, {t, head_, j}), rest = value - dot, change = beta * rest;
      const double change_off =
          std::abs(beta) * kU * ((sums + normed) * dot_size + std::abs(rest)) +
          2 * kU * std::abs(change);
      double out = 0, out_size = 0, after = 0;
      for (std::int64_t i = 0; i < rows_; ++i) {
        const double s = at(i, j) += k_[static_cast<std::size_t>(i)] * change;
        const double term = q_[static_cast<std::size_t>(i)] * s;
        out += term, out_size += std::abs(term), after += s * s;
      }
      double& off = off_[static_cast<std::size_t>(j)];
      off = turn * (a * off + 5 * kU * std::sqrt(squares)) + k_size * change_off +
            kU * (normed * k_size * std::abs(change)) +
            2 * kU * (std::sqrt(after) + k_size * std::abs(change));
      lost_ |= !(after < kLost * kLost) || !(off < kLost);
      const auto place = static_cast<std::size_t>((t * heads_ + head_) * columns_ + j);
      to_.o[place] = scale * out;
      to_.o_off[place] =
          magnitude(std::abs(scale) * (q_size * off + kU * (sums + normed + 2) * out_size));
    }
  }

  const Args& args_;
  Whole& to_;
  std::int64_t s_, head_, heads_, rows_, columns_;
  std::vector<double> state_, off_, k_, q_;
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
    return static_cast<std::int64_t>(load_element(offsets, s * offsets.strides[0]));
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
