// The oracle check; see verify.hpp.
#include "tuner/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>

#include "core/element.hpp"
#include "core/error.hpp"
#include "device/whole.hpp"
#include "dispatch/places.hpp"

namespace dlblas {
namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// out − ref| over the allowed error; 0 where non-finite values agree, infinity where they do not.
double error_of(double out, double ref, double allowed, DType dtype) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(ref) || std::isnan(out)) return std::isnan(ref) && std::isnan(out) ? 0 : kWrong;
  const FloatTraits traits = float_traits(dtype);
  if (is_f8(dtype) && std::abs(ref) >= traits.max) {  // conversions to f8 saturate
    if (std::abs(out) == traits.max && std::signbit(out) == std::signbit(ref)) return 0;
    if (std::isfinite(ref)) ref = std::copysign(traits.max, ref);
  }
  if (std::isinf(ref)) return out == ref ? 0 : kWrong;
  if (std::isinf(out)) {  // right when the reference, pushed by what is allowed, rounds to infinity
    const bool overflows = std::isinf(round_to(dtype, std::abs(ref) + allowed));
    return overflows && std::signbit(out) == std::signbit(ref) ? 0 : kWrong;
  }
  const double difference = std::abs(out - ref);
  if (difference == 0) return 0;
  const bool at_limit = std::abs(out) == traits.max && std::abs(ref) > traits.max &&
                        std::abs(ref) <= traits.max * (1 + traits.eps) && out * ref > 0;
  if (at_limit) return 0;
  const double error = difference / allowed;  // allowed 0: infinity
  return std::isnan(error) ? kWrong : error;  // a bound that is no number allows nothing
}

std::int64_t load_whole(const TensorView& t, std::int64_t at) {
  std::int64_t whole;
  std::memcpy(&whole, static_cast<const char*>(t.data) + at * size_of(t.dtype), sizeof whole);
  return whole;
}

