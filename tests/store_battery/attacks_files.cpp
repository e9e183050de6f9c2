// Poisoned files in a user's store: files of other users, links, devices, forgeries, races. Each
// puts content that the user never stored where the library will look. Read next:
// attacks_folders.cpp.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "attacks.hpp"
#include "jit/disk_cache.hpp"

namespace dlblas::battery {
namespace {

// Writes the poison as a good file, alters it as an attacker must (owner, mode, kind); the victim
// reads.
void plant(Trial& t, const std::string& what, const std::function<bool(Victim&)>& put) {
  on_both(t, [&](Victim& v) {
    if (!put(v)) return t.not_here("needs root");
    v.look(what);
    v.go_on(what);
  });
}

// A good copy of the poison outside the store, owned by the attacker.
std::string outside(Victim& v) {
  const std::string path = v.parent() + "/poison";
  spill(path, v.poison());
  v.give(path, kAttacker);
  ::chmod(path.c_str(), 0644);
  return path;
}

void of_owner(Trial& t, uid_t owner) {
  plant(t, "owner", [&](Victim& v) {
    spill(v.poison_file(), v.poison());
    ::chmod(v.poison_file().c_str(), 0644);
    return ::chown(v.poison_file().c_str(), owner, owner) == 0;
  });
}

void of_mode(Trial& t, mode_t mode) {
  plant(t, "mode", [&](Victim& v) {
    spill(v.poison_file(), v.poison());
    v.give(v.poison_file(), kNobody);
    return ::chmod(v.poison_file().c_str(), mode) == 0;
  });
}

void link_to(Trial& t, const std::function<std::string(Victim&)>& target) {
  plant(t, "link",
        [&](Victim& v) { return ::symlink(target(v).c_str(), v.poison_file().c_str()) == 0; });
}

// A file that is the victim's own by mode and owner, with `bytes` made from the poison.
void forged(Trial& t, const std::function<std::string(Victim&)>& bytes) {
  plant(t, "forged", [&](Victim& v) {
    spill(v.poison_file(), bytes(v));
    v.give(v.poison_file(), kNobody);
    return true;
  });
}

void hard_link(Trial& t) {
  plant(t, "hard link",
        [](Victim& v) { return ::link(outside(v).c_str(), v.poison_file().c_str()) == 0; });
}

// A FIFO with a writer waiting at the other end with the poison.
void fed_fifo(Trial& t) {
  on_both(t, [&](Victim& v) {
    if (::mkfifo(v.poison_file().c_str(), 0666) != 0) return;
    v.give(v.poison_file(), kNobody);
    const pid_t feeder = spawn([&] {
      const Fd fd(::open(v.poison_file().c_str(), O_RDWR | O_NONBLOCK));
      const std::string bytes = v.poison();
      for (;; ::usleep(1000))
        if (::write(fd.get(), bytes.data(), bytes.size()) < 0 && errno != EAGAIN) return 1;
    });
    v.look("a fed FIFO");
    ::kill(feeder, SIGKILL);
    wait_for(feeder);
  });
}

void socket_file(Trial& t) {
  plant(t, "socket", [](Victim& v) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string near = v.parent() + "/s";
    near.copy(address.sun_path, sizeof address.sun_path - 1);
    const Fd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
           ::rename(near.c_str(), v.poison_file().c_str()) == 0;
  });
}

void device(Trial& t) {
  plant(t, "device", [](Victim& v) {
    if (::mknod(v.poison_file().c_str(), S_IFCHR | 0600, makedev(1, 5)) != 0) return false;
    v.give(v.poison_file(), kNobody);
    return true;
  });
}

void folder(Trial& t) {
  plant(t, "folder", [](Victim& v) {
    fs::create_directories(v.poison_file() + "/" + v.subject().file_name(kPoison, 3));
    v.give(v.poison_file(), kNobody);
    return true;
  });
}

void hidden_name(Trial& t) {
  plant(t, "temporary name", [](Victim& v) {
    for (const char* name : {".tmp.1.0.1", ".nfs000001", ".", "..x"})
      if (name[1]) spill(v.folder() + "/" + name, v.poison());
    return true;
  });
}

void odd_names(Trial& t) {
  plant(t, "odd names", [](Victim& v) {
    for (const std::string& name :
         {std::string("\x1b[2J\x1b]0;owned\x07"), std::string("a\nb"), std::string("%s%s%n%x"),
          std::string("$(id)"), std::string("`id`"), std::string("-rf"), std::string(255, 'A'),
          std::string("..%2f..%2fetc"), std::string("\xff\xfe")}) {
      spill(v.folder() + "/" + name, v.poison());
      v.give(v.folder() + "/" + name, kNobody);
    }
    return true;
  });
}

void flood(Trial& t) {
  plant(t, "flood", [&](Victim& v) {
    for (int i = 0; i < (t.whole() ? 5000 : 300); ++i) {
      const std::string path = v.folder() + "/" + std::to_string(i);
      spill(path, "junk");
      v.give(path, kNobody);
    }
    return true;
  });
}

// The poison and the victim's own content swap places under one name, as fast as possible.
void swapped(Trial& t, bool link) {
  on_both(t, [&](Victim& v) {
    const std::string good = v.subject().file(v.root(), kMine), bad = v.parent() + "/bad",
                      kept = v.parent() + "/kept";
    spill(kept, v.subject().bytes(kMine, 3));
    v.give(kept, kNobody);
    const std::string poison = outside(v);
    const pid_t attacker = spawn([&] {
      for (int i = 0;; ++i) {
        const std::string next = v.parent() + "/next";
        ::unlink(next.c_str());
        if (i % 2) {
          ::link(kept.c_str(), next.c_str());
        } else if (link) {
          ::symlink(poison.c_str(), next.c_str());
        } else {
          spill(next, v.poison());
          v.give(next, kAttacker);
        }
        ::rename(next.c_str(), good.c_str());
      }
      return 0;
    });
    const int looks = t.whole() ? 300 : 60;
    const int code = as_user(kNobody, [&] {
      for (int i = 0; i < looks; ++i)
        for (const int id : {kMine, kPoison}) {
          const Seen seen = v.subject().look(v.root(), id, 3);
          if (seen == Seen::kWrong || (id == kPoison && seen == Seen::kGood)) return 1;
        }
      return 0;
    });
    ::kill(attacker, SIGKILL);
    wait_for(attacker);
    t.tried(looks);
    if (code == 1) t.wrong("in a race");
    if (code < 0) t.stopped("in a race");
  });
}

// The file grows and shrinks while it is read.
void changing_length(Trial& t) {
  on_both(t, [&](Victim& v) {
    const std::string file = v.poison_file(), bytes = v.poison();
    spill(file, bytes.substr(0, bytes.size() / 2));
    v.give(file, kNobody);
    const pid_t attacker = spawn([&] {
      for (unsigned i = 0;; ++i)
        if (::truncate(file.c_str(), i % 2 ? 10 : 100000) != 0) return 0;
    });
    for (int i = 0; i < 10; ++i) v.look("changing length");
    ::kill(attacker, SIGKILL);
    wait_for(attacker);
  });
}

}  // namespace

