// Ranges around calls, for profilers: in NVTX where one has injected itself (Nsight Systems and
// Compute set NVTX_INJECTION64_PATH) or DLBLAS_LOG names the topic nvtx, and for a hook, such as
// torch's profiler. In: a name. Out: nothing but what they draw.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace dlblas {

/// The begin of a range (a name) or the end of this thread's innermost (null). Called on the
/// calling thread, without locks of the library's.
using RangeHook = void (*)(const char* name);
/// Null: no one. A range that is open is closed by the hook that opened it.
void set_range_hook(RangeHook hook);

namespace detail {
inline constexpr std::uint32_t kRangesUnread = 1u << 31;
inline std::atomic<std::uint32_t> g_ranges{kRangesUnread};  // which profilers want them: bits
bool wants_ranges();
}  // namespace detail
/// One relaxed load where no profiler looks.
inline bool wants_ranges() {
  return detail::g_ranges.load(std::memory_order_relaxed) != 0 && detail::wants_ranges();
}

/// Open from `open` to the end of its life.
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
