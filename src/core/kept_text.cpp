// Text kept for the process: a set that is never freed, so that threads still running at exit may
// read it.
#include "core/kept_text.hpp"

#include <mutex>
#include <set>

namespace dlblas {

const char* kept_text(const std::string& words) {
  static std::mutex mutex;
  static auto* const kept = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  const std::string cut = words.substr(0, kMaxKeptBytes);
  if (const auto at = kept->find(cut); at != kept->end()) return at->c_str();
  if (kept->size() >= kMaxKept) return "a reason of its own (too many different ones to keep)";
  return kept->insert(cut).first->c_str();
}

}  // namespace dlblas
