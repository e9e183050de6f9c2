// Folders and files that are not ours alone, or not readable, or not writable: by owner, by mode,
// in place of each folder. Tried as an ordinary user (uid 65534 if the battery runs as root), since
// permissions do not restrict root. Read next: deaths.cpp.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "jit/disk_cache.hpp"
#include "trial.hpp"

namespace dlblas::battery {
namespace {

constexpr uid_t kStranger = 65533;

// Codes of a child that read the store: what it got for id 1, and whether it could store id 2.
int look_and_keep(const Subject& s, const std::string& root) {
  const int seen = static_cast<int>(s.look(root, 1, 3));
  return seen * 2 + s.keep(root, 2, 3);
}

// The user's own store with id 1, made by that user.
bool make_store(const Subject& s, const std::string& root) {
  ::chown(fs::path(root).parent_path().c_str(), kNobody, kNobody);
  return succeeded(wait_for(spawn([&] {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 100;
    return s.keep(root, 1, 3) ? 0 : 1;
  })));
}

// After `spoil` (by root, or by the user on its own files) an ordinary user reads; nothing may be
// used. With `keeps` false the user must not be able to write either.
void look_as_user(Trial& t, const Subject& s, const std::string& what,
                  const std::function<bool(const std::string&)>& spoil, bool keeps) {
  const Scratch scratch;
  const std::string root = scratch.root();
  if (!make_store(s, root)) return t.stopped("making the store");
  if (!spoil(root)) return t.not_here("needs root");
  t.tried();
  const int status = as_nobody([&] { return look_and_keep(s, root); });
  if (!WIFEXITED(status) || WEXITSTATUS(status) >= 6) return t.stopped(what);
  if (WEXITSTATUS(status) / 2 != static_cast<int>(Seen::kAbsent)) t.wrong(what);
  if (!keeps && WEXITSTATUS(status) % 2) t.wrong(what + " was written to");
}

void owners(Trial& t, const Subject& s) {
  for (const uid_t owner : {kStranger, uid_t{0}}) {
    if (::geteuid() != 0) return t.not_here("only root can give files away");
    look_as_user(
        t, s, "file",
        [&](const std::string& root) {
          const std::string file = s.file(root, 1);  // readable: the owner alone tells
          return ::chown(file.c_str(), owner, owner) == 0 && ::chmod(file.c_str(), 0644) == 0;
        },
        true);
    const std::size_t levels = s.folders("").size();
    for (std::size_t level = 0; level < levels; ++level)
      for (const mode_t mode : {mode_t{0755}, mode_t{0777}})
        look_as_user(
            t, s, "folder " + std::to_string(level),
            [&](const std::string& root) {
              const std::string folder = s.folders(root)[level];
              return ::chown(folder.c_str(), owner, owner) == 0 &&
                     ::chmod(folder.c_str(), mode) == 0;
            },
            false);
  }
}

void file_modes(Trial& t, const Subject& s) {
  for (const int mode : {0620, 0602, 0622, 0660, 0666, 0777, 01622, 02670, 04602, 0, 0200, 0077})
    look_as_user(
        t, s, "mode " + std::to_string(mode),
        [&](const std::string& root) {
          return ::chmod(s.file(root, 1).c_str(), static_cast<mode_t>(mode)) == 0;
        },
        true);
}

void folder_modes(Trial& t, const Subject& s) {
  const std::size_t levels = s.folders("").size();
  for (std::size_t level = 0; level < levels; ++level)
    for (const int mode : {0720, 0702, 0770, 0707, 0777, 01777, 02770, 0, 0077})
      look_as_user(
          t, s, "level " + std::to_string(level) + " mode " + std::to_string(mode),
          [&](const std::string& root) {
            const std::string folder = s.folders(root)[level];
            return ::chmod(folder.c_str(), static_cast<mode_t>(mode)) == 0;
          },
          false);
}

// Something else is in the place of a folder: a link to that very folder, a file, a FIFO.
void folder_kinds(Trial& t, const Subject& s) {
  const std::size_t levels = s.folders("").size();
  for (std::size_t level = 0; level < levels; ++level)
    for (const char* kind : {"link", "file", "FIFO", "link to nothing", "link to itself"})
      look_as_user(
          t, s, "level " + std::to_string(level) + " is a " + kind,
          [&](const std::string& root) {
            const std::string folder = s.folders(root)[level];
            const std::string away = fs::path(root).parent_path().string() + "/away";
            fs::rename(folder, away);
            const std::string word = kind;
            if (word == "link") return ::symlink(away.c_str(), folder.c_str()) == 0;
            if (word == "link to nothing") return ::symlink("no", folder.c_str()) == 0;
            if (word == "link to itself") return ::symlink(folder.c_str(), folder.c_str()) == 0;
            if (word == "FIFO") return ::mkfifo(folder.c_str(), 0600) == 0;
            return spill(folder, "x"), true;
          },
          false);
}

// Records are still served, nothing is written, and the only failure is the returned false.
void read_only_folders(Trial& t, const Subject& s) {
  const Scratch scratch;
  const std::string root = scratch.root();
  if (!make_store(s, root)) return t.stopped("making the store");
  std::vector<std::string> folders = s.folders(root);
  for (const int mode : {0500, 0555, 0511}) {
    for (const std::string& folder : folders) ::chmod(folder.c_str(), static_cast<mode_t>(mode));
    t.tried();
    const int status = as_nobody([&] { return look_and_keep(s, root); });
    // A folder that others may pass through but not list (0511) is our own: 0500 lists.
    if (!WIFEXITED(status)) t.stopped("read-only");
    if (WEXITSTATUS(status) / 2 != static_cast<int>(Seen::kGood)) t.lost("read-only");
    if (WEXITSTATUS(status) % 2) t.wrong("kept in a read-only store");
  }
  for (const std::string& folder : folders) ::chmod(folder.c_str(), 0700);
}

// Its own file system in its own mount namespace; false if this user may not create one.
bool mount_small(const std::string& at, const char* size) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", at.c_str(), "tmpfs", 0, size) == 0;
}

constexpr int kCannotMount = 77;

void read_only_mount(Trial& t, const Subject& s) {
  const Scratch scratch;
  const int status = wait_for(spawn([&] {
    if (!mount_small(scratch.path(), "size=1m,mode=0755")) return kCannotMount;
    if (!s.keep(scratch.root(), 1, 3)) return 1;
    if (::mount("none", scratch.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0)
      return kCannotMount;
    if (s.look(scratch.root(), 1, 3) != Seen::kGood) return 2;
    if (s.keep(scratch.root(), 2, 3)) return 3;
    ::mount("none", scratch.path().c_str(), nullptr, MS_REMOUNT, nullptr);
    return s.keep(scratch.root(), 2, 3) ? 0 : 4;
  }));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotMount) return t.not_here("no mounts");
  t.tried();
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 4) return t.stopped("read-only mount");
  if (WEXITSTATUS(status) == 2) t.lost("read-only mount");
  if (WEXITSTATUS(status) == 3) t.wrong("kept on a read-only mount");
}

