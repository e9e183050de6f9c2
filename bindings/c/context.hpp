// The Context of a call through the C ABI: the caller's functions where given, else the library's
// own (malloc'ed results, a per-thread workspace, the thread pool). On a GPU, memory is allocated
// and freed in the order of the caller's stream.
#pragma once

#include <memory>
#include <vector>

#include "core/implementation.hpp"
#include "dlblas/dlblas.h"

namespace dlblas {

/// Keeps the calling thread's own CPU workspace alive; null if it has none.
std::shared_ptr<const void> hold_workspace();
/// Frees a result that CallSide allocated on a GPU; false if the memory is not such a result.
bool free_device_result(void* memory);

/// Lives on the stack of one call; `context()` points into it.
class CallSide {
 public:
  CallSide(const dlblas_context* user, dlblas_tensor* outputs);
  ~CallSide();
  CallSide(const CallSide&) = delete;
  CallSide& operator=(const CallSide&) = delete;
  /// Sets the device of the call's tensors, once validate knows it; the library's own memory is
  /// then allocated there.
  void set_device(Device device) { context_.device = device; }
  const Context& context() const { return context_; }
  /// The number of threads that this context offers, for the Problem.
  int num_threads() const { return context_.num_threads; }

 private:
  static int new_output(void* self, int index, TensorView* out);
  static void* alloc(void* self, std::size_t bytes, std::size_t align);
  static void parallel_for(void* self, std::int64_t begin, std::int64_t end, std::int64_t grain,
                           void (*fn)(std::int64_t, std::int64_t, void*), void* ctx);
  const dlblas_context* user_;
  dlblas_tensor* outputs_;
  Context context_;
  std::size_t mark_block_, mark_used_;  // where the thread's workspace stood before this call
  std::vector<void*> device_memory_;    // workspace on a GPU, given back in the stream's order
};

}  // namespace dlblas
