// dlopen that records why it failed; see library.hpp.
#include "core/library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "core/env.hpp"
#include "core/error.hpp"

namespace dlblas {
namespace {

struct Known {
  std::string_view name;
  std::vector<const char*> sonames;  // newest first
  bool shown = true;                 // by info
};
const std::vector<Known>& table() {
  static const auto* known = new std::vector<Known>{
      {"onednn", {"libdnnl.so.3", "libdnnl.so"}},
      {"cuda", {"libcuda.so.1"}},  // never libcuda.so, which may be the toolkit's stub
      {"nvrtc", {"libnvrtc.so.13", "libnvrtc.so.12"}},
      {"nvrtc12", {"libnvrtc.so.12"}, false},  // for a driver of CUDA 12: see jit/nvrtc.cpp
      {"cublaslt", {"libcublasLt.so.13", "libcublasLt.so.12"}},
      {"nvml", {"libnvidia-ml.so.1"}},
      {"nvtx", {"libnvtx3interop.so.1", "libnvToolsExt.so.1"}, false},
  };
  return *known;
}

std::mutex g_mutex;
std::string& announced() {
  static auto* folders = new std::string;
  return *folders;
}

std::map<std::string, Library, std::less<>>& found() {
  static auto* libraries = new std::map<std::string, Library, std::less<>>;
  return *libraries;
}

bool is_file(const std::string& path) {
  struct stat s {};
  return stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode);
}

bool try_open(Library& library, const std::string& path, int flags) {
  library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  if (!library.handle) {
    if (flags & RTLD_NOLOAD) return false;
    const char* why = dlerror();
    library.why_not += text(library.why_not.empty() ? "" : "; ", why ? why : path);
    return false;
  }
  library.path = path;
  // The loader resolved a bare soname: its link_map holds the path.
  const auto* map = static_cast<const link_map*>(library.handle);
  if (map->l_name && *map->l_name) library.path = map->l_name;
  return true;
}

// Tries every file name in every folder of a colon list; an entry may also be a file.
bool try_list(Library& library, const Known& known, std::string_view list) {
  while (!list.empty()) {
    const std::string entry(list.substr(0, list.find(':')));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    for (const char* soname : known.sonames) {
      const std::string_view stem(soname, std::string_view(soname).find(".so"));
      if (is_file(entry) && entry.find(stem) != std::string::npos) {
        if (try_open(library, entry, 0)) return true;
        break;
      }
      const std::string path = text(entry, "/", soname);
      if (is_file(path) && try_open(library, path, 0)) return true;
    }
  }
  return false;
}

void open(Library& library, const Known& known) {
  if (try_list(library, known, env(EnvVar::kLibs))) return;
  for (const char* soname : known.sonames)
    if (try_open(library, soname, RTLD_NOLOAD)) return;
  if (try_list(library, known, announced())) return;
  if (try_list(library, known, own_folder())) return;
  if (try_list(library, known, cuda_folders())) return;
  for (const char* soname : known.sonames)
    if (try_open(library, soname, 0)) return;
}

}  // namespace

const Library& find_library(std::string_view name) {
  std::lock_guard lock(g_mutex);
  if (const auto at = found().find(name); at != found().end()) return at->second;
  Library& library = found()[std::string(name)];
  library.name = name;
  for (const Known& known : table())
    if (known.name == name) {
      open(library, known);
      if (library.handle) library.why_not.clear();
      return library;
    }
  library.why_not = "the library does not know this name";
  return library;
}

std::vector<std::string_view> known_libraries() {
  std::vector<std::string_view> names;
  for (const Known& known : table())
    if (known.shown) names.push_back(known.name);
  return names;
}

std::string opened_libraries() {
  std::lock_guard lock(g_mutex);
  std::string files;
  for (const auto& [name, library] : found())
    if (library.handle && library.path.front() == '/')
      files += text(files.empty() ? "" : ":", library.path);
  return files;
}

void add_library_path(std::string_view folders) {
  std::lock_guard lock(g_mutex);
  announced() += text(announced().empty() ? "" : ":", folders);
}

void* find_symbol(const Library& library, const char* symbol) {
  return library.handle ? dlsym(library.handle, symbol) : nullptr;
}

std::string own_folder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&own_folder), &info) || !info.dli_fname) return ".";
  const std::string path(info.dli_fname);
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace dlblas
