// Our prototypes of the driver against the real header, if the machine has one: sizes, offsets,
// enumerators, and that every function of the table has the real one's arguments. Without a toolkit
// there is nothing to compare with, and the test says so.  Read next: src/cuda/driver.hpp.
#include <gtest/gtest.h>

#include <cstddef>

#include "core/error.hpp"
#include "cuda/cuda.hpp"
#include "cuda/driver.hpp"

#if defined(DLBLAS_CUDA_HEADER)
#include DLBLAS_CUDA_HEADER

namespace dlblas::test {
namespace {

static_assert(sizeof(cuda::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(cuda::LaunchConfig, shared_bytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(cuda::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(cuda::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(cuda::LaunchConfig, num_attributes) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(cuda::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(cuda::LaunchAttribute, bytes) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(sizeof(cuda::DevicePtr) == sizeof(CUdeviceptr));
static_assert(int{cuda::kErrorStubLibrary} == int{CUDA_ERROR_STUB_LIBRARY});
static_assert(int{cuda::kAttributeMaxSharedPerUnit} ==
              int{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR});
static_assert(int{cuda::kAttributeUnits} == int{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT});
static_assert(int{cuda::kAttributeL2Bytes} == int{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE});
static_assert(int{cuda::kAttributeArchMajor} == int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR});
static_assert(int{cuda::kAttributeArchMinor} == int{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR});
static_assert(int{cuda::kAttributeMaxSharedOptin} ==
              int{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN});
static_assert(int{cuda::kFunctionMaxThreads} == int{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK});
static_assert(int{cuda::kFunctionSharedBytes} == int{CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES});
static_assert(int{cuda::kFunctionRegisters} == int{CU_FUNC_ATTRIBUTE_NUM_REGS});
static_assert(int{cuda::kFunctionMaxDynamicShared} ==
              int{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES});
static_assert(int{cuda::kLaunchCluster} == int{CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION});
static_assert(int{cuda::kLaunchDependent} ==
              int{CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION});
static_assert(int{cuda::kStreamNonBlocking} == int{CU_STREAM_NON_BLOCKING});
static_assert(int{cuda::kCaptureThreadLocal} == int{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL});
static_assert(int{cuda::kCaptureRelaxed} == int{CU_STREAM_CAPTURE_MODE_RELAXED});
static_assert(int{cuda::kPointerDeviceOrdinal} == int{CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL});
static_assert(int{cuda::kCaptureImplicit} == int{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT});

/// How many arguments a function takes, and how they are passed: each in a register of 4 or 8
/// bytes.
template <typename F>
struct Shape;
template <typename R, typename... A>
struct Shape<R (*)(A...)> {
  static constexpr int kCount = sizeof...(A);
  static constexpr std::size_t bytes() { return (std::size_t{0} + ... + sizeof(A)); }
};
template <typename Ours, typename Real>
constexpr bool same_shape() {
  return Shape<Ours>::kCount == Shape<Real>::kCount && Shape<Ours>::bytes() == Shape<Real>::bytes();
}

TEST(Prototypes, TakeTheRealArguments) {
  // The functions whose arguments are not all plain pointers and integers of one size.
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::library_load), decltype(&cuLibraryLoadData)>()));
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::launch_kernel), decltype(&cuLaunchKernelEx)>()));
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::kernel_set), decltype(&cuKernelSetAttribute)>()));
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::kernel_get), decltype(&cuKernelGetAttribute)>()));
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::occupancy),
                          decltype(&cuOccupancyMaxActiveBlocksPerMultiprocessor)>()));
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::fill), decltype(&cuMemsetD8Async)>()));
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::fill_words), decltype(&cuMemsetD32Async)>()));
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::copy_in), decltype(&cuMemcpyHtoDAsync)>()));
  EXPECT_TRUE(
      (same_shape<decltype(cuda::Driver::capture_begin), decltype(&cuStreamBeginCapture)>()));
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::graph_instantiate),
                          decltype(&cuGraphInstantiateWithFlags)>()));
  EXPECT_TRUE(
      (same_shape<decltype(cuda::Driver::pointer_attribute), decltype(&cuPointerGetAttribute)>()));
  EXPECT_TRUE(
      (same_shape<decltype(cuda::Driver::tensor_map_tiled), decltype(&cuTensorMapEncodeTiled)>()));
  EXPECT_TRUE((same_shape<decltype(cuda::Driver::pci_bus_id), decltype(&cuDeviceGetPCIBusId)>()));
}

}  // namespace
}  // namespace dlblas::test

#else

TEST(Prototypes, TakeTheRealArguments) { GTEST_SKIP() << "no cuda.h on this machine"; }

#endif

namespace dlblas::test {
namespace {

TEST(Driver, SaysWhyNot) {
  const std::string why = cuda::unavailable();
  if (why.empty()) {
    EXPECT_GE(cuda::device_count(), 0);
    EXPECT_FALSE(cuda::driver_version().empty());
    return;
  }
  EXPECT_EQ(cuda::device_count(), 0);
  EXPECT_EQ(cuda::pointer_device(&why), -1);
  try {
    cuda::info(0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kDevice);
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos);
  }
}

}  // namespace
}  // namespace dlblas::test
