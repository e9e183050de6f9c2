// See log.hpp.
#include "core/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "core/env.hpp"
#include "core/error.hpp"
#include "core/harmless.hpp"

namespace dlblas {
namespace {

std::atomic<LogHook> g_hook{nullptr};

struct Settings {
  LogLevel level = LogLevel::kWarn;
  std::uint32_t topics = 0;
  std::string wrong;  // a word that is neither
};

Settings read_settings() {
  Settings s;
  std::string_view left = env(EnvVar::kLog);
  while (!left.empty()) {
    const std::size_t end = left.find(',');
    const std::string_view word = left.substr(0, end);
    left = end == left.npos ? std::string_view() : left.substr(end + 1);
    const auto topic = [&](LogTopic t) { s.topics |= static_cast<std::uint32_t>(t); };
    if (word == "off")
      s.level = LogLevel::kOff;
    else if (word == "warn")
      s.level = LogLevel::kWarn;
    else if (word == "info")
      s.level = LogLevel::kInfo;
    else if (word == "call")
      topic(LogTopic::kCall);
    else if (word == "search")
      topic(LogTopic::kSearch);
    else if (word == "compile")
      topic(LogTopic::kCompile);
    else if (word == "nvtx")
      topic(LogTopic::kNvtx);
    else if (s.wrong.empty())
      s.wrong = word.empty() ? "an empty word" : std::string(word);
  }
  return s;
}

// The descriptor of DLBLAS_LOG_FILE, opened by each process for itself (`%p` is its id); -1: none.
int log_file() {
  static std::mutex mutex;
  static int file = -1;
  static pid_t opened_by = 0;
  const std::string_view given = env(EnvVar::kLogFile);
  if (given.empty()) return -1;
  std::lock_guard lock(mutex);
  if (opened_by == getpid()) return file;
  opened_by = getpid();
  std::string path(given);
  for (std::size_t at; (at = path.find("%p")) != path.npos;)
    path.replace(at, 2, std::to_string(opened_by));
  file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) {
    const std::string line =
        text("dlblas: DLBLAS_LOG_FILE cannot be written; expected a file, got ", harmless(path),
             "; standard error is used\n");
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  return file;
}

struct Sink {
  std::shared_mutex mutex;  // shared while a line is told
  LogSink write = nullptr;
  void* user = nullptr;
};
Sink& sink() {
  static auto* const made = new Sink;
  return *made;
}
thread_local bool t_in_sink = false;

// False if there is no sink, or if this thread is logging from inside it.
bool told(LogLevel level, std::string_view line) {
  if (t_in_sink) return false;
  Sink& to = sink();
  const std::shared_lock lock(to.mutex);
  if (!to.write) return false;
  constexpr std::string_view kName = "dlblas: ";
  if (line.starts_with(kName)) line.remove_prefix(kName.size());
  t_in_sink = true;
  to.write(to.user, static_cast<std::int32_t>(level), std::string(line).c_str());
  t_in_sink = false;
  return true;
}

// One write per line: lines of several threads or processes do not mix.
void write_line(LogLevel level, std::string line) {
  const int file = log_file();
  if (file < 0) {
    if (told(level, line)) return;
    if (const LogHook hook = g_hook.load(); hook && hook(level, line)) return;
  }
  line += '\n';
  if (file < 0)
    std::fwrite(line.data(), 1, line.size(), stderr);
  else
    (void)!write(file, line.data(), line.size());
}

const Settings& settings() {
  static const auto* const read = new Settings(read_settings());
  static const auto* const others = new std::string(wrong_variables());
  static std::atomic<bool> told{read->wrong.empty() && others->empty()};
  if (!told.load(std::memory_order_relaxed) && !told.exchange(true)) {
    if (!read->wrong.empty())
      write_line(LogLevel::kWarn,
                 text("dlblas: DLBLAS_LOG has a wrong value; expected off, warn, info, call, "
                      "search, compile or nvtx, several by comma, got ",
                      harmless(read->wrong), "; it is ignored"));
    if (!others->empty() && read->level >= LogLevel::kWarn)
      write_line(LogLevel::kWarn, text("dlblas: ", harmless_lines(*others)));
  }
  return *read;
}

}  // namespace

LogLevel log_level() { return settings().level; }

bool set_log(LogSink write, void* user) {
  if (t_in_sink) return false;
  Sink& to = sink();
  const std::unique_lock lock(to.mutex);
  to.write = write;
  to.user = user;
  return true;
}

void log(LogLevel level, std::string_view line) {
  if (level > log_level()) return;
  write_line(level, "dlblas: " + harmless_lines(line));
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

bool detail::logs_topic(LogTopic topic) {
  const std::uint32_t topics = settings().topics;
  g_log_topics.store(topics, std::memory_order_relaxed);
  return (topics & static_cast<std::uint32_t>(topic)) != 0;
}

void log(LogTopic topic, std::string_view fields) {
  const char* const name = topic == LogTopic::kCall     ? "call"
                           : topic == LogTopic::kSearch ? "search"
                                                        : "compile";
  write_line(LogLevel::kInfo, text("dlblas,", name, ",", harmless(fields, kMaxMessage)));
}

void set_log_hook(LogHook hook) { g_hook.store(hook); }

}  // namespace dlblas
