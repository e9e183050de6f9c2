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
  std::unordered_map<Problem, Note, Hash> missed;
  std::unordered_map<Problem, Note, Hash> known;  // the store decided
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
  all.missed.erase(plan.problem);
  all.known.erase(plan.problem);
  if (!is_missed(plan.why) && plan.why != Why::kStore) return;
  auto& of = is_missed(plan.why) ? all.missed : all.known;
  of[plan.problem] = {all.now++, plan.why};
  if (of.size() > kMaxMissed)
    of.erase(std::min_element(of.begin(), of.end(), [](const auto& a, const auto& b) {
      return a.second.at < b.second.at;
    }));
}

std::vector<Missed> missed_since(std::uint64_t mark, bool with_known) {
  Notes& all = notes();
  std::vector<std::pair<std::uint64_t, Missed>> found;
  {
    const std::lock_guard lock(all.mutex);
    for (const auto* of : {&all.missed, &all.known})
      for (const auto& [problem, note] : *of)
        if (note.at >= mark && (with_known || of == &all.missed))
          found.push_back({note.at, {problem, note.why}});
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
