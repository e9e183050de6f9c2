// Redefines libc's calls: each consults the plan, then makes the real call. See syscalls.hpp.
#include "syscalls.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <utility>

namespace dlblas::battery::syscalls {
namespace {

// One plan per process; children inherit it and arm their own. Not atomic: the programs arm it from
// one thread.
struct Plan {
  enum class Do { kNothing, kCount, kKill, kFail } act = Do::kNothing;
  Which which = Which::kWriting;
  int at = 0, error = 0, count = 0;
  bool forever = false;
};
Plan g_plan;
std::vector<DiskStep>* g_disk = nullptr;
std::int64_t g_shift = 0;
timespec g_frozen = {};
std::function<void()>& mover() {
  static auto* body = new std::function<void()>;
  return *body;
}

enum class Verdict { kGo, kFail, kShort };

enum class Call { kWrites, kReads, kLooks };

bool meant(Call call) {
  if (g_plan.which == Which::kRead) return call == Call::kReads;
  return g_plan.which == Which::kAll || call == Call::kWrites;
}

Verdict ask(Call call) {
  if (g_plan.act == Plan::Do::kNothing || !meant(call)) return Verdict::kGo;
  ++g_plan.count;
  const bool now = g_plan.count == g_plan.at || (g_plan.forever && g_plan.count > g_plan.at);
  if (g_plan.act == Plan::Do::kCount || !now) return Verdict::kGo;
  if (g_plan.act == Plan::Do::kKill) ::kill(::getpid(), SIGKILL);
  errno = g_plan.error;
  return g_plan.error == 0 ? Verdict::kShort : Verdict::kFail;
}

std::string path_of(int folder) {
  if (folder == AT_FDCWD) return {};
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  const ssize_t n = ::readlink(link, path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
}

std::string join(int folder, const char* name) {
  return name[0] == '/' ? name : path_of(folder) + "/" + name;
}

void note(DiskStep::What what, std::string path, std::string to = {}, std::string bytes = {}) {
  const int kept = errno;
  if (g_disk) g_disk->push_back({what, std::move(path), std::move(to), std::move(bytes)});
  errno = kept;
}

template <typename F>
F* real(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void count(Which which) { g_plan = {Plan::Do::kCount, which}; }
int counted() { return g_plan.count; }
void kill_before(int n, Which which) { g_plan = {Plan::Do::kKill, which, n}; }
void fail(int n, int error, Which which, bool forever) {
  g_plan = {Plan::Do::kFail, which, n, error, 0, forever};
}
void calm() { g_plan = {}; }

std::vector<DiskStep> record(const std::function<void()>& body) {
  std::vector<DiskStep> steps;
  g_disk = &steps;
  body();
  g_disk = nullptr;
  return steps;
}

void before_move(std::function<void()> body) { mover() = std::move(body); }

void shift_clock(std::int64_t nanoseconds, bool frozen) {
  g_shift = nanoseconds;
  g_frozen = {};
  if (!frozen) return;
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  g_frozen = now;
}

}  // namespace dlblas::battery::syscalls

using namespace dlblas::battery;
using namespace dlblas::battery::syscalls;
using What = DiskStep::What;

extern "C" {

int openat(int folder, const char* name, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  if (ask(Call::kWrites) == Verdict::kFail) return -1;
  const int fd = static_cast<int>(::syscall(SYS_openat, folder, name, flags, mode));
  if (fd >= 0 && (flags & O_CREAT) && g_disk) note(What::kCreate, join(folder, name));
  return fd;
}

int mkdir(const char* path, mode_t mode) {
  if (ask(Call::kWrites) == Verdict::kFail) return -1;
  const int done = static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (done == 0) note(What::kMakeFolder, path);
  return done;
}

int mkdirat(int folder, const char* name, mode_t mode) {
  if (ask(Call::kWrites) == Verdict::kFail) return -1;
  const int done = static_cast<int>(::syscall(SYS_mkdirat, folder, name, mode));
  if (done == 0 && g_disk) note(What::kMakeFolder, join(folder, name));
  return done;
}

ssize_t write(int fd, const void* bytes, size_t length) {
  const Verdict verdict = ask(Call::kWrites);
  if (verdict == Verdict::kFail) return -1;
  if (verdict == Verdict::kShort) length = (length + 1) / 2;
  const ssize_t n = ::syscall(SYS_write, fd, bytes, length);
  if (n > 0 && g_disk)
    note(What::kWrite, path_of(fd), {},
         {static_cast<const char*>(bytes), static_cast<std::size_t>(n)});
  return n;
}

int fsync(int fd) {
  if (ask(Call::kWrites) == Verdict::kFail) return -1;
  struct stat st;
  if (g_disk && ::syscall(SYS_fstat, fd, &st) == 0)
    note(S_ISDIR(st.st_mode) ? What::kSyncFolder : What::kSyncFile, path_of(fd));
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

int renameat(int from, const char* name, int to, const char* name_there) {
  if (ask(Call::kWrites) == Verdict::kFail) return -1;
  if (from != to && mover()) std::exchange(mover(), {})();
  const int done = static_cast<int>(::syscall(SYS_renameat2, from, name, to, name_there, 0));
  if (done == 0 && g_disk) note(What::kRename, join(from, name), join(to, name_there));
  return done;
}

int unlinkat(int folder, const char* name, int flags) {
  if (ask(Call::kWrites) == Verdict::kFail) return -1;
  const int done = static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
  if (done == 0 && g_disk) note(What::kUnlink, join(folder, name));
  return done;
}

// Declared by its symbol: `flock` is also the name of a struct, and hiding that gives a warning.
int locks(int fd, int operation) __asm__("flock");
int locks(int fd, int operation) {
  if (ask(Call::kWrites) == Verdict::kFail) return -1;
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

ssize_t read(int fd, void* bytes, size_t length) {
  const Verdict verdict = ask(Call::kReads);
  if (verdict == Verdict::kFail) return -1;
  if (verdict == Verdict::kShort) length = (length + 1) / 2;
  return ::syscall(SYS_read, fd, bytes, length);
}

int fstat(int fd, struct stat* st) noexcept {
  if (ask(Call::kLooks) == Verdict::kFail) return -1;
  return static_cast<int>(::syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH));
}

int fstatat(int folder, const char* name, struct stat* st, int flags) noexcept {
  if (ask(Call::kLooks) == Verdict::kFail) return -1;
  return static_cast<int>(::syscall(SYS_newfstatat, folder, name, st, flags));
}

dirent* readdir(DIR* folder) {
  if (ask(Call::kLooks) == Verdict::kFail) return nullptr;
  static auto* const next = real<dirent*(DIR*)>("readdir");
  return next(folder);
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int done = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock != CLOCK_REALTIME || done != 0) return done;
  if (g_frozen.tv_sec != 0) *time = g_frozen;
  constexpr std::int64_t kSecond = 1000000000;
  time->tv_sec += g_shift / kSecond;
  time->tv_nsec += g_shift % kSecond;
  if (time->tv_nsec < 0) time->tv_nsec += kSecond, --time->tv_sec;
  if (time->tv_nsec >= kSecond) time->tv_nsec -= kSecond, ++time->tv_sec;
  return 0;
}

}  // extern "C"
