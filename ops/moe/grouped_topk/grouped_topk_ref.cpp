// The oracle and the judge of grouped_topk, in f64.
//
// Errors, in units of u = 2^-24: a score has that of topk_sigmoid_ref.hpp or topk_softmax_ref.hpp;
// the sum with the bias rounds once more. Each of a group's best two has at most the largest error
// of the group's scores, and their sum rounds. A choice is right if errors allow it: an expert of a
// group that could be among the best, and not certainly smaller than an expert left out. Equal
// inputs have equal scores, and the lower index comes first. Weights are judged for the experts
// that were chosen. Read next: registry/operator.hpp (Judgement), ops/moe/topk_ref.hpp.
#include <algorithm>
#include <cmath>

#include "kernels/row_reference.hpp"
#include "ops/moe/grouped_topk/grouped_topk.hpp"
#include "ops/moe/topk_ref.hpp"

namespace dlblas::moe::grouped {
namespace {

using kernels::larger;

/// What one row's experts are chosen by.
class Row {
 public:
  Row(const Args& args, std::int64_t row)
      : logits_(kernels::row_values(args.tensors[kLogits], row)),
        bias_(logits_.size()),
        biased_(logits_.size()),
        errors_(logits_.size()),
        softmax_(args.scalars[kScoring].i == kSoftmax),
        renormalize_(args.scalars[kRenormalize].i != 0),
        scale_(args.scalars[kScale].f),
        groups_(args.scalars[kNumGroups].i),
        kept_(args.scalars[kTopkGroups].i),
        width_(static_cast<std::int64_t>(logits_.size()) / groups_) {
    if (args.has(kBias)) bias_ = kernels::row_values(args.tensors[kBias], 0);
    if (softmax_) add_up();
    for (std::size_t e = 0; e < logits_.size(); ++e) {
      const double score = softmax_ ? power(logits_[e], max_) / sum_ : power(logits_[e], 0);
      biased_[e] = score + bias_[e];
      // All scores are divided by the same sum: without a bias, its error does not change their
      // order.
      const double shared = softmax_ && args.has(kBias) ? sum_error_ : 0;
      errors_[e] = kRounding * (score * (shared + error(logits_[e], softmax_ ? max_ : 0)) +
                                std::abs(biased_[e])) +
                   0x1p-123;
    }
    for (std::int64_t g = 0; g < groups_; ++g) add_group(g);
  }

  std::vector<std::int64_t> best(std::int64_t count) const {
    std::vector<std::int64_t> chosen = kernels::largest(group_scores_, kept_), ids;
    std::sort(chosen.begin(), chosen.end());
    std::vector<double> values;
    for (const std::int64_t g : chosen)
      for (std::int64_t e = g * width_; e < (g + 1) * width_; ++e)
        ids.push_back(e), values.push_back(biased_[static_cast<std::size_t>(e)]);
    std::vector<std::int64_t> order = kernels::largest(values, count);
    for (std::int64_t& place : order) place = ids[static_cast<std::size_t>(place)];
    return order;
  }

  /// The weights of these experts, and of `shared` more, with their errors.
  void weigh(const std::vector<std::int64_t>& ids, std::int64_t shared, double* weights,
             double* errors) const {
    double shift = softmax_ ? max_ : 0;
    if (renormalize_) {
      shift = -std::numeric_limits<double>::infinity();
      for (const std::int64_t e : ids) {
        const double x = softmax_ ? at(e) : std::min(at(e), 0.0);
        if (x > shift || std::isnan(at(e))) shift = std::isnan(at(e)) ? at(e) : x;
      }
    }
    double sum = 0, mean = 0;
    for (const std::int64_t e : ids)
      sum += power(at(e), shift), mean += power(at(e), shift) * error(at(e), shift);
    double over = renormalize_ ? sum : softmax_ ? sum_ : 1;
    if (softmax_ && std::isnan(sum_)) over = sum_;
    const double all =
        mean / sum + 6 + sum_of_chosen(ids, [&](auto e) { return power(at(e), shift); });
    const bool alone = renormalize_ && ids.size() == 1;  // over itself
    const double least = scale_ * (0x1p-123 / kRounding);
    for (const std::int64_t e : ids) {
      const double weight = scale_ * power(at(e), shift) / over;
      *weights++ = weight;
      const double error_of_all = renormalize_ ? all : 4 + sum_error_;
      *errors++ = weight * (alone ? 5 : error(at(e), shift) + error_of_all) + least;
    }
    for (std::int64_t i = 0; i < shared; ++i) {
      *weights++ = sum / over;
      *errors++ = sum / over * (renormalize_ ? 6 : all + sum_error_) + least;
    }
  }

  std::int64_t experts() const { return static_cast<std::int64_t>(logits_.size()); }
  std::int64_t group_of(std::int64_t e) const { return e / width_; }
  std::int64_t groups() const { return groups_; }
  std::int64_t kept() const { return kept_; }
  std::int64_t first_of(std::int64_t g) const { return g * width_; }
  std::int64_t end_of(std::int64_t g) const { return (g + 1) * width_; }

