// The log. DLBLAS_LOG, separated by commas: a level, off|warn|info (default warn), for `dlblas:
// <text>`, and topics, call|search|compile, for `dlblas,<topic>,…`, one line per event; nvtx
// enables ranges (ranges.hpp). Lines go to DLBLAS_LOG_FILE, else to the program's own sink, else to
// the hook, else to standard error.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlblas {

enum class LogLevel { kOff, kWarn, kInfo };
LogLevel log_level();
void log(LogLevel level, std::string_view text);
/// Logs once per key and process.
void log_once(LogLevel level, const std::string& key, std::string_view text);

/// Receives a line without its newline; messages come without the `dlblas: ` prefix.
using LogSink = void (*)(void* user, std::int32_t level, const char* line);
/// Sends further lines to `sink`; null: to standard error again. On return, no thread is inside the
/// previous sink. Called from inside the sink, it changes nothing and returns false.
bool set_log(LogSink sink, void* user);
/// Bits.
enum class LogTopic : std::uint32_t { kCall = 1, kSearch = 2, kCompile = 4, kNvtx = 8 };
namespace detail {
inline constexpr std::uint32_t kTopicsUnread = 1u << 31;
inline std::atomic<std::uint32_t> g_log_topics{kTopicsUnread};
bool logs_topic(LogTopic topic);
}  // namespace detail
/// One relaxed load when no topic is logged.
inline bool logs(LogTopic topic) {
  return detail::g_log_topics.load(std::memory_order_relaxed) != 0 && detail::logs_topic(topic);
}
/// `fields` follow `dlblas,<topic>,`. Check `logs` first.
void log(LogTopic topic, std::string_view fields);

/// Receives whole lines without the newline; returns false if it declines one. Called on any
/// thread, possibly with locks of the library held: it must neither call back nor block. Null:
/// standard error.
using LogHook = bool (*)(LogLevel level, const std::string& line);
void set_log_hook(LogHook hook);

}  // namespace dlblas
