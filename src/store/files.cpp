// POSIX calls of the store; see files.hpp. Every open is relative to a checked folder, O_NOFOLLOW
// and O_CLOEXEC; every write is to a fresh name. Read next: store/store.cpp.
#include "store/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "core/error.hpp"

namespace dlblas {

std::atomic<StoreFaultHook> store_fault_hook{nullptr};

int after(StoreStep step) {
  const StoreFaultHook hook = store_fault_hook.load(std::memory_order_relaxed);
  return hook ? hook(step) : 0;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

constexpr std::string_view kTemporary = ".tmp.";
constexpr mode_t kFolderMode = 0700, kFileMode = 0600;

std::string octal(mode_t mode) {
  std::string s;
  for (int shift = 9; shift >= 0; shift -= 3) s += static_cast<char>('0' + (mode >> shift & 7));
  return s;
}

// Why it is not trusted; empty: only we can write it.
std::string distrust(const struct stat& st) {
  if (st.st_uid != ::geteuid())
    return text("belongs to another user; expected uid ", ::geteuid(), ", got ", st.st_uid);
  if (st.st_mode & 022)
    return text("is writable by others; expected mode 0700, got ", octal(st.st_mode & 07777));
  return {};
}

Folder refused(int error, const std::string& path, const std::string& why) {
  return {Fd(), error, text("cache: ", path, " ", why)};
}

// Opens and checks one existing folder; `shown` is its name in messages.
Folder open_checked(int parent, const char* name, Trust trust, const std::string& shown) {
  const int follow = trust == Trust::kOurs ? O_NOFOLLOW : 0;
  Fd fd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow));
  if (!fd) {
    const int error = errno;
    if (error == ENOENT) return {Fd(), error, {}};
    struct stat st;
    const bool link = ::fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
    if (link) return refused(ELOOP, shown, "is a symbolic link; expected a folder");
    return refused(error, shown, text("cannot be opened; ", std::strerror(error)));
  }
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) return refused(errno, shown, std::strerror(errno));
  const std::string why = trust == Trust::kOurs ? distrust(st) : std::string();
  if (!why.empty()) return refused(EPERM, shown, why);
  return {std::move(fd), 0, {}};
}

// Gives a new folder or file its promised mode under any umask: one of 0777 would leave it unusable
// even for its owner. Does nothing if the owner's bits are set already.
void keep_owner_bits(int parent, const char* name, mode_t mode) {
  struct stat st;
  if (::fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISLNK(st.st_mode) &&
      st.st_uid == ::geteuid() && (st.st_mode & mode) != mode)
    (void)::fchmodat(parent, name, mode, 0);  // what fails shows when it is opened
}

// Returns 0 or an errno; EEXIST if it exists.
int make_folder(int parent, const char* name) {
  if (::mkdirat(parent, name, kFolderMode) != 0) return errno;
  keep_owner_bits(parent, name, kFolderMode);
  return 0;
}

// Creates a folder and its parents; existing ones are left as they are. Returns 0, or the errno of
// the obstacle.
int make_folders(const std::string& path) {
  int obstacle = ENOENT;
  for (std::size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1))
    if (const int error = make_folder(AT_FDCWD, path.substr(0, at).c_str());
        error != 0 && error != EEXIST && error != ENOENT)
      obstacle = error;
  const int error = make_folder(AT_FDCWD, path.c_str());
  if (error == 0 || error == EEXIST) return 0;
  return error == ENOENT ? obstacle : error;
}

int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), kWriteChunk));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    bytes.remove_prefix(static_cast<std::size_t>(n));
    if (const int error = after(StoreStep::kChunk)) return error;
  }
  return after(StoreStep::kWritten);
}

int sync(int fd) {
  while (::fsync(fd) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

// A name that no other process or thread uses; O_EXCL settles what is left (hosts that share NFS
// and a pid).
std::string temporary_name() {
  static std::atomic<unsigned> serial{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return text(kTemporary, ::getpid(), ".", serial.fetch_add(1), ".", now);
}

Fd create_temporary(int folder, std::string* name) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    *name = temporary_name();
    Fd fd(::openat(folder, name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                   kFileMode));
    if (fd) keep_owner_bits(folder, name->c_str(), kFileMode);
    if (fd || errno != EEXIST) return fd;
  }
  return Fd();
}

Flaw flaw_of(int error) {
  switch (error) {
    case ENOENT:
      return Flaw::kVanished;
    case ESTALE:
      return Flaw::kVanished;  // NFS: removed by another host
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case EINTR:
      return Flaw::kBusy;
    case ELOOP:
      return Flaw::kNotRegular;
    default:
      return Flaw::kUnreadable;
  }
}

}  // namespace

Folder open_root(const std::string& path, Trust trust, Missing missing) {
  if (path.empty())
    return refused(ENOENT, "folder",
                   "is unknown; expected DLBLAS_CACHE, XDG_CACHE_HOME or HOME, got none");
  if (path.front() != '/')
    return refused(ENOENT, path,
                   "is not absolute; expected a path from the root, from a current folder that is "
                   "there, or from ~/ with a HOME");
  if (const int error = missing == Missing::kCreate ? make_folders(path) : 0)
    return refused(error, path, text("cannot be created; ", std::strerror(error)));
  return open_checked(AT_FDCWD, path.c_str(), trust, path);
}

