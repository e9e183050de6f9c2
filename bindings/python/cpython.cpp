// Finds CPython in this process: an executable with a built-in interpreter (Debian, conda) exports
// its symbols; a shared libpython may have been loaded without global visibility. In: nothing. Out:
// `api`. Read next: bindings/python/cpython.hpp.
#include "bindings/python/cpython.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>

namespace dlblas::py {

Api api;

namespace {

// dl_iterate_phdr's callback: opens the already loaded object named libpython3*.
int find_libpython(dl_phdr_info* info, std::size_t, void* handle) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* name = slash ? slash + 1 : info->dlpi_name;
  // libpython3.so alone is the forwarding stub of the limited API: it holds no function.
  if (std::strncmp(name, "libpython3.", 11) != 0 || std::strcmp(name, "libpython3.so") == 0)
    return 0;
  *static_cast<void**>(handle) = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
  return *static_cast<void**>(handle) != nullptr;
}

void* find(const char* symbol) {
  static void* const libpython = [] {
    void* handle = nullptr;
    dl_iterate_phdr(find_libpython, &handle);
    return handle;
  }();
  if (void* address = dlsym(RTLD_DEFAULT, symbol)) return address;
  return libpython ? dlsym(libpython, symbol) : nullptr;
}

// True if the second word of each of these three objects is its type.
bool type_is_second_word() {
  for (Object* object : {api.none, api.true_object, api.float_type}) {
    Object* type = api.object_type(object);
    const bool same = reinterpret_cast<Object* const*>(object)[1] == type;
    api.dec_ref(type);
    if (!same) return false;
  }
  return true;
}

}  // namespace

void stay() {
  for (;;) pause();
}

Object* Api::call_vector(Object* callable, Object* const* args, Size count) const {
  if (vectorcall.function)
    return vectorcall(callable, args, static_cast<std::size_t>(count), nullptr);
  Ref tuple(tuple_new(count));
  if (!tuple) return nullptr;
  for (Size i = 0; i < count; ++i) tuple_set(tuple.get(), i, Ref::borrow(args[i]).release());
  return call(callable, tuple.get());
}

std::string words_of(Object* object) {
  Ref text(object ? api.str(object) : nullptr);
  Ref bytes(text ? api.encode(text.get(), "utf-8", "backslashreplace") : nullptr);
  char* utf8 = nullptr;
  Size size = 0;
  if (!bytes || api.bytes_read(bytes.get(), &utf8, &size) != 0) return api.err_clear(), "";
  std::string words;
  for (Size i = 0; i < size; ++i) utf8[i] ? words += utf8[i] : words += "\\0";
  return words;
}

const char* resolve() {
#define DLBLAS_PY_RESOLVE(member, symbol, result, arguments)                  \
  api.member.function = reinterpret_cast<result(*) arguments>(find(#symbol)); \
  if (!api.member.function) return #symbol;
  DLBLAS_PY_FUNCTIONS(DLBLAS_PY_RESOLVE)
#undef DLBLAS_PY_RESOLVE
  api.vectorcall.function =
      reinterpret_cast<decltype(api.vectorcall.function)>(find("PyObject_Vectorcall"));
  const struct {
    Object** member;
    const char* symbol;
  } objects[] = {{&api.none, "_Py_NoneStruct"},
                 {&api.true_object, "_Py_TrueStruct"},
                 {&api.false_object, "_Py_FalseStruct"},
                 {&api.bool_type, "PyBool_Type"},
                 {&api.float_type, "PyFloat_Type"}};
  for (const auto& entry : objects)
    if (!(*entry.member = static_cast<Object*>(find(entry.symbol)))) return entry.symbol;
  api.type_offset = type_is_second_word() ? 16 : 0;
  return nullptr;
}

}  // namespace dlblas::py
