// The system calls that the library makes on files, under the tests' thumb: counted, cut off by
// SIGKILL before any of them, failed with any errno, shortened, or recorded as what a disk would
// see. The program's own definitions stand before libc's, so the library needs no hook for it. The
// clock likewise. Read next: tests/store_battery/disk.hpp, which replays a recording.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dlblas::battery {

/// What one call did to the disk.
struct DiskStep {
  enum class What { kMakeFolder, kCreate, kWrite, kSyncFile, kSyncFolder, kRename, kUnlink };
  What what;
  std::string path, to;  // absolute; `to` of a rename
  std::string bytes;     // of a write
};

namespace syscalls {

/// Calls that change the disk (mkdir, openat, write, fsync, renameat, unlinkat, flock), and all of
/// them (fstat, fstatat, read, readdir too); or `read` alone, as of a disk with a bad sector.
enum class Which { kWriting, kAll, kRead };

/// Counts calls from now on.
void count(Which which);
/// How many since.
int counted();
/// Ends this process before its n-th call from now on (1: the first).
void kill_before(int n, Which which);
/// Lets the n-th call from now on fail with `error`, without being made; a write may be shortened
/// instead (error 0). `forever`: that one and all later ones.
void fail(int n, int error, Which which, bool forever = false);
/// Everything as usual.
void calm();

/// Runs `body` and returns what reached the disk, in order.
std::vector<DiskStep> record(const std::function<void()>& body);

/// Called once, before the next renameat that changes folders: another process, so to speak.
void before_move(std::function<void()> body);

/// The wall clock is off by this many nanoseconds from now on, or stands (frozen).
void shift_clock(std::int64_t nanoseconds, bool frozen = false);

}  // namespace syscalls
}  // namespace dlblas::battery
