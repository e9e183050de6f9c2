// The store's access to the file system: folders that are trusted or refused with a reason, files
// written atomically, files read without ever following a link or blocking on a FIFO. In: names
// relative to an open folder (no path is walked twice). Out: errno values and Flaws; nothing
// throws. Flow: below store/store.cpp and store/maintain.cpp.  Read next: store/store.hpp.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/record.hpp"

namespace dlblas {

/// The points at which a publish or a compaction can be interrupted. The tests kill the process, or
/// fail the step, at each.
enum class StoreStep {
  kCreated,         // the temporary file exists, empty
  kChunk,           // a part of it is written (parts of kWriteChunk bytes)
  kWritten,         // all of it
  kSynced,          // and on the disk
  kRenamed,         // it has its name
  kFolderSynced,    // and the name is on the disk
  kMerged,          // compaction: the merged records are in place, their sources too
  kSourceUnlinked,  // compaction: a source is gone
};
inline constexpr std::size_t kWriteChunk = 4096;

/// Called after each step on the real path; a nonzero result becomes that step's errno. Null
/// outside tests.
using StoreFaultHook = int (*)(StoreStep);
extern std::atomic<StoreFaultHook> store_fault_hook;
int after(StoreStep step);

/// A file descriptor and its owner.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// kOurs: only this user can write it. A folder or file owned by another user, or writable by group
/// or others, is refused. kAnyone: the shipped table, as trustworthy as the library beside it;
/// links are followed there.
enum class Trust { kOurs, kAnyone };
enum class Missing { kFail, kCreate };

/// An open folder; otherwise the errno and the reason (empty if it simply does not exist).
struct Folder {
  Fd fd;
  int error = 0;
  std::string reason;
};

/// The store's root by path; kCreate makes it, parents too, with mode 0700.
Folder open_root(const std::string& path, Trust trust, Missing missing);
/// A folder inside an open one. A created folder's name is on the disk only after sync_parents.
Folder open_folder(int parent, const std::string& name, Trust trust, Missing missing);

/// Why a root could not be written now; empty if it could, or could be created. Changes nothing.
std::string probe_root(const std::string& path);

/// Names in a folder, sorted; those that start with a dot (temporary files, NFS leftovers) only on
/// demand. `*complete`, if given: false when the system refused part of the listing, so that an
/// absent name proves nothing.
std::vector<std::string> list_folder(int folder, bool hidden = false, bool* complete = nullptr);

/// A file's name for a log or a terminal: anything but printable ASCII becomes `?`.
std::string printable(std::string_view name);

/// Reads a whole regular file of at most `most` bytes. Never blocks: anything else is not opened.
Flaw read_file(int folder, const std::string& name, Trust trust, std::string* out,
               std::size_t most = kMaxRecordBytes);

/// Writes a temporary file, fsyncs it, renames it, fsyncs the folder. Returns 0, or the errno of
/// the failed step, with nothing left behind (unless the folder's fsync failed: then the file is
/// there, but may not be durable).
int write_file(int folder, const std::string& name, std::string_view text);

/// Opens a lock file, created with mode 0600 if it is missing. An empty Fd: it is no regular file,
/// is not ours alone, or the disk refuses. Never blocks.
Fd open_lock(int folder, const std::string& name);

/// Makes the names in a folder durable. Returns 0 or an errno.
int sync_names(int folder);

/// Makes the names of a folder and of those above it durable: another process may have created them
/// a moment ago and not have synced yet. Returns 0 or an errno.
int sync_parents(int folder, int levels);

/// Removes temporary files that a killed writer left an hour ago or longer.
void sweep_folder(int folder);

}  // namespace dlblas
