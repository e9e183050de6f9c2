// One call from torch: turns the stack's handles into dlblas_args; dlblas_call does the rest, with
// results and workspace from torch's allocator, on torch's current stream and torch's threads. See
// kernel.hpp.  Read next: bindings/c/call.cpp.
#include "bindings/torch/kernel.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/c/flags.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/c/handle.hpp"
#include "core/fork.hpp"
#include "core/lender.hpp"

namespace dlblas::torch {
namespace {

// An empty tensor may have no address; to the C ABI, a null address would request a new result.
std::max_align_t g_nothing;
thread_local constinit std::uint64_t t_num_failures = 0;

[[noreturn]] void torch_refused(const Operation& op, const char* what) {
  throw Error(ErrorKind::kInternal,
              text(op.name, ": torch refused to ", what, "; expected success, got its error"),
              {.op = op.name});
}

void check(int code, const Operation& op, const char* what) {
  if (code != 0) torch_refused(op, what);
}

std::string argument_name(const Operation& op, const Slot& slot) {
  const Schema& schema = op.form->op->schema;
  return slot.kind == Slot::Kind::kResult
             ? out_name(*op.form, slot.index)
             : schema.tensors[(*op.form->params)[slot.index].index].name;
}

// A kernel sees grad mode only if no formula covers it, and then torch would compute no gradient.
[[noreturn]] void refuse_grad(const Operation& op, const Slot& slot) {
  const std::string name = argument_name(op, slot);
  const std::string expected = "a tensor outside autograd", got = "requires_grad=True";
  throw Error(
      ErrorKind::kArgument,
      text(op.form->name, ": ", name, " requires grad; expected ", expected, ", got ", got,
           "; pass it with .detach(), or call under torch.no_grad()"),
      {.op = std::string(op.form->name), .argument = name, .expected = expected, .got = got});
}

bool is_there(const Tensor* tensor) {
  bool defined = true;
  return !shims.is_defined || shims.is_defined(tensor, &defined) != 0 || defined;
}

// Handles of a call's tensors: they keep the memory alive for a view that outlives the call.
struct Handles {
  std::vector<Tensor*> tensors;
  ~Handles() {
    for (Tensor* tensor : tensors) shims.delete_tensor(tensor);
  }
};

class Call final : public Lender {
 public:
  Call(const Operation& op, StableValue* stack) : Lender(true), op_(op), stack_(stack) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  /// Frees what the stack held, and the results that were not handed over.
  ~Call();
  /// Runs the whole call. False: the thread's last error says why.
  bool run() noexcept;

 private:
  static constexpr int kMaxParams = kMaxTensors + kMaxScalars;
  static constexpr int kMaxWorkspaces = 8;

  void take(const Slot& slot, StableValue value);
  void take_scalar(const Slot& slot, StableValue value);
  void read(Tensor* from, const Slot& slot, dlblas_tensor& to);
  void* stream() const;
  void mark_written();
  bool join_rows();
  std::shared_ptr<const void> hold() override;

  static int new_output(void* self, std::int32_t index, dlblas_tensor* out);
  static void* alloc(void* self, std::size_t bytes, std::size_t align);
  static void parallel_for(void* self, std::int64_t begin, std::int64_t end, std::int64_t grain,
                           void (*fn)(std::int64_t, std::int64_t, void*), void* ctx) {
    (void)self;
    shims.parallel_for(begin, end, grain, fn, ctx);
  }

