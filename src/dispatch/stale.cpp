// See stale.hpp.
#include "dispatch/stale.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cuda/cuda.hpp"
#include "jit/jit.hpp"
#include "store/ranking.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kMeasuredAgain = 4;

std::string value_of(const Fields& fields, const std::string& name) {
  for (const Record::Field& f : fields)
    if (f.name == name) return f.value;
  return {};
}

}  // namespace

Fields surroundings(const Problem& problem) {
  Fields now{{"compiler", __VERSION__}};
  if (problem.device_type == DeviceType::kCuda) {
    now.push_back({"driver", cuda::driver_version()});
    now.push_back({"nvrtc", jit::compiler_version()});
  }
  return now;
}

// A process without a compiler (DLBLAS_JIT=0) knows no version of it: then nothing has changed.
std::string changed_since(const CurrentRow& row, const Fields& now) {
  std::string changed;
  for (const Record::Field& f : now) {
    const std::string then = value_of(*row.env, f.name);
    if (then.empty() || f.value.empty() || then == f.value) continue;
    changed += text(changed.empty() ? "" : ", ", f.name, " ", then, ", now ", f.value);
  }
  return changed;
}

std::vector<const CurrentRow*> stale_rows(const std::vector<CurrentRow>& rows, const Fields& now) {
  std::vector<const CurrentRow*> stale;
  const CurrentRow* winner = best_row(rows);
  if (!winner || changed_since(*winner, now).empty()) return stale;
  for (const CurrentRow& row : rows)
    if (!changed_since(row, now).empty()) stale.push_back(&row);
  // Finalists first: a race's few samples are optimistic.
  std::stable_sort(stale.begin(), stale.end(), [](const CurrentRow* a, const CurrentRow* b) {
    const auto final = [](const CurrentRow* row) {
      return row->candidate->samples_ms.size() >= static_cast<std::size_t>(kFinalSamples);
    };
    if (final(a) != final(b)) return final(a);
    return score_ms(a->candidate->samples_ms) < score_ms(b->candidate->samples_ms);
  });
  stale.resize(std::min(stale.size(), kMeasuredAgain));
  return stale;
}

}  // namespace dlblas
