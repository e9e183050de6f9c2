// dlblas_generate <out>: writes everything that derives from the registry, so that no signature is
// written twice. Out: <out>/include/dlblas/ops.hpp, <out>/python/dlblas/_ops.pyi,
// <out>/docs/operators.md. The same registry gives the same bytes, and a file that would not change
// is left untouched (nothing that includes it is rebuilt). Read next: tools/generate/cpp.hpp,
// python.hpp, pages.hpp; cmake/target.cmake runs this after each build.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tools/generate/cpp.hpp"
#include "tools/generate/pages.hpp"
#include "tools/generate/python.hpp"

namespace {

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ifstream old(path, std::ios::binary);
  if (old && std::string(std::istreambuf_iterator<char>(old), {}) == content) return;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  if (!file.flush())
    throw dlblas::Error(dlblas::ErrorKind::kInternal,
                        dlblas::text("dlblas_generate: ", path.string(), " could not be written"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: dlblas_generate <output folder>\n", stderr);
    return 2;
  }
  try {
    using namespace dlblas::generate;
    const dlblas::Registry& registry = dlblas::Registry::process();
    const std::filesystem::path out(argv[1]);
    write_file(out / "include/dlblas/ops.hpp", CppWriter().write(registry));
    write_file(out / "python/dlblas/_ops.pyi", PythonWriter().write(registry));
    write_file(out / "docs/operators.md", PageWriter().write(registry));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dlblas_generate: %s\n", e.what());
    return 1;
  }
}
