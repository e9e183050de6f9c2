// Sampling and filtering of rows: the definitions' common part, reference, judge, and the CPU form,
// which finds thresholds by the same histograms as the GPU, in the same integers.
// In: Problem; Args. Out: Kernel; ids or rows. Flow: call > validate > [select] > compile >
// [launch].  Read next: core.hpp, law.hpp, sampling.cuh.
#include "ops/sampling/sampling.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/element.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/row_reference.hpp"
#include "ops/sampling/law.hpp"

namespace dlblas::sampling {
namespace {

double number(const Args& args, int tensor, std::int64_t row, double absent) {
  if (tensor < 0 || !args.has(tensor)) return absent;
  return load_element(args.tensors[tensor], rows_of(args.tensors[tensor], 0).offset(row));
}
std::int64_t integer(const Args& args, int tensor, std::int64_t row) {
  if (tensor < 0 || !args.has(tensor)) return 0;
  const TensorView& t = args.tensors[tensor];
  const char* from =
      static_cast<const char*>(t.data) + rows_of(t, 0).offset(row) * size_of(t.dtype);
  std::int64_t wide = 0;
  std::int32_t narrow = 0;
  if (t.dtype == DType::kI64) return std::memcpy(&wide, from, 8), wide;
  return std::memcpy(&narrow, from, 4), narrow;
}

/// One row on a CPU.
class Row {
 public:
  Row(const SamplingOp& op, const Args& args)
      : op_(op),
        args_(args),
        probs_(args.scalars[op.probs].i != 0),
        x_(static_cast<std::size_t>(args.letters[kV])),
        mass_(x_.size()) {}

  void run(std::int64_t row) {
    const TensorView& x = args_.tensors[kX];
    const std::int64_t first = rows_of(x).offset(row), stride = x.strides[x.rank - 1];
    for (std::size_t i = 0; i < x_.size(); ++i)
      x_[i] =
          static_cast<float>(load_element(x, first + static_cast<std::int64_t>(i) * stride)) + 0.0f;
    rule_ = rule_of(op_, args_, row);
    const TensorView& y = args_.tensors[op_.y];
    const std::int64_t to = rows_of(y).offset(row);
    if (op_.samples) return store_element(y, to, static_cast<double>(sample(row)));
    filter();
    for (std::size_t i = 0; i < x_.size(); ++i)
      store_element(y, to + static_cast<std::int64_t>(i) * y.strides[y.rank - 1],
                    static_cast<double>(x_[i]));
  }

 private:
  static std::uint32_t key(float v) { return key_of(std::bit_cast<std::uint32_t>(v)); }
  float part(float v) const {
    if (v == most_) return 1;
    if (v == -INFINITY) return 0;
    const float w = probs_ ? v * inverse_ : std::exp((v - most_) * inverse_);
    return w < 1 ? w : 1;
  }
  bool find_most() {
    most_ = -INFINITY;
    bool bad = false;
    for (const float v : x_) {
      bad |= std::isnan(v) || v == INFINITY || (probs_ && v < 0);
      most_ = v > most_ ? v : most_;
    }
    inverse_ = 1 / (probs_ ? most_ : rule_.temperature);
    return !bad && (probs_ ? most_ > 0 : most_ > -INFINITY);
  }
  void weigh() {
    for (std::size_t i = 0; i < x_.size(); ++i)
      mass_[i] = static_cast<std::uint64_t>(std::nearbyint(part(x_[i]) * kWhole));
  }
  /// As on the GPU: see sampling.cuh.
  template <typename Weight>
  std::uint32_t threshold(std::uint32_t least, std::uint64_t wanted, const Weight& weight) const {
    std::uint32_t prefix = 0;
    std::uint64_t above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
      std::uint64_t bins[kBins] = {};
      for (std::size_t i = 0; i < x_.size(); ++i) {
        const std::uint32_t k = key(x_[i]);
        if (k >= least && (shift == 24 || (k ^ prefix) >> (shift + 8) == 0))
          bins[k >> shift & 255u] += weight(i);
      }
      int digit = kBins - 1;
      while (digit > 0 && above + bins[digit] < wanted) above += bins[digit--];
      prefix |= static_cast<std::uint32_t>(digit) << shift;
    }
    return prefix;
  }
  /// Marks elements that are left out, with a mass of 0 and true in `out_`.
  void keep() {
    weigh();
    std::uint32_t least = 0;
    if (rule_.cuts_k(static_cast<std::int64_t>(x_.size())))
      least = threshold(0, static_cast<std::uint64_t>(rule_.top_k),
                        [](std::size_t) { return std::uint64_t{1}; });
    if (rule_.cuts_p()) {
      std::uint64_t all = 0;
      for (std::size_t i = 0; i < x_.size(); ++i) all += key(x_[i]) >= least ? mass_[i] : 0;
      const auto wanted = static_cast<std::uint64_t>(
          std::ceil(std::fmax(static_cast<double>(rule_.top_p), 0.0) * static_cast<double>(all)));
      least = threshold(least, std::clamp<std::uint64_t>(wanted, 1, all),
                        [&](std::size_t i) { return mass_[i]; });
    }
    std::uint64_t least_mass = 0;
    if (rule_.cuts_min())
      least_mass = static_cast<std::uint64_t>(std::ceil(std::min(rule_.min_p, 1.0f) * kWhole));
    out_.assign(x_.size(), false);
    all_ = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      out_[i] = key(x_[i]) < least || mass_[i] < least_mass;
      if (out_[i]) mass_[i] = 0;
      all_ += mass_[i];
    }
  }
  std::int64_t sample(std::int64_t row) {
    if ((!probs_ && !rule_.has_temperature()) || !find_most()) return -1;
    if (!probs_ && rule_.greedy()) return std::find(x_.begin(), x_.end(), most_) - x_.begin();
    keep();
    const auto target = static_cast<std::uint64_t>(
        static_cast<unsigned __int128>(random_of(op_, args_, row)) * all_ >> 64);
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < x_.size(); ++i)
      if (target < (before += mass_[i])) return static_cast<std::int64_t>(i);
    return -1;
  }
  /// Replaces x by the result.
  void filter() {
    if (!find_most()) return std::fill(x_.begin(), x_.end(), NAN);
    keep();
    const bool renorm = args_.scalars[op_.renorm].i != 0;
    const auto factor = static_cast<float>(static_cast<double>(kWhole) / static_cast<double>(all_));
    for (std::size_t i = 0; i < x_.size(); ++i) {
      if (renorm)
        x_[i] = out_[i] ? 0 : part(x_[i]) * factor;
      else if (out_[i])
        x_[i] = probs_ ? 0 : -INFINITY;
    }
  }

  const SamplingOp& op_;
  const Args& args_;
  const bool probs_;
  RowRule rule_;
  std::vector<float> x_;
  std::vector<std::uint64_t> mass_;
  std::vector<bool> out_;
  std::uint64_t all_ = 0;
  float most_ = 0, inverse_ = 1;
};

