// A libcuda.so.1 of CUDA 12.8 with one GPU that answers queries and does nothing else: for the
// texts of `dlblas info --why` on machines other than this one, and for choices that depend on a
// stream's state. A stream at an odd address is being captured. Read next: tests/test_why.py,
// tests/cpp/test_capture.cpp.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

int succeed() { return 0; }
int refuse() { return 801; }  // CUDA_ERROR_NOT_SUPPORTED

int write_version(int* version) {
  *version = 12080;
  return 0;
}

int write_one(int* count) {
  *count = 1;
  return 0;
}

int write_context(void** context, int) {
  static int context_of_device_0;
  *context = &context_of_device_0;
  return 0;
}

int write_name(char* name, int size, int) {
  std::strncpy(name, "Stub GPU", static_cast<std::size_t>(size));
  return 0;
}

int write_attribute(int* value, int attribute, int) {
  constexpr int kArchMajor = 75;
  *value = attribute == kArchMajor ? 9 : 0;
  return 0;
}

int write_memory(std::size_t* bytes, int) {
  *bytes = std::size_t{80} << 30;
  return 0;
}

int write_capturing(void* stream, int* capturing) {
  *capturing = static_cast<int>(reinterpret_cast<std::uintptr_t>(stream) & 1);
  return 0;
}

struct Entry {
  const char* name;
  void* function;
};

}  // namespace

extern "C" int cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int*) {
  const Entry entries[] = {
      {"cuInit", reinterpret_cast<void*>(succeed)},
      {"cuDriverGetVersion", reinterpret_cast<void*>(write_version)},
      {"cuDeviceGetCount", reinterpret_cast<void*>(write_one)},
      {"cuDeviceGet", reinterpret_cast<void*>(succeed)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(write_context)},
      {"cuDeviceGetName", reinterpret_cast<void*>(write_name)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(write_attribute)},
      {"cuDeviceTotalMem", reinterpret_cast<void*>(write_memory)},
      {"cuCtxSetCurrent", reinterpret_cast<void*>(succeed)},
      {"cuStreamIsCapturing", reinterpret_cast<void*>(write_capturing)},
  };
  *function = reinterpret_cast<void*>(refuse);
  for (const Entry& entry : entries)
    if (std::strcmp(name, entry.name) == 0) *function = entry.function;
  return 0;
}