  const Operation& op_;
  StableValue* stack_;
  dlblas_value values_[kMaxParams];
  dlblas_tensor tensors_[kMaxTensors];
  Tensor* handles_[kMaxTensors];
  int num_tensors_ = 0;
  String* strings_[kMaxScalars];
  int num_strings_ = 0;
  dlblas_tensor outputs_[kMaxResults];
  std::int64_t dims_[kMaxResults][2 * DLBLAS_MAX_RANK];
  Tensor* made_[kMaxResults] = {};
  Tensor* workspaces_[kMaxWorkspaces];
  int num_workspaces_ = 0;
  dlblas_device device_ = {1, 0};  // of the first tensor
};

Call::~Call() {
  for (int i = 0; i < num_tensors_; ++i) shims.delete_tensor(handles_[i]);
  for (int i = 0; i < num_strings_; ++i) shims.delete_string(strings_[i]);
  for (int i = 0; i < num_workspaces_; ++i) shims.delete_tensor(workspaces_[i]);
  for (Tensor* made : made_)
    if (made) shims.delete_tensor(made);
}

// Takes ownership of a slot's handles. Reading may fail, so this has already happened for all
// slots.
void Call::take(const Slot& slot, StableValue value) {
  if (slot.optional) {
    auto* box = reinterpret_cast<StableValue*>(value);
    if (!box) {
      values_[slot.index].kind = DLBLAS_NONE;
      return;
    }
    value = *box;
    if (shims.delete_value)
      shims.delete_value(box);
    else
      delete box;
  }
  if (slot.kind == Slot::Kind::kScalar) return take_scalar(slot, value);
  auto* const handle = reinterpret_cast<Tensor*>(value);
  if (slot.kind == Slot::Kind::kTensor && !is_there(handle)) {  // "… is missing", the library says
    shims.delete_tensor(handle);
    values_[slot.index].kind = DLBLAS_NONE;
    return;
  }
  const int i = num_tensors_++;
  handles_[i] = handle;
  if (slot.kind == Slot::Kind::kResult) return;
  values_[slot.index].kind = DLBLAS_TENSOR;
  values_[slot.index].as.tensor = &tensors_[i];
}

void Call::take_scalar(const Slot& slot, StableValue value) {
  dlblas_value& to = values_[slot.index];
  switch (slot.type) {
    case ScalarType::kFloat:
      to.kind = DLBLAS_FLOAT;
      to.as.f = std::bit_cast<double>(value);
      return;
    case ScalarType::kInt:
      to.kind = DLBLAS_INT;
      to.as.i = static_cast<std::int64_t>(value);
      return;
    case ScalarType::kBool:
      to.kind = DLBLAS_BOOL;
      to.as.i = static_cast<std::int64_t>(value & 0xffu);
      return;
    case ScalarType::kEnum:
      to.kind = DLBLAS_STRING;
      to.as.s = "";
      strings_[num_strings_++] = reinterpret_cast<String*>(value);
      shims.string_data(reinterpret_cast<String*>(value), &to.as.s);
      return;
    case ScalarType::kDType:
      const dlblas_dtype dtype = dtype_of(static_cast<std::int32_t>(value));
      const DType known = dtype_from_dlpack(dtype.code, dtype.bits, dtype.lanes);
      to.kind = DLBLAS_STRING;
      to.as.s = known == DType::kAbsent ? "another dtype" : name_of(known).data();
      return;
  }
}

void Call::read(Tensor* from, const Slot& slot, dlblas_tensor& to) {
  std::int64_t rank = 0;
  std::int32_t dtype = 0, device = 0;
  // Reading through the const pointer leaves a copy-on-write tensor shared.
  const int code = shims.dim(from, &rank) | shims.sizes(from, &to.shape) |
                   shims.strides(from, &to.strides) | shims.dtype(from, &dtype) |
                   shims.device_type(from, &device) |
                   (slot.written ? shims.mutable_data(from, &to.data)
                                 : shims.const_data(from, const_cast<const void**>(&to.data)));
  if (code != 0) torch_refused(op_, ("describe " + argument_name(op_, slot)).c_str());
  to.ndim = static_cast<std::int32_t>(rank);
  to.dtype = dtype_of(dtype);
  to.byte_offset = 0;
  to.device = {1, 0};
  if (device == shims.cpu) return;
  to.device.type = device == shims.cuda ? 2 : -1;
  check(shims.device_index(from, &to.device.index), op_, "describe a tensor");
}

void* Call::stream() const {
  if (device_.type != 2) return nullptr;
  if (!shims.current_cuda_stream)
    throw Error(ErrorKind::kDevice,
                text(op_.name, ": torch's CUDA functions cannot be found; expected ",
                     "aoti_torch_get_current_cuda_stream in libtorch_cuda.so, got none; pass CPU "
                     "tensors, or install a torch with CUDA"),
                {.op = op_.name});
  void* current = nullptr;
  check(shims.current_cuda_stream(device_.index, &current), op_, "name its current stream");
  return current;
}

int Call::new_output(void* self, std::int32_t index, dlblas_tensor* out) {
  Call& call = *static_cast<Call*>(self);
  // torch counts a size of 0 as 1 in the strides of a contiguous tensor.
  std::int64_t stride = 1;
  for (int i = out->ndim - 1; i >= 0; --i) {
    out->strides[i] = stride;
    stride *= out->shape[i] > 1 ? out->shape[i] : 1;
  }
  const bool cuda = out->device.type == 2;
  Tensor*& made = call.made_[index];
  if (shims.empty_strided(out->ndim, out->shape, out->strides, torch_code(out->dtype),
                          cuda ? shims.cuda : shims.cpu, cuda ? out->device.index : 0, &made) ||
      shims.mutable_data(made, &out->data))
    return 1;
  if (!out->data) out->data = &g_nothing;
  return 0;
}

std::shared_ptr<const void> Call::hold() {
  auto held = std::make_shared<Handles>();
  const auto keep = [&](Tensor* const* tensors, int count) {
    for (int i = 0; i < count; ++i) {
      Tensor* handle = nullptr;
      if (!tensors[i]) continue;
      if (!shims.new_handle || shims.new_handle(tensors[i], &handle) != 0) return false;
      held->tensors.push_back(handle);
    }
    return true;
  };
  const bool all = keep(handles_, num_tensors_) && keep(made_, op_.num_returned) &&
                   keep(workspaces_, num_workspaces_);
  return all ? held : nullptr;
}

// Torch's caching allocator follows streams: memory freed when the call returns serves the next
// allocation on this stream, which runs after the kernels of this call. Its alignment exceeds ours.
void* Call::alloc(void* self, std::size_t bytes, std::size_t align) {
  Call& call = *static_cast<Call*>(self);
  if (align > 64 || call.num_workspaces_ == kMaxWorkspaces) return nullptr;
  const auto size = static_cast<std::int64_t>(bytes);
  const std::int64_t one = 1;
  const bool cuda = call.device_.type == 2;
  Tensor* made = nullptr;
  void* data = nullptr;
  if (shims.empty_strided(1, &size, &one, torch_code({1, 8, 1}), cuda ? shims.cuda : shims.cpu,
                          cuda ? call.device_.index : 0, &made))
    return nullptr;
  call.workspaces_[call.num_workspaces_++] = made;
  return shims.mutable_data(made, &data) == 0 ? data : nullptr;
}

// Copying a tensor into itself moves no data and increments its version: no C function does only
// that, and going through the dispatcher takes longer than the rest of the call.
void count_write(const Operation& op, const Slot& slot, Tensor* tensor) {
  if (!shims.bump_version) return check(shims.copy_into(tensor, tensor, 0), op, "count a write");
  try {
    shims.bump_version(*tensor);
  } catch (...) {  // its one reason
    const std::string name = argument_name(op, slot);
    const std::string expected = "a tensor that counts its writes", got = "an inference tensor";
    throw Error(
        ErrorKind::kArgument,
        text(op.form->name, ": ", name, " cannot be written here; expected ", expected, ", got ",
             got, "; write into it under torch.inference_mode(), or pass a clone of it"),
        {.op = std::string(op.form->name), .argument = name, .expected = expected, .got = got});
  }
}

// autograd must notice that a tensor it may have saved has changed.
void Call::mark_written() {
  int tensor = 0;
  for (std::size_t i = 0; i < op_.slots.size(); ++i) {
    const Slot& slot = op_.slots[i];
    if (slot.kind == Slot::Kind::kScalar) continue;
    if (slot.kind == Slot::Kind::kTensor && values_[slot.index].kind == DLBLAS_NONE) continue;
    if (slot.written) count_write(op_, slot, handles_[tensor]);
    ++tensor;
  }
}

// Products need rows at one stride. After such a refusal, a contiguous copy takes the place of the
// input that it names, as in torch's own linear. False: the refusal is another one.
bool Call::join_rows() {
  dlblas_error error{};
  error.size = sizeof error;
  dlblas_last_error(&error);
  if (std::string_view(error.expected) != "rows at one stride") return false;
  const std::string argument = error.argument;
  int i = 0;
  for (const Slot& slot : op_.slots) {
    if (slot.kind == Slot::Kind::kScalar) continue;
    if (slot.kind == Slot::Kind::kTensor && values_[slot.index].kind == DLBLAS_NONE) continue;
    const int at = i++;
    if (slot.kind != Slot::Kind::kTensor || slot.written) continue;
    if (argument_name(op_, slot) != argument) continue;
    dlblas_tensor& t = tensors_[at];
    std::int64_t strides[DLBLAS_MAX_RANK], stride = 1;
    for (int d = t.ndim - 1; d >= 0; --d) {
      strides[d] = stride;
      stride *= t.shape[d] > 1 ? t.shape[d] : 1;
    }
    const bool cuda = t.device.type == 2;
    Tensor* copy = nullptr;
    check(shims.empty_strided(t.ndim, t.shape, strides, torch_code(t.dtype),
                              cuda ? shims.cuda : shims.cpu, cuda ? t.device.index : 0, &copy),
          op_, "allocate a copy");
    Tensor* const original = std::exchange(handles_[at], copy);
    const int code = shims.copy_into(copy, original, 0);
    shims.delete_tensor(original);
    check(code, op_, ("copy " + argument).c_str());
    read(copy, slot, t);
    return true;
  }
  return false;
}

[[noreturn]] void refuse_lazy(const std::string& op) {
  throw Error(
      ErrorKind::kArgument,
      text(op, ": an argument is a lazy negative or conjugate view; expected tensors whose ",
           "memory holds their values, got a set bit; pass x.resolve_neg().resolve_conj()"),
      {.op = op});
}

// An address for a destination without elements; one with elements but no address has had its
// storage freed, and is refused.
void* nothing(const Operation& op, const Slot& slot, const dlblas_tensor& t) {
  std::int64_t elements = 1;
  for (int i = 0; i < t.ndim; ++i) elements *= t.shape[i];
  if (elements == 0) return &g_nothing;
  const std::string name = argument_name(op, slot);
  throw Error(ErrorKind::kArgument,
              text(op.form->name, ": ", name, " has no memory; expected a data pointer, got NULL"),
              {.op = std::string(op.form->name),
               .argument = name,
               .expected = "a data pointer",
               .got = "NULL"});
}

bool Call::run() noexcept {
  for (std::size_t i = 0; i < op_.slots.size(); ++i) take(op_.slots[i], stack_[i]);
  try {
    if (op_.lazy) refuse_lazy(std::string(op_.form->name));
    int tensor = 0;
    const bool grad_enabled = shims.grad_enabled();
    for (const Slot& slot : op_.slots) {
      if (slot.kind == Slot::Kind::kScalar) continue;
      if (slot.kind == Slot::Kind::kTensor && values_[slot.index].kind == DLBLAS_NONE) continue;
      if (grad_enabled && requires_grad(handles_[tensor])) refuse_grad(op_, slot);
      dlblas_tensor& t = tensors_[tensor];
      read(handles_[tensor], slot, t);
      if (tensor++ == 0) device_ = t.device;
      if (slot.kind == Slot::Kind::kTensor) continue;
      if (!t.data) t.data = nothing(op_, slot, t);
      outputs_[slot.index] = t;
    }
    for (int r = 0; r < op_.num_returned; ++r) {
      outputs_[r] = {};
      outputs_[r].shape = dims_[r];
      outputs_[r].strides = dims_[r] + DLBLAS_MAX_RANK;
    }
    dlblas_args args{};
    args.size = sizeof args;
    args.values = values_;
    args.num_values = static_cast<std::int32_t>(op_.form->params->size());
    args.flags = t_call_flags | torch_flags();
    args.num_outputs = op_.form->num_outputs;
    args.outputs = args.num_outputs > 0 ? outputs_ : nullptr;
    std::uint32_t threads = 1;  // torch's pool hangs in a forked child
    if (device_.type == 1 && !forked()) shims.num_threads(&threads);
    dlblas_context context{};
    context.size = sizeof context;
    context.stream = stream();
    context.self = this;
    context.num_threads = static_cast<std::int32_t>(threads);
    context.new_output = new_output;
    context.alloc = alloc;
    context.parallel_for = parallel_for;
    while (dlblas_call(handle_of(*op_.form), &args, &context) != DLBLAS_OK)
      if (!t_joins_rows || !join_rows()) return false;
    if (op_.written) mark_written();
  } catch (...) {
    keep_exception();
    return false;
  }
  for (int r = 0; r < op_.num_returned; ++r)
    stack_[r] = reinterpret_cast<StableValue>(std::exchange(made_[r], nullptr));
  return true;
}

bool call(const Operation& op, StableValue* stack) noexcept {
  Call call(op, stack);
  return call.run();
}

// torch throws here. None of our frames has anything left to clean up.
void report() {
  ++t_num_failures;
  dlblas_error error{};
  error.size = sizeof error;
  dlblas_last_error(&error);
  shims.check(false, "dlblas", "dlblas", 0, error.message);
}

// A boxed kernel has no user pointer, so the table below holds one function per operation.
std::atomic<int> g_num_kernels{0};
const Operation* g_operations[kMaxKernels];

template <std::size_t I>
void kernel(StableValue* stack, std::uint64_t, std::uint64_t) {
  if (!call(*g_operations[I], stack)) report();
}
template <std::size_t... I>
constexpr std::array<BoxedKernel, sizeof...(I)> make_kernels(std::index_sequence<I...>) {
  return {kernel<I>...};
}
constexpr std::array<BoxedKernel, kMaxKernels> kKernels =
    make_kernels(std::make_index_sequence<kMaxKernels>());

}  // namespace

BoxedKernel bind_kernel(const Operation& operation) {
  const int i = g_num_kernels.fetch_add(1);
  if (i >= kMaxKernels) return nullptr;
  g_operations[i] = &operation;
  return kKernels[static_cast<std::size_t>(i)];
}

std::uint64_t num_failures() { return t_num_failures; }

}  // namespace dlblas::torch
