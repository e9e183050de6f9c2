// Record locks (fcntl) belong to a process, not to a descriptor: a child that outlives a killed
// search blocks no other search. See key_lock.hpp.
#include "store/key_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace dlblas {
namespace {

// True if the open file is still the one of this name: its last holder may have removed it.
bool is_named(int fd, int folder, const char* name) {
  struct stat open, named;
  return ::fstat(fd, &open) == 0 && ::fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

KeyLock::KeyLock(Folder locks, std::string name)
    : owner_(::getpid()), locks_(std::move(locks)), name_(std::move(name)) {
  if (!locks_.fd) return;
  constexpr int kAttempts = 16;  // each costs a holder that ended just then
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    file_ = open_lock(locks_.fd.get(), name_);
    if (!file_) return;
    struct flock lock = whole_file();
    if (::fcntl(file_.get(), F_SETLK, &lock) != 0) {
      if (errno != EAGAIN && errno != EACCES) return;  // a file system without locks
      state_ = State::kTaken;
      lock = whole_file();
      const bool told = ::fcntl(file_.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
      holder_ = told && lock.l_pid > 0 ? lock.l_pid : 0;
      return;
    }
    if (!is_named(file_.get(), locks_.fd.get(), name_.c_str())) continue;
    state_ = State::kMine;
    return;
  }
}

KeyLock& KeyLock::operator=(KeyLock&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(holder_, other.holder_);
  std::swap(owner_, other.owner_);
  std::swap(locks_, other.locks_);
  std::swap(name_, other.name_);
  std::swap(file_, other.file_);
  return *this;
}

KeyLock::~KeyLock() {
  if (state_ == State::kMine && ::getpid() == owner_) ::unlinkat(locks_.fd.get(), name_.c_str(), 0);
}

}  // namespace dlblas
