// Both sides of measuring in a worker, for the C ABI: what a worker process runs, and which program
// becomes one. Read next: tuner/worker_serve.hpp, tuner/worker_process.hpp.
#include "bindings/c/worker.hpp"

#include <fcntl.h>

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "bindings/c/context.hpp"
#include "bindings/c/guard.hpp"
#include "core/env.hpp"
#include "core/library.hpp"
#include "tuner/worker_process.hpp"
#include "tuner/worker_serve.hpp"

namespace dlblas {
namespace {

std::mutex g_mutex;
worker::Command& command() {
  static auto* const set = new worker::Command;
  return *set;
}

std::vector<std::string> list_of(const char* const* texts) {
  std::vector<std::string> result;
  for (; texts && *texts; ++texts) result.emplace_back(*texts);
  return result;
}

std::string beside() { return own_folder() + "/dlblas_worker"; }

worker::Command current_command() {
  {
    const std::lock_guard lock(g_mutex);
    if (!command().argv.empty()) return command();
  }
  const std::string program = beside();
  return access(program.c_str(), X_OK) == 0 ? worker::Command{{program}, {}} : worker::Command{};
}

// Lets a worker find the libraries that this process has found: torch, for example, may have
// brought a compiler, and the worker has no torch. If the driver is in use, that compiler will be
// needed; nothing else is opened for this.
worker::Command with_libraries(worker::Command command) {
  if (opened_libraries().find("libcuda.so") != std::string::npos) (void)find_library("nvrtc");
  const std::string found = opened_libraries();
  const std::string_view before = env(EnvVar::kLibs);
  if (!found.empty())
    command.environment.push_back(text("DLBLAS_LIBS=", found, before.empty() ? "" : ":", before));
  // Resolved here: the worker may read a relative path in another current folder.
  for (const EnvVar path : {EnvVar::kCache, EnvVar::kSourceDir})
    if (const EnvEntry& entry = env_entry(path); !entry.value.empty())
      command.environment.push_back(text(entry.name, "=", entry.value));
  return command;
}

// True for modules by name, a script, or the imports of functions sent by value
// (_worker_command.py).
bool imports_modules(const worker::Command& command) {
  const auto& environment = command.environment;
  return std::find(environment.begin(), environment.end(), "dlblas_worker_imports=1") !=
             environment.end() ||
         std::any_of(command.argv.begin(), command.argv.end(), [](const std::string& word) {
           return word == "--import" || word == "--script";
         });
}

bool g_is_worker = false;  // set before anything runs in it

}  // namespace

void set_worker_of(TuneOptions& options) {
  if (g_is_worker) return;
  const worker::Command found = current_command();
  options.worker_imports = imports_modules(found);
  options.start_worker = [found](const worker::Waiting& waiting, double limit_s) {
    if (found.argv.empty())
      throw worker::Unusable(text("there is no ", beside(), ", and dlblas_set_worker named none"));
    return worker::start(with_libraries(found), waiting, limit_s);
  };
}

}  // namespace dlblas

extern "C" {

int32_t dlblas_worker_main(int32_t socket) {
  using namespace dlblas;
  if (fcntl(socket, F_GETFD) < 0)
    return 1;  // not a worker's descriptor: this process stays as it is
  g_is_worker = true;
  int32_t status = 1;
  (void)guarded([&] {
    std::optional<CallSide> side;
    dlblas_context threads{};
    threads.size = sizeof threads;
    status = worker::serve(socket, [&](const Problem& problem) -> const Context& {
      threads.num_threads = problem.threads;
      side.emplace(&threads, nullptr);
      side->set_device(problem.device());
      return side->context();
    });
  });
  return status;
}

dlblas_status dlblas_set_worker(const char* const* argv, const char* const* environment) {
  return dlblas::guarded([&] {
    const std::lock_guard lock(dlblas::g_mutex);
    dlblas::command() = {dlblas::list_of(argv), dlblas::list_of(environment)};
  });
}

}  // extern "C"
