// CPython's limited API through our own prototypes, resolved from the running interpreter: no
// Python.h and no libpython at build time, so one binary serves every Python from 3.10 on. In: a
// running interpreter. Out: `api`, a table of its functions, and a few objects that every binding
// needs. Functions outside the table are not used. Read next: bindings/python/function.cpp (the
// operator call).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace dlblas::py {

struct Object;  // PyObject: never looked into, except as type_of() says
using Size = std::ptrdiff_t;
using FastFunction = Object* (*)(Object* self, Object* const* args, Size nargs, Object* kwnames);

// PyMethodDef and PyModuleDef, whose layouts the stable ABI fixes.
struct MethodDef {
  const char* name;
  FastFunction function;
  int flags;
  const char* doc;
};
inline constexpr int kFastcall = 0x80;
inline constexpr int kKeywords = 0x2;

// One line per function: member, symbol, result, arguments.
#define DLBLAS_PY_FUNCTIONS(F)                                                       \
  F(inc_ref, Py_IncRef, void, (Object*))                                             \
  F(dec_ref, Py_DecRef, void, (Object*))                                             \
  F(object_type, PyObject_Type, Object*, (Object*))                                  \
  F(type_flags, PyType_GetFlags, unsigned long, (Object*))                           \
  F(is_subtype, PyType_IsSubtype, int, (Object*, Object*))                           \
  F(get_attr, PyObject_GetAttrString, Object*, (Object*, const char*))               \
  F(get_attribute, PyObject_GetAttr, Object*, (Object*, Object*))                    \
  F(call_args, PyObject_CallFunctionObjArgs, Object*, (Object*, ...))                \
  F(call, PyObject_CallObject, Object*, (Object*, Object*))                          \
  F(is_true, PyObject_IsTrue, int, (Object*))                                        \
  F(intern, PyUnicode_InternFromString, Object*, (const char*))                      \
  F(unicode, PyUnicode_FromStringAndSize, Object*, (const char*, Size))              \
  F(utf8, PyUnicode_AsUTF8AndSize, const char*, (Object*, Size*))                    \
  F(encode, PyUnicode_AsEncodedString, Object*, (Object*, const char*, const char*)) \
  F(bytes_read, PyBytes_AsStringAndSize, int, (Object*, char**, Size*))              \
  F(long_from, PyLong_FromLongLong, Object*, (long long))                            \
  F(long_as, PyLong_AsLongLong, long long, (Object*))                                \
  F(long_as_unsigned, PyLong_AsUnsignedLongLong, unsigned long long, (Object*))      \
  F(index, PyNumber_Index, Object*, (Object*))                                       \
  F(to_float, PyNumber_Float, Object*, (Object*))                                    \
  F(float_from, PyFloat_FromDouble, Object*, (double))                               \
  F(float_as, PyFloat_AsDouble, double, (Object*))                                   \
  F(tuple_new, PyTuple_New, Object*, (Size))                                         \
  F(tuple_size, PyTuple_Size, Size, (Object*))                                       \
  F(tuple_get, PyTuple_GetItem, Object*, (Object*, Size))                            \
  F(tuple_set, PyTuple_SetItem, int, (Object*, Size, Object*))                       \
  F(dict_new, PyDict_New, Object*, ())                                               \
  F(dict_set, PyDict_SetItemString, int, (Object*, const char*, Object*))            \
  F(dict_get, PyDict_GetItemString, Object*, (Object*, const char*))                 \
  F(dict_item, PyDict_GetItem, Object*, (Object*, Object*))                          \
  F(dict_next, PyDict_Next, int, (Object*, Size*, Object**, Object**))               \
  F(dict_size, PyDict_Size, Size, (Object*))                                         \
  F(err_occurred, PyErr_Occurred, Object*, ())                                       \
  F(err_set, PyErr_SetObject, void, (Object*, Object*))                              \
  F(err_clear, PyErr_Clear, void, ())                                                \
  F(err_fetch, PyErr_Fetch, void, (Object**, Object**, Object**))                    \
  F(err_restore, PyErr_Restore, void, (Object*, Object*, Object*))                   \
  F(check_signals, PyErr_CheckSignals, int, ())                                      \
  F(add_pending, Py_AddPendingCall, int, (int (*)(void*), void*))                    \
  F(save_thread, PyEval_SaveThread, void*, ())                                       \
  F(restore_thread, PyEval_RestoreThread, void, (void*))                             \
  F(gil_ensure, PyGILState_Ensure, int, ())                                          \
  F(gil_release, PyGILState_Release, void, (int))                                    \
  F(function_new, PyCFunction_NewEx, Object*, (MethodDef*, Object*, Object*))        \
  F(module_create, PyModule_Create2, Object*, (void*, int))                          \
  F(module_state, PyModule_GetState, void*, (Object*))                               \
  F(str, PyObject_Str, Object*, (Object*))                                           \
  F(interpreter, PyInterpreterState_Get, void*, ())                                  \
  F(interpreter_id, PyInterpreterState_GetID, std::int64_t, (void*))                 \
  F(is_initialized, Py_IsInitialized, int, ())                                       \
  F(set_interrupt, PyErr_SetInterrupt, void, ())                                     \
  F(capsule_new, PyCapsule_New, Object*, (void*, const char*, void (*)(Object*)))    \
  F(capsule_is, PyCapsule_IsValid, int, (Object*, const char*))                      \
  F(capsule_get, PyCapsule_GetPointer, void*, (Object*, const char*))                \
  F(capsule_rename, PyCapsule_SetName, int, (Object*, const char*))

