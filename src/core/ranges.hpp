// Ranges around calls, for profilers: NVTX ranges where a profiler has injected itself (Nsight
// Systems and Compute set NVTX_INJECTION64_PATH) or DLBLAS_LOG names the topic nvtx, and ranges for
// a hook, such as torch's profiler. In: a name. Out: only what the profiler shows.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace dlblas {

/// Begins a range (a name) or ends this thread's innermost one (null). Runs on the calling thread,
/// with no lock of the library held.
using RangeHook = void (*)(const char* name);
/// Null: no hook. An open range is closed by the hook that opened it.
void set_range_hook(RangeHook hook);

namespace detail {
inline constexpr std::uint32_t kRangesUnread = 1u << 31;
inline std::atomic<std::uint32_t> g_ranges{kRangesUnread};  // which profilers want them: bits
bool wants_ranges();
}  // namespace detail
/// One relaxed load when no profiler is attached.
inline bool wants_ranges() {
  return detail::g_ranges.load(std::memory_order_relaxed) != 0 && detail::wants_ranges();
}

/// A range that lasts from `open` to destruction.
class CallRange {
 public:
  CallRange() = default;
  CallRange(const CallRange&) = delete;
  CallRange& operator=(const CallRange&) = delete;
  ~CallRange() {
    if (nvtx_ || hook_) close();
  }
  void open(const std::string& name);

 private:
  void close() noexcept;
  bool nvtx_ = false;
  RangeHook hook_ = nullptr;
};

}  // namespace dlblas
