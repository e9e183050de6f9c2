// One call on torch tensors: parsed, checked against autograd's rules, passed to torch. See
// torch.hpp.
#include "bindings/python/torch.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/python/hooks.hpp"
#include "bindings/python/marshal.hpp"
#include "bindings/python/numpy.hpp"
#include "bindings/torch/kernel.hpp"
#include "core/fork.hpp"

namespace dlblas::py {

std::atomic<const Torch*> g_torch{nullptr};

namespace {

constexpr int kMaxSlots = kMaxTensors + kMaxScalars;

bool is_plain(const Torch& torch, Object* type) {
  return type == torch.tensor || type == torch.parameter;
}

bool is_tensor(const Torch& torch, Object* type) {
  return is_plain(torch, type) || api.is_subtype(type, torch.tensor);
}

// The first argument that is neither a scalar nor a text decides which library the call belongs to.
Object* first_array(Object* const* args, Size count) {
  for (Size i = 0; i < count; ++i) {
    Object* type = type_of(args[i]);
    if (args[i] != api.none && type != api.float_type && !is_long(type) && !is_unicode(type))
      return args[i];
  }
  return nullptr;
}

// The first torch tensor in this process triggers the registration of the operators.
const Torch* torch_of(Object* array) {
  const Torch* torch = g_torch.load(std::memory_order_acquire);
  if (!torch && hooks.attach && !is_numpy(array)) {
    Ref attached(api.call_args(hooks.attach, array, nullptr));
    if (!attached) api.err_clear();
    torch = g_torch.load(std::memory_order_acquire);
  }
  return torch && is_tensor(*torch, type_of(array)) ? torch : nullptr;
}

// Torch, if the call is on its tensors; a first argument of the usual type decides at once.
const Torch* torch_of(Object* const* args, Size nargs, Object* kwnames) {
  const Torch* torch = g_torch.load(std::memory_order_acquire);
  if (torch && nargs > 0 && is_plain(*torch, type_of(args[0]))) return torch;
  Object* array = first_array(args, nargs + (kwnames ? api.tuple_size(kwnames) : 0));
  return array ? torch_of(array) : nullptr;
}

// One parsed call, indexed by our parameters.
struct Given {
  Object* values[kMaxSlots];     // borrowed; null: absent; set as far as there are parameters
  Object* results[kMaxResults];  // of `out`
  Object* out = nullptr;
  bool exact = true;  // torch.Tensor and Parameter alone: a subclass may be a tracer's
};

// The index of the parameter with this name; kOut; or -1. Compares addresses first: names in code
// are interned.
constexpr int kOut = kMaxSlots;
int find_name(const Function& function, Object* name) {
  static Object* const out = api.intern("out");
  const std::vector<Parameter>& params = function.params;
  if (name == out && function.num_results > 0) return kOut;
  for (std::size_t i = 0; i < params.size(); ++i)
    if (params[i].interned == name) return static_cast<int>(i);
  const std::string_view text = name_of(name);
  for (std::size_t i = 0; i < params.size(); ++i)
    if (params[i].name == text) return static_cast<int>(i);
  return function.num_results > 0 && text == "out" ? kOut : -1;
}

// True for a value that torch reads as we would. Others (a NumPy scalar, a wrong type) take the
// slow path.
bool suits(const Torch& torch, const ScalarSpec& spec, Object* value) {
  Object* type = type_of(value);
  const bool boolean = type == api.bool_type;
  switch (spec.type) {
    case ScalarType::kFloat:
      return type == api.float_type || (is_long(type) && !boolean);
    case ScalarType::kInt:
      return is_long(type) && !boolean;
    case ScalarType::kBool:
      return boolean;
    case ScalarType::kDType:
      return type == torch.dtype;
    case ScalarType::kEnum:
      break;
  }
  const std::string_view name = name_of(value);  // one label may be empty, but no data is no text
  return name.data() &&
         std::find(spec.labels.begin(), spec.labels.end(), name) != spec.labels.end();
}

bool take_tensor(const Torch& torch, Object* value, Given& given) {
  Object* type = type_of(value);
  if (is_plain(torch, type)) return true;
  given.exact = false;
  return is_tensor(torch, type);
}

bool take_out(const Function& function, const Torch& torch, Given& given) {
  const bool many = is_tuple(type_of(given.out));
  if ((many ? api.tuple_size(given.out) : 1) != function.num_results) return false;
  for (int r = 0; r < function.num_results; ++r) {
    given.results[r] = many ? api.tuple_get(given.out, r) : given.out;
    if (!take_tensor(torch, given.results[r], given)) return false;
  }
  return true;
}

// False for anything but the plain case; never sets an error.
bool take(const Function& function, const Torch& torch, Object* const* args, Size nargs,
          Object* kwnames, Given& given) {
  if (nargs > function.num_positional) return false;
  Object** const rest = std::copy(args, args + nargs, given.values);
  std::fill(rest, given.values + function.params.size(), nullptr);
  const Size num_named = kwnames ? api.tuple_size(kwnames) : 0;
  for (Size i = 0; i < num_named; ++i) {
    const int at = find_name(function, api.tuple_get(kwnames, i));
    if (at < 0) return false;
    Object*& to = at == kOut ? given.out : given.values[at];
    if (to) return false;
    to = args[nargs + i];
  }
  for (std::size_t i = 0; i < function.params.size(); ++i) {
    const Parameter& p = function.params[i];
    Object*& value = given.values[i];
    if (value == api.none) value = nullptr;
    const bool fits = !value     ? (p.tensor ? p.tensor->optional : p.scalar->has_default)
                      : p.tensor ? take_tensor(torch, value, given)
                                 : suits(torch, *p.scalar, value);
    if (!fits) return false;
  }
  if (given.out == api.none) given.out = nullptr;
  return !given.out || take_out(function, torch, given);
}

// Calls visit(tensor, name) for every tensor of the call until it returns true; returns that name.
template <typename F>
const char* find_tensor(const Function& function, const Given& given, F&& visit) {
  for (std::size_t i = 0; i < function.params.size(); ++i)
    if (function.params[i].tensor && given.values[i] && visit(given.values[i]))
      return function.params[i].name;
  for (int r = 0; given.out && r < function.num_results; ++r)
    if (visit(given.results[r]))
      return function.num_results == 1 ? "out"
                                       : function.result_names[static_cast<std::size_t>(r)].c_str();
  return nullptr;
}

// The name of the first argument that autograd follows, or null. A Python error counts as a hit.
// For a plain tensor the answer is read from torch's memory: the attribute takes 40 times as long.
const char* find_grad(const Function& function, const Torch& torch, const Given& given) {
  if (!dlblas::torch::shims.grad_enabled()) return nullptr;
  if (given.exact && torch.impl_offset)
    return find_tensor(function, given, [&](Object* tensor) {
      return dlblas::torch::shims.impl_requires_grad(impl_at(tensor, torch.impl_offset));
    });
  return find_tensor(function, given, [&](Object* tensor) {
    Ref answer(api.get_attribute(tensor, torch.requires_grad_name));
    return answer.get() != api.false_object;
  });
}

// The first argument with a tangent, which forward-mode differentiation would silently lose.
const char* find_tangent(const Function& function, const Torch& torch, const Given& given) {
  Object* level = api.dict_item(torch.forward, torch.level_name);  // -1: it is off
  if (!level || api.long_as(level) < 0) return nullptr;
  return find_tensor(function, given, [&](Object* tensor) {
    Ref pair(api.call_args(torch.unpack_dual, tensor, nullptr));
    Ref tangent(pair ? api.get_attr(pair.get(), "tangent") : nullptr);
    return tangent.get() != api.none;
  });
}

// Raises the typed error for torch's error; see torch_error() of python/dlblas/_torch_bridge.py.
Object* raise_torch_error(const Function& function, Object* const* stack, Size count,
                          std::uint64_t failures_before, bool out) {
  if (dlblas::torch::num_failures() != failures_before) {
    api.err_clear();
    return out ? raise_for_out(function) : raise_last_error();
  }
  Object *type = nullptr, *value = nullptr, *trace = nullptr;
  api.err_fetch(&type, &value, &trace);
  Ref name(make_text(out ? function.name + "_out" : function.name)), tuple(api.tuple_new(count));
  for (Size i = 0; i < count; ++i) api.tuple_set(tuple.get(), i, Ref::borrow(stack[i]).release());
  Ref typed(api.call_args(hooks.torch_error, name.get(), tuple.get(), type, nullptr));
  if (typed && typed.get() != api.none) {
    api.err_set(type_of(typed.get()), typed.get());
    for (Object* object : {type, value, trace})
      if (object) api.dec_ref(object);
    return nullptr;
  }
  api.err_clear();
  api.err_restore(type, value, trace);
  return nullptr;
}

Object* refuse(const Function& function, const char* argument, const char* problem, const char* got,
               const char* remedy) {
  if (api.err_occurred()) return nullptr;
  return raise({DLBLAS_ARGUMENT, function.name.c_str(), argument, problem,
                "a tensor outside autograd", got, remedy});
}

// Forms are registered before the first call.
bool has_older_form(const Function& function) {
  std::int8_t has = function.has_older.load(std::memory_order_relaxed);
  if (has < 0) {
    has = api.dict_get(hooks.older_forms, function.name.c_str()) != nullptr;
    function.has_older.store(has, std::memory_order_relaxed);
  }
  return has > 0;
}

// The callable to use; null with an error set.
Object* choose(const Function& function, const Torch& torch, const TorchCalls& calls,
               const Given& given) {
  if (const char* argument = find_tangent(function, torch, given))
    return refuse(function, argument, "has a forward-mode tangent", "a dual tensor",
                  "use reverse mode, or a formula of torch's operators");
  const char* followed = find_grad(function, torch, given);
  if (followed && (api.err_occurred() || given.out || !calls.grad))
    return refuse(function, followed, "requires grad", "requires_grad=True",
                  "pass it with .detach(), or call under torch.no_grad()");
  if (given.out) return calls.out;
  // torch.export, torch.jit.trace and the like look for the operator that has a gradient.
  if ((!given.exact || dlblas::torch::is_traced()) && calls.formula) return calls.formula;
  if (!followed) return calls.plain;
  Ref transform(api.call_args(torch.transform, nullptr));
  if (transform.get() != api.none)
    return refuse(function, followed, "requires grad inside a transform of torch.func",
                  "torch.func.grad or its like", "use torch.autograd.grad()");
  return calls.grad;
}

}  // namespace

bool call_torch(const Function& function, Object* const* args, Size nargs, Object* kwnames,
                Object** result) {
  const Torch* torch = torch_of(args, nargs, kwnames);
  const TorchCalls* calls = torch ? function.torch.load(std::memory_order_acquire) : nullptr;
  Given given;
  if (!calls || !take(function, *torch, args, nargs, kwnames, given)) return false;
  *result = nullptr;

  Object* callable = choose(function, *torch, *calls, given);
  if (!callable) return true;

  // In torch's order, up to the last argument given: each further one costs 0.3 µs.
  const std::vector<std::int8_t>& places = given.out ? calls->out_places : calls->places;
  const std::size_t num_params = function.params.size();
  Object* stack[kMaxSlots + kMaxResults];
  std::fill_n(stack, num_params + kMaxResults, nullptr);
  Size count = 0;
  const auto put = [&](std::size_t place, Object* value) {
    stack[places[place]] = value;
    count = std::max<Size>(count, places[place] + 1);
  };
  for (std::size_t i = 0; i < num_params; ++i)
    if (given.values[i]) put(i, given.values[i]);
  for (int r = 0; given.out && r < function.num_results; ++r)
    put(num_params + static_cast<std::size_t>(r), given.results[r]);
  for (std::size_t i = 0; i < num_params; ++i)
    if (!stack[places[i]]) stack[places[i]] = calls->defaults[i];

  const std::uint64_t failures = dlblas::torch::num_failures();
  // A trace keeps what it has recorded of a refused call.
  const bool joins = std::exchange(dlblas::torch::t_joins_rows,
                                   callable == calls->formula || !has_older_form(function));
  Ref returned(api.call_vector(callable, stack, count));
  dlblas::torch::t_joins_rows = joins;
  if (!returned)
    raise_torch_error(function, stack, count, failures, given.out);
  else
    *result = given.out ? Ref::borrow(given.out).release() : returned.release();
  return true;
}

bool is_torch(Object* array) {
  const Torch* torch = g_torch.load(std::memory_order_acquire);
  return torch && is_tensor(*torch, type_of(array));
}

std::int32_t torch_threads() {
  std::uint32_t threads = 0;
  if (!forked()) dlblas::torch::shims.num_threads(&threads);
  return static_cast<std::int32_t>(threads);
}

}  // namespace dlblas::py
