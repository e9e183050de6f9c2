// The reference on the host as a judge; see judge.hpp.
#include <algorithm>

#include "tuner/judge.hpp"

namespace dlblas {

std::vector<std::int64_t> some_of(const std::vector<std::int64_t>& rows, double row_ms) {
  constexpr double kMostMs = 20, kLeast = 8, kMost = 256;
  const auto count =
      static_cast<std::size_t>(std::clamp(kMostMs / std::max(1e-6, row_ms), kLeast, kMost));
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

std::vector<std::int64_t> HostJudge::defined(const Args& before, int j,
                                             const std::vector<std::int64_t>& elements) {
  const std::int64_t width = row_width(before.judged(j));
  const Oracle oracle(op_, problem_, before, some_of(rows_with(elements, width), row_ms_),
                      context_);
  return defined_of(elements, oracle.rows(), width, oracle.magnitudes(j));
}

HostJudge::HostJudge(const Operator& op, const Problem& problem, const Args& args,
                     std::vector<std::int64_t> rows, const Context& context,
                     std::int64_t (*clock)())
    : op_(op), problem_(problem), context_(context) {
  const double count = static_cast<double>(std::max<std::size_t>(1, rows.size()));
  const std::int64_t begin = clock();
  oracle_ = std::make_unique<Oracle>(op, problem, args, std::move(rows), context);
  row_ms_ = static_cast<double>(clock() - begin) * 1e-6 / count;
}

}  // namespace dlblas
