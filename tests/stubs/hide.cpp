// Preloaded: hides the machine's own NVIDIA and oneDNN libraries unless they lie in the folder
// STUBS, so that `dlblas info --why` says the same wherever the test runs. Read next:
// tests/test_why.py.
#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

// The file's name if it is to be hidden, else null.
const char* hidden(const char* path) {
  if (!path) return nullptr;
  const char* shown = std::getenv("STUBS");
  if (shown && *shown && std::strncmp(path, shown, std::strlen(shown)) == 0) return nullptr;
  const char* slash = std::strrchr(path, '/');
  const char* name = slash ? slash + 1 : path;
  for (const char* stem :
       {"libcuda.so", "libnvrtc.so", "libcublasLt.so", "libnvidia-ml.so", "libdnnl.so"})
    if (std::strncmp(name, stem, std::strlen(stem)) == 0) return name;
  return nullptr;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

void* dlopen(const char* path, int flags) {
  static const auto real = next<void* (*)(const char*, int)>("dlopen");
  if (!hidden(path)) return real(path, flags);
  char elsewhere[256] = "/hidden/";  // what the loader then says, it says of no machine's file
  std::strncat(elsewhere, hidden(path), sizeof elsewhere - 9);
  return real(elsewhere, flags);
}

int stat(const char* path, struct stat* result) noexcept {
  static const auto real = next<int (*)(const char*, struct stat*)>("stat");
  if (!hidden(path)) return real(path, result);
  errno = ENOENT;
  return -1;
}

// Called by libraries that were linked with glibc before 2.33.
int __xstat(int version, const char* path, struct stat* result) noexcept {
  static const auto real = next<int (*)(int, const char*, struct stat*)>("__xstat");
  if (!hidden(path)) return real(version, path, result);
  errno = ENOENT;
  return -1;
}

}  // extern "C"
