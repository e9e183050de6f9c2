// One-line log on standard error: `dlblas: <text>`. DLBLAS_LOG=off|warn|info (default warn).
#pragma once

#include <string>
#include <string_view>

namespace dlblas {

enum class LogLevel { kOff, kWarn, kInfo };
LogLevel log_level();
void log(LogLevel level, std::string_view text);
/// Logs once per key and process.
void log_once(LogLevel level, const std::string& key, std::string_view text);

}  // namespace dlblas