// The same for an i64, whose difference is computed exactly.
double error_of_whole(std::int64_t out, double value, double rest, double allowed) {
  const double difference = whole_distance(out, value, rest);
  const double error = difference == 0 ? 0 : difference / allowed;
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

// Runs body(begin, end) over [0, count) in chunks on the context's threads; the first exception is
// rethrown here.
template <typename Body>
void run_chunks(const Context& context, std::int64_t count, std::int64_t grain, const Body& body) {
  std::mutex mutex;
  std::exception_ptr thrown;
  context.run(0, count, grain, [&](std::int64_t begin, std::int64_t end) {
    try {
      body(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  });
  if (thrown) std::rethrow_exception(thrown);
}

// One row at a time would lose what a reference shares between rows (a packed weight, say).
constexpr std::int64_t kGrain = 4;

std::vector<std::int64_t> every_row(const Args& args) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count_rows(args)));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// The totals of comparing one result, or one written input.
class Comparison {
 public:
  Comparison(const Operator& op, const Problem& problem, const TensorView& t, int judged)
      : tensor_(t), map_(rows_of(t)), bound_(op.def.bound(problem, judged)), judged_(judged) {}
  int judged() const { return judged_; }

  // `found`: the findings of the operator's judge for the rows; null where each element is
  // compared.
  void add(const Oracle& oracle, const Finding* found) {
    const std::vector<std::int64_t>& rows = oracle.rows();
    const double *values = oracle.values(judged_), *magnitudes = oracle.magnitudes(judged_);
    const std::int64_t width = row_width(tensor_);
    const std::int64_t stride = tensor_.rank == 0 ? 0 : tensor_.strides[tensor_.rank - 1];
    const std::int64_t count = row_count(tensor_);
    for (std::size_t i = 0; i < rows.size(); ++i, values += width, magnitudes += width) {
      if (rows[i] >= count) continue;  // another result has more rows
      const std::int64_t at = map_.offset(rows[i]);
      for (std::int64_t c = 0; c < width; ++c) {
        if (found)
          add_reference(values[c], magnitudes[c]);
        else
          add_element(at + c * stride, values[c], magnitudes[c], rows[i] * width + c);
      }
    }
    if (!found || found->wrong == 0) return;
    tally_.worst = std::numeric_limits<double>::infinity();
    if (tally_.wrong == 0) tally_.first_wrong = found->first_wrong;
    tally_.wrong += found->wrong;
  }

  void finish(Verdict& verdict) const { tally_.finish(verdict, judged_); }

 private:
  double allowed(double ref, double magnitude) const {
    return bound_.magnitude * magnitude + bound_.value * std::abs(ref) + bound_.absolute;
  }

  void add_reference(double ref, double magnitude) {
    ++tally_.seen;
    if (magnitude < 0) return;  // undefined: anything may be there
    ++tally_.checked;
    tally_.nans += std::isnan(ref);
    tally_.infinite += std::isinf(ref);
    if (!std::isfinite(ref)) return;
    tally_.zeros += std::abs(ref) <= allowed(ref, magnitude);
    tally_.least = std::min(tally_.least, ref);
    tally_.most = std::max(tally_.most, ref);
  }

  void add_element(std::int64_t at, double ref, double magnitude, std::int64_t index) {
    add_reference(ref, magnitude);
    if (magnitude < 0) return;
    const double out = load_element(tensor_, at), most = allowed(ref, magnitude);
    const double error = tensor_.dtype == DType::kI64
                             ? error_of_whole(load_whole(tensor_, at), ref, magnitude, most)
                             : error_of(out, ref, most, tensor_.dtype);
    tally_.worst = std::max(tally_.worst, error);
    if (!(error <= 1) && tally_.wrong++ == 0) tally_.first_wrong = index;
    if (!std::isfinite(ref) || !std::isfinite(out)) return;
    tally_.distance += (out - ref) * (out - ref);
    tally_.norm += ref * ref;
  }

  const TensorView tensor_;
  const Rows map_;
  const Bound bound_;
  const int judged_;
  Tally tally_;
};

}  // namespace

void Tally::finish(Verdict& verdict, int result) const {
  if (wrong > 0 && verdict.wrong == 0) {
    verdict.first_wrong = first_wrong;
    verdict.result = result;
  }
  verdict.wrong += wrong;
  verdict.checked += checked;
  verdict.worst = std::max(verdict.worst, worst);
  if (norm > 0) verdict.relative = std::max(verdict.relative, std::sqrt(distance / norm));
  const bool constant = checked > 1 && least >= most;
  const bool judged = seen == 0 || checked > 0;
  verdict.mistrusted |= constant || 2 * zeros > checked || 2 * nans > checked || !judged;
  verdict.telling |= is_telling();
}

// Infinities beside finite numbers are telling: they show where a mask is.
bool Tally::is_telling() const {
  const bool differ = least < most || (infinite > 0 && infinite + nans < checked);
  return checked > 0 && 2 * nans <= checked && zeros < checked && (checked == 1 || differ);
}

std::string judged_name(const Schema& schema, int judged) {
  const std::string& name = schema.tensors[schema.judged[judged]].name;
  return (judged < schema.num_results ? "result " : "the written input ") + name;
}

std::string first_place(const Schema& schema, const Verdict& verdict) {
  const std::string name = judged_name(schema, verdict.result);
  return verdict.first_wrong < 0 ? "some of " + name
                                 : text("the first at ", verdict.first_wrong, " of ", name);
}

std::int64_t row_width(const TensorView& t) { return t.rank == 0 ? 1 : t.shape[t.rank - 1]; }
std::int64_t row_count(const TensorView& t) { return t.rank == 0 ? 1 : rows_of(t).count; }

std::int64_t count_rows(const Args& args) {
  std::int64_t rows = 0;
  for (int j = 0; j < args.schema->num_judged(); ++j)
    if (args.judges(j)) rows = std::max(rows, row_count(args.judged_rows(j)));
  return rows;
}

