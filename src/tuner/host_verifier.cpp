// The reference on the host as a verifier; see verifier.hpp.
#include <algorithm>
#include <cmath>

#include "core/element.hpp"
#include "device/whole.hpp"
#include "tuner/verifier.hpp"

namespace dlblas {
namespace {

// Two results of one call, row by row: do two elements differ by more than two correct ones may?
class Pair {
 public:
  Pair(const TensorView& one, const TensorView& other, const Bound& bound,
       const std::vector<double>& largest)
      : one_(one),
        other_(other),
        one_rows_(rows_of(one)),
        other_rows_(rows_of(other)),
        bound_(bound),
        largest_(largest) {}

  bool disputed(std::int64_t row) const {
    switch (one_.dtype) {  // the common ones without a choice for each element
      case DType::kF32:
        return disputed<float>(row, [](float v) { return static_cast<double>(v); });
      case DType::kF16:
        return disputed<std::uint16_t>(row, [](std::uint16_t v) { return f16_to_f32(v); });
      case DType::kBF16:
        return disputed<std::uint16_t>(row, [](std::uint16_t v) { return bf16_to_f32(v); });
      case DType::kI64:
        return any_column(row, [this](std::int64_t at, std::int64_t other_at, std::int64_t c) {
          return differ(read<std::int64_t>(one_, at), read<std::int64_t>(other_, other_at), c);
        });
      default:
        return any_column(row, [this](std::int64_t at, std::int64_t other_at, std::int64_t c) {
          return differ(load_element(one_, at), load_element(other_, other_at), c);
        });
    }
  }

 private:
  template <typename T>
  static T read(const TensorView& t, std::int64_t at) {
    T v;
    std::memcpy(&v, static_cast<const char*>(t.data) + at * static_cast<std::int64_t>(sizeof v),
                sizeof v);
    return v;
  }

  template <typename T, typename Load>
  bool disputed(std::int64_t row, const Load& load) const {
    return any_column(row, [&](std::int64_t at, std::int64_t other_at, std::int64_t c) {
      const T a = read<T>(one_, at), b = read<T>(other_, other_at);
      return std::memcmp(&a, &b, sizeof a) != 0 && differ(load(a), load(b), c);
    });
  }

  template <typename Differ>
  bool any_column(std::int64_t row, const Differ& differ) const {
    const std::int64_t width = row_width(one_);
    const std::int64_t step = one_.rank == 0 ? 0 : one_.strides[one_.rank - 1];
    const std::int64_t other_step = other_.rank == 0 ? 0 : other_.strides[other_.rank - 1];
    std::int64_t at = one_rows_.offset(row), other_at = other_rows_.offset(row);
    for (std::int64_t c = 0; c < width; ++c, at += step, other_at += other_step)
      if (differ(at, other_at, c)) return true;
    return false;
  }

  bool differ(double a, double b, std::int64_t column) const {
    const double magnitude = largest_[static_cast<std::size_t>(column)];
    if (a == b || magnitude < 0 || (std::isnan(a) && std::isnan(b))) return false;
    return !std::isfinite(a) || !std::isfinite(b) ||
           !(std::abs(a - b) <= 2 * allowed(a, b, magnitude));
  }

  bool differ(std::int64_t a, std::int64_t b, std::int64_t column) const {
    const double magnitude = largest_[static_cast<std::size_t>(column)];
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return a != b && magnitude >= 0 && !(distance_of(a, b) <= 2 * allowed(x, y, magnitude));
  }

  double allowed(double a, double b, double magnitude) const {
    return bound_.magnitude * magnitude + bound_.value * std::max(std::abs(a), std::abs(b)) +
           bound_.absolute;
  }

  const TensorView one_, other_;
  const Rows one_rows_, other_rows_;
  const Bound bound_;
  const std::vector<double>& largest_;
};

}  // namespace

std::vector<double> largest_of(const double* magnitudes, std::size_t rows, std::int64_t width) {
  std::vector<double> largest(static_cast<std::size_t>(width), -1);
  for (std::size_t row = 0; row < rows; ++row)
    for (double& most : largest) {
      const double magnitude = *magnitudes++;
      if (std::isfinite(magnitude)) most = std::max(most, magnitude);
    }
  return largest;
}

std::vector<std::int64_t> set_in(const std::vector<std::uint8_t>& flags) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i]) indices.push_back(static_cast<std::int64_t>(i));
  return indices;
}

