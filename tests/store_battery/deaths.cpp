// Processes that die, and calls that fail: SIGKILL before every system call of storing, compacting
// and verifying, every errno from every call, short reads and writes. What was promised must be
// there; anything else is whole or absent. Read next: disk.cpp, where the plug is pulled.
#include <algorithm>
#include <chrono>

#include "jit/disk_cache.hpp"
#include "syscalls.hpp"
#include "trial.hpp"

namespace dlblas::battery {
namespace {

using syscalls::Which;

constexpr int kBulk = 300;  // samples: a file of two chunks and more

// How many calls `body` makes. Counted in a child process, so that the plan ends with it.
int calls_of(Which which, const std::function<void()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return 0;
  wait_for(spawn([&] {
    syscalls::count(which);
    body();
    const int n = syscalls::counted();
    syscalls::calm();
    return ::write(ends[1], &n, sizeof n) == sizeof n ? 0 : 1;
  }));
  int n = 0;
  const bool read = ::read(ends[0], &n, sizeof n) == sizeof n;
  for (const int end : ends) ::close(end);
  return read ? n : 0;
}

void killed_while_keeping(Trial& t, const Subject& s) {
  // Once into an empty store (the folders are created too), once beside an existing record.
  for (const bool first : {true, false}) {
    const int calls = [&] {
      const Scratch scratch;
      if (!first) s.keep(scratch.root(), 1, kBulk);
      return calls_of(Which::kAll, [&] { s.keep(scratch.root(), 2, kBulk); });
    }();
    if (calls < 8) t.stopped("no calls were counted");
    for (const int n : t.pick(calls, 12)) {
      const Scratch scratch;
      if (!first && !s.keep(scratch.root(), 1, kBulk)) t.stopped("making the store");
      t.tried();
      const int status = wait_for(spawn([&] {
        syscalls::kill_before(n + 1, Which::kAll);
        return s.keep(scratch.root(), 2, kBulk) ? 0 : 1;
      }));
      const std::string when = "killed before call " + std::to_string(n + 1);
      if (!was_killed(status)) t.stopped(when + " did not happen");
      t.expect_whole(s, scratch.root(), 2, when, kBulk);
      if (!first) t.expect_kept(s, scratch.root(), 1, when, kBulk);
      t.expect_goes_on(s, scratch.root(), 2, when, kBulk);
      t.expect_goes_on(s, scratch.root(), 3, when, kBulk);
    }
  }
}

void kept_six(Trial& t, const Subject& s, const std::string& root, const std::string& when) {
  for (int id = 0; id < 6; ++id) t.expect_kept(s, root, id, when);
}

void make_six(Trial& t, const Subject& s, const std::string& root) {
  for (int id = 0; id < 6; ++id)
    if (!s.keep(root, id, 3)) t.stopped("making the store");
}

void killed_while_compacting(Trial& t, const Subject& s) {
  const auto compact = [](const std::string& root) { return Store(root).compact(sample_key()); };
  const Scratch sample;
  make_six(t, s, sample.root());
  const int calls = calls_of(Which::kAll, [&] { compact(sample.root()); });
  if (calls < 8) t.stopped("no calls were counted");
  for (const int n : t.pick(calls, 12)) {
    const Scratch scratch;
    make_six(t, s, scratch.root());
    t.tried();
    const int status = wait_for(spawn([&] {
      syscalls::kill_before(n + 1, Which::kAll);
      return compact(scratch.root()) ? 0 : 1;
    }));
    const std::string when = "killed before call " + std::to_string(n + 1);
    if (!was_killed(status)) t.stopped(when + " did not happen");
    kept_six(t, s, scratch.root(), when);
    if (!compact(scratch.root())) t.stopped("compacting after it was " + when);
    kept_six(t, s, scratch.root(), "compacted after it was " + when);
  }
}

// Meanwhile two bad files are moved away.
void killed_while_verifying(Trial& t, const Subject& s) {
  const auto verify = [&](const std::string& root) {
    if (&s == &kResults)
      Store(root).verify();
    else
      jit::detail::verify_cubins(root);
  };
  const auto make = [&](const std::string& root) {
    make_six(t, s, root);
    for (const int id : {6, 7}) {
      s.keep(root, id, 3);
      spill(s.file(root, id), "broken");
    }
  };
  const Scratch sample;
  make(sample.root());
  const int calls = calls_of(Which::kAll, [&] { verify(sample.root()); });
  if (calls < 8) t.stopped("no calls were counted");
  for (const int n : t.pick(calls, 12)) {
    const Scratch scratch;
    make(scratch.root());
    t.tried();
    wait_for(spawn([&] {
      syscalls::kill_before(n + 1, Which::kAll);
      verify(scratch.root());
      return 0;
    }));
    const std::string when = "killed before call " + std::to_string(n + 1);
    kept_six(t, s, scratch.root(), when);
    for (const int id : {6, 7}) t.expect_unused(s, scratch.root(), id, when);
    t.expect_goes_on(s, scratch.root(), 6, when);
  }
}

constexpr int kErrors[] = {0 /* a short write or read */,
                           EIO,
                           ENOSPC,
                           EDQUOT,
                           EROFS,
                           EACCES,
                           EPERM,
                           EMFILE,
                           ENFILE,
                           ENOMEM,
                           ENOENT,
                           ESTALE,
                           EINTR,
                           EINVAL,
                           ELOOP,
                           EBUSY};

void errors_while_keeping(Trial& t, const Subject& s) {
  const Scratch sample;
  s.keep(sample.root(), 1, kBulk);
  const int calls = calls_of(Which::kAll, [&] { s.keep(sample.root(), 2, kBulk); });
  for (const int error : kErrors)
    for (const bool forever : {false, true})
      for (const int n : t.pick(calls, 3)) {
        if (forever && (error == 0 || error == EINTR))
          continue;  // retried for ever, as they should
        const Scratch scratch;
        if (!s.keep(scratch.root(), 1, kBulk)) t.stopped("making the store");
        t.tried();
        const int status = wait_for(spawn([&] {
          syscalls::fail(n + 1, error, Which::kAll, forever);
          const bool kept = s.keep(scratch.root(), 2, kBulk);
          syscalls::calm();
          return kept ? 1 : 0;
        }));
        const std::string when = "errno " + std::to_string(error) + (forever ? " from" : " at") +
                                 " call " + std::to_string(n + 1);
        if (!WIFEXITED(status)) t.stopped(when);
        const bool there = t.expect_whole(s, scratch.root(), 2, when, kBulk);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && !there) t.lost("promised, " + when);
        t.expect_kept(s, scratch.root(), 1, when, kBulk);
        t.expect_goes_on(s, scratch.root(), 2, "after " + when, kBulk);
      }
}

// A failed read says nothing about the file: it may be skipped this time, but never moved away.
void errors_while_reading(Trial& t, const Subject& s) {
  const Scratch scratch;
  make_six(t, s, scratch.root());
  const int calls = calls_of(Which::kAll, [&] { s.look(scratch.root(), 1, 3); });
  if (calls < 4) t.stopped("no calls were counted");
  for (const int error : kErrors)
    for (const bool forever : {false, true})
      for (const int n : t.pick(calls, 3)) {
        if (forever && (error == 0 || error == EINTR)) continue;
        t.tried();
        const int status = wait_for(spawn([&] {
          syscalls::fail(n + 1, error, Which::kAll, forever);
          const Seen seen = s.look(scratch.root(), 1, 3);
          syscalls::calm();
          return static_cast<int>(seen);
        }));
        const std::string when = "errno " + std::to_string(error) + (forever ? " from" : " at") +
                                 " call " + std::to_string(n + 1);
        if (!WIFEXITED(status)) t.stopped(when);
        if (WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(Seen::kWrong))
          t.wrong(when);
        kept_six(t, s, scratch.root(), "after " + when);
      }
}

// A sector that cannot be read at the moment, while renames work: the files stay where they are.
void unreadable_today(Trial& t, const Subject& s) {
  const Scratch scratch;
  make_six(t, s, scratch.root());
  for (const int error : {EIO, EACCES, EPERM, ENOMEM, ESTALE, EINVAL}) {
    t.tried();
    const int status = wait_for(spawn([&] {
      syscalls::fail(1, error, Which::kRead, true);
      int wrong = 0;
      for (int id = 0; id < 6; ++id) wrong += s.look(scratch.root(), id, 3) == Seen::kWrong;
      syscalls::calm();
      return wrong;
    }));
    const std::string when = "reads fail with errno " + std::to_string(error);
    if (!WIFEXITED(status)) t.stopped(when);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) t.wrong(when);
    kept_six(t, s, scratch.root(), "after " + when);
    if (fs::exists(scratch.root() + "/quarantine")) t.lost("moved away, " + when);
  }
}

