// The driver's functions, with our own prototypes: no CUDA header is needed to build. Resolved
// once, from libcuda.so.1 alone, through cuGetProcAddress at a fixed version, so that an old
// prototype never calls a newer driver's changed signature. tests/cpp/test_cuda_prototypes.cpp
// compares all of this with the real header where there is one. Read next: cuda/cuda.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dlblas::cuda {

using Result = int;               // CUresult
using Handle = void*;             // CUcontext, CUstream, CUevent, CUgraph, …: opaque pointers
using DevicePtr = std::uint64_t;  // CUdeviceptr
inline constexpr int kApiVersion = 12000;

/// Values of the driver's enumerations that are used here.
enum : int {
  kErrorStubLibrary = 34,
  kAttributeMaxSharedPerUnit = 81,
  kAttributeUnits = 16,
  kAttributeL2Bytes = 38,
  kAttributeArchMajor = 75,
  kAttributeArchMinor = 76,
  kAttributeMaxSharedOptin = 97,
  kFunctionMaxThreads = 0,
  kFunctionSharedBytes = 1,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicShared = 8,
  kFunctionLargeClusters = 14,  // more than the 8 blocks that every device has room for
  kLaunchCooperative = 2,
  kLaunchCluster = 4,
  kLaunchDependent = 6,
  kStreamNonBlocking = 1,
  kEventDefault = 0,
  kCaptureThreadLocal = 1,
  kCaptureRelaxed = 2,
  kCaptureImplicit = 906,  // a code: the legacy stream is asked while another is captured
  kPointerDeviceOrdinal = 9,
};

struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int dependent;
    int cooperative;
  };
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  Handle stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};
static_assert(sizeof(LaunchConfig) == 56);

// One line per function: X(member, "cuName", arguments).
#define DLBLAS_CUDA_FUNCTIONS(X)                                                                \
  X(init, "cuInit", (unsigned))                                                                 \
  X(driver_version, "cuDriverGetVersion", (int*))                                               \
  X(device_count, "cuDeviceGetCount", (int*))                                                   \
  X(device_get, "cuDeviceGet", (int*, int))                                                     \
  X(device_name, "cuDeviceGetName", (char*, int, int))                                          \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, int))                                 \
  X(pci_bus_id, "cuDeviceGetPCIBusId", (char*, int, int))                                       \
  X(device_memory, "cuDeviceTotalMem", (std::size_t*, int))                                     \
  X(primary_retain, "cuDevicePrimaryCtxRetain", (Handle*, int))                                 \
  X(context_get, "cuCtxGetCurrent", (Handle*))                                                  \
  X(context_set, "cuCtxSetCurrent", (Handle))                                                   \
  X(context_device, "cuCtxGetDevice", (int*))                                                   \
  X(error_name, "cuGetErrorName", (Result, const char**))                                       \
  X(error_string, "cuGetErrorString", (Result, const char**))                                   \
  X(library_load, "cuLibraryLoadData",                                                          \
    (Handle*, const void*, int*, void**, unsigned, int*, void**, unsigned))                     \
  X(library_kernel, "cuLibraryGetKernel", (Handle*, Handle, const char*))                       \
  X(kernel_function, "cuKernelGetFunction", (Handle*, Handle))                                  \
  X(kernel_set, "cuKernelSetAttribute", (int, int, Handle, int))                                \
  X(kernel_get, "cuKernelGetAttribute", (int*, int, Handle, int))                               \
  X(launch_kernel, "cuLaunchKernelEx", (const LaunchConfig*, Handle, void**, void**))           \
  X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int*, Handle, int, std::size_t)) \
  X(memory_alloc, "cuMemAlloc", (DevicePtr*, std::size_t))                                      \
  X(memory_free, "cuMemFree", (DevicePtr))                                                      \
  X(memory_info, "cuMemGetInfo", (std::size_t*, std::size_t*))                                  \
  X(alloc_async, "cuMemAllocAsync", (DevicePtr*, std::size_t, Handle))                          \
  X(free_async, "cuMemFreeAsync", (DevicePtr, Handle))                                          \
  X(copy_in, "cuMemcpyHtoDAsync", (DevicePtr, const void*, std::size_t, Handle))                \
  X(copy_out, "cuMemcpyDtoHAsync", (void*, DevicePtr, std::size_t, Handle))                     \
  X(copy_within, "cuMemcpyDtoDAsync", (DevicePtr, DevicePtr, std::size_t, Handle))              \
  X(fill, "cuMemsetD8Async", (DevicePtr, unsigned char, std::size_t, Handle))                   \
  X(fill_words, "cuMemsetD32Async", (DevicePtr, unsigned, std::size_t, Handle))                 \
  X(stream_create, "cuStreamCreate", (Handle*, unsigned))                                       \
  X(stream_destroy, "cuStreamDestroy", (Handle))                                                \
  X(stream_wait, "cuStreamSynchronize", (Handle))                                               \
  X(stream_capturing, "cuStreamIsCapturing", (Handle, int*))                                    \
  X(capture_begin, "cuStreamBeginCapture", (Handle, int))                                       \
  X(capture_end, "cuStreamEndCapture", (Handle, Handle*))                                       \
  X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int*))                                  \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (Handle*, Handle, unsigned long long))    \
  X(graph_launch, "cuGraphLaunch", (Handle, Handle))                                            \
  X(graph_destroy, "cuGraphDestroy", (Handle))                                                  \
  X(graph_exec_destroy, "cuGraphExecDestroy", (Handle))                                         \
  X(event_create, "cuEventCreate", (Handle*, unsigned))                                         \
  X(event_destroy, "cuEventDestroy", (Handle))                                                  \
  X(event_record, "cuEventRecord", (Handle, Handle))                                            \
  X(event_wait, "cuEventSynchronize", (Handle))                                                 \
  X(event_elapsed, "cuEventElapsedTime", (float*, Handle, Handle))                              \
  X(pointer_attribute, "cuPointerGetAttribute", (void*, int, DevicePtr))                        \
  X(tensor_map_tiled, "cuTensorMapEncodeTiled",                                                 \
    (void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*,                   \
     const std::uint32_t*, const std::uint32_t*, int, int, int, int))

struct Driver {
#define DLBLAS_CUDA_MEMBER(member, name, arguments) Result(*member) arguments = nullptr;
  DLBLAS_CUDA_FUNCTIONS(DLBLAS_CUDA_MEMBER)
#undef DLBLAS_CUDA_MEMBER
  std::string why_not;  // empty: all functions are there and cuInit succeeded
  int version = 0;      // 13000
};

/// Opened, resolved and initialised once.
const Driver& driver();
/// True if `driver` was called in this process. Otherwise no device memory is ours, and there is no
/// need to start it.
bool started();
/// The driver; throws Error(kDevice), with the reason, if it cannot be used. Cold paths only.
const Driver& require_driver();
/// The device's primary context, retained for the process. Throws Error(kDevice).
Handle primary_context(int index);

}  // namespace dlblas::cuda
