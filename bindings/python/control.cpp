// explain, tune, get_op, verify, reference, and helpers. See control.hpp. Arguments come from the
// package's own modules (`native` of python/dlblas/_functions.py) and are not checked again here.
#include "bindings/python/control.hpp"

#include <string>
#include <utility>
#include <vector>

#include "bindings/c/bound_call.hpp"
#include "bindings/c/flags.hpp"
#include "bindings/python/kept.hpp"
#include "bindings/python/log.hpp"
#include "bindings/python/marshal.hpp"
#include "bindings/python/own.hpp"
#include "bindings/python/torch.hpp"
#include "core/ranges.hpp"

namespace dlblas::py {
namespace {

// args[0 … 3): the form's name, the tuple and the dict of its arguments.
const Function* function_of(Object* const* args) {
  const char* name = api.utf8(args[0], nullptr);
  if (!name) return nullptr;
  if (const Function* function = find_function(name)) return function;
  dlblas_op_t unused = nullptr;
  dlblas_op(name, &unused);  // for the library's words
  raise_last_error();
  return nullptr;
}

Object* take_text(char* text) {
  Object* made = make_text(text);
  dlblas_free(text);
  return made;
}

// (name, args, kwargs, format) -> str
Object* explain(Object*, Object* const* args, Size, Object*) {
  const Function* function = function_of(args);
  if (!function) return nullptr;
  Call call(*function, Data::kOptional);
  if (!call.read(args[1], args[2])) return nullptr;
  const auto format = static_cast<std::int32_t>(api.long_as(args[3]));
  char* text = nullptr;
  dlblas_context side;
  if (!call.fill_context(&side)) return nullptr;
  const dlblas_status status = unlocked(
      [&] { return dlblas_explain(function->handle, &call.args(), &side, format, &text); });
  return status == DLBLAS_OK ? take_text(text) : raise_last_error();
}

// (name, args, kwargs) -> None: prepares the kernel that the call would run
Object* warmup(Object*, Object* const* args, Size, Object*) {
  const Function* function = function_of(args);
  if (!function) return nullptr;
  Call call(*function, Data::kOptional);
  if (!call.read(args[1], args[2])) return nullptr;
  dlblas_context side;
  if (!call.fill_context(&side)) return nullptr;
  const dlblas_status status =
      unlocked([&] { return dlblas_warmup(function->handle, &call.args(), &side); });
  return status == DLBLAS_OK ? Ref::borrow(api.none).release() : raise_last_error();
}

// The callbacks of a search. The first Python error stops the search and is raised once the results
// measured so far are kept.
struct Search {
  Object* where;     // (implementation, configuration) -> bool, or None
  Object* progress;  // (kind, done, …) -> None, or None
  Object* error[3] = {};
  bool stopped() const { return error[0] != nullptr; }
  void keep_error() { api.err_fetch(&error[0], &error[1], &error[2]); }
};

int keep_configuration(void* self, const char* implementation, const char* config) {
  auto& search = *static_cast<Search*>(self);
  if (search.stopped()) return 0;
  const Locked locked;
  Ref name(make_text(implementation)), text(make_text(config));
  Ref answer(api.call_args(search.where, name.get(), text.get(), nullptr));
  const int keep = answer ? api.is_true(answer.get()) : -1;
  if (keep < 0) search.keep_error();
  return keep > 0;
}

int on_event(void* self, const dlblas_event* e) {
  auto& search = *static_cast<Search*>(self);
  if (search.stopped()) return 1;
  const Locked locked;
  tell_log();  // what comes next may end the process
  Ref answer;
  if (e->kind == DLBLAS_EVENT_WAITING) {  // for Ctrl-C alone: there is no progress to tell
    if (api.check_signals() != 0) search.keep_error();
    return search.stopped();
  }
  if (api.check_signals() == 0) {
    Object* const fields[] = {
        api.long_from(e->kind),   api.long_from(e->done),          api.long_from(e->planned),
        api.long_from(e->failed), make_text(e->implementation),    make_text(e->config),
        make_text(e->note),       api.float_from(e->milliseconds), api.float_from(e->best_ms),
        make_text(e->best),       api.float_from(e->elapsed_s),    api.float_from(e->budget_s)};
    Ref tuple(api.tuple_new(std::size(fields)));
    for (std::size_t i = 0; i < std::size(fields); ++i)
      api.tuple_set(tuple.get(), static_cast<Size>(i), fields[i]);
    answer.reset(search.progress == api.none ? Ref::borrow(api.none).release()
                                             : api.call(search.progress, tuple.get()));
  }
  if (!answer) search.keep_error();
  return search.stopped();
}

const char* text_or_null(Object* object) {
  return object == api.none ? nullptr : api.utf8(object, nullptr);
}

// The options of a search, from a tuple: seconds, strategy, seed, maximum evaluations, force,
// implementations, narrowings ((implementation, knob, values) …), where, progress, measure_in.
class SearchOptions {
 public:
  // False: a Python error is set.
  bool read(Object* options) {
    const auto option = [&](Size i) { return api.tuple_get(options, i); };
    search_.where = option(7), search_.progress = option(8);
    o_.size = sizeof o_;
    o_.seconds = api.float_as(option(0));
    o_.strategy = text_or_null(option(1));
    o_.seed = api.long_as_unsigned(option(2));
    o_.max_evaluations = static_cast<std::int32_t>(api.long_as(option(3)));
    o_.force = api.is_true(option(4));
    o_.implementations = text_or_null(option(5));
    for (Size i = 0; i < api.tuple_size(option(6)); ++i)
      for (Size c = 0; c < 3; ++c)
        columns_[c].push_back(api.utf8(api.tuple_get(api.tuple_get(option(6), i), c), nullptr));
    o_.num_knobs = static_cast<std::int32_t>(columns_[0].size());
    o_.knob_implementations = columns_[0].data();
    o_.knob_names = columns_[1].data();
    o_.knob_values = columns_[2].data();
    o_.measure_in = static_cast<std::int32_t>(api.long_as(option(9)));
    o_.self = &search_;
    o_.where = search_.where == api.none ? nullptr : keep_configuration;
    o_.on_event = on_event;
    return !api.err_occurred();
  }