// A process does not forget what it knows because a listing failed.
void errors_do_not_forget(Trial& t, const Subject& s) {
  const Scratch scratch;
  make_six(t, s, scratch.root());
  const int calls = calls_of(Which::kAll, [&] { s.look(scratch.root(), 1, 3); });
  for (const int error : kErrors)
    for (const int n : t.pick(calls, 3)) {
      t.tried();
      const int status = wait_for(spawn([&] {
        Store store(scratch.root());
        if (store.load(sample_key())->rows.size() != 6) return 1;
        syscalls::fail(n + 1, error, Which::kAll, error != 0 && error != EINTR);
        const std::size_t now = store.load(sample_key())->rows.size();
        syscalls::calm();
        // ENOENT and ESTALE from a folder do mean that another process cleared it.
        return now == 6 || error == ENOENT || error == ESTALE ? 0 : 2;
      }));
      const std::string when =
          "errno " + std::to_string(error) + " from call " + std::to_string(n + 1);
      if (!WIFEXITED(status)) t.stopped(when);
      if (WIFEXITED(status) && WEXITSTATUS(status) != 0) t.lost("forgotten, " + when);
    }
}

// Between reading a broken file and moving it away, another process stores the very same content.
void good_over_bad(Trial& t, const Subject& s) {
  for (const int id : t.pick(20)) {
    const Scratch scratch;
    s.keep(scratch.root(), 100, 3);
    s.keep(scratch.root(), id, 3);
    spill(s.file(scratch.root(), id), "broken");
    t.tried();
    const int status = wait_for(spawn([&] {
      bool promised = false;
      syscalls::before_move([&] { promised = s.keep(scratch.root(), id, 3); });
      s.look(scratch.root(), id, 3);
      return promised ? 0 : 1;
    }));
    if (!succeeded(status)) t.stopped("the other process could not keep it");
    t.expect_kept(s, scratch.root(), id, "promised while a bad one was set aside");
  }
}

