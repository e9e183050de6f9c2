// See env_seconds.hpp.
#include "core/env_seconds.hpp"

#include <charconv>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"

namespace dlblas {

double env_seconds(EnvVar v, double fallback) {
  const std::string_view given = env(v);
  if (given.empty()) return fallback;
  double seconds = 0;
  const char* const end = given.data() + given.size();
  const auto [read, failed] = std::from_chars(given.data(), end, seconds);
  if (failed == std::errc{} && read == end && seconds > 0 && std::isfinite(seconds)) return seconds;
  const std::string name(env_entry(v).name);
  log_once(LogLevel::kWarn, name,
           text(name, " has a wrong value; expected a number of seconds above 0, got ", given,
                "; it is ignored"));
  return fallback;
}

}  // namespace dlblas