std::string probe_root(const std::string& path) {
  const Folder root = open_root(path, Trust::kOurs, Missing::kFail);
  if (!root.reason.empty()) return root.reason;
  std::string nearest = path;
  while (nearest.size() > 1 && ::access(nearest.c_str(), F_OK) != 0 && errno == ENOENT)
    nearest.resize(std::max<std::size_t>(nearest.rfind('/'), 1));
  // With the effective ids, which the writes will use.
  if (::faccessat(AT_FDCWD, nearest.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
  return refused(errno, path, text("cannot be written; ", std::strerror(errno))).reason;
}

Folder open_folder(int parent, const std::string& name, Trust trust, Missing missing) {
  if (const int error = missing == Missing::kCreate ? make_folder(parent, name.c_str()) : 0;
      error != 0 && error != EEXIST)
    return refused(error, name, text("cannot be created; ", std::strerror(error)));
  return open_checked(parent, name.c_str(), trust, name);
}

std::string printable(std::string_view name) {
  std::string s(name);
  for (char& c : s)
    if (c < 0x20 || c > 0x7e) c = '?';
  return s;
}

std::vector<std::string> list_folder(int folder, bool hidden, bool* complete) {
  std::vector<std::string> names;
  if (complete) *complete = false;
  // A fresh open file description: another thread may be using the offset of `folder` itself.
  const int fd = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = fd >= 0 ? ::fdopendir(fd) : nullptr;
  if (!dir) {
    if (fd >= 0) ::close(fd);
    return names;
  }
  for (const dirent* entry; errno = 0, (entry = ::readdir(dir)) != nullptr;) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || (name[0] == '.' && !hidden)) continue;
    names.emplace_back(name);
  }
  if (complete) *complete = errno == 0;
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

Flaw read_file(int folder, const std::string& name, Trust trust, std::string* out,
               std::size_t most) {
  const bool ours = trust == Trust::kOurs;
  struct stat st;
  // Checked before it is opened: opening a device can have effects, even with O_NONBLOCK.
  if (::fstatat(folder, name.c_str(), &st, ours ? AT_SYMLINK_NOFOLLOW : 0) != 0)
    return flaw_of(errno);
  if (!S_ISREG(st.st_mode)) return Flaw::kNotRegular;
  Fd fd(
      ::openat(folder, name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | (ours ? O_NOFOLLOW : 0)));
  if (!fd) return flaw_of(errno);
  if (::fstat(fd.get(), &st) != 0) return flaw_of(errno);
  if (!S_ISREG(st.st_mode)) return Flaw::kNotRegular;
  if (ours && !distrust(st).empty()) return Flaw::kForeign;
  if (st.st_size > static_cast<off_t>(most)) return Flaw::kTooLong;
  out->resize(static_cast<std::size_t>(st.st_size));
  std::size_t have = 0;
  while (have < out->size()) {
    const ssize_t n = ::read(fd.get(), out->data() + have, out->size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return flaw_of(errno);
    if (n == 0) break;  // shorter than it was: the parser will say so
    have += static_cast<std::size_t>(n);
  }
  out->resize(have);
  return Flaw::kNone;
}

int write_file(int folder, const std::string& name, std::string_view text) {
  std::string temporary;
  Fd fd = create_temporary(folder, &temporary);
  if (!fd) return errno;
  int error = after(StoreStep::kCreated);
  if (!error) error = write_all(fd.get(), text);
  if (!error) error = sync(fd.get());
  if (!error) error = after(StoreStep::kSynced);
  // The content decides the name, so an existing file of that name holds the same record, or a
  // broken copy of it.
  if (!error && ::renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) error = errno;
  if (error) {
    ::unlinkat(folder, temporary.c_str(), 0);
    return error;
  }
  error = after(StoreStep::kRenamed);
  if (!error) error = sync_names(folder);
  return error ? error : after(StoreStep::kFolderSynced);
}

Fd open_lock(int folder, const std::string& name) {
  struct stat st;
  // As in read_file: checked before it is opened.
  if (::fstatat(folder, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
    return Fd();
  Fd fd(::openat(folder, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                 kFileMode));
  const bool ours =
      fd && ::fstat(fd.get(), &st) == 0 && S_ISREG(st.st_mode) && distrust(st).empty();
  return ours ? std::move(fd) : Fd();
}

// Some file systems cannot sync a folder and return EINVAL; a rename is as durable there as it
// gets.
int sync_names(int folder) {
  const int error = sync(folder);
  return error == EINVAL ? 0 : error;
}

int sync_parents(int folder, int levels) {
  Fd parent;
  for (int level = 0; level < levels; ++level) {
    Fd next(::openat(parent ? parent.get() : folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!next)
      return errno == EACCES ? 0 : errno;  // a home that we may pass but not list: not made by us
    parent = std::move(next);
    if (const int error = sync_names(parent.get())) return error == EROFS ? 0 : error;
  }
  return 0;
}

void sweep_folder(int folder) {
  constexpr auto kLeftover = std::chrono::hours(1);
  const auto now = std::chrono::system_clock::now();
  for (const std::string& name : list_folder(folder, true)) {
    struct stat st;
    if (!name.starts_with(kTemporary)) continue;
    if (::fstatat(folder, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
      continue;
    // A writer that was merely slow, or a clock that jumped: its rename fails and it publishes
    // again.
    if (now - std::chrono::system_clock::from_time_t(st.st_mtime) > kLeftover)
      ::unlinkat(folder, name.c_str(), 0);
  }
}

}  // namespace dlblas