struct State {
  const SamplingOp* op;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  if (args.letters[kV] == 0) {
    if (kernel.load<State>().op->samples)
      for (std::int64_t t = 0; t < args.letters[kT]; ++t) {
        const TensorView& ids = args.tensors[kernel.load<State>().op->y];
        store_element(ids, rows_of(ids).offset(t), -1);
      }
    return 0;
  }
  context.run(0, args.letters[kT], 1, [&](std::int64_t begin, std::int64_t end) {
    Row row(*kernel.load<State>().op, args);
    for (std::int64_t t = begin; t < end; ++t) row.run(t);
  });
  return 0;
}

/// The result of filter_rows for a kept element.
struct Made {
  double value, error;
};
Made made_of(const Law& law, const Args& args, const SamplingOp& op, double all, double off,
             std::size_t i) {
  if (args.scalars[op.renorm].i == 0) return {law.x[i], 0};
  const double v = law.p[i] / all;
  return {v, (law.errors[i] / all + v * (off / all + 4 * kRounding)) / kRounding};
}

}  // namespace

void sampling_reference(const SamplingOp& op, const Args& args, const std::int64_t* rows,
                        std::int64_t num_rows, OracleOut* out) {
  const std::int64_t width = args.letters[kV];
  const double nothing = args.scalars[op.probs].i != 0 ? 0 : -INFINITY;
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const Law law(op, args, rows[r]);
    if (op.samples) {
      out[0].value[r] = static_cast<double>(
          law.bad()      ? -1
          : law.greedy() ? law.first_largest()
                         : law.pick(law.nominal(),
                                    static_cast<double>(random_of(op, args, rows[r])) * 0x1p-64));
      out[0].magnitude[r] = std::abs(out[0].value[r]);
      continue;
    }
    const double all = law.bad() ? 1 : law.mass(law.nominal());
    const double off = law.bad() ? 0 : law.error(law.nominal());
    for (std::int64_t i = 0; i < width; ++i) {
      const auto at = static_cast<std::size_t>(i);
      Made v{NAN, 0};
      if (!law.bad() && law.x[at] >= law.nominal())
        v = made_of(law, args, op, all, off, at);
      else if (!law.bad())
        v = {args.scalars[op.renorm].i != 0 ? 0 : nothing, 0};
      out[0].value[r * width + i] = v.value;
      out[0].magnitude[r * width + i] = v.error;
    }
  }
}

