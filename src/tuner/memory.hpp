// Where a measured call's tensors live: the host's memory, or a CUDA device's. Has the tuner's
// operations on bytes and elements there, so that inputs, guards and poison are written once for
// both. Flow: tune > inputs > [memory].  Read next: tuner/host_memory.cpp, tuner/cuda_memory.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/implementation.hpp"
#include "core/lender.hpp"
#include "tuner/filler.hpp"

namespace dlblas {

class Memory {
 public:
  static constexpr std::size_t kAlign = 64;

  Memory() = default;
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Aligned to kAlign. Throws std::bad_alloc.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;
  /// Keeps everything that is allocated now alive, even after its release: a candidate kept a view.
  virtual std::shared_ptr<const void> hold() = 0;
  /// Bytes that could be allocated at best: checked before large tensors are made.
  virtual double capacity() const = 0;

  virtual void set(void* to, int byte, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;  // both in this memory
  virtual void copy_in(void* to, const void* from_host, std::size_t bytes) = 0;
  virtual void copy_out(void* to_host, const void* from, std::size_t bytes) = 0;
  virtual bool all_equal(const void* at, int byte, std::size_t bytes) = 0;

  /// Sets whether children that are forked from now on share these pages. A shared page costs a
  /// fault when it is next written, which a sample would count.
  virtual void lend_to_children(std::byte*, std::size_t, bool) {}

  /// Sets every element by the filler.
  virtual void fill(const TensorView& t, const Filler& filler) = 0;
  /// Sets every byte of every element; gaps stay.
  virtual void set_elements(const TensorView& t, int byte) = 0;
  /// Row-major indices of elements whose bytes all equal `byte`, ascending.
  virtual std::vector<std::int64_t> elements_equal_to(const TensorView& t, int byte) = 0;
};

/// The tensor with the bytes that it spans fetched from `memory` into `kept`; the tensor itself if
/// the host can read it and `always` is not set.
TensorView fetch(const TensorView& t, Memory& memory, std::vector<std::byte>& kept,
                 bool always = false);

/// A call's tensors as the host can read them, whatever memory they are in. `always`: in memory of
/// its own, so that later writes to the call's do not matter.
class HostCopy {
 public:
  HostCopy(const Args& args, Memory& memory, bool always = false);
  const Args& args() const { return args_; }

 private:
  Args args_;
  std::vector<std::byte> kept_[kMaxTensors];
};

class HostMemory final : public Memory {
 public:
  /// `context` lends its threads for filling.
  explicit HostMemory(const Context& context) : context_(context) {}

  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  std::shared_ptr<const void> hold() override;
  double capacity() const override;
  void set(void* to, int byte, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy_in(void* to, const void* from_host, std::size_t bytes) override;
  void copy_out(void* to_host, const void* from, std::size_t bytes) override;
  bool all_equal(const void* at, int byte, std::size_t bytes) override;
  void lend_to_children(std::byte* memory, std::size_t bytes, bool lent) override;
  void fill(const TensorView& t, const Filler& filler) override;
  void set_elements(const TensorView& t, int byte) override;
  std::vector<std::int64_t> elements_equal_to(const TensorView& t, int byte) override;

 private:
  using Blocks = std::vector<std::unique_ptr<std::byte, void (*)(std::byte*)>>;
  const Context context_;
  std::shared_ptr<Blocks> held_;  // what was released since a view was kept
};

/// Lives around a candidate's run on tensors of this memory.
class LentMemory final : public Lender {
 public:
  explicit LentMemory(Memory& memory) : Lender(true), memory_(memory) {}

 private:
  std::shared_ptr<const void> hold() override { return memory_.hold(); }
  Memory& memory_;
};

}  // namespace dlblas
