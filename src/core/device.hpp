// Devices and the facts that the library knows about them: the part of a Problem's key that does
// not come from the call. CPU facts come from cpuid and sysfs, once per process; CUDA facts from
// the driver (src/cuda/device.cpp), which registers itself here, because core knows no driver.
// Read next: core/problem.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlblas {

/// DLPack's device codes.
enum class DeviceType : std::uint8_t { kCpu = 1, kCuda = 2 };

struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int16_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// Whether DLPack's numbers name a Device: they fit its fields, and the CPU has index 0 only.
constexpr bool is_device(std::int32_t type, std::int32_t index) {
  const bool cpu = type == static_cast<std::int32_t>(DeviceType::kCpu);
  return type > 0 && type <= UINT8_MAX && index >= 0 && index <= (cpu ? 0 : INT16_MAX);
}

/// CPU instruction-set levels in ascending order: a level runs every kernel of the levels below it.
enum class Isa : std::uint8_t { kBaseline, kAvx2, kAvx512 };
std::string_view name_of(Isa isa);

/// Facts about one device. `supports`, `space`, `heuristic` and `estimate` see this and the Problem
/// only.
struct DeviceInfo {
  Device device;
  std::string model;         // "AMD EPYC (family 25 model 17)", "NVIDIA H200"
  Isa isa = Isa::kBaseline;  // CPU: the level in force (cpuid, capped by DLBLAS_CPU_ISA)
  Isa isa_hardware = Isa::kBaseline;
  // CPU: extensions beyond the level, set only where `isa` is kAvx512. `amx`: BF16 and INT8 tiles
  // that the operating system lets this process use.
  bool vnni = false, avx512_bf16 = false, amx = false;
  std::int32_t arch = 0;   // CUDA: compute capability × 10
  std::int32_t units = 1;  // CPU: hardware threads this process may use; CUDA: multiprocessors
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 1 << 20;
  std::int64_t l3_bytes = 16 << 20;
  // CUDA only. l2_bytes is the whole device's; there is no L3.
  std::int32_t shared_bytes_per_block = 0;  // the most that a kernel may opt in to
  std::int32_t shared_bytes_per_unit = 0;
  std::int64_t memory_bytes = 0;
};

/// A CUDA device as the compiler sees it, with a known card's figures if the arch has one: for
/// compile_all, `explain` of a Spec and tests, which need no GPU.
DeviceInfo typical_cuda_device(int arch);

/// Facts about the host CPU; computed once.
const DeviceInfo& cpu_info();
/// Facts about a device. Throws Error(kDevice), with the reason, for one that is not available.
const DeviceInfo& device_info(Device device);
/// Sets the function that describes CUDA devices; called once, by src/cuda.
void set_cuda_source(const DeviceInfo& (*info)(int index));

}  // namespace dlblas
