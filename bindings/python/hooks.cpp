// Raises the library's errors in Python, and reads the table of hooks. See hooks.hpp.
#include "bindings/python/hooks.hpp"

#include <string>

namespace dlblas::py {

Hooks hooks;

namespace {

Object* raise_error(const dlblas_error& e) {
  Ref status(api.long_from(e.status));
  Ref message(make_text(e.message)), op(make_text(e.op)), argument(make_text(e.argument));
  Ref expected(make_text(e.expected)), got(make_text(e.got));
  Ref error(api.call_args(hooks.error, status.get(), message.get(), op.get(), argument.get(),
                          expected.get(), got.get(), nullptr));
  if (error) api.err_set(type_of(error.get()), error.get());
  return nullptr;
}

}  // namespace

const char* read_hooks(Object* dictionary) {
  const struct {
    Object** hook;
    const char* name;
  } table[] = {{&hooks.error, "error"},
               {&hooks.ndarray, "ndarray"},
               {&hooks.numpy_dtype, "numpy_dtype"},
               {&hooks.numpy_descr, "numpy_descr"},
               {&hooks.exchange, "exchange"},
               {&hooks.wrote, "wrote"},
               {&hooks.stream, "stream"},
               {&hooks.new_output, "new_output"},
               {&hooks.number, "number"},
               {&hooks.finish, "finish"},
               {&hooks.dtype_name, "dtype_name"},
               {&hooks.docstring, "docstring"},
               {&hooks.other_forms, "other_forms"},
               {&hooks.older_forms, "older_forms"},
               {&hooks.takes_dim, "takes_dim"}};
  for (const auto& entry : table)
    if (!(*entry.hook = api.dict_get(dictionary, entry.name))) return entry.name;
  api.inc_ref(dictionary);  // for the life of the process: the hooks above are borrowed from it
  return nullptr;
}

Object* raise_last_error() {
  dlblas_error e{};
  e.size = sizeof e;
  dlblas_last_error(&e);
  return raise_error(e);
}

Object* raise(const Error& e) {
  const ErrorDetail& d = e.detail();
  return raise_error({sizeof(dlblas_error), static_cast<dlblas_status>(e.kind()), e.what(),
                      d.op.c_str(), d.argument.c_str(), d.expected.c_str(), d.got.c_str()});
}

Object* raise(const Complaint& c) {
  const std::string message = text(c.op, ": ", c.argument, " ", c.problem, "; expected ",
                                   c.expected, ", got ", c.got, "; ", c.remedy);
  return raise_error(
      {sizeof(dlblas_error), c.status, message.c_str(), c.op, c.argument, c.expected, c.got});
}

}  // namespace dlblas::py
