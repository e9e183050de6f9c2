// What the library knows about itself and this machine: version, inventory, counters, store,
// ceilings. Out: JSON texts for people and scripts, plain structures for tests. Read next:
// docs/cpp.md.
#ifndef DLBLAS_INFO_HPP_
#define DLBLAS_INFO_HPP_

#include <dlblas/dlblas.h>
#include <dlblas/cpp20.hpp>

#include <cstdint>
#include <string>

#include <dlblas/operator.hpp>

namespace dlblas {
inline namespace v1 {

/// Event counts of this process; see dlblas_counters.
using Counters = dlblas_counters;
/// Measured ceilings of this machine; see dlblas_machine.
using Machine = dlblas_machine;

/// The version of the running library: "0.1.0".
inline std::string version() { return dlblas_version(); }

/// JSON inventory: devices, libraries found or why not, environment variables, operators,
/// implementations and knobs, store.
inline std::string info() {
  char* text = nullptr;
  detail::check(dlblas_info(&text));
  return detail::take_text(text);
}

/// One operator, as in the list of info(). JSON.
inline std::string info(const Operator& op) {
  char* text = nullptr;
  detail::check(dlblas_op_info(op.handle(), &text));
  return detail::take_text(text);
}

/// Runs a command on the store: "path", "ls", "show <key>", "verify", "clear". Returns JSON.
inline std::string cache(const std::string& command) {
  char* text = nullptr;
  detail::check(dlblas_cache(command.c_str(), &text));
  return detail::take_text(text);
}

/// Sends log lines to `write` instead of standard error, from any thread; null: to standard error
/// again. See dlblas_set_log.
inline void set_log(void (*write)(void* user, std::int32_t level, const char* line),
                    void* user = nullptr) {
  detail::check(dlblas_set_log(write, user));
}

/// The counters of this process so far.
inline Counters counters() {
  Counters c = {};
  c.size = sizeof c;
  dlblas_get_counters(&c);
  return c;
}

/// Host time of one warm call in nanoseconds, with launch and allocation stubbed.
inline double bench_host(const Operator& op, Values values, NamedValues named = {}) {
  const detail::AnyArguments arguments(values, named);
  const dlblas_args args = arguments.pack(nullptr, 0, 0);
  double nanoseconds = 0;
  detail::check(dlblas_bench_host(op.handle(), &args, &nanoseconds));
  return nanoseconds;
}

namespace detail {
inline Machine bench_machine(int threads, std::int64_t bytes, Device device) {
  Machine machine = {};
  machine.size = sizeof machine;
  machine.device = {static_cast<std::int32_t>(device.type), device.index};
  check(dlblas_bench_machine(threads, bytes, &machine));
  return machine;
}
}  // namespace detail

/// Measures a multi-threaded copy of `bytes` and the peak of independent f32 multiply-adds; takes a
/// fraction of a second.
inline Machine bench_machine(int threads, std::int64_t bytes) {
  return detail::bench_machine(threads, bytes, Device());
}
/// The same for a GPU.
inline Machine bench_machine(Device device, std::int64_t bytes) {
  return detail::bench_machine(1, bytes, device);
}

}  // namespace v1
}  // namespace dlblas

#endif  // DLBLAS_INFO_HPP_
