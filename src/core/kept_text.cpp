// The words kept for the process: a set that is never freed, so that threads still running at exit
// may read it.
#include "core/kept_text.hpp"

#include <mutex>
#include <set>

namespace dlblas {

const char* kept_text(const std::string& words) {
  static std::mutex mutex;
  static auto* const kept = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return kept->insert(words).first->c_str();
}

}  // namespace dlblas
