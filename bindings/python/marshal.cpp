// Maps names to parameters and objects to values. See marshal.hpp.
#include "bindings/python/marshal.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/flags.hpp"
#include "bindings/python/torch.hpp"
#include "bindings/torch/shims.hpp"
#include "core/element.hpp"

namespace dlblas::py {
namespace {

// Below this many bytes of arguments, a call takes less time than releasing the interpreter's lock.
constexpr std::int64_t kReleaseBytes = 64 * 1024;
// An empty result may have no address; to the C ABI, a null address would request a new result.
std::max_align_t g_nothing;

Object* out_name() {
  static Object* const name = api.intern("out");
  return name;
}
Object* stream_name() {
  static Object* const name = api.intern("stream");
  return name;
}

/// False for text that no C string can hold: lone surrogates, NUL characters.
bool set_text(dlblas_value& value, Object* object) {
  Size size = 0;
  value.kind = DLBLAS_STRING;
  value.as.s = api.utf8(object, &size);  // cached in the str, which the caller holds
  if (!value.as.s) api.err_clear();
  return value.as.s && !std::memchr(value.as.s, '\0', static_cast<std::size_t>(size));
}

std::string type_name(Object* object) {
  Ref name(api.get_attr(type_of(object), "__name__"));
  const std::string words = words_of(name.get());
  return words.empty() ? "object" : words;
}

}  // namespace

Call::~Call() {
  for (int i = 0; i < num_arrays_; ++i) release(arrays_[i]);
  for (int i = 0; i < num_outputs_; ++i) release(out_arrays_[i]);
  for (Object* made : made_)
    if (made) api.dec_ref(made);
  for (int i = 0; i < num_held_; ++i) api.dec_ref(held_[i]);
}

bool Call::read(Object* const* args, Size nargs, Object* kwnames) {
  const std::vector<Parameter>& params = function_.params;
  for (std::size_t i = 0; i < params.size(); ++i) values_[i].kind = DLBLAS_NONE;
  if (nargs > function_.num_positional) {
    const bool dim = function_.takes_dim && function_.num_positional == 1;
    const int most = function_.num_positional + dim;
    raise({DLBLAS_ARGUMENT, function_.name.c_str(), "call", "has too many positional arguments",
           ("at most " + std::to_string(most)).c_str(), std::to_string(nargs).c_str(),
           ("the signature is " + function_.name + "(" + signature(function_) + ")").c_str()});
    return false;
  }
  const Size num_named = kwnames ? api.tuple_size(kwnames) : 0;
  for (Size i = 0; i < num_named; ++i)  // before the arrays, whose producers must know it
    if (api.tuple_get(kwnames, i) == stream_name() && !read_stream(args[nargs + i])) return false;
  for (Size i = 0; i < nargs; ++i)
    if (!convert(static_cast<std::size_t>(i), args[i])) return false;
  for (Size i = 0; i < num_named; ++i)
    if (!place(api.tuple_get(kwnames, i), args[nargs + i])) return false;
  args_.size = sizeof args_;
  args_.values = values_;
  args_.num_values = static_cast<std::int32_t>(params.size());
  args_.flags = t_call_flags;
  return numbers_ == 0 || make_numbers();
}

bool Call::read(Object* args, Object* kwargs) {
  std::vector<Object*> objects;
  for (Size i = 0; i < api.tuple_size(args); ++i) objects.push_back(api.tuple_get(args, i));
  const Size nargs = static_cast<Size>(objects.size());
  Ref names(api.tuple_new(api.dict_size(kwargs)));
  if (!names) return false;
  Size at = 0, i = 0;
  for (Object *name = nullptr, *value = nullptr; api.dict_next(kwargs, &at, &name, &value); ++i) {
    api.inc_ref(name);
    api.tuple_set(names.get(), i, name);
    objects.push_back(value);
  }
  return read(objects.data(), nargs, names.get());
}

// Assigns a keyword argument to its parameter: by address (names in code are interned), then by
// text.
bool Call::place(Object* name, Object* value) {
  const std::vector<Parameter>& params = function_.params;
  if (name == out_name() && function_.num_results > 0) return value == api.none || read_out(value);
  if (name == stream_name()) return true;
  for (std::size_t i = 0; i < params.size(); ++i)
    if (params[i].interned == name)
      return values_[i].kind == DLBLAS_NONE ? convert(i, value)
                                            : refuse(params[i].name, &values_[i]);
  for (std::size_t i = 0; i < params.size(); ++i)
    if (name_of(name) == params[i].name)
      return values_[i].kind == DLBLAS_NONE ? convert(i, value)
                                            : refuse(params[i].name, &values_[i]);
  if (function_.num_results > 0 && name_of(name) == "out")
    return value == api.none || read_out(value);
  return refuse(words_of(name).c_str(), nullptr);
}

bool Call::read_stream(Object* value) {
  if (value == api.none) return true;
  if (is_long(type_of(value)) && type_of(value) != api.bool_type) {
    (void)api.long_as_unsigned(value);
    stream_ = value;
    if (!api.err_occurred()) return true;
    api.err_clear();
    raise({DLBLAS_ARGUMENT, function_.name.c_str(), "stream", "is out of range",
           "the address of a CUDA stream, as an int", words_of(value).c_str(),
           "pass for example stream.ptr or stream.cuda_stream"});
    return false;
  }
  raise({DLBLAS_ARGUMENT, function_.name.c_str(), "stream", "has the wrong type",
         "the address of a CUDA stream, as an int", type_name(value).c_str(),
         "pass for example stream.ptr or stream.cuda_stream"});
  return false;
}

// The stream of the call: the caller's, else the current one of the library that owns a GPU array.
bool Call::find_stream(void** stream) {
  const Array* there = nullptr;
  for (int i = 0; i < num_arrays_ && !there; ++i)
    if (arrays_[i].tensor.device.type == 2) there = &arrays_[i];
  if (!there && !stream_) return true;
  if (!there) {
    raise({DLBLAS_ARGUMENT, function_.name.c_str(), "stream", "is given without a GPU",
           "arrays on a GPU", "arrays on the CPU", "leave it out"});
    return false;
  }
  Ref own(stream_ ? nullptr : api.call_args(hooks.stream, there->object, nullptr));
  if (!stream_ && !own) return false;
  *stream = reinterpret_cast<void*>(api.long_as_unsigned(stream_ ? stream_ : own.get()));
  return !api.err_occurred();
}

// Gets the library's own message for a name that is unknown or (twice) already has a value.
bool Call::refuse(const char* name, const dlblas_value* twice) {
  const char* names[2] = {name, name};
  dlblas_value values[2] = {};
  if (twice) values[0] = values[1] = *twice;
  dlblas_args args{};
  args.size = sizeof args;
  args.values = values;
  args.num_values = args.num_named = twice ? 2 : 1;
  args.names = names;
  dlblas_tensor outputs[kMaxResults] = {};  // never reached: names come first
  args.outputs = function_.num_results ? outputs : nullptr;
  args.num_outputs = function_.num_results;
  dlblas_call(function_.handle, &args, nullptr);
  raise_last_error();
  return false;
}

bool Call::convert(std::size_t index, Object* value) {
  const Parameter& parameter = function_.params[index];
  dlblas_value& out = values_[index];
  if (value == api.none) return true;
  if (!parameter.tensor) return convert_scalar(parameter, value, out);
  Object* type = type_of(value);
  if (type == api.float_type || is_long(type) || is_unicode(type)) {
    const bool number = !is_unicode(type) && type != api.bool_type;
    if (number && parameter.tensor->dims.empty()) numbers_ |= 1u << index;
    return convert_scalar(parameter, value, out);
  }
  Array& array = arrays_[num_arrays_];
  if (!read_array(value,
                  {function_.name.c_str(), parameter.name, parameter.written,
                   data_ == Data::kRequired, stream_},
                  array))
    return false;
  ++num_arrays_;
  bytes_ += array.bytes();
  out.kind = DLBLAS_TENSOR;
  out.as.tensor = &array.tensor;
  return true;
}

// Puts numbers on the device of the other tensors, once all are read. Without any tensor, the
// library reports what is missing.
bool Call::make_numbers() {
  const Array* like = first();
  for (std::size_t i = 0; like && numbers_ >> i; ++i)
    if ((numbers_ >> i & 1u) && !make_number(function_.params[i], *like, values_[i])) return false;
  return true;
}

bool Call::make_number(const Parameter& parameter, const Array& like, dlblas_value& value) {
  const DTypeSet allowed = parameter.tensor->dtypes;
  if (!allowed) return true;  // like() alone: the library says that it is not a tensor
  const DType dtype = allowed & set_of(DType::kF32)
                          ? DType::kF32
                          : static_cast<DType>(std::countr_zero(static_cast<unsigned>(allowed)));
  const double number = value.kind == DLBLAS_INT ? static_cast<double>(value.as.i) : value.as.f;
  Array& array = arrays_[num_arrays_];
  if (like.tensor.device.type == 2) {
    Ref code(api.long_from(dlpack_code_of(dtype))), bits(api.long_from(8 * size_of(dtype)));
    Ref name(make_text(parameter.name)), real(api.float_from(number));
    Ref made(api.call_args(hooks.number, like.object, name.get(), real.get(), code.get(),
                           bits.get(), nullptr));
    if (!made || !read_array(made.get(),
                             {function_.name.c_str(), parameter.name, false,
                              data_ == Data::kRequired, stream_},
                             array))
      return false;
    held_[num_held_++] = made.release();
  } else {
    TensorView view{};
    if (!number_memory_) number_memory_ = std::make_shared<double[]>(kMaxTensors);
    view.data = &number_memory_[num_arrays_];
    view.dtype = dtype;
    store_element(view, 0, number);
    array.tensor = {view.data,
                    like.tensor.device,
                    0,
                    {dlpack_code_of(dtype), dlpack_bits_of(dtype), dlpack_lanes_of(dtype)},
                    array.shape,
                    array.strides,
                    0};
    array.keeper = nullptr;
    array.numpy = true;  // no account of writes
    array.object = like.object;
  }
  ++num_arrays_;
  value.kind = DLBLAS_TENSOR;
  value.as.tensor = &array.tensor;
  return true;
}

// Converts by the value's own type; the library decides whether the parameter accepts it.
bool Call::convert_scalar(const Parameter& parameter, Object* value, dlblas_value& out) {
  Object* type = type_of(value);
  if (type == api.bool_type) {
    out.kind = DLBLAS_BOOL;
    out.as.i = value == api.true_object;
  } else if (type == api.float_type) {
    out.kind = DLBLAS_FLOAT;
    out.as.f = api.float_as(value);
  } else if (is_unicode(type)) {
    if (!set_text(out, value)) {
      raise({DLBLAS_ARGUMENT, function_.name.c_str(), parameter.name, "is no name",
             "a text without lone surrogates and NUL characters", words_of(value).c_str(),
             "leave them out"});
      return false;
    }
    if (parameter.scalar && parameter.scalar->type == ScalarType::kDType) {
      Ref name(api.call_args(hooks.dtype_name, value, nullptr));  // "float32" and "f32" are one
      if (!name) return false;
      if (name.get() != api.none) set_text(out, name.get());
    }
  } else if (parameter.scalar && parameter.scalar->type == ScalarType::kDType) {
    Ref name(api.call_args(hooks.dtype_name, value, nullptr));
    if (!name) return false;
    if (name.get() == api.none) {
      raise({DLBLAS_ARGUMENT, function_.name.c_str(), parameter.name, "is not a dtype",
             "a dtype or its name", type_name(value).c_str(), "pass for example \"bf16\""});
      return false;
    }
    set_text(out, name.get());
  } else if (Ref integer(api.index(value)); integer) {
    return convert_integer(parameter, integer.get(), out);
  } else if (const std::string name = type_name(value); name == "bool" || name == "bool_") {
    api.err_clear();  // NumPy's, which is no integer
    out.kind = DLBLAS_BOOL;
    out.as.i = api.is_true(value);
  } else {
    api.err_clear();
    out.kind = DLBLAS_FLOAT;
    out.as.f = api.float_as(value);  // by __float__ alone: float() reads bytes, too
  }
  if (!api.err_occurred()) return true;
  api.err_clear();
  raise({DLBLAS_ARGUMENT, function_.name.c_str(), parameter.name, "has the wrong type",
         parameter.scalar && parameter.scalar->type == ScalarType::kFloat
             ? "a number"
             : "a 64-bit integer or a name",
         type_name(value).c_str(), "convert it"});
  return false;
}

bool Call::convert_integer(const Parameter& parameter, Object* integer, dlblas_value& out) {
  out.kind = DLBLAS_INT;
  out.as.i = api.long_as(integer);
  if (!api.err_occurred()) return true;
  api.err_clear();
  const bool real = parameter.scalar && parameter.scalar->type == ScalarType::kFloat;
  if (Ref number(real ? api.to_float(integer) : nullptr); number) {
    out.kind = DLBLAS_FLOAT;
    out.as.f = api.float_as(number.get());
    return true;
  }
  api.err_clear();
  raise({DLBLAS_ARGUMENT, function_.name.c_str(), parameter.name, "is too large",
         real ? "a number" : "a 64-bit integer",
         real ? "an integer beyond the range of float" : "an integer beyond 2^63",
         "pass a smaller one"});
  return false;
}

bool Call::read_out(Object* out, bool judged) {
  const Schema& schema = function_.form->op->schema;
  const int wanted = judged ? schema.num_judged() : function_.num_results;
  const auto name_of_output = [&](int i) {
    return schema.tensors[static_cast<std::size_t>(schema.judged[static_cast<std::size_t>(i)])]
        .name.c_str();
  };
  const bool many = is_tuple(type_of(out));
  const Size given = many ? api.tuple_size(out) : 1;
  if (given != wanted) {
    std::string names;
    for (int i = 0; i < wanted; ++i) names += (i == 0 ? "" : ", ") + std::string(name_of_output(i));
    raise({DLBLAS_ARGUMENT, function_.name.c_str(), "out", "has the wrong number of arrays",
           (std::to_string(wanted) + " (" + names + ")").c_str(), std::to_string(given).c_str(),
           wanted == 1 ? "pass one array" : "pass a tuple in result order"});
    return false;
  }
  static constexpr const char* kPlaces[] = {"out[0]", "out[1]", "out[2]",
                                            "out[3]", "out[4]", "out[5]"};
  static_assert(std::size(kPlaces) == kMaxResults);
  for (int i = 0; i < wanted; ++i) {
    const char* name = wanted == 1 ? "out" : judged ? name_of_output(i) : kPlaces[i];
    Object* object = many ? api.tuple_get(out, i) : out;
    if (i >= function_.num_results && object == api.none) {  // an optional one that is absent
      outputs_[i] = {};
      out_arrays_[i] = {};
      num_outputs_ = i + 1;
      continue;
    }
    if (!read_array(object,
                    {function_.name.c_str(), name, data_ == Data::kRequired,
                     data_ == Data::kRequired, stream_},
                    out_arrays_[i]))
      return false;
    num_outputs_ = i + 1;
    outputs_[i] = out_arrays_[i].tensor;
    if (!outputs_[i].data && data_ == Data::kRequired) outputs_[i].data = &g_nothing;
    bytes_ += out_arrays_[i].bytes();
  }
  out_ = out;
  args_.outputs = outputs_;
  args_.num_outputs = wanted;
  return true;
}

// The schema's first tensor, whatever order the arguments were named in: results take its type.
const Array* Call::first() const {
  for (std::size_t p = 0; p < function_.params.size(); ++p)
    for (int i = 0; values_[p].kind == DLBLAS_TENSOR && i < num_arrays_; ++i)
      if (values_[p].as.tensor == &arrays_[i].tensor) return &arrays_[i];
  return nullptr;
}

int Call::new_output(void* self, std::int32_t index, dlblas_tensor* spec) {
  Call& call = *static_cast<Call*>(self);
  if (call.thread_) api.restore_thread(call.thread_);
  const Array* like = call.first();
  Array scratch;
  Object*& made = call.made_[index];
  made = make_array(like, *spec, scratch);
  if (made && !spec->data) spec->data = &g_nothing;
  const int status = made ? 0 : 1;
  if (call.thread_) call.thread_ = api.save_thread();
  return status;
}

// NumPy does not track writes; torch's autograd does.
bool Call::tell_written() {
  const auto tell = [](const Array& array) {
    return array.numpy || !array.written || Ref(api.call_args(hooks.wrote, array.object, nullptr));
  };
  return std::all_of(arrays_, arrays_ + num_arrays_, tell) &&
         std::all_of(out_arrays_, out_arrays_ + num_outputs_, tell);
}

// What the caller gets: None for an in-place form, its own `out`, or new results in the caller's
// array type.
Object* Call::results() {
  if (function_.num_results == 0 || out_) return Ref::borrow(out_ ? out_ : api.none).release();
  const Array* like = first();
  const bool numpy = like && like->numpy;
  for (int i = 0; !numpy && i < function_.num_results; ++i) {
    Object* final = api.call_args(hooks.finish, like ? like->object : api.none, made_[i], nullptr);
    if (!final) return nullptr;
    api.dec_ref(made_[i]);
    made_[i] = final;
  }
  if (function_.num_results == 1) {
    Object* result = made_[0];
    made_[0] = nullptr;
    return result;
  }
  Ref tuple(api.tuple_new(function_.num_results));
  if (!tuple) return nullptr;
  for (int i = 0; i < function_.num_results; ++i) {
    api.tuple_set(tuple.get(), i, made_[i]);  // takes the reference
    made_[i] = nullptr;
  }
  return tuple.release();
}

bool Call::fill_context(dlblas_context* context) {
  *context = {};
  context->size = sizeof *context;
  const Array* array = first();
  if (array && !array->numpy && is_torch(array->object)) {  // as torch's own call would be
    context->num_threads = torch_threads();
    args_.flags |= dlblas::torch::torch_flags();
  }
  return find_stream(&context->stream);
}

// The caller's arrays and the results, during a launch: a view of one of them that is kept keeps
// all.
class Call::Lent final : public Lender {
 public:
  explicit Lent(const Call& call) : Lender(true), call_(call) {}

