// Entry point of the Python data plane, and the operator call itself: one builtin per callable
// form, so that `dlblas.rms_norm(x, w)` enters C++ without a Python frame in between.
// In: hooks (python/dlblas/_hooks.py). Out: a dictionary of builtins and the facts about them.
// Flow: [Python call] > marshal > dlblas_call.  Read next: bindings/python/marshal.cpp.
#include <cstring>
#include <new>
#include <vector>

#include "bindings/python/control.hpp"
#include "bindings/python/init.hpp"
#include "bindings/python/marshal.hpp"
#include "bindings/python/torch.hpp"
#include "core/env.hpp"

namespace dlblas::py {
namespace {

// Offers a call to a form: returns its result, None if the form does not take it, or null with an
// error set.
Object* ask(Object* form, Object* const* args, Size nargs, Object* kwnames) {
  Ref values(api.tuple_new(nargs)), named(api.dict_new());
  for (Size i = 0; values && i < nargs; ++i)
    api.tuple_set(values.get(), i, Ref::borrow(args[i]).release());
  const Size num_named = kwnames ? api.tuple_size(kwnames) : 0;
  for (Size i = 0; named && i < num_named; ++i)
    api.dict_set(named.get(), std::string(name_of(api.tuple_get(kwnames, i))).c_str(),
                 args[nargs + i]);
  return values && named ? api.call_args(form, values.get(), named.get(), nullptr) : nullptr;
}

// The result of a form that takes the call. False: the call is made, and has no result.
Object* result_of(Ref& made) {
  return made.get() == api.false_object ? Ref::borrow(api.none).release() : made.release();
}

// Called with the error of a refused call set. Returns the result if another form of that name
// takes the call, else null with an error set.
Object* call_other_form(const Function& function, Object* const* args, Size nargs,
                        Object* kwnames) {
  Object *type = nullptr, *error = nullptr, *trace = nullptr;
  api.err_fetch(&type, &error, &trace);
  Object* const form = api.dict_get(hooks.other_forms, function.name.c_str());
  if (!form) return api.err_restore(type, error, trace), nullptr;
  Ref result(ask(form, args, nargs, kwnames));
  if (result.get() != api.none) {
    for (Object* of : {type, error, trace})
      if (of) api.dec_ref(of);
    if (result && api.dict_get(hooks.older_forms, function.name.c_str()))
      function.older_last.store(true, std::memory_order_relaxed);
    return result_of(result);
  }
  api.err_restore(type, error, trace);
  return nullptr;
}

// A program tends to repeat one form. If the previous call was an older form's, that form is tried
// before the operator refuses the call (a refusal with its message takes 30 µs). True: `result`
// holds the result, or null with an error set.
bool call_older_form(const Function& function, Object* const* args, Size nargs, Object* kwnames,
                     Object** result) {
  static thread_local bool t_asked = false;  // an older form calls the operator itself
  if (t_asked || !function.older_last.load(std::memory_order_relaxed)) return false;
  t_asked = true;
  Ref made(ask(api.dict_get(hooks.older_forms, function.name.c_str()), args, nargs, kwnames));
  t_asked = false;
  if (made.get() != api.none) return *result = result_of(made), true;
  function.older_last.store(false, std::memory_order_relaxed);
  return false;
}

Object* call_function(const Function& function, Object* const* args, Size nargs, Object* kwnames) {
  Object* result = nullptr;
  if (call_older_form(function, args, nargs, kwnames, &result)) return result;
  if (call_torch(function, args, nargs, kwnames, &result))
    return result ? result : call_other_form(function, args, nargs, kwnames);
  Call call(function, Data::kRequired);
  result = call.read(args, nargs, kwnames) ? call.run() : nullptr;
  return result ? result : call_other_form(function, args, nargs, kwnames);
}

// Index among all arguments of `dim=-1`, or of a lone −1 after x; both only state what a row
// operator does anyway. −1 if absent. Other dimensions belong to another form
// (python/dlblas/_over_dim.py).
Size last_dim(const Function& function, Object* const* args, Size nargs, Object* kwnames) {
  Size at = function.num_positional == 1 && nargs == 2 ? 1 : -1;
  for (Size i = 0, count = kwnames ? api.tuple_size(kwnames) : 0; i < count; ++i)
    if (name_of(api.tuple_get(kwnames, i)) == "dim") at = at < 0 ? nargs + i : -1;
  if (at < 0) return -1;
  if (api.long_as(args[at]) == -1 && !api.err_occurred()) return at;
  api.err_clear();
  return -1;
}

Object* call_operator(Object* self, Object* const* args, Size nargs, Object* kwnames) {
  const Function& function = **static_cast<Function**>(api.module_state(self));
  const bool may = (kwnames || nargs > 1) && function.takes_dim;
  const Size dim = may ? last_dim(function, args, nargs, kwnames) : -1;
  if (dim < 0) return call_function(function, args, nargs, kwnames);
  const Size num_named = kwnames ? api.tuple_size(kwnames) : 0;
  std::vector<Object*> others(args, args + nargs + num_named);
  others.erase(others.begin() + dim);
  if (dim < nargs) return call_function(function, others.data(), nargs - 1, kwnames);
  Ref names(api.tuple_new(num_named - 1));
  if (!names) return nullptr;
  for (Size i = 0, to = 0; i < num_named; ++i)
    if (nargs + i != dim)
      api.tuple_set(names.get(), to++, Ref::borrow(api.tuple_get(kwnames, i)).release());
  return call_function(function, others.data(), nargs, names.get());
}

// One module per function carries its Function*: a builtin bound to a module prints, pickles and
// inspects as a plain function, and its state is one load away.
Object* make_module(Function* function, std::size_t header_bytes) {
  struct ModuleDef {  // PyModuleDef after PyModuleDef_Base
    const char* name;
    const char* doc;
    Size state_bytes;
    void* rest[5];
  };
  // All modules share one definition; the interpreter keeps a pointer to it. PyModuleDef_Base is an
  // object header, then three words.
  static void* const definition = [header_bytes] {
    const std::size_t base = header_bytes + 3 * sizeof(void*);
    auto* bytes = static_cast<char*>(::operator new(base + sizeof(ModuleDef)));
    std::memset(bytes, 0, base);
    *reinterpret_cast<Size*>(bytes) = 1;
    new (bytes + base) ModuleDef{"dlblas", nullptr, sizeof(void*), {}};
    return bytes;
  }();
  constexpr int kLimitedApiVersion = 3;
  Object* module = api.module_create(definition, kLimitedApiVersion);
  if (module) *static_cast<Function**>(api.module_state(module)) = function;
  return module;
}

Object* text_tuple(const std::vector<std::string>& texts) {
  Object* tuple = api.tuple_new(static_cast<Size>(texts.size()));
  for (std::size_t i = 0; i < texts.size(); ++i)
    api.tuple_set(tuple, static_cast<Size>(i), make_text(texts[i]));
  return tuple;
}

// (name, "tensor" | "int" | …, labels of an enumeration)
Object* describe(const Parameter& p) {
  static const char* const kTypes[] = {"int", "float", "bool", "enum", "dtype"};
  Object* row = api.tuple_new(3);
  api.tuple_set(row, 0, make_text(p.name));
  api.tuple_set(row, 1, make_text(p.tensor ? "tensor" : kTypes[static_cast<int>(p.scalar->type)]));
  api.tuple_set(row, 2, text_tuple(p.scalar ? p.scalar->labels : std::vector<std::string>{}));
  return row;
}

// (name, builtin, operator, family, schema, parameters, names of results)
Object* make_entry(const Form& form, std::size_t header_bytes, Object* package) {
  const Operator& op = *form.op;
  Ref name(make_text(form.name)), op_name(make_text(op.schema.name)),
      family(make_text(op.def.family));
  Ref formula(make_text(op.def.formula)),
      schema(make_text(form.inplace ? form.inplace->text : op.schema.text));
  Ref doc(api.call_args(hooks.docstring, name.get(), op_name.get(), family.get(), formula.get(),
                        schema.get(), nullptr));
  if (!doc) return nullptr;
  Ref takes_dim(api.call_args(hooks.takes_dim, name.get(), op_name.get(), nullptr));
  if (!takes_dim) return nullptr;
  Function* function =
      make_function(form, api.utf8(doc.get(), nullptr), takes_dim.get() == api.true_object);
  function->method = {function->name.c_str(), call_operator, kFastcall | kKeywords,
                      function->doc.c_str()};
  Ref module(make_module(function, header_bytes));
  if (!module) return nullptr;
  function->callable = api.function_new(&function->method, module.get(), package);
  if (!function->callable) return nullptr;
  Ref params(api.tuple_new(static_cast<Size>(function->params.size())));
  for (std::size_t i = 0; i < function->params.size(); ++i)
    api.tuple_set(params.get(), static_cast<Size>(i), describe(function->params[i]));
  Object* const fields[] = {name.release(),
                            Ref::borrow(function->callable).release(),
                            op_name.release(),
                            family.release(),
                            schema.release(),
                            params.release(),
                            text_tuple(function->result_names)};
  Object* entry = api.tuple_new(std::size(fields));
  for (std::size_t i = 0; i < std::size(fields); ++i)
    api.tuple_set(entry, static_cast<Size>(i), fields[i]);
  return entry;
}

std::size_t g_header_bytes = 0;  // of an object; set by start()

}  // namespace

Object* new_entries(bool all) {
  Ref package(api.intern("dlblas"));
  std::vector<Object*> entries;
  for (const Operator* op : Registry::process().operators())
    for (const Form& form : op->forms) {
      if (!all && find_function(std::string(form.name).c_str())) continue;
      Object* entry = make_entry(form, g_header_bytes, package.get());
      if (!entry) return nullptr;
      entries.push_back(entry);
    }
  Object* tuple = api.tuple_new(static_cast<Size>(entries.size()));
  for (std::size_t i = 0; i < entries.size(); ++i)
    api.tuple_set(tuple, static_cast<Size>(i), entries[i]);
  return tuple;
}

namespace {

Object* start(Object* hook_table, std::size_t header_bytes) {
  if (const char* missing = read_hooks(hook_table))
    return raise({DLBLAS_INTERNAL, "dlblas", "hooks", "lack an entry", missing, "none",
                  "reinstall the package"});
  Ref package(api.intern("dlblas"));
  Ref table(api.dict_new());
  g_header_bytes = header_bytes;
  Ref entries(new_entries(true));  // an import that failed may have made some
  if (!entries || api.dict_set(table.get(), "functions", entries.get()) != 0) return nullptr;
#if defined(DLBLAS_SOME_OPERATORS)
  Ref some(api.long_from(1));
#else
  Ref some(api.long_from(0));
#endif
  if (!some || api.dict_set(table.get(), "some_operators", some.get()) != 0) return nullptr;
  std::size_t n = 0;
  while (kControlFunctions[n].name) ++n;
  auto* methods = new MethodDef[n];  // builtins point into it for the life of the process
  for (std::size_t i = 0; i < n; ++i) {
    methods[i] = {kControlFunctions[i].name, kControlFunctions[i].function, kFastcall | kKeywords,
                  nullptr};
    Ref function(api.function_new(&methods[i], nullptr, package.get()));
    if (!function || api.dict_set(table.get(), methods[i].name, function.get()) != 0)
      return nullptr;
  }
  return table.release();
}

}  // namespace
}  // namespace dlblas::py

