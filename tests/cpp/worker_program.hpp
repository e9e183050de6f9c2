// Makes a test program its own worker: started again, it serves. Read next:
// tests/cpp/test_worker.cpp.
#pragma once

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "cpu/thread_pool.hpp"
#include "tuner/worker_process.hpp"
#include "tuner/worker_serve.hpp"

namespace dlblas::test {

inline void run_in_pool(void* self, std::int64_t begin, std::int64_t end, std::int64_t grain,
                        RangeFn fn, void* ctx) {
  pool_parallel_for(static_cast<const Context*>(self)->num_threads, begin, end, grain, fn, ctx);
}

inline int serve_tests() {
  Context context;
  return worker::serve(worker::kWorkerSocket, [&](const Problem& problem) -> const Context& {
    context.num_threads = problem.threads;
    context.self = &context;
    context.parallel_for = run_in_pool;
    return context;
  });
}

inline std::string own_path() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, n > 0 ? static_cast<std::size_t>(n) : 0);
}

inline int open_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

inline bool has_children() { return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD; }

}  // namespace dlblas::test
