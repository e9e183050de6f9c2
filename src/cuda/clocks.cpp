// Clocks and throttling as NVML reports them; see cuda.hpp. Read, never set: the card may be
// shared.
#include "core/library.hpp"
#include "cuda/cuda.hpp"
#include "cuda/driver.hpp"

namespace dlblas::cuda {
namespace {

struct Nvml {
  int (*init)() = nullptr;
  int (*device)(const char*, void**) = nullptr;  // by PCI bus id: indices differ from CUDA's
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  bool usable = false;
};

template <typename F>
bool find(const Library& library, const char* name, F& member) {
  member = reinterpret_cast<F>(find_symbol(library, name));
  return member != nullptr;
}

const Nvml& nvml() {
  static const Nvml* const found = [] {
    auto* n = new Nvml;
    const Library& library = find_library("nvml");
    n->usable = library.handle && find(library, "nvmlInit_v2", n->init) &&
                find(library, "nvmlDeviceGetHandleByPciBusId_v2", n->device) &&
                find(library, "nvmlDeviceGetClockInfo", n->clock) &&
                find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", n->reasons) &&
                find(library, "nvmlDeviceGetTemperature", n->temperature) && n->init() == 0;
    return n;
  }();
  return *found;
}

}  // namespace

Clocks clocks(int index) {
  Clocks c;
  const Nvml& n = nvml();
  if (!n.usable || !unavailable().empty()) return c;
  char bus[32] = {};
  void* device = nullptr;
  if (driver().pci_bus_id(bus, sizeof bus, index) != 0 || n.device(bus, &device) != 0) return c;
  constexpr int kSm = 1, kMemory = 2, kGpuSensor = 0;
  unsigned value = 0;
  unsigned long long reasons = 0;
  if (n.clock(device, kSm, &value) == 0) c.sm_mhz = static_cast<int>(value);
  if (n.clock(device, kMemory, &value) == 0) c.memory_mhz = static_cast<int>(value);
  if (n.temperature(device, kGpuSensor, &value) == 0) c.temperature_c = static_cast<int>(value);
  if (n.reasons(device, &reasons) == 0) c.throttle_reasons = reasons;
  return c;
}

}  // namespace dlblas::cuda
