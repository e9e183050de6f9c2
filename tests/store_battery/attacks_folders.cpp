// Poisoned folders, locks and quarantines: the attacker occupies a path that the library will use,
// or makes it write where it should not. Read next: attacks_content.cpp.
#include <fcntl.h>
#include <sys/file.h>

#include <chrono>

#include "attacks.hpp"
#include "jit/disk_cache.hpp"
#include "syscalls.hpp"

namespace dlblas::battery {
namespace {

// `put` replaces the victim's folder at one level; both the store and the poison must be out of
// reach.
void replaced(Trial& t, std::size_t from_end,
              const std::function<bool(Victim&, std::string)>& put) {
  on_both(t, [&](Victim& v) {
    const std::vector<std::string> folders = v.subject().folders(v.root());
    if (from_end >= folders.size()) return;
    if (!put(v, folders[folders.size() - 1 - from_end])) return t.not_here("needs root");
    v.look("replaced folder", true);
  });
}

// The attacker's own folder of that level, with poison inside, takes its place: moved or linked
// there.
void theirs(Trial& t, std::size_t from_end, bool link) {
  replaced(t, from_end, [&](Victim& v, const std::string& folder) {
    const std::string store = v.attackers_store();
    const std::string own = store + folder.substr(v.root().size());
    fs::rename(folder, v.parent() + "/away");
    if (link) return ::symlink(own.c_str(), folder.c_str()) == 0;
    fs::rename(own, folder);
    return ::geteuid() == 0;
  });
}

void writable(Trial& t, std::size_t from_end, mode_t mode) {
  replaced(t, from_end, [&](Victim& v, const std::string& folder) {
    spill(v.poison_file(), v.poison());
    v.give(v.poison_file(), kNobody);
    return ::chmod(folder.c_str(), mode) == 0;
  });
}

// The root alternates between the victim's and the attacker's while the victim reads repeatedly.
void swapped_root(Trial& t) {
  on_both(t, [&](Victim& v) {
    const std::string store = v.attackers_store(), away = v.parent() + "/away";
    const pid_t attacker = spawn([&] {
      for (;;) {
        ::rename(v.root().c_str(), away.c_str());
        ::rename(store.c_str(), v.root().c_str());
        ::rename(v.root().c_str(), store.c_str());
        ::rename(away.c_str(), v.root().c_str());
      }
      return 0;
    });
    const int looks = t.whole() ? 500 : 100;
    const int code = as_user(kNobody, [&] {
      for (int i = 0; i < looks; ++i)
        if (v.subject().look(v.root(), kPoison, 3) != Seen::kAbsent) return 1;
      return 0;
    });
    ::kill(attacker, SIGKILL);
    wait_for(attacker);
    t.tried(looks);
    if (code == 1) t.wrong("in a race");
    if (code < 0) t.stopped("in a race");
  });
}

// A process that has already used the store.
void swapped_after_first_use(Trial& t) {
  Victim v(t, kResults);
  const std::string store = v.attackers_store();
  int ready[2], go[2];
  if (::pipe(ready) != 0 || ::pipe(go) != 0) return t.stopped("pipe");
  char byte = 0;
  const pid_t victim = spawn([&] {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 100;
    Store mine(v.root());
    if (mine.load(sample_key())->rows.size() != 1) return 2;
    if (::write(ready[1], "x", 1) != 1 || ::read(go[0], &byte, 1) != 1) return 3;
    for (const Merged::Row& row : mine.load(sample_key())->rows)
      if (row.candidate == sample_candidate(kPoison)) return 1;
    return 0;
  });
  if (::read(ready[0], &byte, 1) != 1) t.stopped("pipe");
  fs::rename(v.root(), v.parent() + "/away");
  fs::rename(store, v.root());
  if (::write(go[1], "x", 1) != 1) t.stopped("pipe");
  const int status = wait_for(victim);
  for (const int end : {ready[0], ready[1], go[0], go[1]}) ::close(end);
  t.tried();
  if (!WIFEXITED(status) || WEXITSTATUS(status) >= 2) return t.stopped("swapped after first use");
  if (WEXITSTATUS(status) == 1) t.wrong("swapped after first use");
}

// A valuable file of the victim's outside the store; untouched() is true if it is unchanged.
class Precious {
 public:
  explicit Precious(const Victim& v) : path_(v.parent() + "/precious") {
    spill(path_, "dear");
    v.give(path_, kNobody);
  }
  const std::string& path() const { return path_; }
  bool untouched() const { return slurp(path_) == "dear"; }

