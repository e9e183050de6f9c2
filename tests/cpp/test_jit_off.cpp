// DLBLAS_JIT=0, and machines whose compiler is unusable: warm kernels are served, cold ones give a
// typed error that names the remedy. The environment is read once per process, so each case starts
// this program again with its own environment.  Read next: src/jit/load.cpp, src/jit/nvrtc.cpp.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/counters.hpp"
#include "core/env.hpp"
#include "core/error.hpp"
#include "jit/jit.hpp"

namespace dlblas::test {
namespace {

namespace fs = std::filesystem;

const KernelSource kKernel{"device/twice.cuh", "dlblas::twice<64>"};
constexpr const char* kText =
    "#pragma once\n"
    "namespace dlblas {\n"
    "struct TwiceParams { float* x; };\n"
    "template <int kThreads> __global__ void twice(const __grid_constant__ TwiceParams p) {\n"
    "  p.x[blockIdx.x * kThreads + threadIdx.x] *= 2;\n"
    "}\n"
    "}\n";

std::string why_not() {
  try {
    jit::compile(kKernel, 90);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kCompile);
    return e.what();
  }
}

/// A folder with a kernel's tree and a cache; this program's cases run on it as child processes.
class Jit : public testing::Test {
 protected:
  void SetUp() override {
    if (getenv("DLBLAS_CHILD")) GTEST_SKIP() << "this process is itself a child";
    std::string name = testing::TempDir() + "dlblas-jit-off-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directories(root_ / "tree/device");
    std::ofstream(root_ / "tree/device/twice.cuh") << kText;
  }
  void TearDown() override {
    if (!root_.empty()) fs::remove_all(root_);
  }
  bool child(const std::string& name, const std::string& environment) {
    const std::string self = fs::read_symlink("/proc/self/exe").string();
    const std::string command = "DLBLAS_CHILD=1 DLBLAS_CACHE='" + (root_ / "cache").string() +
                                "' DLBLAS_SOURCE_DIR='" + (root_ / "tree").string() + "' " +
                                environment + " '" + self +
                                "' --gtest_also_run_disabled_tests --gtest_filter=Child.DISABLED_" +
                                name + " > '" + (root_ / "log").string() + "' 2>&1";
    const bool ok = system(command.c_str()) == 0;
    if (!ok) {
      std::ifstream log(root_ / "log");
      ADD_FAILURE() << std::string(std::istreambuf_iterator<char>(log), {});
    }
    return ok;
  }
  /// A library that reports itself as NVRTC `major`.0 and can do nothing else.
  std::string fake_nvrtc(int major) {
    const fs::path folder = root_ / ("nvrtc" + std::to_string(major));
    fs::create_directories(folder);
    std::ofstream(folder / "fake.c")
        << "#define NOP(name) int name(void) { return 7; }\n"
           "int nvrtcVersion(int* a, int* b) { *a = "
        << major
        << "; *b = 0; return 0; }\n"
           "NOP(nvrtcGetErrorString) NOP(nvrtcCreateProgram) NOP(nvrtcDestroyProgram)\n"
           "NOP(nvrtcAddNameExpression) NOP(nvrtcCompileProgram) NOP(nvrtcGetLoweredName)\n"
           "NOP(nvrtcGetCUBINSize) NOP(nvrtcGetCUBIN) NOP(nvrtcGetProgramLogSize)\n"
        << (major == 12 ? "" : "NOP(nvrtcGetProgramLog)\n");
    const std::string command = "cc -shared -fPIC -o '" + (folder / "libnvrtc.so.13").string() +
                                "' '" + (folder / "fake.c").string() + "'";
    EXPECT_EQ(system(command.c_str()), 0);
    return folder.string();
  }
  fs::path root_;
};

TEST_F(Jit, OffServesWhatIsWarmAndNamesWarmupForTheRest) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_TRUE(child("ColdIsRefused", "DLBLAS_JIT=0"));
  ASSERT_TRUE(child("Compiles", "DLBLAS_JIT=1"));
  ASSERT_TRUE(child("WarmServes", "DLBLAS_JIT=0"));
}

TEST_F(Jit, AnOldCompilerIsNamedWithTheRemedy) {
  ASSERT_TRUE(child("SaysTooOld", "DLBLAS_LIBS='" + fake_nvrtc(11) + "'"));
}

TEST_F(Jit, ACompilerThatLacksAFunctionIsNamedWithTheRemedy) {
  ASSERT_TRUE(child("SaysWhatIsMissing", "DLBLAS_LIBS='" + fake_nvrtc(12) + "'"));
}

// ---- What the children do; disabled, so that only the tests above start them --------------------

TEST(Child, DISABLED_ColdIsRefused) {
  EXPECT_EQ(jit::unavailable(), "") << "what is in the cache would serve";
  const std::string why = why_not();
  EXPECT_NE(why.find("DLBLAS_JIT=0"), std::string::npos) << why;
  EXPECT_NE(why.find("warmup"), std::string::npos) << why;
  EXPECT_EQ(g_counters.compiled.load(), 0);
}

TEST(Child, DISABLED_Compiles) {
  EXPECT_EQ(why_not(), "");
  EXPECT_EQ(g_counters.compiled.load(), 1);
}

TEST(Child, DISABLED_WarmServes) {
  EXPECT_EQ(why_not(), "");
  EXPECT_EQ(g_counters.compiled.load(), 0);
}

TEST(Child, DISABLED_SaysTooOld) {
  EXPECT_NE(jit::unavailable().find("is NVRTC 11.0; expected 12.1 or later"), std::string::npos)
      << jit::unavailable();
  const std::string why = why_not();
  EXPECT_NE(why.find("pip install nvidia-cuda-nvrtc"), std::string::npos) << why;
}

TEST(Child, DISABLED_SaysWhatIsMissing) {
  const std::string why = why_not();
  EXPECT_NE(why.find("has no nvrtcGetProgramLog"), std::string::npos) << why;
  EXPECT_NE(why.find("pip install nvidia-cuda-nvrtc"), std::string::npos) << why;
}

}  // namespace
}  // namespace dlblas::test
