// See context.hpp.
#include "bindings/c/context.hpp"

#include <cstdlib>
#include <memory>

#include "cpu/thread_pool.hpp"

namespace dlblas {
namespace {

// Grows only; a call's workspace lives until the next call of the same thread.
struct Workspace {
  std::unique_ptr<void, decltype(&std::free)> memory{nullptr, &std::free};
  std::size_t bytes = 0;
};
thread_local Workspace t_workspace;

constexpr std::size_t kAlign = 64;
std::size_t rounded(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

CallSide::CallSide(const dlblas_context* user, dlblas_tensor* outputs)
    : user_(user), outputs_(outputs) {
  context_.device = {DeviceType::kCpu, 0};
  context_.stream = user ? user->stream : nullptr;
  context_.num_threads = user && user->num_threads > 0 ? user->num_threads : cpu_info().units;
  context_.self = this;
  context_.new_output = &CallSide::new_output;
  context_.alloc = &CallSide::alloc;
  context_.parallel_for = &CallSide::parallel_for;
}

int CallSide::new_output(void* self, int index, TensorView* view) {
  auto& side = *static_cast<CallSide*>(self);
  if (!side.outputs_) return 1;
  dlblas_tensor& out = side.outputs_[index];
  out.device = {static_cast<std::int32_t>(view->device.type), view->device.index};
  out.ndim = view->rank;
  out.dtype = {dlpack_code_of(view->dtype), static_cast<std::uint8_t>(8 * size_of(view->dtype)), 1};
  out.byte_offset = 0;
  for (int i = 0; i < view->rank; ++i) {
    out.shape[i] = view->shape[i];
    out.strides[i] = view->strides[i];
  }
  if (side.user_ && side.user_->new_output) {
    if (side.user_->new_output(side.user_->self, index, &out) != 0) return 1;
    view->data = static_cast<char*>(out.data) + out.byte_offset;
    return 0;
  }
  const auto bytes =
      static_cast<std::size_t>(view->numel()) * static_cast<std::size_t>(size_of(view->dtype));
  out.data = std::aligned_alloc(kAlign, rounded(bytes ? bytes : 1));
  view->data = out.data;
  return out.data ? 0 : 1;
}

void* CallSide::alloc(void* self, std::size_t bytes, std::size_t align) {
  const auto& side = *static_cast<CallSide*>(self);
  if (side.user_ && side.user_->alloc) return side.user_->alloc(side.user_->self, bytes, align);
  if (t_workspace.bytes < bytes) {
    t_workspace.memory.reset();
    t_workspace.memory.reset(std::aligned_alloc(kAlign, rounded(bytes)));
    t_workspace.bytes = t_workspace.memory ? bytes : 0;
  }
  return t_workspace.memory.get();
}

void CallSide::parallel_for(void* self, std::int64_t begin, std::int64_t end, std::int64_t grain,
                            void (*fn)(std::int64_t, std::int64_t, void*), void* ctx) {
  const auto& side = *static_cast<CallSide*>(self);
  if (side.user_ && side.user_->parallel_for)
    return side.user_->parallel_for(side.user_->self, begin, end, grain, fn, ctx);
  pool_parallel_for(side.context_.num_threads, begin, end, grain, fn, ctx);
}

}  // namespace dlblas