  // Runs `run(options, report)` without the interpreter's lock; returns its report, or raises.
  template <typename Run>
  Object* report_of(const Run& run) {
    char* report = nullptr;
    const dlblas_status status = unlocked([&] { return run(&o_, &report); });
    tell_log();
    if (search_.stopped()) {
      if (report) dlblas_free(report);
      api.err_restore(search_.error[0], search_.error[1], search_.error[2]);
      return nullptr;
    }
    return status == DLBLAS_OK ? take_text(report) : raise_last_error();
  }

 private:
  Search search_{};
  dlblas_tune_options o_{};
  std::vector<const char*> columns_[3];
};

// (name, args, kwargs, options, force_search) -> str
Object* tune(Object*, Object* const* args, Size, Object*) {
  const Function* function = function_of(args);
  if (!function) return nullptr;
  Call call(*function, Data::kOptional);
  SearchOptions options;
  if (!call.read(args[1], args[2]) || !options.read(args[3])) return nullptr;
  const auto run = api.is_true(args[4]) ? dlblas_tune : dlblas_get_op;
  dlblas_context side;
  if (!call.fill_context(&side)) return nullptr;
  return options.report_of([&](const dlblas_tune_options* o, char** report) {
    return run(function->handle, &call.args(), &side, o, report);
  });
}

// (key, options) -> str
Object* tune_key(Object*, Object* const* args, Size, Object*) {
  const char* key = api.utf8(args[0], nullptr);
  SearchOptions options;
  if (!key || !options.read(args[1])) return nullptr;
  return options.report_of(
      [&](const dlblas_tune_options* o, char** report) { return dlblas_tune_key(key, o, report); });
}

// (name, args, kwargs, out, address of int64 rows, number of rows)
// -> (worst, relative, wrong, checked, first_wrong, result, mistrusted)
Object* verify(Object*, Object* const* args, Size, Object*) {
  const Function* function = function_of(args);
  if (!function) return nullptr;
  Call call(*function, Data::kRequired);
  if (!call.read(args[1], args[2]) || !call.read_out(args[3], true)) return nullptr;
  const auto* rows = reinterpret_cast<const std::int64_t*>(api.long_as_unsigned(args[4]));
  const std::int64_t num_rows = api.long_as(args[5]);
  dlblas_verdict v{};
  v.size = sizeof v;
  const dlblas_status status =
      unlocked([&] { return dlblas_verify(function->handle, &call.args(), rows, num_rows, &v); });
  if (status != DLBLAS_OK) return raise_last_error();
  Object* const fields[] = {
      api.float_from(v.worst),
      api.float_from(v.relative),
      api.long_from(v.wrong),
      api.long_from(v.checked),
      api.long_from(v.first_wrong),
      api.long_from(v.result),
      Ref::borrow(v.mistrusted ? api.true_object : api.false_object).release()};
  Object* tuple = api.tuple_new(std::size(fields));
  for (std::size_t i = 0; i < std::size(fields); ++i)
    api.tuple_set(tuple, static_cast<Size>(i), fields[i]);
  return tuple;
}

bool same_shapes(const BoundCall& bound, Object* shapes) {
  const Schema& schema = bound.op.schema;
  bool same = api.tuple_size(shapes) == schema.num_judged();
  for (int j = 0; same && j < schema.num_judged(); ++j) {
    if (!bound.args.judges(j)) continue;
    const TensorView& t = bound.args.judged(j);
    Object* shape = api.tuple_get(shapes, j);
    same = api.tuple_size(shape) == t.rank;
    for (int i = 0; same && i < t.rank; ++i)
      same = api.long_as(api.tuple_get(shape, i)) == t.shape[i];
  }
  return same;
}

// (name, args, kwargs, address of int64 rows, number of rows, addresses of values, addresses of
// magnitudes, judged shapes that these buffers were allocated for, from an earlier look at the
// arguments) -> ((magnitude, value, absolute) …), the bound of each result
Object* reference(Object*, Object* const* args, Size, Object*) {
  const Function* function = function_of(args);
  if (!function) return nullptr;
  Call call(*function, Data::kRequired);
  if (!call.read(args[1], args[2])) return nullptr;
  const auto* rows = reinterpret_cast<const std::int64_t*>(api.long_as_unsigned(args[3]));
  const std::int64_t num_rows = api.long_as(args[4]);
  double* values[kMaxJudged] = {};
  double* magnitudes[kMaxJudged] = {};
  double bounds[kMaxJudged][3] = {};
  const Size num_results = api.tuple_size(args[5]);
  try {
    if (!same_shapes(BoundCall(function->handle, &call.args(), nullptr), args[7]))
      return raise({DLBLAS_SHAPE, function->name.c_str(), "args", "changed meanwhile",
                    "the same shapes all along", "others", "pass arrays that stay as they are"});
  } catch (const Error& error) {
    return raise(error);
  }
  for (Size i = 0; i < num_results; ++i) {
    values[i] = reinterpret_cast<double*>(api.long_as_unsigned(api.tuple_get(args[5], i)));
    magnitudes[i] = reinterpret_cast<double*>(api.long_as_unsigned(api.tuple_get(args[6], i)));
  }
  const dlblas_status status = unlocked([&] {
    return dlblas_reference(function->handle, &call.args(), rows, num_rows, values, magnitudes,
                            bounds);
  });
  if (status != DLBLAS_OK) return raise_last_error();
  Object* out = api.tuple_new(num_results);
  for (Size i = 0; i < num_results; ++i) {
    Object* bound = api.tuple_new(3);
    for (Size c = 0; c < 3; ++c) api.tuple_set(bound, c, api.float_from(bounds[i][c]));
    api.tuple_set(out, i, bound);
  }
  return out;
}

// The specs of the first `count` entries of Schema::judged; None for an absent one.
Object* specs_of(const BoundCall& bound, int count) {
  const Schema& schema = bound.op.schema;
  Object* out = api.tuple_new(count);
  for (int r = 0; r < count; ++r) {
    if (!bound.args.judges(r)) {
      api.tuple_set(out, r, Ref::borrow(api.none).release());
      continue;
    }
    const TensorView& t = bound.args.judged(r);
    Object* shape = api.tuple_new(t.rank);
    for (int i = 0; i < t.rank; ++i) api.tuple_set(shape, i, api.long_from(t.shape[i]));
    const TensorView rows = bound.args.judged_rows(r);
    Object* row = api.tuple_new(5);
    api.tuple_set(row, 0, make_text(schema.tensors[schema.judged[r]].name));
    api.tuple_set(row, 1, api.long_from(dlpack_code_of(t.dtype)));
    api.tuple_set(row, 2, api.long_from(8 * size_of(t.dtype)));
    api.tuple_set(row, 3, shape);
    api.tuple_set(row, 4, api.long_from(rows.rank > 0 ? rows.shape[rows.rank - 1] : 1));
    api.tuple_set(out, r, row);
  }
  return out;
}

Object* specs(Object* const* args, bool judged) {
  const Function* function = function_of(args);
  if (!function) return nullptr;
  Call call(*function, Data::kOptional);
  if (!call.read(args[1], args[2])) return nullptr;
  try {
    const BoundCall bound(function->handle, &call.args(), nullptr);
    const Schema& schema = bound.op.schema;
    return specs_of(bound, judged ? schema.num_judged() : schema.num_results);
  } catch (const Error& error) {
    return raise(error);
  }
}

// (name, args, kwargs) -> ((name, code, bits, shape) …): the results that a call would make
Object* results(Object*, Object* const* args, Size, Object*) { return specs(args, false); }

// As results, followed by the inputs that the operator writes; None for an absent one.
Object* judged(Object*, Object* const* args, Size, Object*) { return specs(args, true); }

// (name, args, kwargs) -> nanoseconds
Object* bench_host(Object*, Object* const* args, Size, Object*) {
  const Function* function = function_of(args);
  if (!function) return nullptr;
  Call call(*function, Data::kRequired);
  if (!call.read(args[1], args[2])) return nullptr;
  double nanoseconds = 0;
  const dlblas_status status =
      unlocked([&] { return dlblas_bench_host(function->handle, &call.args(), &nanoseconds); });
  return status == DLBLAS_OK ? api.float_from(nanoseconds) : raise_last_error();
}

// (address, code, bits, shape, owner) -> capsule
Object* capsule(Object*, Object* const* args, Size, Object*) {
  const dlblas_dtype dtype = {static_cast<std::uint8_t>(api.long_as(args[1])),
                              static_cast<std::uint8_t>(api.long_as(args[2])), 1};
  return make_capsule(reinterpret_cast<void*>(api.long_as_unsigned(args[0])), dtype, args[3],
                      args[4]);
}

// (on) -> the previous setting; applies to later calls of this thread
template <std::uint32_t kFlag>
Object* set_call_flag(Object*, Object* const* args, Size, Object*) {
  const int on = api.is_true(args[0]);
  if (on < 0) return nullptr;
  const std::uint32_t flags = on ? t_call_flags | kFlag : t_call_flags & ~kFlag;
  const bool before = std::exchange(t_call_flags, flags) & kFlag;
  return Ref::borrow(before ? api.true_object : api.false_object).release();
}

Object* g_ranges = nullptr;

// Runs the range hook; an exception from it is dropped and the call continues.
void tell_range(const char* name) {
  const Locked locked;
  Object* before[3] = {};
  api.err_fetch(&before[0], &before[1], &before[2]);
  {
    const Ref text(name ? make_text(name) : Ref::borrow(api.none).release());
    const Ref told(api.call_args(g_ranges, text.get(), nullptr));
    if (!told) api.err_clear();
  }
  api.err_restore(before[0], before[1], before[2]);
}

// (function of a name or None, or None) -> None: called at the begin and the end of each call
Object* set_ranges(Object*, Object* const* args, Size, Object*) {
  if (args[0] == api.none) {
    set_range_hook(nullptr);
  } else {
    g_ranges = Ref::borrow(args[0]).release();  // for the process: a range of it may be open
    set_range_hook(tell_range);
  }
  return Ref::borrow(api.none).release();
}

}  // namespace

const ControlEntry kControlFunctions[] = {
    {"explain", explain},
    {"tune", tune},
    {"tune_key", tune_key},
    {"warmup", warmup},
    {"verify", verify},
    {"reference", reference},
    {"results", results},
    {"judged", judged},
    {"bench_host", bench_host},
    {"capsule", capsule},
    {"set_deterministic", set_call_flag<DLBLAS_DETERMINISTIC>},
    {"set_repeatable", set_call_flag<DLBLAS_REPEATABLE>},
    {"set_allow_tf32", set_call_flag<DLBLAS_ALLOW_TF32>},
    {"set_log", set_log},
    {"set_ranges", set_ranges},
    {"set_torch", set_torch},
    {"torch_register", torch_register},
    {"torch_attach", torch_attach},
    {"own_register", own_register},
    {"own_unregister", own_unregister},
    {"own_register_operator", own_register_operator},
    {"own_schema", own_schema},
    {"own_functions", own_functions},
    {"kept_publish", kept_publish},
    {"kept_rows", kept_rows},
    {"kept_keys", kept_keys},
    {"kept_remove", kept_remove},
    {nullptr, nullptr}};

}  // namespace dlblas::py
