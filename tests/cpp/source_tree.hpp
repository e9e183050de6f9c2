// Lets the JIT read tests/device. Include it in every test that compiles kernels from there: it
// acts before the environment is first read. The tree is DLBLAS_SOURCE_DIR, else the folder at or
// above the working directory that holds tests/device.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace dlblas::test {

class SourceTree : public testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("DLBLAS_SOURCE_DIR")) return;
    std::filesystem::path folder = std::filesystem::current_path();
    while (!std::filesystem::is_directory(folder / "tests/device")) {
      ASSERT_NE(folder, folder.root_path())
          << "run it inside the source tree, or set DLBLAS_SOURCE_DIR to it";
      folder = folder.parent_path();
    }
    setenv("DLBLAS_SOURCE_DIR", folder.c_str(), 1);
  }
};
inline const auto* const kSourceTree = testing::AddGlobalTestEnvironment(new SourceTree);

}  // namespace dlblas::test