/// Blocks until the process ends.
[[noreturn]] void stay();

/// One of the interpreter's functions. Before 3.14, Python ends a daemon thread that requests the
/// lock of a finalizing interpreter with pthread_exit, and any of these functions may request it,
/// as whatever runs Python code does. Unwinding would run destructors further up the stack that
/// release references without the lock, and crash. So the thread stays inside the call for good, as
/// in 3.14.
template <typename Signature>
struct Entry;
template <typename R, typename... A>
struct Entry<R(A...)> {
  R operator()(A... arguments) const {
    try {
      return function(arguments...);
    } catch (...) {
      stay();
    }
  }
  R (*function)(A...);
};
template <typename R, typename... A>
struct Entry<R(A..., ...)> {
  template <typename... More>
  R operator()(A... arguments, More... more) const {
    try {
      return function(arguments..., more...);
    } catch (...) {
      stay();
    }
  }
  R (*function)(A..., ...);
};

struct Api {
#define DLBLAS_PY_MEMBER(member, symbol, result, arguments) Entry<result arguments> member;
  DLBLAS_PY_FUNCTIONS(DLBLAS_PY_MEMBER)
#undef DLBLAS_PY_MEMBER
  // Calls without building a tuple. Null where the interpreter does not export it (it has since
  // 3.9, and as part of the stable ABI since 3.12).
  Entry<Object*(Object* callable, Object* const* args, std::size_t nargs, Object* kwnames)>
      vectorcall;
  /// Calls with `count` positional arguments.
  Object* call_vector(Object* callable, Object* const* args, Size count) const;
  // Data symbols of the stable ABI.
  Object* none;
  Object* true_object;
  Object* false_object;
  Object* bool_type;
  Object* float_type;
  // 16 if the second word of an object is its type (true of every build with a GIL); 0: use
  // object_type().
  int type_offset;
};
extern Api api;

/// Fills `api`. Returns null, or the first symbol that the interpreter lacks. Idempotent.
const char* resolve();

/// The type, borrowed. resolve() verifies the offset instead of assuming it: a free-threaded object
/// has another layout, and then this goes through the API.
inline Object* type_of(Object* object) {
  if (api.type_offset) return reinterpret_cast<Object* const*>(object)[1];
  Object* type = api.object_type(object);
  api.dec_ref(type);  // the object keeps its type alive
  return type;
}

inline bool is_long(Object* type) { return api.type_flags(type) & (1ul << 24); }
inline bool is_tuple(Object* type) { return api.type_flags(type) & (1ul << 26); }
inline bool is_unicode(Object* type) { return api.type_flags(type) & (1ul << 28); }

/// An owned reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(Object* owned) : object_(owned) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  ~Ref() {
    if (object_) api.dec_ref(object_);
  }
  static Ref borrow(Object* object) {
    api.inc_ref(object);
    return Ref(object);
  }
  void reset(Object* owned = nullptr) {
    Object* old = object_;
    object_ = owned;
    if (old) api.dec_ref(old);
  }
  Object* get() const { return object_; }
  Object* release() {
    Object* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Object* object_ = nullptr;
};

/// The text of a str used as a name; empty for any other object and for a lone surrogate. Leaves no
/// error set.
inline std::string_view name_of(Object* object) {
  Size size = 0;
  const char* text = is_unicode(type_of(object)) ? api.utf8(object, &size) : nullptr;
  if (text) return {text, static_cast<std::size_t>(size)};
  api.err_clear();
  return {};
}

/// The text of any object, as str() gives it, with lone surrogates and zeros escaped; empty for
/// null and where str() fails. Leaves no error set.
std::string words_of(Object* object);

/// Runs a library call in which a foreign callback (of ctypes, for example) may be ended.
template <typename F>
auto contained(F&& work) {
  try {
    return work();
  } catch (...) {
    if (std::current_exception()) throw;
    stay();
  }
}

/// Runs work without the interpreter's lock: work that reads the store, takes seconds, or waits for
/// another thread that may in turn wait for the interpreter.
template <typename F>
auto unlocked(F&& work) {
  void* thread = api.save_thread();
  const auto status = contained(work);
  api.restore_thread(thread);
  return status;
}

/// Holds the interpreter's lock inside a callback. Declare it before any Ref, so that it is
/// released after them.
class Locked {
 public:
  Locked() : state_(api.gil_ensure()) {}
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { api.gil_release(state_); }

 private:
  const int state_;
};

}  // namespace dlblas::py
