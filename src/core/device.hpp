// Devices and what the library knows of them: the part of a Problem's key that is not the call's.
// CPU facts come from cpuid and sysfs, once a process; CUDA docks here as a second DeviceType.
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

/// CPU instruction-set levels, ordered: a level runs every kernel of the levels below it.
enum class Isa : std::uint8_t { kBaseline, kAvx2, kAvx512 };
std::string_view name_of(Isa isa);

/// Facts about one device. `supports`, `space`, `heuristic` and `estimate` see this and the Problem
/// only.
struct DeviceInfo {
  Device device;
  std::string model;         // "AMD EPYC (family 25 model 17)", "NVIDIA H200"
  Isa isa = Isa::kBaseline;  // CPU: the level in force (cpuid, capped by DLBLAS_CPU_ISA)
  Isa isa_hardware = Isa::kBaseline;
  std::int32_t arch = 0;   // CUDA: compute capability × 10
  std::int32_t units = 1;  // CPU: hardware threads this process may use; CUDA: multiprocessors
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 1 << 20;
  std::int64_t l3_bytes = 16 << 20;
};

/// Facts about the host CPU; computed once.
const DeviceInfo& cpu_info();
/// Facts about a device. Throws Error(kDevice) for one that is not there.
const DeviceInfo& device_info(Device device);

}  // namespace dlblas
