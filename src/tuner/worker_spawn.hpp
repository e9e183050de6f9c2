// Starts an exec'ed child, and cleans up when it is gone. Between vfork and exec the child shares
// our memory, so it makes system calls and nothing else. In: argv, environment, descriptors. Out: a
// pid; later, how it ended. Flow: worker_process > [spawn].  Read next: tuner/worker_process.cpp.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace dlblas::worker {

/// A file descriptor that is closed at the end; −1: none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }
  int get() const { return fd_; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

struct Spawn {
  const std::vector<std::string>& argv;
  const std::vector<std::string>& environment;  // over this process's
  int socket;                                   // becomes kWorkerSocket
  int errors;                                   // becomes standard output and standard error
};
/// The child's pid, which is also its process group. Throws Unusable.
pid_t spawn(const Spawn& what);

/// Moves `fd` above the descriptors that the child assigns, closed by exec. Takes ownership of
/// `fd`.
Descriptor move_up(int fd);

/// True if the child has ended. It stays unreaped.
bool has_ended(pid_t child);
/// Waits `limit_s` for the child to end, then kills it with its group, and reaps it. Returns the
/// status of waitpid; −1 if another waitpid has reaped it. `*killed`: it had to be killed.
int end_child(pid_t child, double limit_s, bool* killed = nullptr);
/// "was killed by signal 11 (segmentation fault)", "exited with status 3".
std::string words_of_status(int status);
/// True for a signal from outside: from the system out of memory, a person, a terminal.
bool ended_from_outside(int status);

}  // namespace dlblas::worker
