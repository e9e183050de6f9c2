// Devices, their facts, and which context is current; see cuda.hpp.
#include <array>
#include <atomic>
#include <mutex>

#include "core/error.hpp"
#include "core/fork.hpp"
#include "cuda/cuda.hpp"
#include "cuda/driver.hpp"

namespace dlblas::cuda {
namespace {

constexpr int kMaxDevices = 64;

struct Slot {
  std::once_flag once;
  DeviceInfo info;
  std::atomic<Handle> context{nullptr};  // read without the flag on warm paths
  Result failed = 0;
};
Slot& slot(int index) {
  static auto* const slots = new std::array<Slot, kMaxDevices>;
  return (*slots)[static_cast<std::size_t>(index)];
}

int attribute(const Driver& d, int which, int device) {
  int value = 0;
  d.device_attribute(&value, which, device);
  return value;
}

void read_info(const Driver& d, int index, Slot& s) {
  int device = 0;
  if ((s.failed = d.device_get(&device, index)) != 0) return;
  Handle context = nullptr;
  if ((s.failed = d.primary_retain(&context, device)) != 0) return;
  char name[128] = {};
  d.device_name(name, sizeof name, device);
  std::size_t memory = 0;
  d.device_memory(&memory, device);
  DeviceInfo& info = s.info;
  info.device = {DeviceType::kCuda, static_cast<std::int16_t>(index)};
  info.model = name;
  info.arch =
      attribute(d, kAttributeArchMajor, device) * 10 + attribute(d, kAttributeArchMinor, device);
  info.units = attribute(d, kAttributeUnits, device);
  info.shared_bytes_per_block = attribute(d, kAttributeMaxSharedOptin, device);
  info.shared_bytes_per_unit = attribute(d, kAttributeMaxSharedPerUnit, device);
  info.l1_bytes = info.shared_bytes_per_unit;
  info.l2_bytes = attribute(d, kAttributeL2Bytes, device);
  info.l3_bytes = 0;
  info.memory_bytes = static_cast<std::int64_t>(memory);
  s.context.store(context, std::memory_order_release);
}

Slot& ready_slot(int index) {
  const Driver& d = require_driver();
  const int count = device_count();
  if (index < 0 || index >= count || index >= kMaxDevices)
    throw Error(ErrorKind::kDevice,
                text("device: index is out of range; expected 0 to ", count - 1,
                     ", got cuda:", index, "; see `dlblas info`"),
                {.argument = "device"});
  Slot& s = slot(index);
  std::call_once(s.once, [&] { read_info(d, index, s); });
  if (s.failed)
    throw Error(ErrorKind::kDevice,
                text("device: cuda:", index, " cannot be used; expected a context, got ",
                     error_text(s.failed)),
                {.argument = "device"});
  return s;
}

}  // namespace

int device_count() {
  int count = 0;
  if (!unavailable().empty() || driver().device_count(&count) != 0) return 0;
  return count;
}

const DeviceInfo& info(int index) { return ready_slot(index).info; }

Handle primary_context(int index) { return ready_slot(index).context.load(); }

void attach() { set_cuda_source(&info); }

CurrentDevice::CurrentDevice(int index) : index_(index) {
  // Warm path: one load of a slot filled earlier, and one call into the driver.
  Handle wanted = index >= 0 && index < kMaxDevices
                      ? slot(index).context.load(std::memory_order_acquire)
                      : nullptr;
  if (!wanted || forked()) wanted = primary_context(index);
  const Driver& d = driver();
  d.context_get(&previous_);
  if (previous_ == wanted) return;
  check(d.context_set(wanted), "making a context current");
  changed_ = true;
}

// A thread that had no context may keep the first device's, which is every runtime's default; it
// must not keep another device's: cudaGetDevice would report that device from then on.
CurrentDevice::~CurrentDevice() {
  if (changed_ && (previous_ || index_ != 0)) driver().context_set(previous_);
}

RelaxedCapture::RelaxedCapture() { driver().capture_mode(&mode_); }
RelaxedCapture::~RelaxedCapture() { driver().capture_mode(&mode_); }

bool capturing(void* stream) {
  int state = 0;
  const Result code = driver().stream_capturing(stream, &state);
  if (code == kCaptureImplicit) return true;  // the legacy stream, while another is captured
  check(code, "asking whether a stream is being captured");
  return state != 0;
}

}  // namespace dlblas::cuda
