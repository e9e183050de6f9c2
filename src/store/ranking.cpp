// The winner rule; see ranking.hpp.
#include "store/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dlblas {
namespace {

// The contenders that may win: the finalists of the newest run that has any; else all of the newest
// run.
std::vector<int> eligible(std::span<const Contender> contenders) {
  for (const std::size_t least : {std::size_t{kFinalSamples}, std::size_t{1}}) {
    std::vector<int> found;
    std::int64_t newest = 0;
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const Contender& c = contenders[i];
      if (c.samples_ms.size() < least || (!found.empty() && c.run < newest)) continue;
      if (!found.empty() && c.run > newest) found.clear();
      newest = c.run;
      found.push_back(static_cast<int>(i));
    }
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

double score_ms(std::span<const double> samples_ms) {
  return samples_ms.empty() ? 0 : *std::min_element(samples_ms.begin(), samples_ms.end());
}

bool shown_before(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return b.empty() && !a.empty();
  return is_final(a) != is_final(b) ? is_final(a) : score_ms(a) < score_ms(b);
}

double spread_ms(std::span<const double> samples_ms) {
  if (!is_final(samples_ms)) return 0.05 * score_ms(samples_ms);
  std::vector<double> sorted(samples_ms.begin(), samples_ms.end());
  std::sort(sorted.begin(), sorted.end());
  const double n = static_cast<double>(sorted.size());
  return (sorted[sorted.size() / 4] - sorted.front()) / (0.288 * n);
}

bool clearly_faster(std::span<const double> a, std::span<const double> b) {
  const double slower = score_ms(b);
  const double sigma = std::hypot(spread_ms(a), spread_ms(b));
  return slower - score_ms(a) > std::max(kMargin * slower, 2 * sigma);
}

int pick_winner(std::span<const Contender> contenders) {
  const std::vector<int> rivals = eligible(contenders);
  int best = -1, preset = -1;
  for (const int i : rivals) {
    if (best < 0 || score_ms(contenders[i].samples_ms) < score_ms(contenders[best].samples_ms))
      best = i;
    if (contenders[i].is_default) preset = i;
  }
  if (best < 0) return -1;
  const auto beats = [&](int a, int b) {
    return clearly_faster(contenders[a].samples_ms, contenders[b].samples_ms);
  };
  if (preset >= 0 && !beats(best, preset)) return preset;
  for (const int i : rivals)
    if ((preset < 0 || beats(i, preset)) && !beats(best, i)) return i;
  return best;
}

}  // namespace dlblas
