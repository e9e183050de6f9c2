// See log.hpp.
#include "core/log.hpp"

#include <cstdio>
#include <mutex>
#include <set>

#include "core/env.hpp"
#include "core/harmless.hpp"

namespace dlblas {

LogLevel log_level() {
  static const LogLevel level = [] {
    const std::string_view v = env(EnvVar::kLog);
    return v == "off" ? LogLevel::kOff : v == "info" ? LogLevel::kInfo : LogLevel::kWarn;
  }();
  return level;
}

void log(LogLevel level, std::string_view line) {
  if (level > log_level()) return;
  // One write a line: lines of several threads or processes do not mix.
  const std::string whole = "dlblas: " + harmless_lines(line) + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}

void log_once(LogLevel level, const std::string& key, std::string_view line) {
  static std::mutex mutex;
  static auto* seen = new std::set<std::string>;
  {
    std::lock_guard lock(mutex);
    if (!seen->insert(key).second) return;
  }
  log(level, line);
}

}  // namespace dlblas
