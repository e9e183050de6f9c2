// Users' own implementations and operators in Python: a callable behind the C ABI's function
// pointers. In: what python/dlblas/own/, its only caller, has read and checked. Out:
// dlblas_register and dlblas_register_operator with functions that take the interpreter's lock and
// call it, while no lock of the library is held. A call costs 4 to 6 µs of Python: docs/own.md.
// Read next: bindings/c/register.cpp, python/dlblas/own/_arrays.py.
#include "bindings/python/own.hpp"

#include <deque>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/c/own.hpp"
#include "bindings/python/array.hpp"
#include "bindings/python/hooks.hpp"
#include "bindings/python/init.hpp"
#include "bindings/python/views.hpp"
#include "core/kept_text.hpp"
#include "core/schema.hpp"

namespace dlblas::py {
namespace {

// `user` points to this; null members were not given. Deleted once replaced, when no call can still
// hold it.
struct Callables {
  Object* run = nullptr;
  Object* supports = nullptr;
  Object* allowed = nullptr;
  Object* bound = nullptr;
  Object* judge = nullptr;
  std::int32_t num_knobs = 0;
  std::int32_t num_judged = 0;  // of an operator: results and written inputs
  bool capsules = false;        // tensors go as DLPack capsules, else by address
};

Object* keep(Object* object) {
  if (object == api.none) return nullptr;
  api.inc_ref(object);
  return object;
}

// Callables that no call can hold any more. The thread that finds this out may be unable to take
// the interpreter's lock, so they are released at the next registration.
std::mutex g_dropped_mutex;
std::vector<Callables*>& dropped() {
  static auto* const list = new std::vector<Callables*>;
  return *list;
}

void drop(void* user) {
  const std::lock_guard lock(g_dropped_mutex);
  dropped().push_back(static_cast<Callables*>(user));
}

void let_dropped_go() {
  std::vector<Callables*> gone;
  {
    const std::lock_guard lock(g_dropped_mutex);
    gone.swap(dropped());
  }
  for (const Callables* own : gone) {
    for (Object* object : {own->run, own->supports, own->allowed, own->bound, own->judge})
      if (object) api.dec_ref(object);
    delete own;
  }
}

// The pending error as text; clears it. A Ctrl-C is kept: it is raised again where Python runs
// next.
std::string take_error() {
  Object *type = nullptr, *value = nullptr, *trace = nullptr;
  api.err_fetch(&type, &value, &trace);
  const Ref t(type), v(value), tb(trace);
  if (!type) return "no answer";
  Ref name(api.get_attr(type, "__name__"));
  const std::string kind = words_of(name.get());
  const std::string said = words_of(value);
  if (kind == "KeyboardInterrupt")
    api.set_interrupt();  // last: str() would raise it, to be cleared
  return said.empty() ? kind : kind + ": " + said;
}

template <typename Read>
Object* tuple_from(std::int64_t count, Read&& read) {
  Object* tuple = api.tuple_new(static_cast<Size>(count));
  for (std::int64_t i = 0; i < count; ++i) api.tuple_set(tuple, static_cast<Size>(i), read(i));
  return tuple;
}

Object* integers(const std::int64_t* values, std::int64_t count) {
  return tuple_from(count, [&](std::int64_t i) { return api.long_from(values[i]); });
}

Object* none() { return Ref::borrow(api.none).release(); }

Object* scalar(const dlblas_value& v) {
  switch (v.kind) {
    case DLBLAS_INT:
      return api.long_from(v.as.i);
    case DLBLAS_FLOAT:
      return api.float_from(v.as.f);
    case DLBLAS_BOOL:
      return Ref::borrow(v.as.i ? api.true_object : api.false_object).release();
    case DLBLAS_STRING:
      return make_text(v.as.s);
    default:
      return none();
  }
}

// (address, code, bits, shape, byte strides), or a capsule whose tensor refers to the views; None
// if the tensor is absent.
Object* tensor(const dlblas_tensor& t, const Views* capsule = nullptr) {
  if (t.dtype.bits == 0) return none();
  if (capsule) return make_view_capsule(t, *capsule);
  Object* const fields[] = {
      api.long_from(reinterpret_cast<std::intptr_t>(t.data)), api.long_from(t.dtype.code),
      api.long_from(t.dtype.bits * t.dtype.lanes), integers(t.shape, t.ndim),
      tuple_from(t.ndim, [&](std::int64_t i) {
        return api.long_from(t.strides[i] * (t.dtype.bits * t.dtype.lanes / 8));
      })};
  return tuple_from(std::size(fields), [&](std::int64_t i) { return fields[i]; });
}

// (letters, ((code, bits, layout, alignment, in place of) …), scalars, device type, index, arch,
// units, threads, flags)
Object* problem_tuple(const dlblas_problem& p) {
  Object* tensors = tuple_from(p.num_inputs + p.num_results, [&](std::int64_t i) {
    const dlblas_problem_tensor& t = p.tensors[i];
    const std::int64_t row[] = {t.dtype.code, t.dtype.bits * t.dtype.lanes, t.layout, t.alignment,
                                t.in_place_of};
    return integers(row, std::size(row));
  });
  Object* scalars = tuple_from(p.num_scalars, [&](std::int64_t i) { return scalar(p.scalars[i]); });
  const std::int64_t rest[] = {p.device.type, p.device.index, p.arch, p.units, p.threads, p.flags};
  Object* const head[] = {integers(p.letters, p.num_letters), tensors, scalars};
  return tuple_from(3 + std::size(rest),
                    [&](std::int64_t i) { return i < 3 ? head[i] : api.long_from(rest[i - 3]); });
}

// None means done; any other answer is the text of a failure.
std::int32_t code_of(Object* answer) {
  if (answer == api.none) return 0;
  if (!answer)
    dlblas_fail(take_error().c_str());
  else
    dlblas_fail(words_of(answer).c_str());
  return 1;
}

bool finalized() {
  if (api.is_initialized()) return false;
  dlblas_fail("Python has ended");
  return true;
}

// run(tensors, scalars, letters, config, stream, threads, the token that views refer to or None)
std::int32_t run_step(const dlblas_step_args* args, const dlblas_context* context, void* user) {
  if (finalized()) return 1;
  const Locked locked;
  const auto& own = *static_cast<const Callables*>(user);
  Views views;
  Ref token(own.capsules ? none() : views.make_token());
  if (!token) return code_of(nullptr);
  Ref tensors(tuple_from(args->num_inputs + args->num_results, [&](std::int64_t i) {
    return tensor(args->tensors[i], own.capsules ? &views : nullptr);
  }));
  Ref scalars(
      tuple_from(args->num_scalars, [&](std::int64_t i) { return scalar(args->scalars[i]); }));
  Ref letters(integers(args->letters, args->num_letters));
  Ref config(integers(args->config, args->num_knobs));
  Ref stream(api.long_from(reinterpret_cast<std::intptr_t>(context->stream)));
  Ref threads(api.long_from(context->num_threads));
  Ref answer(api.call_args(own.run, tensors.get(), scalars.get(), letters.get(), config.get(),
                           stream.get(), threads.get(), token.get(), nullptr));
  const std::int32_t code = code_of(answer.get());  // an exception's frames go with it
  tensors.reset();
  token.reset();
  if (views.end() || code != 0) return code;
  dlblas_fail(
      "keeps arguments after it returned, and their memory belongs to the caller; copy what you "
      "keep");
  return 1;
}

// supports(problem) -> None, or the reason
const char* ask_supports(const dlblas_problem* problem, void* user) {
  if (finalized()) return "Python has ended";
  const Locked locked;
  const auto& own = *static_cast<const Callables*>(user);
  Ref view(problem_tuple(*problem));
  Ref answer(api.call_args(own.supports, view.get(), nullptr));
  if (answer.get() == api.none) return nullptr;
  return kept_text(answer ? words_of(answer.get()) : "its supports() raised " + take_error());
}

// allowed(letters, config) -> bool; if it raises, as on Ctrl-C, nothing is allowed for now
std::int32_t ask_allowed(const dlblas_problem* problem, const std::int64_t* config, void* user) {
  if (!api.is_initialized()) return 0;
  const Locked locked;
  const auto& own = *static_cast<const Callables*>(user);
  Ref letters(integers(problem->letters, problem->num_letters));
  Ref codes(integers(config, own.num_knobs));
  Ref answer(api.call_args(own.allowed, letters.get(), codes.get(), nullptr));
  const int yes = answer ? api.is_true(answer.get()) : -1;
  if (yes < 0) dlblas_fail(("where raised " + take_error()).c_str());
  return yes;
}

// run(tensors, scalars, rows address, number of rows, value addresses, magnitude addresses)
std::int32_t run_reference(const dlblas_step_args* args, const std::int64_t* rows,
                           std::int64_t num_rows, double* const* values, double* const* magnitudes,
                           void* user) {
  if (finalized()) return 1;
  const Locked locked;
  const auto& own = *static_cast<const Callables*>(user);
  Ref tensors(tuple_from(args->num_inputs + args->num_results,
                         [&](std::int64_t i) { return tensor(args->tensors[i]); }));
  Ref scalars(
      tuple_from(args->num_scalars, [&](std::int64_t i) { return scalar(args->scalars[i]); }));
  Ref at(api.long_from(reinterpret_cast<std::intptr_t>(rows))), count(api.long_from(num_rows));
  const auto addresses = [&](double* const* of) {
    return tuple_from(own.num_judged, [&](std::int64_t r) {
      return api.long_from(reinterpret_cast<std::intptr_t>(of[r]));
    });
  };
  Ref value(addresses(values)), magnitude(addresses(magnitudes));
  Ref answer(api.call_args(own.run, tensors.get(), scalars.get(), at.get(), count.get(),
                           value.get(), magnitude.get(), nullptr));
  return code_of(answer.get());
}

// judge(tensors before, tensors after, scalars, value addresses, magnitude addresses, address of
// the counts, address of the first wrong indices), over all rows
std::int32_t run_judge(const dlblas_judgement* judgement, void* user) {
  if (finalized()) return 1;
  const Locked locked;
  const auto& own = *static_cast<const Callables*>(user);
  const auto tensors = [](const dlblas_step_args* args) {
    return tuple_from(args->num_inputs + args->num_results,
                      [&](std::int64_t i) { return tensor(args->tensors[i]); });
  };
  const auto address = [](const void* at) {
    return api.long_from(reinterpret_cast<std::intptr_t>(at));
  };
  const auto addresses = [&](const double* const* of) {
    return tuple_from(own.num_judged, [&](std::int64_t r) { return address(of[r]); });
  };
  Ref before(tensors(judgement->before)), after(tensors(judgement->after));
  const dlblas_step_args& args = *judgement->before;
  Ref scalars(
      tuple_from(args.num_scalars, [&](std::int64_t i) { return scalar(args.scalars[i]); }));
  Ref value(addresses(judgement->values)), magnitude(addresses(judgement->magnitudes));
  Ref wrong(address(judgement->wrong)), first(address(judgement->first_wrong));
  Ref answer(api.call_args(own.judge, before.get(), after.get(), scalars.get(), value.get(),
                           magnitude.get(), wrong.get(), first.get(), nullptr));
  return code_of(answer.get());
}

// bound(problem, result) -> (for the magnitude, for the value, absolute); if it raises, the call
// fails with its message
void ask_bound(const dlblas_problem* problem, std::int32_t result, double* bound, void* user) {
  bound[0] = std::numeric_limits<double>::quiet_NaN();
  if (finalized()) return;
  const Locked locked;
  const auto& own = *static_cast<const Callables*>(user);
  Ref view(problem_tuple(*problem)), index(api.long_from(result));
  Ref answer(api.call_args(own.bound, view.get(), index.get(), nullptr));
  for (Size i = 0; answer && i < 3; ++i) bound[i] = api.float_as(api.tuple_get(answer.get(), i));
  if (!answer || api.err_occurred()) {
    dlblas_fail(take_error().c_str());
    bound[0] = std::numeric_limits<double>::quiet_NaN();
  }
}

// ---- registration ------------------------------------------------------------------------------

std::vector<std::int64_t> read_integers(Object* tuple) {
  std::vector<std::int64_t> values;
  for (Size i = 0; i < api.tuple_size(tuple); ++i)
    values.push_back(api.long_as(api.tuple_get(tuple, i)));
  return values;
}

// ((name, values, labels or None) …), in the C ABI's form.
struct Knobs {
  std::deque<std::vector<std::int64_t>> values;
  std::deque<std::vector<const char*>> labels;
  std::vector<dlblas_knob> knobs;