const std::vector<Attack>& file_attacks() {
  static const std::vector<Attack> attacks = {
      {"file of another user", [](Trial& t) { of_owner(t, kAttacker); }},
      {"file of root", [](Trial& t) { of_owner(t, 0); }},
      {"file that the group may write", [](Trial& t) { of_mode(t, 0660); }},
      {"file that everyone may write", [](Trial& t) { of_mode(t, 0646); }},
      {"set-uid file that others may write", [](Trial& t) { of_mode(t, 04722); }},
      {"symlink to a poisoned file", [](Trial& t) { link_to(t, outside); }},
      {"symlink to a symlink",
       [](Trial& t) {
         link_to(t, [](Victim& v) {
           const std::string middle = v.parent() + "/middle";
           ::unlink(middle.c_str());
           ::symlink(outside(v).c_str(), middle.c_str());
           return middle;
         });
       }},
      {"symlink to /etc/passwd",
       [](Trial& t) { link_to(t, [](Victim&) { return std::string("/etc/passwd"); }); }},
      {"symlink to /dev/zero",
       [](Trial& t) { link_to(t, [](Victim&) { return std::string("/dev/zero"); }); }},
      {"symlink to /proc/self/fd/0",
       [](Trial& t) { link_to(t, [](Victim&) { return std::string("/proc/self/fd/0"); }); }},
      {"hard link to a poisoned file", hard_link},
      {"FIFO with a writer waiting", fed_fifo},
      {"socket", socket_file},
      {"character device", device},
      {"folder named as a file", folder},
      {"content changed, old digest",
       [](Trial& t) {
         forged(t, [](Victim& v) {
           std::string bytes = v.poison();
           bytes[bytes.size() / 3] ^= 1;
           return bytes;
         });
       }},
      {"content changed, new digest, old name",
       [](Trial& t) {
         forged(t, [](Victim& v) { return v.subject().reseal(v.subject().body(kPoison + 1)); });
       }},
      {"digest in capitals",
       [](Trial& t) {
         forged(t, [](Victim& v) {
           std::string bytes = v.poison();
           for (std::size_t i = bytes.size() - 65; i < bytes.size(); ++i)
             bytes[i] = static_cast<char>(std::toupper(bytes[i]));
           return bytes;
         });
       }},
      {"no digest",
       [](Trial& t) { forged(t, [](Victim& v) { return v.subject().body(kPoison); }); }},
      {"bytes after the digest",
       [](Trial& t) { forged(t, [](Victim& v) { return v.poison() + "key.op evil\n"; }); }},
      {"version of the future",
       [](Trial& t) {
         forged(t, [](Victim& v) {
           std::string body = v.subject().body(kPoison);
           body[body.find('\n') - 1] = '9';
           return v.subject().reseal(body);
         });
       }},
      {"temporary and hidden names", hidden_name},
      {"names with escapes, newlines, formats, shell", odd_names},
      {"thousands of junk files", flood},
      {"good and foreign file swapped in a race", [](Trial& t) { swapped(t, false); }},
      {"good file and symlink swapped in a race", [](Trial& t) { swapped(t, true); }},
      {"file that grows and shrinks while it is read", changing_length},
  };
  return attacks;
}

}  // namespace dlblas::battery
