// Facts about this machine's CPU: model, instruction sets, threads, caches. Read once from cpuid,
// sysfs and the scheduler's affinity mask.
#include "core/device.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/absent_device.hpp"
#include "core/env.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace dlblas {
namespace {

// Uses cpuid directly: __builtin_cpu_supports reads a table in the compiler's runtime, which zig's
// leaves empty.
Isa hardware_isa() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kFirst = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & kFirst) != kFirst) return Isa::kBaseline;
  // State that the kernel saves at a task switch: xmm and ymm; then also masks and zmm.
  constexpr unsigned kYmm = 0x06, kZmm = 0xe6;
  unsigned saved = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(edx) : "c"(0));
  const bool leaf = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
  if (!leaf || !(ebx & bit_AVX2) || (saved & kYmm) != kYmm) return Isa::kBaseline;
  constexpr unsigned kWide = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
  return (ebx & kWide) == kWide && (saved & kZmm) == kZmm ? Isa::kAvx512 : Isa::kAvx2;
#else
  return Isa::kBaseline;
#endif
}

/// Extensions of a kAvx512 CPU beyond the level.
struct Units {
  bool vnni = false, avx512_bf16 = false, amx = false;
};

#if defined(__x86_64__)
/// Linux (5.16 on) saves tiles at a task switch only for a process that requested permission.
/// Threads and children inherit the permission.
bool asks_for_tiles() {
#if defined(SYS_arch_prctl)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}
#endif

Units units_of_cpu() {
  Units units;
#if defined(__x86_64__)
  // Bits of leaf 7 that g++ 12's cpuid.h lacks or names differently from clang's.
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24, kAmxInt8 = 1u << 25,
                     kAvx512Bf16 = 1u << 5;
  constexpr unsigned kTiles = kAmxBf16 | kAmxTile | kAmxInt8;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return units;
  units.vnni = ecx & bit_AVX512VNNI;
  const bool tiles = (edx & kTiles) == kTiles;
  if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx))
    units.avx512_bf16 = eax & kAvx512Bf16;
  constexpr unsigned kTileState = 0x60000;  // what the kernel can save: configuration and data
  unsigned saved = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(edx) : "c"(0));
  units.amx = tiles && units.avx512_bf16 && (saved & kTileState) == kTileState && asks_for_tiles();
#endif
  return units;
}

Isa capped_isa(Isa hardware) {
  const std::string_view cap = env(EnvVar::kCpuIsa);
  if (cap.empty()) return hardware;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    if (cap == name_of(isa)) return std::min(isa, hardware);
  log(LogLevel::kWarn,
      text("DLBLAS_CPU_ISA has an unknown value; expected baseline, avx2 or avx512, got ", cap,
           "; it is ignored"));
  return hardware;
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, name, family, model;
  while (std::getline(info, line)) {
    auto value = [&](std::string_view field, std::string& to) {
      if (!to.empty() || !line.starts_with(field)) return;
      const std::size_t colon = line.find(':');
      if (colon != std::string::npos && line.find_first_not_of(" \t", field.size()) == colon)
        to = line.substr(colon + 2);
    };
    value("model name", name);
    value("cpu family", family);
    value("model", model);
    if (!name.empty() && !family.empty() && !model.empty()) break;
  }
  // Hypervisors hide product names; family and model still identify the generation.
  if (name.empty()) return "unknown CPU";
  return family.empty() ? name : text(name, " (family ", family, " model ", model, ")");
}

std::int64_t cache_bytes(int index, std::int64_t fallback) {
  std::ifstream file(text("/sys/devices/system/cpu/cpu0/cache/index", index, "/size"));
  std::int64_t size = 0;
  char unit = 0;
  if (!(file >> size) || size <= 0) return fallback;
  file >> unit;
  return unit == 'M' ? size << 20 : unit == 'K' ? size << 10 : size;
}

int usable_threads() {
  cpu_set_t set;
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0
                          ? CPU_COUNT(&set)
                          : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const std::string asked(env(EnvVar::kNumThreads));
  if (asked.empty()) return std::max(1, allowed);
  char* end = nullptr;
  const long n = std::strtol(asked.c_str(), &end, 10);
  if (*end == 0 && n >= 1 && n <= 1024) return static_cast<int>(n);
  log(LogLevel::kWarn, text("DLBLAS_NUM_THREADS has a wrong value; expected 1 to 1024, got ", asked,
                            "; it is ignored"));
  return std::max(1, allowed);
}

}  // namespace

std::string_view name_of(Isa isa) {
  constexpr std::string_view kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

const DeviceInfo& cpu_info() {
  static const auto* info = [] {
    auto* d = new DeviceInfo;
    d->model = cpu_model();
    d->isa_hardware = hardware_isa();
    d->isa = capped_isa(d->isa_hardware);
    if (d->isa == Isa::kAvx512) {
      const Units units = units_of_cpu();
      d->vnni = units.vnni, d->avx512_bf16 = units.avx512_bf16, d->amx = units.amx;
    }
    d->units = usable_threads();
    d->l1_bytes = cache_bytes(0, d->l1_bytes);
    d->l2_bytes = cache_bytes(2, d->l2_bytes);
    d->l3_bytes = cache_bytes(3, d->l3_bytes);
    return d;
  }();
  return *info;
}

namespace {
std::atomic<const DeviceInfo& (*)(int)> g_cuda_info{nullptr};
}  // namespace

void set_cuda_source(const DeviceInfo& (*info)(int)) { g_cuda_info.store(info); }

namespace {
// One entry per requested architecture, never freed.
const DeviceInfo& absent_info(Device device) {
  const int arch = device.index - kAbsentGpu;
  // The architectures that CUDA 13's compiler knows.
  static constexpr int kKnown[] = {80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
  if (std::find(std::begin(kKnown), std::end(kKnown), arch) == std::end(kKnown)) {
    std::string names;
    for (const int one : kKnown) names += text(names.empty() ? "sm_" : ", sm_", one);
    throw Error(ErrorKind::kDevice,
                text("device: architecture is unknown; expected one of ", names, ", got sm_", arch),
                {.argument = "device"});
  }
  static std::mutex mutex;
  static auto* const known = new std::map<int, DeviceInfo>;
  const std::lock_guard lock(mutex);
  const auto [at, added] = known->try_emplace(arch);
  if (added) {
    at->second = typical_cuda_device(arch);
    at->second.device = device;
  }
  return at->second;
}
}  // namespace

void require_present(Device device) {
  if (!is_absent(device)) return;
  const int arch = device.index - kAbsentGpu;
  throw Error(ErrorKind::kDevice,
              text("device: sm_", arch,
                   " is a GPU that need not be here; expected a device of this "
                   "machine, got one to explain and compile for"),
              {.argument = "device"});
}

const DeviceInfo& device_info(Device device) {
  if (device.type == DeviceType::kCpu) return cpu_info();
  if (is_absent(device)) return absent_info(device);
  const auto cuda_info = g_cuda_info.load();
  if (device.type == DeviceType::kCuda && cuda_info) return cuda_info(device.index);
  throw Error(
      ErrorKind::kDevice,
      text(
          "device: type is not served by this build; expected cpu or cuda, got DLPack device type ",
          static_cast<int>(device.type)),
      {.argument = "device"});
}

}  // namespace dlblas
