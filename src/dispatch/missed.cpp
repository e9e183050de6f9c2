// See missed.hpp.
#include "dispatch/missed.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace dlblas {
namespace {

struct Hash {
  std::size_t operator()(const Problem& problem) const { return problem.hash(); }
};
struct Note {
  std::uint64_t at;
  Why why;
};
struct Notes {
  std::mutex mutex;
  std::uint64_t now = 1;
  std::unordered_map<Problem, Note, Hash> of;
};
Notes& notes() {
  static auto* const all = new Notes;
  return *all;
}

bool is_missed(Why why) { return why == Why::kModel || why == Why::kHeuristic; }

}  // namespace

void note_missed(const Plan& plan) {
  Notes& all = notes();
  const std::lock_guard lock(all.mutex);
  if (!is_missed(plan.why)) {
    all.of.erase(plan.problem);
    return;
  }
  all.of[plan.problem] = {all.now++, plan.why};
  if (all.of.size() > kMaxMissed)
    all.of.erase(std::min_element(all.of.begin(), all.of.end(), [](const auto& a, const auto& b) {
      return a.second.at < b.second.at;
    }));
}

std::vector<Missed> missed_since(std::uint64_t mark) {
  Notes& all = notes();
  std::vector<std::pair<std::uint64_t, Missed>> found;
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& [problem, note] : all.of)
      if (note.at >= mark) found.push_back({note.at, {problem, note.why}});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Missed> missed;
  for (const auto& [at, one] : found) missed.push_back(one);
  return missed;
}

std::uint64_t begin_missed() {
  for (const Operator* op : Registry::process().operators()) forget(*op);
  Notes& all = notes();
  const std::lock_guard lock(all.mutex);
  return all.now;
}

}  // namespace dlblas