/// Called by python/dlblas/_functions.py through ctypes.PyDLL, with the interpreter's lock held.
/// header_bytes: object.__basicsize__. Returns a borrowed dictionary, the same one on every call,
/// or null: then *why_not says what this interpreter lacks, or a Python error is set.
extern "C" DLBLAS_API void* dlblas_python_init(void* hook_table, size_t header_bytes,
                                               const char** why_not);
extern "C" DLBLAS_API void* dlblas_python_init(void* hook_table, size_t header_bytes,
                                               const char** why_not) {
  using namespace dlblas::py;
  static Object* table = nullptr;
  *why_not = nullptr;
  static const char* const missing = resolve();
  static const std::string words =
      missing ? dlblas::text("Python lacks ", missing, "; expected CPython 3.10 or later") : "";
  if (missing) {
    *why_not = words.c_str();
    return nullptr;
  }
  // The state kept here (hooks, functions, references to operators) belongs to one interpreter, and
  // PyGILState_Ensure, which the library's threads use to call back, knows only the main one.
  if (api.interpreter_id(api.interpreter()) != 0) {
    *why_not = "this is a subinterpreter; expected the main interpreter of the process";
    return nullptr;
  }
  if (!table) {
    (void)dlblas::cache_root();  // a relative DLBLAS_CACHE means the folder of now
    table = start(static_cast<Object*>(hook_table), header_bytes);
  }
  return table;
}
