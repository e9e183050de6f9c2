// The CUDA driver as the rest of the library sees it: devices, the current context, launches,
// memory, capture state. The driver is loaded at run time (libcuda.so.1), and building needs
// nothing of CUDA; src/cuda is the only place that calls it. No function here waits for the device
// except those that say so. Read next: cuda/driver.hpp (the functions themselves), jit/jit.hpp
// (where Functions come from).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/dtype.hpp"
#include "device/tensor_map.hpp"

namespace dlblas::cuda {

/// Why CUDA cannot be used in this process; empty when it can. Unusable after a fork.
std::string unavailable();
/// 0 where CUDA is unavailable.
int device_count();
/// Facts about one device, read once. Throws Error(kDevice): no driver, no such device, forked.
const DeviceInfo& info(int index);
/// Registers src/cuda as core/device.hpp's source of CUDA facts. Called when the registry starts.
void attach();
/// The driver's version ("13.0"), or empty.
std::string driver_version();

/// A kernel ready to launch on one device. Owned by the JIT, for the process.
struct Function {
  void* kernel = nullptr;    // CUkernel: belongs to no context
  void* function = nullptr;  // its CUfunction in the device's primary context, in which we launch
  int device = 0;
  int registers = 0;
  int spill_bytes = 0;  // stored and loaded, as ptxas reports
  int static_shared_bytes = 0;
  int max_threads = 0;                                               // per block, as compiled
  int blocks_per_unit(int threads, int dynamic_shared_bytes) const;  // occupancy; 0: cannot run
};

/// Loads a cubin eagerly and finds `symbol` in it; allows `dynamic_shared_bytes` at launch. Throws
/// Error(kLaunch).
Function load(const std::string& cubin, const std::string& symbol, int device,
              int dynamic_shared_bytes);

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct Launch {
  Dim3 grid, block;
  unsigned shared_bytes = 0;
  unsigned cluster = 1;      // blocks of a cluster, along x
  bool dependent = false;    // programmatic dependent launch: the kernel has griddepcontrol
  bool cooperative = false;  // all blocks run at a time, or none: they may wait for each other
};
/// Launches with one parameter struct, passed by value. Returns 0 or the driver's code, as a step
/// does.
int launch(const Function& function, const Launch& how, const void* params, std::size_t bytes,
           void* stream);
template <typename Params>
int launch(const Function& function, const Launch& how, const Params& params, void* stream) {
  return launch(function, how, &params, sizeof(Params), stream);
}
/// As launch, with a pointer to each of the kernel's parameters: for users' kernels.
int launch_list(const Function& function, const Launch& how, void** parameters, void* stream);
/// A step's code is the driver's, or this constant plus cuBLASLt's status: both count from 1.
inline constexpr int kCublasStatus = 100000;
/// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"; or "cuBLASLt
/// status 7 (invalid value)".
std::string error_text(int code);
/// Throws Error(kLaunch) with `what` and the code's text, unless it is 0.
void check(int code, const char* what);

/// Makes the device's primary context current while this lives, then restores the previous one.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);  // throws Error(kDevice)
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  void* previous_ = nullptr;
  int index_;
  bool changed_ = false;
};

/// While this lives, the calling thread may load kernels and allocate even if another thread
/// captures a stream in the mode that forbids this to all threads (torch's default).
class RelaxedCapture {
 public:
  RelaxedCapture();  // the driver is there
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = 2;  // relaxed; the thread's own while this lives
};

/// True if the stream (of the current context) is being captured into a graph. Throws
/// Error(kLaunch) if the context is lost.
bool capturing(void* stream);

/// Device memory of the current context; freed by its owner.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);  // throws Error(kLaunch) naming the size
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
};
/// Stream-ordered memory, for callers without an allocator: also valid during a capture. Null on
/// failure.
void* allocate(std::size_t bytes, void* stream);
void release(void* memory, void* stream);
/// Free bytes of the current device. Throws Error(kLaunch).
std::size_t free_memory();
/// The index of the device that holds this memory; -1 if none does.
int pointer_device(const void* memory);

/// Blocking copies (the tuner, tests): they synchronise the stream.
void copy_to_device(void* to, const void* from, std::size_t bytes, void* stream);
void copy_to_host(void* to, const void* from, std::size_t bytes, void* stream);
/// Stream-ordered, non-blocking.
void copy_on_device(void* to, const void* from, std::size_t bytes, void* stream);
void fill_bytes(void* to, int value, std::size_t bytes, void* stream);
void fill_words(void* to, std::uint32_t value, std::size_t words, void* stream);
void synchronize(void* stream);

/// A stream of our own, non-blocking.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void* get() const { return stream_; }

 private:
  void* stream_ = nullptr;
};

/// Two points of a stream and the device time between them.
class Timer {
 public:
  Timer();
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  void begin(void* stream);
  void end(void* stream);
  double milliseconds();  // waits for `end`

 private:
  void* events_[2] = {};
};

/// The work that `record` enqueues on the stream, captured once and replayed at will.
class Graph {
 public:
  /// `record(self)` returns a step's code; a code other than 0 ends the capture and is thrown.
  Graph(void* stream, int (*record)(void* self), void* self);
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph(const Graph&) = delete;
  void replay(void* stream) const;

 private:
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

enum class Swizzle : int { kNone = 0, k32 = 1, k64 = 2, k128 = 3 };
struct TensorMapSpec {
  DType dtype = DType::kBF16;
  const void* data = nullptr;
  int rank = 2;
  std::uint64_t sizes[5] = {};          // innermost first
  std::uint64_t strides_bytes[4] = {};  // of dimensions 1 …
  std::uint32_t box[5] = {};
  Swizzle swizzle = Swizzle::k128;
};
/// 0, or the driver's code.
int encode_tensor_map(TensorMap& map, const TensorMapSpec& spec);

/// Clocks and throttling as NVML reports them, for records; zeros where NVML is missing. Never sets
/// any.
struct Clocks {
  int sm_mhz = 0, memory_mhz = 0, temperature_c = 0;
  std::uint64_t throttle_reasons = 0;
};
Clocks clocks(int index);

}  // namespace dlblas::cuda
