// See turn.hpp. Waiting polls, ever more slowly: the other search is measuring, and should have the
// machine.
#include "tuner/turn.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "core/error.hpp"
#include "core/log.hpp"
#include "tuner/measure.hpp"

namespace dlblas {
namespace {

// The searches of this process. A forked child begins with none of its own: the threads that search
// are its parent's, and one of them may have held the mutex.
struct Searches {
  const pid_t pid = ::getpid();
  std::mutex mutex;
  std::set<std::string> keys;
  Searches* before = nullptr;  // the parent's
};

Searches& searches() {
  static std::atomic<Searches*> current{nullptr};
  Searches* now = current.load(std::memory_order_acquire);
  while (!now || now->pid != ::getpid()) {
    auto* fresh = new Searches;
    fresh->before = now;
    if (current.compare_exchange_strong(now, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *now;
}

// How many turns this thread has; a parent's do not count in its child.
struct Held {
  pid_t pid = 0;
  int turns = 0;
};
int& held() {
  thread_local Held mine;
  if (mine.pid != ::getpid()) mine = {::getpid(), 0};
  return mine.turns;
}

std::string name_in_process(const Store& store, const Fields& key) {
  const std::string& path = store.path();
  const auto address = reinterpret_cast<std::uintptr_t>(&store);  // in memory only: it and no other
  return text(key_hash(key), " ", path.empty() ? std::to_string(address) : path);
}

// A worker leads a process group of its own (worker_spawn.cpp). Its parent's search waits for it,
// also while it imports what it will measure.
bool is_worker_of(pid_t process) { return process == ::getppid() && ::getpgrp() == ::getpid(); }

}  // namespace

Turn::Turn(Store& store, Fields key)
    : store_(store), key_(std::move(key)), name_(name_in_process(store, key_)) {}

Turn::~Turn() { give_back(); }

void Turn::give_back() {
  if (!mine_) return;
  mine_ = false;
  lock_ = KeyLock();  // before the next thread of this process looks at the file
  Searches& all = searches();
  const std::lock_guard lock(all.mutex);
  if (all.keys.erase(name_) > 0) --held();
}

// A thread that has a turn never waits for another: threads that wait for each other in a ring
// would all be late. Nor does a worker wait for the process that it works for.
Turn::Try Turn::try_take() {
  const bool nested = held() > 0;
  Searches& all = searches();
  {
    const std::lock_guard lock(all.mutex);
    if (!all.keys.insert(name_).second) return nested ? Try::kNested : Try::kTaken;
  }
  mine_ = true;
  ++held();
  lock_ = store_.lock_key(key_);
  if (lock_.state() != KeyLock::State::kTaken) return Try::kMine;
  const bool parents = is_worker_of(lock_.holder());
  give_back();
  return nested || parents ? Try::kNested : Try::kTaken;
}

Turn::Got Turn::take(double limit_s, const std::function<bool()>& stop) {
  constexpr useconds_t kFirstLook = 1'000, kLastLook = 50'000;
  constexpr double kAskSeconds = 0.1;
  const std::int64_t begin = steady_nanoseconds();
  double asked_s = 0;
  for (useconds_t look = kFirstLook;; look = std::min(2 * look, kLastLook)) {
    const Try tried = try_take();
    if (tried == Try::kMine) return Got::kMine;
    if (tried == Try::kNested) return Got::kNested;
    if (waited_s_ == 0)
      log(LogLevel::kInfo, "tune: another search of this key is at work; waiting for its result");
    waited_s_ = static_cast<double>(steady_nanoseconds() - begin) * 1e-9;
    if (waited_s_ >= limit_s) return Got::kLate;
    if (stop && waited_s_ - asked_s >= kAskSeconds) {
      asked_s = waited_s_;
      if (stop()) return Got::kStopped;
    }
    ::usleep(look);
  }
}

}  // namespace dlblas
