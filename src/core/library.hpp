// Shared libraries located at run time; none is needed at import, and `dlblas info` lists what was
// found and where. Search order: DLBLAS_LIBS (files or folders), already loaded in this process,
// folders that a binding announced (site-packages/nvidia/**/lib, sys.prefix/lib), beside
// libdlblas.so, below CUDA_HOME, the system.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace dlblas {

struct Library {
  std::string name;  // "onednn"
  void* handle = nullptr;
  std::string path;     // what was opened
  std::string why_not;  // when handle is null: every place that was tried
};

/// Opens the library once per process; later calls return the same object. Known names: see
/// library.cpp.
const Library& find_library(std::string_view name);
/// Names that find_library knows, for `info`.
std::vector<std::string_view> known_libraries();
/// Colon list of the files opened so far; as DLBLAS_LIBS, it makes another process find the same.
std::string opened_libraries();
/// Adds a colon list of folders to search; call before the first find_library that should see them.
void add_library_path(std::string_view folders);
/// A symbol, or null.
void* find_symbol(const Library& library, const char* symbol);
/// The folder that holds libdlblas.so itself (or the executable it is linked into).
std::string own_folder();

}  // namespace dlblas
