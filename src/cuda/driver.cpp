// Loads the driver; see driver.hpp.
#include "cuda/driver.hpp"

#include <atomic>
#include <string_view>

#include "core/error.hpp"
#include "core/fork.hpp"
#include "core/library.hpp"
#include "cuda/cublaslt.hpp"
#include "cuda/cuda.hpp"

namespace dlblas::cuda {
namespace {

using GetProcAddress = Result (*)(const char*, void**, int, std::uint64_t, int*);

struct Wanted {
  void** member;
  const char* name;
};

std::string words(const Driver& d, Result code) {
  const char *name = nullptr, *meaning = nullptr;
  if (d.error_name) d.error_name(code, &name);
  if (d.error_string) d.error_string(code, &meaning);
  return text(name ? name : "CUDA error", " (", code, ")", meaning ? ": " : "",
              meaning ? meaning : "");
}

std::string open(Driver& d) {
  if (forked()) return "this process is the child of a fork, where CUDA does not work";
  const Library& library = find_library("cuda");
  if (!library.handle) return text("no NVIDIA driver was found: ", library.why_not);
  const auto get = reinterpret_cast<GetProcAddress>(find_symbol(library, "cuGetProcAddress_v2"));
  if (!get) return text("the driver is too old: ", library.path, " has no cuGetProcAddress_v2");
  const Wanted wanted[] = {
#define DLBLAS_CUDA_WANTED(member, name, arguments) {reinterpret_cast<void**>(&d.member), name},
      DLBLAS_CUDA_FUNCTIONS(DLBLAS_CUDA_WANTED)
#undef DLBLAS_CUDA_WANTED
  };
  for (const Wanted& w : wanted)
    if (get(w.name, w.member, kApiVersion, 0, nullptr) != 0 || !*w.member)
      return text("the driver is too old: ", library.path, " has no ", w.name, " of CUDA 12.0");
  if (const Result code = d.init(0)) return text("the driver does not start: ", words(d, code));
  d.driver_version(&d.version);
  return {};
}

}  // namespace

namespace {
std::atomic<bool> g_opened{false};
}  // namespace

bool started() { return g_opened.load(std::memory_order_acquire); }

const Driver& driver() {
  static const Driver* const found = [] {
    auto* d = new Driver;
    d->why_not = open(*d);
    g_opened.store(true, std::memory_order_release);
    return d;
  }();
  return *found;
}

const Driver& require_driver() {
  if (const std::string why = unavailable(); !why.empty())
    throw Error(ErrorKind::kDevice,
                text("device: CUDA is not usable; expected a working NVIDIA driver, got: ", why),
                {.argument = "device", .expected = "a working NVIDIA driver", .got = why});
  return driver();
}

std::string unavailable() {
  const Driver& d = driver();
  if (!d.why_not.empty()) return d.why_not;
  if (forked())
    return "this process was forked after CUDA was started; use the spawn start method, or CUDA in "
           "one process only";
  return {};
}

std::string driver_version() {
  const int v = driver().version;
  return v ? text(v / 1000, ".", v % 1000 / 10) : "";
}

std::string error_text(int code) {
  return code > kCublasStatus ? cublaslt_text(code - kCublasStatus) : words(driver(), code);
}

void check(int code, const char* what) {
  if (code == 0) return;
  throw Error(ErrorKind::kLaunch,
              text("cuda: ", what, " failed; expected success, got ", error_text(code)),
              {.op = "cuda", .argument = what, .got = error_text(code)});
}

}  // namespace dlblas::cuda