  /// True if every right result takes expert a before b, provided both may be taken.
  bool before(std::int64_t a, std::int64_t b) const {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    if (alike(i, j)) return a < b;
    return apart(biased_[i], errors_[i], biased_[j], errors_[j], a < b);
  }
  /// The same for groups.
  bool group_before(std::int64_t a, std::int64_t b) const {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    if (groups_alike(i, j)) return a < b;
    return apart(group_scores_[i], group_errors_[i], group_scores_[j], group_errors_[j], a < b);
  }

 private:
  double at(std::int64_t e) const { return logits_[static_cast<std::size_t>(e)]; }
  bool alike(std::size_t i, std::size_t j) const {
    const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    return same(logits_[i], logits_[j]) && same(bias_[i], bias_[j]);
  }
  /// True if a is larger whatever the errors are; `lower` decides between equal NaNs or infinities.
  static bool apart(double a, double a_error, double b, double b_error, bool lower) {
    if (std::isnan(a) || std::isnan(b))
      return larger(a, b) || (std::isnan(a) && std::isnan(b) && lower);
    if (a == b) return std::isinf(a) && lower;
    return std::isinf(a) || std::isinf(b) ? a > b : a - b > a_error + b_error;
  }
  bool groups_alike(std::size_t i, std::size_t j) const {
    const Best &a = best_[i], &b = best_[j];
    return a.clear && b.clear &&
           ((alike(a.first, b.first) && alike(a.second, b.second)) ||
            (alike(a.first, b.second) && alike(a.second, b.first)));
  }

  /// Softmax: e^(x − shift). Sigmoid: σ(x)·e^−shift.
  double power(double x, double shift) const {
    if (softmax_) return std::exp(x - shift);
    const double below = x < 0 || std::isnan(x) ? x : 0;
    return std::exp(below - shift) / (1 + std::exp(-std::abs(x)));
  }
  double error(double x, double shift) const {
    const double d = shift - (softmax_ ? x : std::min(x, 0.0));
    return (softmax_ ? 0 : 9) + (d > 0 ? 4 + 2.25 * std::min(d, 128.0) : 0);
  }
  void add_up() {
    double squares = 0, errors = 0;
    for (const double x : logits_) max_ = x > max_ || std::isnan(x) ? x : max_;
    for (const double x : logits_) {
      const double p = power(x, max_);
      sum_ += p, squares += p * p, errors += p * error(x, max_);
    }
    const auto width = static_cast<std::int64_t>(logits_.size());
    sum_error_ = 5 + errors / sum_ + std::log2(static_cast<double>(width)) / 2 +
                 kernels::sum_roundings(width, sum_, squares);
  }
  void add_group(std::int64_t g) {
    const std::vector<double> values(biased_.begin() + g * width_,
                                     biased_.begin() + (g + 1) * width_);
    const auto two = kernels::largest(values, std::min<std::int64_t>(2, width_));
    const auto place = [&](std::size_t i) { return static_cast<std::size_t>(g * width_ + two[i]); };
    Best best{place(0), place(two.size() - 1), true};
    double score = biased_[best.first], most = 0;
    if (two.size() > 1) score += biased_[best.second];
    for (std::int64_t e = g * width_; e < (g + 1) * width_; ++e) {
      const auto i = static_cast<std::size_t>(e);
      if (std::isfinite(errors_[i])) most = std::max(most, errors_[i]);
      if (i != best.first && i != best.second && !alike(i, best.second))
        best.clear &= before(static_cast<std::int64_t>(best.second), e);
    }
    best_.push_back(best);
    group_scores_.push_back(std::abs(score) < 0x1.ffffffp127 ? score : score * 0x1p1000);
    group_errors_.push_back(2 * most + kRounding * std::abs(score));
  }

  struct Best {
    std::size_t first, second;
    bool clear;  // no other expert could stand in their place
  };
  std::vector<double> logits_, bias_, biased_, errors_, group_scores_, group_errors_;
  std::vector<Best> best_;
  bool softmax_, renormalize_;
  double scale_;
  std::int64_t groups_, kept_, width_;
  double max_ = -std::numeric_limits<double>::infinity(), sum_ = 0, sum_error_ = 0;
};

/// The groups that must have been kept, given the groups of the chosen experts.
class Kept {
 public:
  explicit Kept(const Row& row) : row_(row), taken_(static_cast<std::size_t>(row.groups())) {}
  /// Takes a group, and those that come before it. False if these are too many.
  bool take(std::int64_t group) {
    for (std::int64_t g = 0; g < row_.groups(); ++g)
      if (g == group || row_.group_before(g, group)) mark(g);
    return count_ <= row_.kept();
  }
  bool has(std::int64_t group) const { return taken_[static_cast<std::size_t>(group)]; }
  /// True if the required number of groups can be reached with groups that have no expert which
  /// certainly comes before `last`.
  bool can_be_filled(std::int64_t last) {
    std::vector<bool> closed(taken_.size());
    for (std::int64_t g = 0; g < row_.groups(); ++g) {
      if (has(g)) continue;
      for (std::int64_t e = row_.first_of(g); e < row_.end_of(g); ++e)
        closed[static_cast<std::size_t>(g)] =
            closed[static_cast<std::size_t>(g)] || row_.before(e, last);
    }
    std::int64_t count = count_;
    for (std::int64_t g = 0; g < row_.groups(); ++g) {
      bool open = !has(g) && !closed[static_cast<std::size_t>(g)];
      for (std::int64_t h = 0; open && h < row_.groups(); ++h)
        open = !closed[static_cast<std::size_t>(h)] || !row_.group_before(h, g);
      count += open;
    }
    return count >= row_.kept();
  }

