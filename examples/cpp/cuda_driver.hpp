// The part of the CUDA driver that own_stream.cpp uses, loaded at run time: building needs no
// toolkit and no CUDA header, and the program also runs without a GPU. A program that links CUDA
// already has a stream and memory, and passes its own CUstream (or cudaStream_t) and pointers
// instead.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

/// The first GPU of this machine: its memory, one stream, and graphs captured from that stream.
class Gpu {
 public:
  /// Throws std::runtime_error, with the reason, if there is no GPU.
  Gpu() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw std::runtime_error("the driver, libcuda.so.1, is not there");
    int device = 0;
    void* context = nullptr;
    call<unsigned>("cuInit", 0);
    call<int*, int>("cuDeviceGet", &device, 0);
    char name[128] = "";
    call<char*, int, int>("cuDeviceGetName", name, sizeof name, device);
    name_ = name;
    // The primary context, which the CUDA runtime, torch and dlblas share.
    call<void**, int>("cuDevicePrimaryCtxRetain", &context, device);
    call<void*>("cuCtxSetCurrent", context);
    constexpr unsigned kNonBlocking = 1;
    call<void**, unsigned>("cuStreamCreate", &stream_, kNonBlocking);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const std::string& name() const { return name_; }
  void* stream() const { return stream_; }

  void* allocate(std::size_t bytes) const {
    std::uint64_t memory = 0;
    call<std::uint64_t*, std::size_t>("cuMemAlloc_v2", &memory, bytes);
    return reinterpret_cast<void*>(memory);
  }
  void copy_in(void* to, const void* from, std::size_t bytes) const {
    call<std::uint64_t, const void*, std::size_t, void*>(
        "cuMemcpyHtoDAsync_v2", reinterpret_cast<std::uint64_t>(to), from, bytes, stream_);
  }
  void copy_out(void* to, const void* from, std::size_t bytes) const {
    call<void*, std::uint64_t, std::size_t, void*>(
        "cuMemcpyDtoHAsync_v2", to, reinterpret_cast<std::uint64_t>(from), bytes, stream_);
    call<void*>("cuStreamSynchronize", stream_);
  }

  /// Captures what `record` puts on the stream into a graph that is ready to launch.
  void* capture(const std::function<void()>& record) const {
    constexpr int kThreadLocal = 1;
    void *graph = nullptr, *ready = nullptr;
    call<void*, int>("cuStreamBeginCapture_v2", stream_, kThreadLocal);
    record();
    call<void*, void**>("cuStreamEndCapture", stream_, &graph);
    call<void**, void*, unsigned long long>("cuGraphInstantiateWithFlags", &ready, graph, 0);
    call<void*>("cuGraphDestroy", graph);
    return ready;
  }
  void replay(void* graph) const { call<void*, void*>("cuGraphLaunch", graph, stream_); }

 private:
  template <typename... A>
  void call(const char* function, A... arguments) const {
    auto* const found = reinterpret_cast<int (*)(A...)>(dlsym(library_, function));
    const int code = found ? found(arguments...) : -1;
    if (code != 0)
      throw std::runtime_error(std::string(function) + ": code " + std::to_string(code));
  }

  void* library_;
  void* stream_ = nullptr;
  std::string name_;
};
