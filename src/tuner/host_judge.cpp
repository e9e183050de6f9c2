// The reference on the host as a judge; see judge.hpp.
#include <algorithm>

#include "tuner/judge.hpp"

namespace dlblas {

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
