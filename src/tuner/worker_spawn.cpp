// See worker_spawn.hpp.
#include "tuner/worker_spawn.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/error.hpp"
#include "tuner/measure.hpp"
#include "tuner/worker_link.hpp"
#include "tuner/worker_process.hpp"

namespace dlblas::worker {
namespace {

constexpr int kAbove = 10;  // our ends lie above what the child duplicates onto

// Everything that the child needs, prepared before it exists.
struct Prepared {
  const char* path;
  char* const* argv;
  char* const* envp;
  int null, socket, errors, report;
  pid_t parent;
};

// Every descriptor from `first` on closes at exec, even one opened without O_CLOEXEC.
void close_on_exec_from(int first) {
#if !defined(SYS_close_range)
  constexpr long SYS_close_range = 436;  // the same on every architecture
#endif
  constexpr unsigned kCloexec = 4;
  if (syscall(SYS_close_range, first, ~0u, kCloexec) == 0) return;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);  // before Linux 5.11
  const int last = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 65536));
  for (int fd = first; fd < last; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// Runs in the child, in our memory, with all signals blocked: system calls only.
[[noreturn]] void become(const Prepared& p) {
  setpgid(0, 0);  // Ctrl-C is the caller's to handle; and a kill reaches what the worker started
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != p.parent) _exit(127);  // it died before we asked to die with it
  struct sigaction usual;
  std::memset(&usual, 0, sizeof usual);
  usual.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) sigaction(s, &usual, nullptr);  // handlers are code of the parent
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);  // a crash here is a measurement
  const bool given = dup2(p.null, 0) >= 0 && dup2(p.errors, 1) >= 0 && dup2(p.errors, 2) >= 0 &&
                     dup2(p.socket, kWorkerSocket) >= 0;
  if (given) {
    close_on_exec_from(kWorkerSocket + 1);
    sigset_t all_open;
    sigemptyset(&all_open);
    sigprocmask(SIG_SETMASK, &all_open, nullptr);
    execve(p.path, p.argv, p.envp);
  }
  const int why = errno;
  (void)!write(p.report, &why, sizeof why);
  _exit(127);
}

// A separate function, so that the child unwinds nothing of its caller's.
__attribute__((noinline)) pid_t vfork_and_become(const Prepared& p) {
  const pid_t child = vfork();
  if (child == 0) become(p);
  return child;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

std::vector<char*> merged_environment(const std::vector<std::string>& over) {
  std::vector<char*> result;
  const auto name_of = [](std::string_view text) { return text.substr(0, text.find('=') + 1); };
  for (char** at = environ; at && *at; ++at)
    if (std::none_of(over.begin(), over.end(),
                     [&](const std::string& text) { return name_of(text) == name_of(*at); }))
      result.push_back(*at);
  for (const std::string& text : over) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}
int Descriptor::release() { return std::exchange(fd_, -1); }
void Descriptor::reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Descriptor move_up(int fd) {
  const Descriptor low(fd);
  Descriptor high(fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, kAbove));
  if (high.get() < 0) throw Unusable(text("no descriptor is left: ", std::strerror(errno)));
  return high;
}

pid_t spawn(const Spawn& what) {
  const std::vector<char*> argv = pointers(what.argv), envp = merged_environment(what.environment);
  const Descriptor null = move_up(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Unusable(text("no pipe: ", std::strerror(errno)));
  Descriptor read_end(ends[0]);
  Descriptor write_end = move_up(ends[1]);
  const Prepared prepared{argv[0],     argv.data(), envp.data(),     null.get(),
                          what.socket, what.errors, write_end.get(), getpid()};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of ours runs in the child
  const pid_t child = vfork_and_become(prepared);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) throw Unusable(text("no new process: ", std::strerror(fork_error)));
  write_end.reset();
  int why = 0;
  ssize_t got;
  do got = read(read_end.get(), &why, sizeof why);  // ends at exec
  while (got < 0 && errno == EINTR);
  if (got == 0) return child;
  end_child(child, 1);
  throw Unusable(text(what.argv[0], " cannot be executed: ", std::strerror(why)));
}

bool has_ended(pid_t child) {
  siginfo_t info{};
  const int asked = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
  return asked == 0 ? info.si_pid == child : errno != EINTR;
}

// The child stays unreaped until its group is killed: until then its pid cannot be reused.
int end_child(pid_t child, double limit_s, bool* killed_it) {
  constexpr double kDyingSeconds = 30;  // a driver takes down what a GPU was doing
  const auto seconds_from_now = [](double s) {
    return steady_nanoseconds() + static_cast<std::int64_t>(s * 1e9);
  };
  std::int64_t end = seconds_from_now(limit_s);
  for (bool killed = false;;) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    if (info.si_pid == child) {
      kill(-child, SIGKILL);  // what it started and left behind
      int status = -1;
      while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -1;
      return status;
    }
    if (steady_nanoseconds() >= end) {
      if (killed) return -1;
      kill(-child, SIGKILL);
      kill(child, SIGKILL);  // before its exec it may have no group yet
      killed = true;
      if (killed_it) *killed_it = true;
      end = seconds_from_now(kDyingSeconds);
    }
    usleep(200);
  }
}

std::string words_of_status(int status) {
  if (status == -1) return "ended, and somebody else has asked how";
  if (WIFEXITED(status)) return text("exited with status ", WEXITSTATUS(status));
  const int s = WTERMSIG(status);
  const char* name = s == SIGSEGV   ? " (segmentation fault)"
                     : s == SIGABRT ? " (abort)"
                     : s == SIGBUS  ? " (bus error)"
                     : s == SIGFPE  ? " (arithmetic error)"
                     : s == SIGILL  ? " (illegal instruction)"
                     : s == SIGKILL ? " (kill: by a person, or a system out of memory)"
                                    : "";
  return text("was killed by signal ", s, name);
}

bool ended_from_outside(int status) {
  if (status == -1 || !WIFSIGNALED(status)) return false;
  const int s = WTERMSIG(status);
  return s == SIGKILL || s == SIGTERM || s == SIGHUP || s == SIGINT || s == SIGQUIT;
}

}  // namespace dlblas::worker
