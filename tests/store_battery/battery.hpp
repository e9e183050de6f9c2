// Shared by the store's tests: scratch folders, records that identify their writer, and children to
// kill. A record's samples are computed from its candidate's configuration, so a reader can prove
// bit for bit that it got what was published. Read next: tests/store_battery/expect.hpp.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>

#include "store/store.hpp"

namespace dlblas::battery {

namespace fs = std::filesystem;
inline constexpr uid_t kNobody = 65534;

/// A folder that others may enter (children change their uid), removed at the end of the test.
class Scratch {
 public:
  Scratch() {
    // In memory if such a folder exists: there are thousands of fsyncs, and a kill behaves the
    // same.
    const fs::path memory = "/dev/shm";
    const bool usable = ::access(memory.c_str(), W_OK | X_OK) == 0;
    std::string pattern =
        ((usable ? memory : fs::temp_directory_path()) / "dlblas_store_XXXXXX").string();
    if (!::mkdtemp(pattern.data())) std::abort();
    path_ = pattern;
    fs::permissions(path_, fs::perms(0755));
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string root() const { return path_ + "/v1"; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Fields sample_key(int which = 0) {
  return {{"device", "cpu"}, {"dims", "C=4096 T=" + std::to_string(which)}, {"op", "rms_norm"}};
}

/// Candidate number `id`; `bulk` is the number of samples, which sets its length.
inline Record::Candidate sample_candidate(int id, int bulk = 3) {
  Record::Candidate c;
  c.implementation = "cpu_avx512";
  c.source_hash = "5eed";
  c.config = "block_m=" + std::to_string(id);
  for (int i = 0; i < bulk; ++i) c.samples_ms.push_back(1.0 / 3 + id + 0.001 * i);
  c.error = 0.25;
  c.is_default = id == 0;
  c.measured_at = 1000 + id;
  return c;
}

inline Record sample_record(int id, int which = 0, int bulk = 3) {
  return {sample_key(which), {{"compiler", "g++ 12"}, {"seed", "7"}}, {sample_candidate(id, bulk)}};
}

/// The ids of the rows, and how many rows differ from everything that was published.
struct Rows {
  std::set<int> ids;
  int wrong = 0;
};
inline Rows rows_of(const Merged& merged, int bulk = 3) {
  Rows rows;
  for (const Merged::Row& row : merged.rows) {
    const int id = std::atoi(row.candidate.config.c_str() + sizeof "block_m=" - 1);
    rows.wrong += row.candidate != sample_candidate(id, bulk);
    rows.ids.insert(id);
  }
  return rows;
}

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void spill(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  ::chmod(path.c_str(), 0600);  // whatever the umask: the store refuses files that others may write
}

inline std::string key_folder(const std::string& root, int which = 0) {
  return root + "/results/" + key_hash(sample_key(which));
}

inline std::string file_of(const std::string& root, const Record& record) {
  const std::string text = print(record);
  return root + "/results/" + key_hash(record.key) + "/" + std::string(digest_of(text));
}

inline int count_entries(const std::string& folder) {
  std::error_code none;
  int n = 0;
  for (const auto& entry : fs::directory_iterator(folder, none)) n += !entry.path().empty();
  return n;
}

/// Runs `body` in a child process; wait_for() returns waitpid's status. A child that hangs is
/// killed after 20 s.
inline pid_t spawn(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::alarm(20);
  ::_exit(body());
}

inline int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

inline bool succeeded(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
inline bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

/// Runs `body` as an ordinary user, since permissions do not restrict root. Returns 0 if it
/// returned 0.
inline int as_nobody(const std::function<int()>& body) {
  return wait_for(spawn([&] {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 100;
    return body();
  }));
}

/// Kills this process at the n-th fault point from now on.
inline int kill_countdown = 0;
inline int kill_hook(StoreStep) {
  if (--kill_countdown == 0) ::kill(::getpid(), SIGKILL);
  return 0;
}
inline void kill_at(int n) {
  kill_countdown = n;
  store_fault_hook = kill_hook;
}

}  // namespace dlblas::battery