std::vector<std::int64_t> some_of(const std::vector<std::int64_t>& rows, double row_ms) {
  constexpr double kMaxMs = 20, kMin = 8, kMax = 256;
  const auto count =
      static_cast<std::size_t>(std::clamp(kMaxMs / std::max(1e-6, row_ms), kMin, kMax));
  if (rows.size() <= count) return rows;
  std::vector<std::int64_t> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(rows[i * (rows.size() - 1) / (count - 1)]);
  return some;
}

std::vector<std::int64_t> rows_with(const std::vector<std::int64_t>& elements, std::int64_t width) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t element : elements)
    if (rows.empty() || rows.back() != element / width) rows.push_back(element / width);
  return rows;
}

std::vector<std::int64_t> defined_of(const std::vector<std::int64_t>& elements,
                                     const std::vector<std::int64_t>& rows, std::int64_t width,
                                     const double* magnitudes) {
  std::vector<std::int64_t> defined;
  std::size_t at = 0;  // both ascend
  for (const std::int64_t element : elements) {
    while (at < rows.size() && rows[at] < element / width) ++at;
    if (at == rows.size()) break;
    const std::int64_t index = static_cast<std::int64_t>(at) * width + element % width;
    if (rows[at] == element / width && !(magnitudes[index] < 0)) defined.push_back(element);
  }
  return defined;
}

bool all_fit(const double* values, const double* magnitudes, std::size_t count, DType dtype) {
  const double limit = float_traits(dtype).max / 2;
  const double most = is_f8(dtype) ? std::numeric_limits<double>::max() : limit;  // saturates
  for (std::size_t i = 0; i < count; ++i) {
    const double size = std::abs(values[i]);
    if (!(magnitudes[i] < 0) && !(size <= most) && !std::isinf(size)) return false;
  }
  return true;
}

bool HostVerifier::fits(const Args& args) const {
  for (int j = 0; j < op_.schema.num_judged(); ++j) {
    if (!args.judges(j)) continue;
    const TensorView t = args.judged_rows(j);
    // Rows that only another result has hold no values of this one.
    const std::vector<std::int64_t>& rows = oracle_->rows();
    const auto end = std::lower_bound(rows.begin(), rows.end(), row_count(t));
    const auto count = static_cast<std::size_t>((end - rows.begin()) * row_width(t));
    if (!all_fit(oracle_->values(j), oracle_->magnitudes(j), count, t.dtype)) return false;
  }
  return true;
}

std::vector<std::int64_t> HostVerifier::defined(const Args& before, int j,
                                                const std::vector<std::int64_t>& elements) {
  const std::int64_t width = row_width(before.judged_rows(j));
  const Oracle oracle(op_, problem_, before, some_of(rows_with(elements, width), row_ms_),
                      context_);
  return defined_of(elements, oracle.rows(), width, oracle.magnitudes(j));
}

std::vector<std::int64_t> HostVerifier::disputed(const Args& one, const Args& other) {
  std::vector<std::uint8_t> flags(static_cast<std::size_t>(count_rows(one)));
  for (int j = 0; j < op_.schema.num_judged(); ++j) {
    if (!one.judges(j)) continue;
    const TensorView t = one.judged_rows(j);
    const auto largest = largest_of(oracle_->magnitudes(j), oracle_->rows().size(), row_width(t));
    const Pair pair(t, other.judged_rows(j), op_.def.bound(problem_, j), largest);
    constexpr std::int64_t kGrainElements = 1 << 16;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrainElements / (row_width(t) + 1));
    context_.run(0, row_count(t), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        flags[static_cast<std::size_t>(row)] |= static_cast<std::uint8_t>(pair.disputed(row));
    });
  }
  return set_in(flags);
}

HostVerifier::HostVerifier(const Operator& op, const Problem& problem, const Args& args,
                           std::vector<std::int64_t> rows, const Context& context,
                           std::int64_t (*clock)())
    : op_(op), problem_(problem), context_(context) {
  const double count = static_cast<double>(std::max<std::size_t>(1, rows.size()));
  const std::int64_t begin = clock();
  if (op.def.judge) {  // it reads the inputs again when calls may have written them
    HostMemory memory(context);
    before_ = std::make_unique<HostCopy>(args, memory, true);
  }
  oracle_ = std::make_unique<Oracle>(op, problem, before_ ? before_->args() : args, std::move(rows),
                                     context);
  row_ms_ = static_cast<double>(clock() - begin) * 1e-6 / count;
}

}  // namespace dlblas
