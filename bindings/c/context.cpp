// See context.hpp.
#include "bindings/c/context.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "bindings/c/guard.hpp"
#include "core/fork.hpp"
#include "core/per_thread.hpp"
#include "cpu/thread_pool.hpp"
#include "cuda/cuda.hpp"

namespace dlblas {
namespace {

// Workspace of one thread, allocated as a stack: a step may request memory several times, and
// nested calls are safe. Blocks are kept for the next call; when the outermost call ends, several
// blocks are merged into one.
class Arena {
 public:
  struct Mark {
    std::size_t block = 0, used = 0;
  };
  Mark mark() const { return at_; }
  void release(Mark to) {
    at_ = to;
    if (to.block > 0 || to.used > 0 || blocks_.size() <= 1) return;
    std::size_t total = 0;
    for (const Block& b : blocks_) total += b.bytes;
    blocks_.clear();
    add(total);
  }
  /// Keeps the current blocks alive.
  std::shared_ptr<const void> hold() const {
    return blocks_.empty() ? nullptr : std::make_shared<const std::vector<Block>>(blocks_);
  }
  void* take(std::size_t bytes) {
    for (; at_.block < blocks_.size(); ++at_.block, at_.used = 0)
      if (bytes <= blocks_[at_.block].bytes - at_.used) break;
    if (at_.block == blocks_.size() && !add(bytes)) return nullptr;
    void* p = static_cast<char*>(blocks_[at_.block].memory.get()) + at_.used;
    at_.used += bytes;
    return p;
  }

 private:
  struct Block {
    std::shared_ptr<void> memory;  // shared by what holds a workspace (hold_workspace)
    std::size_t bytes;
  };
  bool add(std::size_t bytes) {
    void* p = std::aligned_alloc(64, bytes);
    if (p) blocks_.push_back({std::shared_ptr<void>(p, &std::free), bytes});
    return p != nullptr;
  }
  std::vector<Block> blocks_;
  Mark at_;
};

constexpr std::size_t kAlign = 64;
constexpr std::int32_t kMaxThreads = 1024;  // as DLBLAS_NUM_THREADS; the key holds 16 bits

// GPU results that were not yet passed to dlblas_free, which must tell them from malloc'ed memory:
// querying the driver about a host address is reported as an error by every checker.
struct DeviceResults {
  std::mutex mutex;
  struct Made {
    Device device;
    void* stream;
  };
  std::unordered_map<void*, Made> made;
  std::atomic<std::size_t> count{0};
};
DeviceResults& device_results() {
  static auto* const results = new DeviceResults;
  return *results;
}

void* new_device_result(std::size_t bytes, Device device, void* stream) {
  void* memory = cuda::allocate(bytes, stream);
  if (!memory) return nullptr;
  DeviceResults& results = device_results();
  std::lock_guard lock(results.mutex);
  results.made[memory] = {device, stream};
  results.count = results.made.size();
  return memory;
}

std::size_t rounded(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

std::shared_ptr<const void> hold_workspace() { return per_thread<Arena>().hold(); }

bool free_device_result(void* memory) {
  DeviceResults& results = device_results();
  if (!memory || results.count == 0) return false;
  std::unique_lock lock(results.mutex);
  const auto found = results.made.find(memory);
  if (found == results.made.end()) return false;
  const DeviceResults::Made made = found->second;
  results.made.erase(found);
  results.count = results.made.size();
  lock.unlock();
  const cuda::CurrentDevice current(made.device.index);
  cuda::release(memory, made.stream);  // behind the work that writes it
  return true;
}

CallSide::CallSide(const dlblas_context* user, dlblas_tensor* outputs)
    : user_(user), outputs_(outputs) {
  if (user && user->size < sizeof(dlblas_context))
    refuse(ErrorKind::kArgument, "dlblas",
           {"context", "has a wrong size", text(sizeof(dlblas_context)), text(user->size)});
  context_.device = {DeviceType::kCpu, 0};
  context_.stream = user ? user->stream : nullptr;
  context_.num_threads = user && user->num_threads > 0 ? std::min(user->num_threads, kMaxThreads)
                         : forked() ? 1  // the pool's threads are gone, so no record of more fits
                                    : cpu_info().units;
  context_.self = this;
  context_.new_output = &CallSide::new_output;
  context_.alloc = &CallSide::alloc;
  context_.parallel_for = &CallSide::parallel_for;
  const Arena::Mark mark = per_thread<Arena>().mark();
  mark_block_ = mark.block, mark_used_ = mark.used;
}

CallSide::~CallSide() {
  per_thread<Arena>().release({mark_block_, mark_used_});
  if (device_memory_.empty()) return;
  const cuda::CurrentDevice current(context_.device.index);
  for (void* memory : device_memory_) cuda::release(memory, context_.stream);
}

int CallSide::new_output(void* self, int index, TensorView* view) {
  auto& side = *static_cast<CallSide*>(self);
  dlblas_tensor& out = side.outputs_[index];
  if (!out.shape || !out.strides)
    refuse(ErrorKind::kArgument, "dlblas",
           {"outputs", "has no room for a new result's sizes",
            "shape and strides of DLBLAS_MAX_RANK", "NULL"});
  out.device = {static_cast<std::int32_t>(view->device.type), view->device.index};
  out.ndim = view->rank;
  out.dtype = {dlpack_code_of(view->dtype), dlpack_bits_of(view->dtype),
               dlpack_lanes_of(view->dtype)};
  out.byte_offset = 0;
  for (int i = 0; i < view->rank; ++i) {
    out.shape[i] = view->shape[i];
    out.strides[i] = view->strides[i];
  }
  if (side.user_ && side.user_->new_output) {
    if (side.user_->new_output(side.user_->self, index, &out) != 0) return 1;
    view->data = out.data ? static_cast<char*>(out.data) + out.byte_offset : nullptr;
    std::copy_n(out.strides, view->rank, view->strides);  // launch compares with what was asked
    return 0;
  }
  const auto bytes =
      static_cast<std::size_t>(view->numel()) * static_cast<std::size_t>(size_of(view->dtype));
  out.data = view->device.type == DeviceType::kCuda
                 ? new_device_result(bytes, view->device, side.context_.stream)
                 : std::aligned_alloc(kAlign, rounded(bytes ? bytes : 1));
  view->data = out.data;
  return out.data ? 0 : 1;
}

void* CallSide::alloc(void* self, std::size_t bytes, std::size_t align) {
  auto& side = *static_cast<CallSide*>(self);
  if (side.user_ && side.user_->alloc) return side.user_->alloc(side.user_->self, bytes, align);
  if (side.context_.device.type == DeviceType::kCuda) {
    void* memory = cuda::allocate(bytes, side.context_.stream);
    if (memory) side.device_memory_.push_back(memory);
    return memory;
  }
  return per_thread<Arena>().take(rounded(std::max<std::size_t>(bytes, 1)));
}

void CallSide::parallel_for(void* self, std::int64_t begin, std::int64_t end, std::int64_t grain,
                            void (*fn)(std::int64_t, std::int64_t, void*), void* ctx) {
  const auto& side = *static_cast<CallSide*>(self);
  if (side.user_ && side.user_->parallel_for)
    return side.user_->parallel_for(side.user_->self, begin, end, grain, fn, ctx);
  pool_parallel_for(side.context_.num_threads, begin, end, grain, fn, ctx);
}

}  // namespace dlblas
