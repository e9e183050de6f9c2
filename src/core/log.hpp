// Lines that say what the library does. DLBLAS_LOG, by comma: a level, off|warn|info (default
// warn), for `dlblas: <text>`, and topics, call|search|compile, for `dlblas,<topic>,…`, one line
// each; nvtx asks for ranges (ranges.hpp). They go to DLBLAS_LOG_FILE, else to a
// program's own function, else where a hook says, else to standard error.
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

/// Takes a line without its end, and a message without `dlblas: `.
using LogSink = void (*)(void* user, std::int32_t level, const char* line);
/// From now on lines go there; null: to standard error again. When it returns, no thread is in the
/// sink of before. False, and nothing changes, where it is called from inside the sink.
bool set_log(LogSink sink, void* user);
/// Bits.
enum class LogTopic : std::uint32_t { kCall = 1, kSearch = 2, kCompile = 4, kNvtx = 8 };
namespace detail {
inline constexpr std::uint32_t kTopicsUnread = 1u << 31;
inline std::atomic<std::uint32_t> g_log_topics{kTopicsUnread};
bool logs_topic(LogTopic topic);
}  // namespace detail
/// One relaxed load where logging is off.
inline bool logs(LogTopic topic) {
  return detail::g_log_topics.load(std::memory_order_relaxed) != 0 && detail::logs_topic(topic);
}
/// `fields` follow `dlblas,<topic>,`. Ask `logs` first.
void log(LogTopic topic, std::string_view fields);

/// Receives whole lines, without their end; false: it did not take this one. Called on any thread,
/// with locks of the library's held: it must not call back, or wait. Null: standard error.
using LogHook = bool (*)(LogLevel level, const std::string& line);
void set_log_hook(LogHook hook);

}  // namespace dlblas
