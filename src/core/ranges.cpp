// See ranges.hpp. NVTX is loaded at run time: libnvtx3interop from CUDA 13, libnvToolsExt from
// earlier releases; both call the injected profiler, and do nothing without one.
#include "core/ranges.hpp"

#include "core/env.hpp"
#include "core/library.hpp"
#include "core/log.hpp"

namespace dlblas {
namespace {

constexpr std::uint32_t kNvtx = 1, kHook = 2;

std::atomic<RangeHook> g_hook{nullptr};

struct Nvtx {
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;
};
const Nvtx& nvtx() {
  static const auto* const found = [] {
    auto* made = new Nvtx;
    const Library& library = find_library("nvtx");
    if (!library.handle) {
      log_once(LogLevel::kWarn, "nvtx",
               "no NVTX library is found, so a profiler sees no ranges; expected "
               "libnvtx3interop.so.1 or libnvToolsExt.so.1, got neither; put its folder into "
               "DLBLAS_LIBS");
      return made;
    }
    made->push = reinterpret_cast<int (*)(const char*)>(find_symbol(library, "nvtxRangePushA"));
    made->pop = reinterpret_cast<int (*)()>(find_symbol(library, "nvtxRangePop"));
    return made;
  }();
  return *found;
}

}  // namespace

bool detail::wants_ranges() {
  std::uint32_t wanted = g_ranges.load(std::memory_order_relaxed);
  if (wanted & kRangesUnread) {
    const bool looks = is_profiler_injected() || logs(LogTopic::kNvtx);
    g_ranges.fetch_or(looks ? kNvtx : 0, std::memory_order_relaxed);
    wanted = g_ranges.fetch_and(~kRangesUnread, std::memory_order_relaxed) & ~kRangesUnread;
  }
  return wanted != 0;
}

void set_range_hook(RangeHook hook) {
  g_hook.store(hook);
  if (hook)
    detail::g_ranges.fetch_or(kHook);
  else
    detail::g_ranges.fetch_and(~kHook);
}

void CallRange::open(const std::string& name) {
  const std::uint32_t wanted = detail::g_ranges.load(std::memory_order_relaxed);
  if (wanted & kNvtx && nvtx().push && nvtx().pop) {
    nvtx().push(name.c_str());
    nvtx_ = true;
  }
  hook_ = wanted & kHook ? g_hook.load() : nullptr;
  if (hook_) hook_(name.c_str());
}

void CallRange::close() noexcept {
  if (hook_) hook_(nullptr);
  if (nvtx_) nvtx().pop();
}

}  // namespace dlblas