namespace {

void judge_sample(const SamplingOp& op, const Judgement& j, Finding* found) {
  for (std::int64_t r = 0; r < j.num_rows; ++r) {
    const Law law(op, j.before, j.rows[r]);
    const auto id = static_cast<std::int64_t>(kernels::row_values(j.after.result(0), j.rows[r])[0]);
    const double u = static_cast<double>(random_of(op, j.before, j.rows[r])) * 0x1p-64;
    bool right = false;
    if (law.bad() || law.greedy())
      right = id == (law.bad() ? -1 : law.first_largest());
    else
      for (const double least : law.possible()) right = right || law.may_pick(least, u, id);
    if (!right) found[0].add(j.rows[r]);
  }
}

/// Elements that are wrong if those no less than `least` are kept.
std::vector<std::int64_t> wrong_of(const SamplingOp& op, const Judgement& j, const Law& law,
                                   double least, const std::vector<double>& y) {
  const double all = law.mass(least), off = law.error(least);
  const bool shares = j.before.scalars[op.renorm].i != 0;  // else values pass as they are
  const double nothing = shares || j.before.scalars[op.probs].i != 0 ? 0 : -INFINITY;
  const Bound& bound = j.bounds[0];
  std::vector<std::int64_t> wrong;
  for (std::size_t i = 0; i < y.size(); ++i) {
    bool right = y[i] == nothing;
    if (law.x[i] >= least) {
      const Made v = made_of(law, j.before, op, all, off, i);
      right = y[i] == v.value;
      if (shares)
        right |= std::abs(y[i] - v.value) <=
                 bound.magnitude * v.error + bound.value * std::abs(v.value) + bound.absolute;
    }
    if (!right) wrong.push_back(static_cast<std::int64_t>(i));
  }
  return wrong;
}

void judge_filter(const SamplingOp& op, const Judgement& j, Finding* found) {
  const std::int64_t width = j.before.letters[kV];
  for (std::int64_t r = 0; r < j.num_rows; ++r) {
    const Law law(op, j.before, j.rows[r]);
    const std::vector<double> y = kernels::row_values(j.after.result(0), j.rows[r]);
    std::vector<std::int64_t> wrong;
    if (law.bad()) {
      for (std::size_t i = 0; i < y.size(); ++i)
        if (!std::isnan(y[i])) wrong.push_back(static_cast<std::int64_t>(i));
    } else {
      wrong = wrong_of(op, j, law, law.nominal(), y);
      for (const double least : law.possible())
        if (!wrong.empty() && wrong_of(op, j, law, least, y).empty()) wrong.clear();
    }
    for (const std::int64_t i : wrong) found[0].add(j.rows[r] * width + i);
  }
}

double estimate(const Query& q, const Config&) {
  const double elements =
      static_cast<double>(q.problem.dims[kT]) * static_cast<double>(q.problem.dims[kV]);
  const double units = std::max<double>(1, q.problem.threads);
  constexpr double kOperations = 100;  // of an element, that no vector does
  return 1e3 * launch_s(q.device) +
         unit_rates(q.device, Isa::kBaseline)
             .roofline_ms(units, 4 * elements, kOperations * elements, DType::kF32);
}

}  // namespace

RowRule rule_of(const SamplingOp& op, const Args& args, std::int64_t row) {
  RowRule rule;
  rule.temperature = static_cast<float>(number(args, op.temperature, row, 1));
  rule.top_k = integer(args, op.top_k, row);
  rule.top_p = static_cast<float>(number(args, op.top_p, row, 1));
  rule.min_p = static_cast<float>(number(args, op.min_p, row, 0));
  return rule;
}

std::uint64_t random_of(const SamplingOp& op, const Args& args, std::int64_t row) {
  const auto of = [&](int scalar, int tensor) {
    return static_cast<std::uint64_t>(args.scalars[scalar].i) +
           static_cast<std::uint64_t>(integer(args, tensor, row));
  };
  return random_bits(of(op.seed, op.seeds), of(op.offset, op.offsets),
                     args.has(op.seeds) ? 0 : static_cast<std::uint64_t>(row));
}

void sampling_judge(const SamplingOp& op, const Judgement& judgement, Finding* found) {
  (op.samples ? judge_sample : judge_filter)(op, judgement, found);
}

void add_sampling(OperatorDef& def, const SamplingOp& op) {
  def.family = "sampling";
  def.work_per_row = [](const Problem& problem) {
    return 100.0 * static_cast<double>(problem.dims[kV]);
  };
  Implementation cpu;
  cpu.name = "cpu_rows";
  cpu.source_hash = source_hash<"ops/sampling/sampling.cpp">();
  cpu.flags = {.deterministic = true};
  cpu.user = &op;
  cpu.supports = [](const Query&) { return Support::yes(); };
  cpu.estimate = estimate;
  cpu.prepare = [](const Query& q, const Config&) {
    return make_kernel({run}, State{&q.user<SamplingOp>()});
  };
  def.implementations = {cpu, sampling_cuda(op)};
}

}  // namespace dlblas::sampling
