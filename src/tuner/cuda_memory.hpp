// A CUDA device's memory for the tuner: our own kernels, on our own stream, write generated inputs,
// poison and guards. While one lives, its device is current on this thread.
// Flow: tune > inputs > [memory].  Read next: device/tuner_inputs.cuh.
#pragma once

#include <map>
#include <unordered_map>

#include "cuda/cuda.hpp"
#include "device/tuner_params.hpp"
#include "tuner/memory.hpp"

namespace dlblas {

class CudaMemory final : public Memory {
 public:
  /// Waits for `caller_stream` first: index-valued arguments may still be computed there.
  CudaMemory(int device, void* caller_stream);
  ~CudaMemory() override;

  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  std::shared_ptr<const void> hold() override;
  double capacity() const override;
  void set(void* to, int byte, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy_in(void* to, const void* from_host, std::size_t bytes) override;
  void copy_out(void* to_host, const void* from, std::size_t bytes) override;
  bool all_equal(const void* at, int byte, std::size_t bytes) override;
  void fill(const TensorView& t, const Filler& filler) override;
  void set_elements(const TensorView& t, int byte) override;
  std::vector<std::int64_t> elements_equal_to(const TensorView& t, int byte) override;

  void* stream() const { return stream_.get(); }
  const DeviceInfo& device() const { return device_; }

 private:
  /// Launches a kernel of tuner_inputs.cuh over `count` independent elements.
  template <typename Params>
  void launch(const char* entry, std::int64_t count, const Params& params);

  const DeviceInfo& device_;
  cuda::CurrentDevice current_;
  cuda::Stream stream_;
  cuda::Buffer counter_;
  std::unordered_map<std::byte*, cuda::Buffer> live_;
  // Released blocks by size: the next set, copy or workspace has the size of the last, and the
  // driver's own allocation synchronises the device.
  std::multimap<std::size_t, cuda::Buffer> spare_;
  std::shared_ptr<std::vector<cuda::Buffer>> held_;  // gets all of them at the end
};

/// An array in the tuner's memory, released with this object.
template <typename T>
class CudaArray {
 public:
  CudaArray(Memory& memory, std::size_t count)
      : memory_(memory), data_(memory.allocate(count * sizeof(T))) {}
  ~CudaArray() { memory_.release(data_); }
  CudaArray(const CudaArray&) = delete;
  CudaArray& operator=(const CudaArray&) = delete;
  T* get() const { return reinterpret_cast<T*>(data_); }

 private:
  Memory& memory_;
  std::byte* data_;
};

}  // namespace dlblas
