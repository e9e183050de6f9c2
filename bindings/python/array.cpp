// Arrays that are not NumPy's: DLPack capsules, the array interface, dlblas.Spec. See array.hpp.
// A capsule is read and left alone: it is kept while the call runs, then its own destructor gives
// the memory back.
#include "bindings/python/array.hpp"

#include <algorithm>
#include <string>

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
constexpr char kPlain[] = "dltensor";
constexpr char kVersioned[] = "dltensor_versioned";

bool complain(const Place& place, dlblas_status status, const char* problem, const char* expected,
              const std::string& got, const char* remedy) {
  raise({status, place.op, place.argument, problem, expected, got.c_str(), remedy});
  return false;
}

bool check_rank(const Place& place, Size rank) {
  return rank <= DLBLAS_MAX_RANK || complain(place, DLBLAS_SHAPE, "has too many dimensions",
                                             "at most 8", std::to_string(rank), "reshape it");
}

bool check_writable(const Place& place, bool read_only) {
  return !place.written || !read_only ||
         complain(place, DLBLAS_ARGUMENT, "is read-only", "a writable array", "read-only memory",
                  "pass a copy");
}

bool read_capsule(Object* capsule, const Place& place, Array& array) {
  const dlblas_tensor* t = nullptr;
  bool read_only = false;
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
    return complain(place, DLBLAS_ARGUMENT, "has a __dlpack__ that returned no fresh capsule",
                    kPlain, "another capsule", "pass a NumPy array");
  }
  if (!check_rank(place, t->ndim) || !check_writable(place, read_only)) return false;
  if (t->dtype.lanes != 1 &&
      dtype_from_dlpack(t->dtype.code, t->dtype.bits, t->dtype.lanes) == DType::kAbsent)
    return complain(place, DLBLAS_DTYPE, "has a vector dtype", "1 lane",
                    std::to_string(t->dtype.lanes), "convert it");
  array.tensor = *t;
  std::int64_t contiguous = 1;
  for (int i = t->ndim - 1; i >= 0; --i) {
    array.shape[i] = t->shape[i];
    array.strides[i] = t->strides ? t->strides[i] : contiguous;
    contiguous *= t->shape[i];
  }
  return true;
}

// (address, code, bits, shape, byte strides or None, read only), of the array interface; a Spec
// adds its CUDA device, or -1.
bool read_tuple(Object* answer, const Place& place, Array& array) {
  Object* shape = api.tuple_get(answer, 3);
  Object* strides = api.tuple_get(answer, 4);
  const Size rank = api.tuple_size(shape);
  if (!check_rank(place, rank) ||
      !check_writable(place, api.is_true(api.tuple_get(answer, 5)) == 1))
    return false;
  dlblas_tensor& t = array.tensor;
  t.data = reinterpret_cast<void*>(api.long_as_unsigned(api.tuple_get(answer, 0)));
  std::int64_t cuda =
      api.tuple_size(answer) > 6 ? api.long_as(api.tuple_get(answer, 6)) : std::int64_t{-1};
  if (cuda == -2) cuda = cuda::pointer_device(t.data);
  t.device = cuda < 0 ? dlblas_device{1, 0} : dlblas_device{2, static_cast<std::int32_t>(cuda)};
  t.ndim = static_cast<std::int32_t>(rank);
  t.dtype = {static_cast<std::uint8_t>(api.long_as(api.tuple_get(answer, 1))),
             static_cast<std::uint8_t>(api.long_as(api.tuple_get(answer, 2))), 1};
  t.byte_offset = 0;
  std::int64_t contiguous = 1;
  const std::int64_t size = t.dtype.bits / 8;
  for (Size i = rank - 1; i >= 0; --i) {
    array.shape[i] = api.long_as(api.tuple_get(shape, i));
    const std::int64_t step =
        strides == api.none ? contiguous * size : api.long_as(api.tuple_get(strides, i));
    if (step % size != 0 && array.shape[i] > 1)
      return complain(place, DLBLAS_ARGUMENT,
                      "has a stride that is not a multiple of its item size",
                      "strides in whole elements", std::to_string(step) + " bytes", "pass a copy");
    array.strides[i] = step / size;
    contiguous *= array.shape[i];
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

// A capsule nobody consumed still owns its tensor; a consumed one was renamed.
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
  const bool capsule = type_of(answer.get()) == api.capsule_type;
  const bool read =
      capsule ? read_capsule(answer.get(), place, array) : read_tuple(answer.get(), place, array);
  if (!read) return false;
  array.tensor.shape = array.shape;
  array.tensor.strides = array.strides;
  if (capsule && !array.tensor.data && array.bytes() > 0)
    return complain(place, DLBLAS_ARGUMENT, "has no memory", "the address of its first element",
                    "a null address", "pass an array");
  if (place.needs_data && !array.tensor.data && array.bytes() > 0)
    return complain(place, DLBLAS_ARGUMENT, "is a dlblas.Spec", "an array", "a shape without data",
                    "pass an array, or ask explain(), tune() or get_op()");
  array.keeper = answer.release();
  return true;
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
  if (scratch.keeper) api.dec_ref(scratch.keeper);  // `made` itself keeps the memory
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

Object* make_view_capsule(const dlblas_tensor& tensor) {
  auto* m = new Managed{tensor, nullptr, delete_managed};
  m->tensor.shape = new std::int64_t[tensor.ndim + 1];
  m->tensor.strides = new std::int64_t[tensor.ndim + 1];
  std::copy_n(tensor.shape, tensor.ndim, m->tensor.shape);
  std::copy_n(tensor.strides, tensor.ndim, m->tensor.strides);
  Object* capsule = api.capsule_new(m, kPlain, destroy_capsule);
  if (!capsule) delete_managed(m);
  return capsule;
}

}  // namespace dlblas::py
