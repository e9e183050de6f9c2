// Arrays that are not NumPy's: DLPack capsules, the array interface, dlblas.Spec. See array.hpp.
// During a call, a capsule carries the name of a consumed one, so no other consumer can take its
// memory. Afterwards its name is restored, and its own destructor releases the memory.
#include "bindings/python/array.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "bindings/python/numpy.hpp"
#include "cuda/cuda.hpp"

namespace dlblas::py {
namespace {

struct Managed {  // DLManagedTensor
  dlblas_tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {  // DLManagedTensorVersioned, DLPack 1.x
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  dlblas_tensor tensor;
};
constexpr std::uint64_t kReadOnly = 1;
constexpr std::int64_t kAskDriver = -2;  // of a CUDA device's index: see _hooks.py
constexpr char kPlain[] = "dltensor";
constexpr char kVersioned[] = "dltensor_versioned";
constexpr char kUsed[] = "used_dltensor";

bool complain(const Place& place, dlblas_status status, const char* problem, const char* expected,
              const std::string& got, const char* remedy) {
  raise({status, place.op, place.argument, problem, expected, got.c_str(), remedy});
  return false;
}

bool check_rank(const Place& place, Size rank) {
  if (rank >= 0 && rank <= DLBLAS_MAX_RANK) return true;
  return complain(place, DLBLAS_SHAPE,
                  rank < 0 ? "has a negative number of dimensions" : "has too many dimensions",
                  rank < 0 ? "0 to 8" : "at most 8", std::to_string(rank), "reshape it");
}

// Fills in the strides of a packed array. The library refuses sizes that no memory can hold.
void fill_packed(Array& array, int rank) {
  std::int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    array.strides[i] = step;
    if (__builtin_mul_overflow(step, array.shape[i], &step)) step = 0;
  }
}

bool check_writable(const Place& place, bool read_only) {
  return !place.written || !read_only ||
         complain(place, DLBLAS_ARGUMENT, "is read-only", "a writable array", "read-only memory",
                  "pass a copy");
}

bool read_capsule(Object* capsule, const Place& place, Array& array) {
  const dlblas_tensor* t = nullptr;
  bool read_only = false;
  array.name = api.capsule_is(capsule, kVersioned) ? kVersioned : kPlain;
  if (api.capsule_is(capsule, kVersioned)) {
    const auto* m = static_cast<ManagedVersioned*>(api.capsule_get(capsule, kVersioned));
    if (m->major != 1)
      return complain(place, DLBLAS_ARGUMENT, "comes by an unknown version of DLPack", "version 1",
                      std::to_string(m->major), "pass a NumPy array");
    t = &m->tensor;
    read_only = m->flags & kReadOnly;
  } else if (api.capsule_is(capsule, kPlain)) {
    t = &static_cast<Managed*>(api.capsule_get(capsule, kPlain))->tensor;
  } else {
    Ref type(api.get_attr(type_of(capsule), "__name__"));
    return complain(place, DLBLAS_ARGUMENT, "has a __dlpack__ that returned no fresh capsule",
                    "a PyCapsule named dltensor or dltensor_versioned", words_of(type.get()),
                    "pass a NumPy array");
  }
  if (!check_rank(place, t->ndim) || !check_writable(place, read_only)) return false;
  if (t->dtype.lanes != 1 &&
      dtype_from_dlpack(t->dtype.code, t->dtype.bits, t->dtype.lanes) == DType::kAbsent)
    return complain(place, DLBLAS_DTYPE, "has a vector dtype", "1 lane",
                    std::to_string(t->dtype.lanes), "convert it");
  if (t->ndim > 0 && !t->shape)
    return complain(place, DLBLAS_SHAPE, "has no shape", "one size a dimension", "NULL",
                    "pass a NumPy array");
  array.tensor = *t;
  std::copy_n(t->shape, t->ndim, array.shape);
  if (t->strides)
    std::copy_n(t->strides, t->ndim, array.strides);
  else
    fill_packed(array, t->ndim);
  return true;
}

// Tuple (address, code, bits, shape, byte strides or None, read only) from the array interface; a
// Spec appends its CUDA device, or -1. _hooks.py has checked the type and range of each item.
bool read_tuple(Object* answer, const Place& place, Array& array) {
  const auto item = [&](Size i) { return api.tuple_get(answer, i); };
  if (api.tuple_size(answer) < 6 || !is_tuple(type_of(item(3))))
    return complain(place, DLBLAS_ARGUMENT, "is malformed", "an array", "another description",
                    "pass a NumPy array");
  Object *shape = item(3), *strides = item(4);
  const Size rank = api.tuple_size(shape);
  if (!check_rank(place, rank) || !check_writable(place, api.is_true(item(5)) == 1)) return false;
  dlblas_tensor& t = array.tensor;
  t.data = reinterpret_cast<void*>(api.long_as_unsigned(item(0)));
  std::int64_t cuda = api.tuple_size(answer) > 6 ? api.long_as(item(6)) : std::int64_t{-1};
  for (Size i = 0; i < rank; ++i) array.shape[i] = api.long_as(api.tuple_get(shape, i));
  t.ndim = static_cast<std::int32_t>(rank);
  if (cuda == kAskDriver) {
    cuda = cuda::pointer_device(t.data);
    if (cuda < 0 && !array.is_empty())
      return complain(place, DLBLAS_DEVICE, "is not in memory of a CUDA device",
                      "the address of such memory", "another address",
                      "give the object an __array_interface__ if it is on the CPU");
  }
  t.device = cuda < 0 ? dlblas_device{1, 0} : dlblas_device{2, static_cast<std::int32_t>(cuda)};
  const long long code = api.long_as(item(1)), bits = api.long_as(item(2));
  t.dtype = {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  t.byte_offset = 0;
  if (strides == api.none) fill_packed(array, t.ndim);
  const std::int64_t size = std::max(t.dtype.bits / 8, 1);
  for (Size i = 0; i < rank && strides != api.none; ++i) {
    const std::int64_t step = api.long_as(api.tuple_get(strides, i));
    if (step % size != 0 && array.shape[i] > 1)
      return complain(place, DLBLAS_ARGUMENT,
                      "has a stride that is not a multiple of its item size",
                      "strides in whole elements", std::to_string(step) + " bytes", "pass a copy");
    array.strides[i] = step / size;
  }
  return !api.err_occurred();
}

void delete_managed(Managed* m) {
  if (m->context) {
    const Locked locked;  // a consumer may let go on any thread
    api.dec_ref(static_cast<Object*>(m->context));
  }
  delete[] m->tensor.shape;
  delete[] m->tensor.strides;
  delete m;
}

void delete_view(Managed* m) {
  Views::drop(static_cast<Views::State*>(std::exchange(m->context, nullptr)));
  delete_managed(m);
}

// An unconsumed capsule still owns its tensor; a consumed one has been renamed.
void destroy_capsule(Object* capsule) {
  if (!api.capsule_is(capsule, kPlain)) return;
  auto* m = static_cast<Managed*>(api.capsule_get(capsule, kPlain));
  m->deleter(m);
}

}  // namespace

bool read_array(Object* object, const Place& place, Array& array) {
  const Numpy numpy = read_numpy(object, place, array);
  if (numpy == Numpy::kRead) return true;
  if (numpy == Numpy::kFailed) return false;
  array.keeper = nullptr;
  array.numpy = false;
  array.written = place.written;
  array.object = object;
  Ref op(api.intern(place.op)), argument(api.intern(place.argument));
  Ref answer(api.call_args(hooks.exchange, object, op.get(), argument.get(),
                           place.written ? api.true_object : api.false_object,
                           place.needs_data ? api.true_object : api.false_object,
                           place.stream ? place.stream : api.none, nullptr));
  if (!answer) return false;
  const bool capsule = !is_tuple(type_of(answer.get()));
  const bool read =
      capsule ? read_capsule(answer.get(), place, array) : read_tuple(answer.get(), place, array);
  if (!read) return false;
  array.tensor.shape = array.shape;
  array.tensor.strides = array.strides;
  if (capsule && !array.tensor.data && !array.is_empty())
    return complain(place, DLBLAS_ARGUMENT, "has no memory", "the address of its first element",
                    "a null address", "pass an array");
  if (place.needs_data && !array.tensor.data && !array.is_empty())
    return complain(place, DLBLAS_ARGUMENT, "is a dlblas.Spec", "an array", "a shape without data",
                    "pass an array, or ask explain(), tune() or get_op()");
  if (!capsule)
    array.name = nullptr;
  else if (api.capsule_rename(answer.get(), kUsed) != 0)
    return false;
  array.keeper = answer.release();
  return true;
}

void release(Array& array) {
  if (!array.keeper) return;
  if (array.name) api.capsule_rename(array.keeper, array.name);
  api.dec_ref(array.keeper);
  array.keeper = nullptr;
}

Object* make_array(const Array* like, dlblas_tensor& spec, Array& scratch) {
  if (like && like->numpy) return new_numpy(*like, spec);
  Ref shape(api.tuple_new(spec.ndim));
  if (!shape) return nullptr;
  for (int i = 0; i < spec.ndim; ++i) api.tuple_set(shape.get(), i, api.long_from(spec.shape[i]));
  Ref code(api.long_from(spec.dtype.code)), bits(api.long_from(spec.dtype.bits * spec.dtype.lanes));
  Ref cuda(api.long_from(spec.device.type == 2 ? spec.device.index : -1));
  Ref made(api.call_args(hooks.new_output, like ? like->object : api.none, code.get(), bits.get(),
                         shape.get(), cuda.get(), nullptr));
  if (!made || !read_array(made.get(), {"dlblas", "a new result", true, true}, scratch))
    return nullptr;
  spec.data = static_cast<char*>(scratch.tensor.data) + scratch.tensor.byte_offset;
  release(scratch);  // `made` itself keeps the memory
  return made.release();
}

Object* make_capsule(void* data, dlblas_dtype dtype, Object* shape, Object* owner) {
  const Size rank = api.tuple_size(shape);
  auto* m = new Managed{};
  m->tensor = {data,    {1, 0}, static_cast<std::int32_t>(rank), dtype, new std::int64_t[rank + 1],
               nullptr, 0};
  for (Size i = 0; i < rank; ++i) m->tensor.shape[i] = api.long_as(api.tuple_get(shape, i));
  api.inc_ref(owner);
  m->context = owner;
  m->deleter = delete_managed;
  Object* capsule = api.capsule_new(m, kPlain, destroy_capsule);
  if (!capsule) delete_managed(m);
  return capsule;
}

Object* make_view_capsule(const dlblas_tensor& tensor, const Views& views) {
  auto* m = new Managed{tensor, views.share(), delete_view};
  m->tensor.shape = new std::int64_t[tensor.ndim + 1];
  m->tensor.strides = new std::int64_t[tensor.ndim + 1];
  std::copy_n(tensor.shape, tensor.ndim, m->tensor.shape);
  std::copy_n(tensor.strides, tensor.ndim, m->tensor.strides);
  Object* capsule = api.capsule_new(m, kPlain, destroy_capsule);
  if (!capsule) delete_view(m);
  return capsule;
}

}  // namespace dlblas::py