// Wrong clocks: before 1970, years back between two records, frozen, ahead, later than any record
// may say.
void clocks(Trial& t, const Subject& s) {
  constexpr std::int64_t kHour = 3600ll * 1000000000, kYear = 8766 * kHour;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  const Scratch scratch;
  int id = 0;
  for (const std::int64_t shift : {-100 * kYear, -57 * kYear, -10 * kYear, -kHour, kHour,
                                   30 * kYear, kLatestStamp + kHour - now, -20 * kYear})
    for (const bool frozen : {false, true}) {
      t.tried();
      const int status = wait_for(spawn([&] {
        syscalls::shift_clock(shift, frozen);
        if (!s.keep(scratch.root(), id, 3)) return 1;
        if (&s != &kResults) return 0;
        // A candidate whose time publish sets itself.
        Record record = sample_record(id, 1);
        record.candidates[0].measured_at = 0;
        Store store(scratch.root());
        return store.publish(record) && store.load(sample_key(1))->rows.size() ? 0 : 2;
      }));
      const std::string when = "clock off by " + std::to_string(shift / kHour) + " hours";
      if (!succeeded(status)) t.stopped(when);
      for (int earlier = 0; earlier <= id; ++earlier)
        t.expect_kept(s, scratch.root(), earlier, when);
      ++id;
    }
}

}  // namespace

const std::vector<Fault>& death_faults() {
  static const std::vector<Fault> faults = {
      {"kill -9 before every system call of keeping", "whole or absent; others there; goes on",
       killed_while_keeping},
      {"kill -9 before every system call of compacting", "all rows there", killed_while_compacting,
       true, false},
      {"kill -9 before every system call of verifying", "all good ones there, no bad one used",
       killed_while_verifying},
      {"16 errors and short writes from every call of keeping", "promised is there; no exception",
       errors_while_keeping},
      {"16 errors and short reads from every call of reading", "nothing moved away, nothing wrong",
       errors_while_reading},
      {"every read fails, and tomorrow none", "all there again, nothing moved away",
       unreadable_today},
      {"errors from every call of a second load", "what was known is still known",
       errors_do_not_forget, true, false},
      {"kept again while its broken copy is set aside", "there", good_over_bad},
      {"clock before 1970, back, standing, ahead", "kept, all there", clocks},
  };
  return faults;
}

}  // namespace dlblas::battery
