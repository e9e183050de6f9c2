// A separate store folder for the whole test program, removed at the end. Include it and add the
// environment: AddGlobalTestEnvironment(new TemporaryStore("name")).
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <utility>

namespace dlblas::test {

class TemporaryStore : public testing::Environment {
 public:
  explicit TemporaryStore(std::string name) : name_(std::move(name)) {}
  void SetUp() override {
    std::string folder = testing::TempDir() + "dlblas-" + name_ + "-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    path_ = folder;
    setenv("DLBLAS_CACHE", folder.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

 private:
  std::string name_;
  std::filesystem::path path_;
};

}  // namespace dlblas::test
