// See disabled.hpp.
#include "dispatch/disabled.hpp"

#include <algorithm>
#include <set>

#include "core/env.hpp"
#include "core/error.hpp"
#include "core/harmless.hpp"
#include "core/log.hpp"
#include "core/spelling.hpp"
#include "registry/registry.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kLongest = 64;  // of a name that another is looked up for

/// Removes the first word of a comma list and returns it.
std::string_view take_word(std::string_view& list) {
  std::string_view word = list.substr(0, list.find(','));
  list.remove_prefix(std::min(list.size(), word.size() + 1));
  while (word.starts_with(' ')) word.remove_prefix(1);
  while (word.ends_with(' ')) word.remove_suffix(1);
  return word;
}

// A misspelt name disables nothing, which would go unnoticed.
void warn_of_unknown(std::string_view list) {
  std::set<std::string_view> known;
  for (const Operator* op : Registry::process().operators())
    for (const Implementation* impl : op->candidates()) known.insert(impl->name);
  while (!list.empty()) {
    const std::string_view word = take_word(list).substr(0, kLongest);
    if (word.empty() || known.count(word)) continue;
    const auto nearest = std::min_element(
        known.begin(), known.end(),
        [&](std::string_view a, std::string_view b) { return edits(word, a) < edits(word, b); });
    log(LogLevel::kWarn,
        text("DLBLAS_DISABLE has a name that no implementation has so far: ", harmless(word),
             "; the nearest is ", *nearest,
             "; it disables nothing, unless one of that name is registered later"));
  }
}

}  // namespace

bool is_disabled(std::string_view implementation) {
  std::string_view list = env(EnvVar::kDisable);
  if (list.empty()) return false;
  [[maybe_unused]] static const bool warned = (warn_of_unknown(list), true);
  while (!list.empty())
    if (take_word(list) == implementation) return true;
  return false;
}

}  // namespace dlblas