 private:
  std::string path_;
};

void lock_is(Trial& t, const std::function<bool(Victim&, const Precious&, std::string)>& put) {
  Victim v(t, kResults);
  const Precious precious(v);
  const std::string lock = v.root() + "/lock";
  if (!put(v, precious, lock)) return t.not_here("needs root");
  t.tried();
  const int code = as_user(kNobody, [&] {
    Store store(v.root());
    for (int id = 2; id < 40; ++id)
      if (!store.publish(sample_record(id))) return 1;
    store.compact(sample_key());
    const Rows rows = rows_of(*store.load(sample_key()));
    return rows.wrong == 0 && rows.ids.size() == 39 ? 0 : 2;
  });
  if (code == 2) t.lost("with a hostile lock");
  if (code != 0 && code != 2) t.stopped("with a hostile lock");
  if (!precious.untouched()) t.wrong("wrote through the lock");
}

void lock_held(Trial& t) {
  lock_is(t, [](Victim& v, const Precious&, const std::string& lock) {
    spill(lock, "");
    v.give(lock, kNobody);
    // Held by this process while the victim's runs; released with the descriptor at the end.
    static Fd held;
    held = Fd(::open(lock.c_str(), O_RDWR));
    return ::flock(held.get(), LOCK_EX) == 0;
  });
}

// The quarantine points elsewhere: bad files must not be moved there.
void quarantine_is(Trial& t, const std::function<bool(Victim&, std::string, std::string)>& put) {
  on_both(t, [&](Victim& v) {
    const std::string home = v.parent() + "/home";
    fs::create_directory(home);
    v.give(home, kNobody);
    const std::string quarantine = v.root() + "/quarantine";
    if (!put(v, quarantine, home)) return t.not_here("needs root");
    spill(v.poison_file(), "broken");
    v.give(v.poison_file(), kNobody);
    v.look("hostile quarantine");
    v.go_on("hostile quarantine");
    if (count_entries(home) != 0) t.wrong("moved a file out of the store");
  });
}

// With the clock frozen, the next temporary names are predictable: links wait there.
void predicted_temporary(Trial& t) {
  on_both(t, [&](Victim& v) {
    const Precious precious(v);
    t.tried();
    const int code = as_user(kNobody, [&] {
      syscalls::shift_clock(0, true);
      const auto now = std::chrono::system_clock::now().time_since_epoch().count();
      for (int serial = 0; serial < 4; ++serial)
        ::symlink(precious.path().c_str(),
                  (v.folder() + "/.tmp." + std::to_string(::getpid()) + "." +
                   std::to_string(serial) + "." + std::to_string(now))
                      .c_str());
      return v.subject().keep(v.root(), 5, 3) ? 0 : 1;
    });
    if (code != 0) t.stopped("temporary names taken");
    if (!precious.untouched()) t.wrong("wrote through a link");
    v.look("temporary names taken");
  });
}

void umask_zero(Trial& t) {
  on_both(t, [&](Victim& v) {
    t.tried();
    const int code = as_user(kNobody, [&] {
      ::umask(0);
      const std::string root = v.parent() + "/fresh/v1";
      if (!v.subject().keep(root, 1, 3)) return 1;
      for (const std::string& path : v.subject().folders(root))
        if ((fs::status(path).permissions() & fs::perms(077)) != fs::perms::none) return 2;
      const fs::perms mode = fs::status(v.subject().file(root, 1)).permissions();
      return (mode & fs::perms(077)) == fs::perms::none ? 0 : 2;
    });
    if (code == 2) t.wrong("made for others to read");
    if (code != 0 && code != 2) t.stopped("umask 0");
  });
}

void odd_roots(Trial& t) {
  on_both(t, [&](Victim& v) {
    const std::string store = v.attackers_store();
    ::symlink(store.c_str(), (v.parent() + "/link").c_str());
    for (const std::string& root :
         {v.parent() + "/link/", v.parent() + "/link/.", v.parent() + "/link///", store,
          store + "/../theirs", std::string("/dev/null/v1"), std::string("/proc/self/fd/0/v1"),
          v.parent() + "/" + std::string(5000, 'x') + "/v1", std::string("\n"),
          v.parent() + "/link/../theirs"}) {
      t.tried();
      const int code = as_user(kNobody, [&] {
        if (::chdir(v.parent().c_str()) != 0) return 2;
        return v.subject().look(root, kPoison, 3) == Seen::kAbsent ? 0 : 1;
      });
      if (code == 1) t.wrong("root " + root.substr(0, 100));
      if (code != 0 && code != 1) t.stopped("root " + root.substr(0, 100));
    }
  });
}

}  // namespace

const std::vector<Attack>& folder_attacks() {
  static const std::vector<Attack> attacks = {
      {"the last folder is another user's", [](Trial& t) { theirs(t, 0, false); }},
      {"the folder above is another user's", [](Trial& t) { theirs(t, 1, false); }},
      {"the root is another user's", [](Trial& t) { theirs(t, 2, false), theirs(t, 1, false); }},
      {"the last folder is a symlink to theirs", [](Trial& t) { theirs(t, 0, true); }},
      {"the folder above is a symlink to theirs", [](Trial& t) { theirs(t, 1, true); }},
      {"the root is a symlink to theirs", [](Trial& t) { theirs(t, 2, true), theirs(t, 1, true); }},
      {"the group may write the last folder", [](Trial& t) { writable(t, 0, 0770); }},
      {"everyone may write the last folder", [](Trial& t) { writable(t, 0, 0777); }},
      {"everyone may write the folder above", [](Trial& t) { writable(t, 1, 0707); }},
      {"a sticky world-writable root",
       [](Trial& t) { writable(t, 2, 01777), writable(t, 1, 01777); }},
      {"the root swapped with theirs in a race", swapped_root},
      {"the root swapped after the first use", swapped_after_first_use},
      {"root paths that wind through links", odd_roots},
      {"the lock is a symlink to a dear file",
       [](Trial& t) {
         lock_is(t, [](Victim&, const Precious& p, const std::string& lock) {
           return ::symlink(p.path().c_str(), lock.c_str()) == 0;
         });
       }},
      {"the lock is a FIFO",
       [](Trial& t) {
         lock_is(t, [](Victim& v, const Precious&, const std::string& lock) {
           const bool made = ::mkfifo(lock.c_str(), 0600) == 0;
           v.give(lock, kNobody);
           return made;
         });
       }},
      {"the lock is a folder",
       [](Trial& t) {
         lock_is(t, [](Victim&, const Precious&, const std::string& lock) {
           return ::mkdir(lock.c_str(), 0777) == 0;
         });
       }},
      {"the lock is held for ever", lock_held},
      {"the quarantine is a symlink to a dear folder",
       [](Trial& t) {
         quarantine_is(t, [](Victim&, const std::string& at, const std::string& home) {
           return ::symlink(home.c_str(), at.c_str()) == 0;
         });
       }},
      {"the quarantine is another user's",
       [](Trial& t) {
         quarantine_is(t, [](Victim& v, const std::string& at, const std::string&) {
           fs::create_directory(at);
           ::chmod(at.c_str(), 0777);
           v.give(at, kAttacker);
           return ::geteuid() == 0;
         });
       }},
      {"the quarantine is a file",
       [](Trial& t) {
         quarantine_is(t, [](Victim&, const std::string& at, const std::string&) {
           spill(at, "x");
           return true;
         });
       }},
      {"links wait at the next temporary names", predicted_temporary},
      {"a umask of 0", umask_zero},
  };
  return attacks;
}

}  // namespace dlblas::battery