  explicit Knobs(Object* rows) {
    for (Size i = 0; i < api.tuple_size(rows); ++i) {
      Object* row = api.tuple_get(rows, i);
      Object* names = api.tuple_get(row, 2);
      values.push_back(read_integers(api.tuple_get(row, 1)));
      labels.emplace_back();
      for (Size l = 0; names != api.none && l < api.tuple_size(names); ++l)
        labels.back().push_back(api.utf8(api.tuple_get(names, l), nullptr));
      knobs.push_back({api.utf8(api.tuple_get(row, 0), nullptr), values.back().data(),
                       names == api.none ? nullptr : labels.back().data(),
                       static_cast<std::int32_t>(values.back().size()), 0});
    }
  }
};

// (text, entry, (grid …), (block …), shared bytes); the expressions are texts
dlblas_cuda_text read_cuda(Object* row) {
  dlblas_cuda_text cuda{};
  cuda.size = sizeof cuda;
  cuda.text = api.utf8(api.tuple_get(row, 0), nullptr);
  cuda.entry = api.utf8(api.tuple_get(row, 1), nullptr);
  for (Size i = 0; i < 3; ++i) {
    cuda.grid[i] = api.utf8(api.tuple_get(api.tuple_get(row, 2), i), nullptr);
    cuda.block[i] = api.utf8(api.tuple_get(api.tuple_get(row, 3), i), nullptr);
  }
  cuda.shared_bytes = api.utf8(api.tuple_get(row, 4), nullptr);
  return cuda;
}

Object* done(dlblas_status status) { return status == DLBLAS_OK ? none() : raise_last_error(); }

}  // namespace

// (operator, name, source hash, device, flags, min arch, knobs, configurations as one flat tuple of
// numbers or None, default configuration or None, supports, allowed, run, capsules, CUDA text or
// None) -> None
Object* own_register(Object*, Object* const* args, Size, Object*) {
  dlblas_op_t op = nullptr;
  if (dlblas_op(api.utf8(args[0], nullptr), &op) != DLBLAS_OK) return raise_last_error();
  auto* own = new Callables;
  own->supports = keep(args[9]), own->allowed = keep(args[10]), own->run = keep(args[11]);
  own->capsules = api.is_true(args[12]) == 1;
  const Knobs knobs(args[6]);
  const std::vector<std::int64_t> configs =
      args[7] == api.none ? std::vector<std::int64_t>() : read_integers(args[7]);
  const std::vector<std::int64_t> preset =
      args[8] == api.none ? std::vector<std::int64_t>() : read_integers(args[8]);
  dlblas_cuda_text cuda{};
  if (args[13] != api.none) cuda = read_cuda(args[13]);
  dlblas_implementation c{};
  c.size = sizeof c;
  c.name = api.utf8(args[1], nullptr);
  c.source_hash = args[2] == api.none ? nullptr : api.utf8(args[2], nullptr);
  c.device = static_cast<std::int32_t>(api.long_as(args[3]));
  c.flags = static_cast<std::uint32_t>(api.long_as(args[4]));
  c.min_arch = static_cast<std::int32_t>(api.long_as(args[5]));
  c.knobs = knobs.knobs.data();
  c.num_knobs = static_cast<std::int32_t>(knobs.knobs.size());
  c.configs = configs.empty() ? nullptr : configs.data();
  own->num_knobs = c.num_knobs;
  c.num_configs =
      knobs.knobs.empty() ? 0 : static_cast<std::int32_t>(configs.size() / knobs.knobs.size());
  c.preset = preset.empty() ? nullptr : preset.data();
  c.supports = own->supports ? ask_supports : nullptr;
  c.allowed = own->allowed ? ask_allowed : nullptr;
  c.step = own->run ? run_step : nullptr;
  c.cuda = cuda.size ? &cuda : nullptr;
  c.user = own;
  if (api.err_occurred()) return drop(own), nullptr;
  const dlblas_status status = unlocked([&] { return register_own(op, &c, drop); });
  let_dropped_go();
  return done(status);
}

// (operator, name) -> None
Object* own_unregister(Object*, Object* const* args, Size, Object*) {
  dlblas_op_t op = nullptr;
  if (dlblas_op(api.utf8(args[0], nullptr), &op) != DLBLAS_OK) return raise_last_error();
  const char* name = api.utf8(args[1], nullptr);
  const dlblas_status status = unlocked([&] { return dlblas_unregister(op, name); });
  let_dropped_go();
  return done(status);
}

// (schema, in-place forms, formula, source hash, reference, bound or None, results and written
// inputs, judge or None) -> None
Object* own_register_operator(Object*, Object* const* args, Size, Object*) {
  auto* own = new Callables;
  own->run = keep(args[4]), own->bound = keep(args[5]);
  own->num_judged = static_cast<std::int32_t>(api.long_as(args[6]));
  own->judge = keep(args[7]);
  std::vector<const char*> inplace;
  for (Size i = 0; i < api.tuple_size(args[1]); ++i)
    inplace.push_back(api.utf8(api.tuple_get(args[1], i), nullptr));
  dlblas_operator_def c{};
  c.size = sizeof c;
  c.schema = api.utf8(args[0], nullptr);
  c.inplace = inplace.data();
  c.num_inplace = static_cast<std::int32_t>(inplace.size());
  c.whole = 1;
  c.formula = api.utf8(args[2], nullptr);
  c.source_hash = api.utf8(args[3], nullptr);
  c.reference = run_reference;
  c.bound = own->bound ? ask_bound : nullptr;
  c.judge = own->judge ? run_judge : nullptr;
  c.user = own;
  if (api.err_occurred()) return drop(own), nullptr;
  const dlblas_status status = unlocked([&] { return register_own_operator(&c, nullptr, drop); });
  let_dropped_go();
  return done(status);
}

// (schema) -> (name, letters, ((input, optional, written) …), results, ((scalar, key, default) …));
// parses only, registers nothing
Object* own_schema(Object*, Object* const* args, Size, Object*) {
  try {
    const Schema schema = parse_schema(api.utf8(args[0], nullptr));
    const auto truth = [](bool b) { return Ref::borrow(b ? api.true_object : api.false_object); };
    const auto row = [](const std::string& name, Ref a, Ref b) {
      Object* const items[] = {make_text(name), a.release(), b.release()};
      return tuple_from(std::size(items), [&](std::int64_t i) { return items[i]; });
    };
    const auto tensor_at = [&](std::int64_t i) -> const TensorSpec& {
      return schema.tensors[static_cast<std::size_t>(i)];
    };
    Object* const fields[] = {
        make_text(schema.name),
        tuple_from(static_cast<std::int64_t>(schema.letters.size()),
                   [&](std::int64_t i) {
                     return make_text(schema.letters[static_cast<std::size_t>(i)].name);
                   }),
        tuple_from(schema.num_inputs,
                   [&](std::int64_t i) {
                     const TensorSpec& t = tensor_at(i);
                     return row(t.name, truth(t.optional), truth(t.written));
                   }),
        tuple_from(
            schema.num_results,
            [&](std::int64_t i) { return make_text(tensor_at(schema.num_inputs + i).name); }),
        tuple_from(static_cast<std::int64_t>(schema.scalars.size()), [&](std::int64_t i) {
          const ScalarSpec& s = schema.scalars[static_cast<std::size_t>(i)];
          return row(s.name, truth(s.key), truth(s.has_default));
        })};
    return tuple_from(std::size(fields), [&](std::int64_t i) { return fields[i]; });
  } catch (const Error& error) {
    return raise(error);
  }
}

// () -> entries, as those of dlblas_python_init, for the forms that Python does not have yet
Object* own_functions(Object*, Object* const*, Size, Object*) { return new_entries(false); }

}  // namespace dlblas::py
