// See log.hpp. The handler cannot be called where a line is logged: that thread may hold a lock
// which another thread waits for while it holds the interpreter's lock.
#include "bindings/python/log.hpp"

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "bindings/python/hooks.hpp"
#include "core/log.hpp"

namespace dlblas::py {
namespace {

struct Line {
  LogLevel level;
  std::string text;
};

constexpr std::size_t kMaxLines = 10'000;  // where the main thread runs no Python for long

Object* g_handler = nullptr;
struct Waiting {
  std::mutex mutex;
  std::deque<Line> lines;
};
Waiting& waiting() {
  static auto* const made = new Waiting;
  return *made;
}
std::atomic<bool> g_waiting{false};

int tell_pending(void*) {
  tell_log();
  return 0;
}

bool keep(LogLevel level, const std::string& line) {
  {
    Waiting& to = waiting();
    const std::unique_lock lock(to.mutex, std::try_to_lock);
    if (!lock || to.lines.size() >= kMaxLines) return false;
    to.lines.push_back({level, line});
  }
  if (!g_waiting.exchange(true) && api.add_pending(tell_pending, nullptr) != 0)
    g_waiting.store(false);  // the interpreter's list is full: with the next line
  return true;
}

}  // namespace

void tell_log() {
  g_waiting.store(false);
  for (;;) {
    Line line;
    {
      Waiting& from = waiting();
      const std::lock_guard lock(from.mutex);
      if (from.lines.empty()) return;
      line = std::move(from.lines.front());
      from.lines.pop_front();
    }
    if (!g_handler) continue;
    Object* before[3] = {};
    api.err_fetch(&before[0], &before[1], &before[2]);
    {
      Ref level(api.long_from(static_cast<long long>(line.level))), text(make_text(line.text));
      Ref told(api.call_args(g_handler, level.get(), text.get(), nullptr));
      if (!told) {  // Ctrl-C while it ran: raised again where somebody asks for signals
        api.err_clear();
        api.set_interrupt();
      }
    }
    api.err_restore(before[0], before[1], before[2]);
  }
}

Object* set_log(Object*, Object* const* args, Size, Object*) {
  if (args[0] == api.none) {
    set_log_hook(nullptr);
    tell_log();
  } else {
    g_handler = Ref::borrow(args[0]).release();
    set_log_hook(keep);
  }
  return Ref::borrow(api.none).release();
}

}  // namespace dlblas::py
