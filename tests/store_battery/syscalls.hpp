// Control over the system calls that the library makes on files: count them, kill the process
// before any of them, fail them with any errno, shorten them, or record them as a disk would see
// them. The program's own definitions take precedence over libc's, so the library needs no hook.
// The clock is controlled the same way. Read next: tests/store_battery/disk.hpp, which replays a
// recording.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dlblas::battery {

/// The effect of one call on the disk.
struct DiskStep {
  enum class What { kMakeFolder, kCreate, kWrite, kSyncFile, kSyncFolder, kRename, kUnlink };
  What what;
  std::string path, to;  // absolute; `to` of a rename
  std::string bytes;     // of a write
};

namespace syscalls {

/// Calls that change the disk (mkdir, openat, write, fsync, renameat, unlinkat, flock); all calls
/// (also fstat, fstatat, read, readdir); or `read` alone, as with a bad sector.
enum class Which { kWriting, kAll, kRead };

/// Counts calls from now on.
void count(Which which);
/// How many calls were made since.
int counted();
/// Ends this process before its n-th call from now on (1: the first).
void kill_before(int n, Which which);
/// Makes the n-th call from now on fail with `error`, without executing it; a write may be
/// shortened instead (error 0). `forever`: that call and all later ones.
void fail(int n, int error, Which which, bool forever = false);
/// Restores normal behaviour.
void calm();

/// Runs `body` and returns what reached the disk, in order.
std::vector<DiskStep> record(const std::function<void()>& body);

/// Calls `body` once, before the next renameat that crosses folders, in the role of another
/// process.
void before_move(std::function<void()> body);

/// Shifts the wall clock by this many nanoseconds from now on, or stops it (frozen).
void shift_clock(std::int64_t nanoseconds, bool frozen = false);

}  // namespace syscalls
}  // namespace dlblas::battery