 private:
  void mark(std::int64_t g) {
    if (has(g)) return;
    taken_[static_cast<std::size_t>(g)] = true;
    ++count_;
  }
  const Row& row_;
  std::vector<bool> taken_;
  std::int64_t count_ = 0;
};

/// Judges the ids of a row: calls wrong(r) for each wrong place. Returns the experts that weights
/// are judged for.
template <typename Wrong>
std::vector<std::int64_t> judge_ids(const Row& row, const std::vector<double>& ids,
                                    const double* best, std::int64_t topk, const Wrong& wrong) {
  Kept kept(row);
  std::vector<bool> taken(static_cast<std::size_t>(row.experts()));
  std::vector<std::int64_t> chosen;
  bool sound = true;
  for (std::int64_t r = 0; r < topk; ++r) {
    const auto id = static_cast<std::int64_t>(ids[static_cast<std::size_t>(r)]);
    const bool there = id >= 0 && id < row.experts() && !taken[static_cast<std::size_t>(id)];
    chosen.push_back(there ? id : static_cast<std::int64_t>(best[r]));
    if (there) taken[static_cast<std::size_t>(id)] = true;
    if (!there || !kept.take(row.group_of(id))) wrong(r), sound = false;
  }
  // Now all groups that must be kept are known: no larger expert of theirs may be left out.
  std::fill(taken.begin(), taken.end(), false);
  for (std::int64_t r = 0; sound && r < topk; ++r) {
    const std::int64_t id = chosen[static_cast<std::size_t>(r)];
    taken[static_cast<std::size_t>(id)] = true;
    bool right = true;
    for (std::int64_t e = 0; right && e < row.experts(); ++e)
      right =
          taken[static_cast<std::size_t>(e)] || !kept.has(row.group_of(e)) || !row.before(e, id);
    if (!right) wrong(r), sound = false;
  }
  if (sound && topk > 0 && !kept.can_be_filled(chosen.back())) wrong(topk - 1);
  return chosen;
}

}  // namespace

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  const std::int64_t topk = args.letters[kTopk], shared = args.letters[kShared];
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const Row row(args, rows[i]);
    const std::int64_t first = i * (topk + shared);
    std::vector<std::int64_t> ids = row.best(topk);
    row.weigh(ids, shared, out[0].value + first, out[0].magnitude + first);
    for (std::int64_t s = 0; s < shared; ++s) ids.push_back(row.experts() + s);
    std::copy(ids.begin(), ids.end(), out[1].value + first);
    std::copy(ids.begin(), ids.end(), out[1].magnitude + first);
  }
}

void judge(const Judgement& j, Finding* found) {
  const std::int64_t topk = j.before.letters[kTopk], count = topk + j.before.letters[kShared];
  const Bound& bound = j.bounds[0];
  std::vector<double> want(static_cast<std::size_t>(count)), errors(want.size());
  for (std::int64_t i = 0; i < j.num_rows; ++i) {
    const Row row(j.before, j.rows[i]);
    const auto weights = kernels::row_values(j.after.result(0), j.rows[i]);
    const auto ids = kernels::row_values(j.after.result(1), j.rows[i]);
    const auto wrong = [&](int result, std::int64_t r) {
      found[result].add(j.rows[i] * count + r);
    };
    const std::vector<std::int64_t> chosen = judge_ids(row, ids, j.reference[1].value + i * count,
                                                       topk, [&](std::int64_t r) { wrong(1, r); });
    row.weigh(chosen, count - topk, want.data(), errors.data());
    for (std::int64_t r = 0; r < count; ++r) {
      const auto at = static_cast<std::size_t>(r);
      if (r >= topk && ids[at] != static_cast<double>(row.experts() + r - topk)) wrong(1, r);
      const double allowed = bound.magnitude * errors[at] + bound.absolute;
      const bool nan = std::isnan(want[at]) && std::isnan(weights[at]);
      if (!nan && !(std::abs(weights[at] - want[at]) <= allowed)) wrong(0, r);
    }
  }
}

}  // namespace dlblas::moe::grouped