 private:
  struct Held {
    std::vector<Object*> objects;
    std::shared_ptr<double[]> numbers;
    ~Held() {
      if (!api.is_initialized()) return;  // a view that outlives Python
      const Locked locked;
      for (Object* object : objects) api.dec_ref(object);
    }
  };
  // Runs under the interpreter's lock: hold() is called after a Python function has returned.
  std::shared_ptr<const void> hold() override {
    auto held = std::make_shared<Held>();
    held->numbers = call_.number_memory_;
    const auto keep = [&](Object* object) {
      if (!object) return;
      api.inc_ref(object);
      held->objects.push_back(object);
    };
    const auto keep_arrays = [&](const Array* arrays, int count) {
      for (int i = 0; i < count; ++i) keep(arrays[i].object), keep(arrays[i].keeper);
    };
    keep_arrays(call_.arrays_, call_.num_arrays_);
    keep_arrays(call_.out_arrays_, call_.num_outputs_);
    for (Object* made : call_.made_) keep(made);
    for (int i = 0; i < call_.num_held_; ++i) keep(call_.held_[i]);
    return held;
  }
  const Call& call_;
};

Object* Call::run() {
  std::int64_t dims[kMaxResults][2 * DLBLAS_MAX_RANK];
  if (!out_) {
    for (int i = 0; i < function_.num_results; ++i) {
      outputs_[i] = {};
      outputs_[i].shape = dims[i];
      outputs_[i].strides = dims[i] + DLBLAS_MAX_RANK;
    }
    args_.outputs = function_.num_results ? outputs_ : nullptr;
    args_.num_outputs = function_.num_results;
  }
  dlblas_context context;
  if (!fill_context(&context)) return nullptr;
  context.self = this;
  context.new_output = new_output;
  const Lent lent(*this);
  if (bytes_ >= kReleaseBytes) thread_ = api.save_thread();
  const dlblas_status status =
      contained([&] { return dlblas_call(function_.handle, &args_, &context); });
  if (thread_) api.restore_thread(thread_);
  thread_ = nullptr;
  if (status != DLBLAS_OK)
    return api.err_occurred() ? nullptr : out_ ? raise_for_out(function_) : raise_last_error();
  return tell_written() ? results() : nullptr;
}

Object* raise_for_out(const Function& function) {
  dlblas_error e{};
  e.size = sizeof e;
  dlblas_last_error(&e);
  const Schema& schema = function.form->op->schema;
  const std::string name = e.argument, message = e.message, begin = text(e.op, ": ", name, " ");
  for (int i = 0; i < function.num_results; ++i) {
    const auto at = static_cast<std::size_t>(schema.num_inputs + i);
    if (schema.tensors[at].name != name || !message.starts_with(begin)) continue;
    const bool one = function.num_results == 1;
    const std::string own = one ? "out" : text("out[", i, "]");
    const std::string shown = one ? own : text(own, " (", name, ")");
    return raise(Error(static_cast<ErrorKind>(e.status),
                       text(e.op, ": ", shown, " ", message.substr(begin.size())),
                       {e.op, own, e.expected, e.got}));
  }
  return raise_last_error();
}

}  // namespace dlblas::py