std::vector<std::int64_t> choose_rows(const Operator& op, const Problem& problem, const Args& args,
                                      std::uint64_t seed, std::int64_t max_elements) {
  const std::int64_t num_rows = count_rows(args);
  std::int64_t elements = 0;
  for (int j = 0; j < op.schema.num_judged(); ++j)
    if (args.judges(j)) elements += args.judged(j).numel();
  const double work = op.def.work_per_row(problem) * static_cast<double>(num_rows);
  constexpr std::int64_t kMaxJudgedElements = 1 << 26;  // a gibibyte of references
  if (op.def.judge ? elements <= kMaxJudgedElements : work < 0x1p30 && elements <= max_elements)
    return every_row(args);
  std::vector<std::int64_t> rows;
  constexpr int kSeededRows = 64;
  const auto add_seeded = [&](std::int64_t count) {
    for (int i = 0; i < kSeededRows; ++i)
      rows.push_back(static_cast<std::int64_t>(mix(seed + i) % static_cast<std::uint64_t>(count)));
    rows.insert(rows.end(), {0, count - 1});
  };
  add_seeded(num_rows);
  // A result with fewer rows would have hardly one of these.
  for (int j = 0; j < op.schema.num_judged(); ++j)
    if (const std::int64_t count = args.judges(j) ? row_count(args.judged_rows(j)) : 0;
        count > 0 && count < num_rows)
      add_seeded(count);
  for (std::int64_t tile = 8; tile <= 512; tile *= 2)
    for (const std::int64_t edge : {tile, num_rows / tile * tile})
      for (const std::int64_t row : {edge - 1, edge, edge + 1})
        if (row >= 0 && row < num_rows) rows.push_back(row);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Oracle::Oracle(const Operator& op, const Problem& problem, const Args& args,
               std::vector<std::int64_t> rows, const Context& context)
    : op_(&op), problem_(problem), before_(args), context_(context), rows_(std::move(rows)) {
  check_places(args);
  if (op.def.judge && op.def.reference_is_whole) rows_ = every_row(args);
  const int judged = op.schema.num_judged();
  for (int j = 0; j < judged; ++j) {
    if (!args.judges(j)) continue;
    const std::size_t size =
        rows_.size() * static_cast<std::size_t>(row_width(args.judged_rows(j)));
    values_[j].reset(new double[size]);
    magnitudes_[j] = std::make_unique<double[]>(size);  // 0: what an oracle leaves out is exact
  }
  const auto count = static_cast<std::int64_t>(rows_.size());
  run_chunks(context, count, op.def.reference_is_whole ? count : kGrain,
             [&](std::int64_t begin, std::int64_t end) {
               OracleOut out[kMaxJudged] = {};
               places(args, begin, out);
               op.def.reference(args, rows_.data() + begin, end - begin, out);
             });
}

void Oracle::places(const Args& args, std::int64_t begin, OracleOut* out) const {
  for (int j = 0; j < op_->schema.num_judged(); ++j) {
    if (!args.judges(j)) continue;
    const std::int64_t at = begin * row_width(args.judged_rows(j));
    out[j] = {values_[j].get() + at, magnitudes_[j].get() + at};
  }
}

void Oracle::judge(const Args& after, Finding* found) const {
  const int judged = op_->schema.num_judged();
  Bound bounds[kMaxJudged];
  for (int j = 0; j < judged; ++j)
    if (after.judges(j)) bounds[j] = op_->def.bound(problem_, j);
  const auto count = static_cast<std::int64_t>(rows_.size());
  std::mutex mutex;
  run_chunks(context_, count, op_->def.reference_is_whole ? count : kGrain,
             [&](std::int64_t begin, std::int64_t end) {
               OracleOut reference[kMaxJudged] = {};
               places(after, begin, reference);
               Finding part[kMaxJudged];
               op_->def.judge(
                   {before_, after, rows_.data() + begin, end - begin, reference, bounds}, part);
               check_findings(after, end - begin, part);
               const std::lock_guard lock(mutex);
               for (int j = 0; j < judged; ++j) {
                 if (part[j].wrong == 0) continue;
                 const bool first =
                     found[j].wrong == 0 || found[j].first_wrong < 0 ||
                     (part[j].first_wrong >= 0 && part[j].first_wrong < found[j].first_wrong);
                 if (first) found[j].first_wrong = part[j].first_wrong;
                 found[j].wrong += part[j].wrong;
               }
             });
}

// A judge is code like any other: what it counts must be existing elements.
void Oracle::check_findings(const Args& after, std::int64_t num_rows, const Finding* found) const {
  for (int j = 0; j < op_->schema.num_judged(); ++j) {
    const Finding& f = found[j];
    const std::int64_t most = after.judges(j) ? num_rows * row_width(after.judged_rows(j)) : 0;
    const std::int64_t end = after.judges(j) ? after.judged(j).numel() : 0;
    if (f.wrong >= 0 && f.wrong <= most && (f.wrong == 0 || f.first_wrong < end)) continue;
    const std::string expected = text("at most ", most, " wrong elements of ",
                                      judged_name(op_->schema, j), ", the first below ", end);
    const std::string got = text(f.wrong, ", the first at ", f.first_wrong);
    throw Error(ErrorKind::kLaunch,
                text(op_->schema.name, ": judge failed; expected ", expected, ", got ", got),
                {op_->schema.name, "judge", expected, got});
  }
}

Verdict Oracle::compare(const Args& after) const {
  Verdict verdict;
  Finding found[kMaxJudged];
  if (op_->def.judge) judge(after, found);
  for (int j = 0; j < op_->schema.num_judged(); ++j) {
    if (!after.judges(j)) continue;
    Comparison comparison(*op_, problem_, after.judged_rows(j), j);
    comparison.add(*this, op_->def.judge ? &found[j] : nullptr);
    comparison.finish(verdict);
  }
  return verdict;
}

Verdict verify(const Operator& op, const Problem& problem, const Args& before, const Args& after,
               const std::vector<std::int64_t>& rows, const Context& context) {
  const bool at_once = op.def.judge && op.def.reference_is_whole;
  const std::vector<std::int64_t> all = rows.empty() || at_once ? every_row(after) : rows;
  std::int64_t width = 1;
  for (int j = 0; j < op.schema.num_judged(); ++j)
    if (after.judges(j)) width = std::max(width, row_width(after.judged_rows(j)));
  constexpr std::int64_t kBlockElements = 1 << 21;  // 32 MiB of references at a time
  const std::size_t block =
      at_once ? std::max<std::size_t>(1, all.size())
              : static_cast<std::size_t>(std::max<std::int64_t>(16, kBlockElements / width));

  std::vector<Comparison> comparisons;
  for (int j = 0; j < op.schema.num_judged(); ++j)
    if (after.judges(j)) comparisons.emplace_back(op, problem, after.judged_rows(j), j);
  for (std::size_t begin = 0; begin < all.size(); begin += block) {
    const std::size_t end = std::min(all.size(), begin + block);
    const Oracle oracle(op, problem, before,
                        {all.begin() + static_cast<std::ptrdiff_t>(begin),
                         all.begin() + static_cast<std::ptrdiff_t>(end)},
                        context);
    Finding found[kMaxJudged];
    if (op.def.judge) oracle.judge(after, found);
    for (Comparison& comparison : comparisons)
      comparison.add(oracle, op.def.judge ? &found[comparison.judged()] : nullptr);
  }
  Verdict verdict;
  for (const Comparison& comparison : comparisons) comparison.finish(verdict);
  return verdict;
}

}  // namespace dlblas