// A disk of 256 KiB, filled to the brim by something else, then given room one page at a time.
void full_mount(Trial& t, const Subject& s) {
  const Scratch scratch;
  constexpr int kBulk = 900, kPages = 16;
  const int status = wait_for(spawn([&] {
    if (!mount_small(scratch.path(), "size=256k,mode=0755")) return kCannotMount;
    if (!s.keep(scratch.root(), 1, kBulk)) return 1;
    const std::string filler = scratch.path() + "/filler";
    {
      const Fd fd(::open(filler.c_str(), O_WRONLY | O_CREAT, 0600));
      const std::string page(4096, 'x');
      while (::write(fd.get(), page.data(), page.size()) == 4096) {
      }
    }
    for (int room = 0; room <= kPages; ++room) {
      const bool kept = s.keep(scratch.root(), 2, kBulk);
      if (s.look(scratch.root(), 1, kBulk) != Seen::kGood) return 2;
      const Seen seen = s.look(scratch.root(), 2, kBulk);
      if (seen == Seen::kWrong || (kept && seen != Seen::kGood)) return 3;
      if (kept) return room > 0 ? 0 : 4;
      fs::resize_file(filler, fs::file_size(filler) - 4096);
    }
    return 4;
  }));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotMount) return t.not_here("no mounts");
  t.tried(kPages);
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 4)
    return t.stopped("full disk");
  if (WEXITSTATUS(status) == 2) t.lost("full disk");
  if (WEXITSTATUS(status) == 3) t.wrong("full disk");
}

// The file may grow to n bytes and no further, for every n.
void full_at_every_byte(Trial& t, const Subject& s) {
  const Scratch scratch;
  if (!s.keep(scratch.root(), 1, 3)) return t.stopped("making the store");
  const int length = static_cast<int>(s.bytes(2, 3).size());
  for (const int room : t.pick(length)) {
    t.tried();
    const int status = wait_for(spawn([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {static_cast<rlim_t>(room), RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      return s.keep(scratch.root(), 2, 3) ? 1 : 0;
    }));
    const std::string when = "room for " + std::to_string(room);
    if (!WIFEXITED(status)) t.stopped(when);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1) t.lost("promised, " + when);
    t.expect_unused(s, scratch.root(), 2, when);
    t.expect_kept(s, scratch.root(), 1, when);
    if (count_entries(s.folders(scratch.root()).back()) != 1) t.wrong("leftovers, " + when);
  }
  t.expect_goes_on(s, scratch.root(), 2, "with room again");
}

}  // namespace

const std::vector<Fault>& trust_faults() {
  static const std::vector<Fault> faults = {
      {"file or folder of another user, root's too", "not used, not written", owners},
      {"file modes", "not used", file_modes},
      {"folder modes, every folder", "not used, not written", folder_modes},
      {"link, file, FIFO in place of every folder", "not used, not written", folder_kinds},
      {"read-only folders", "served; keeping answers no", read_only_folders},
      {"read-only file system", "served; keeping answers no", read_only_mount},
      {"full file system, room a page at a time", "no until it fits, then kept", full_mount},
      {"no room after every byte (RLIMIT_FSIZE)", "not kept, no leftovers; kept later",
       full_at_every_byte},
  };
  return faults;
}

}  // namespace dlblas::battery
