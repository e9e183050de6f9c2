// The JIT without a GPU: what it reads from a compiler's log, what it keeps on disk, what it does
// with a damaged file, a missing header, a kernel that does not compile. Tests that compile are
// skipped, with a message, without NVRTC.  Read next: src/jit/load.cpp.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/counters.hpp"
#include "core/error.hpp"
#include "jit/disk_cache.hpp"
#include "jit/headers.hpp"
#include "jit/jit.hpp"
#include "jit/nvrtc.hpp"
#include "registry/registry.hpp"
#include "store/sha256.hpp"

namespace dlblas::test {
namespace {

namespace fs = std::filesystem;

/// A cache and a source tree of this process's own: both are read only once.
class Folders : public testing::Environment {
 public:
  void SetUp() override {
    std::string name = testing::TempDir() + "dlblas-jit-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root() = name;
    fs::create_directories(root() / "tree/device");
    setenv("DLBLAS_CACHE", (root() / "cache").c_str(), 1);
    setenv("DLBLAS_SOURCE_DIR", (root() / "tree").c_str(), 1);
  }
  void TearDown() override { fs::remove_all(root()); }
  static fs::path& root() {
    static fs::path path;
    return path;
  }
};
const auto* const kFolders = testing::AddGlobalTestEnvironment(new Folders);

void write(const std::string& name, const std::string& text) {
  std::ofstream(Folders::root() / "tree" / name) << text;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> cubins() {
  std::vector<fs::path> found;
  const fs::path folder = Folders::root() / "cache/v1/cubins";
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  return found;
}

constexpr const char* kScale =
    "#pragma once\n"
    "namespace dlblas {\n"
    "struct ScaleParams { float* x; float by; };\n"
    "template <int kThreads> __global__ void scale(const __grid_constant__ ScaleParams p) {\n"
    "  p.x[blockIdx.x * kThreads + threadIdx.x] *= p.by;\n"
    "}\n"
    "}\n";

jit::Cubin sample() {
  jit::Cubin c;
  c.image = std::string(
      "\x7f"
      "ELF\0\n binary",
      14);
  c.symbol = "_Z5scale";
  c.registers = 40, c.spill_bytes = 8, c.stack_bytes = 16, c.shared_bytes = 1024;
  return c;
}

TEST(Log, RegistersSpillsAndWarnings) {
  jit::Cubin c;
  jit::detail::read_log(
      "a.cuh(3): warning #177-D: variable \"unused\" was declared but never referenced\n"
      "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function '_Z1k' for 'sm_90a'\n"
      "ptxas         .     16 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 9 barriers, 16 bytes cumulative stack size, 1024 "
      "bytes smem\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized\n",
      c);
  EXPECT_EQ(c.registers, 168);
  EXPECT_EQ(c.spill_bytes, 32);
  EXPECT_EQ(c.stack_bytes, 16);
  EXPECT_EQ(c.shared_bytes, 1024);
  ASSERT_EQ(c.warnings.size(), 2u);
  EXPECT_NE(c.warnings[1].find("C7510"), std::string::npos);
}

TEST(Container, EveryByteCounts) {
  const std::string packed = jit::detail::pack("abc", "13.0", sample());
  jit::Cubin out;
  ASSERT_TRUE(jit::detail::unpack(packed, "abc", "13.0", &out));
  EXPECT_EQ(out.image, sample().image);
  EXPECT_EQ(out.registers, 40);
  EXPECT_FALSE(jit::detail::unpack(packed, "xyz", "13.0", &out)) << "another source's";
  EXPECT_FALSE(jit::detail::unpack(packed, "abc", "12.8", &out)) << "another compiler's";
  for (std::size_t i = 0; i < packed.size(); ++i) {
    std::string flipped = packed;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_FALSE(jit::detail::unpack(flipped, "abc", "13.0", &out)) << "byte " << i;
    EXPECT_FALSE(jit::detail::unpack(packed.substr(0, i), "abc", "13.0", &out)) << "cut at " << i;
  }
  // A valid digest over other, well-formed content: lengths and names are checked all the same.
  std::string longer = packed.substr(0, packed.size() - 64) + "x";
  longer += sha256_hex(longer);
  EXPECT_FALSE(jit::detail::unpack(longer, "abc", "13.0", &out));
}

TEST(Headers, ClosureAndWhatIsMissing) {
  write("device/a.cuh", "#pragma once\n#include \"device/b.cuh\"\n");
  write("device/b.cuh", "#pragma once\n  #include \"device/a.cuh\"\n");
  const auto headers = jit::closure_of("device/a.cuh");
  ASSERT_EQ(headers.size(), 2u);
  EXPECT_EQ(headers[1].name, "device/b.cuh");
  EXPECT_THROW(jit::closure_of("device/none.cuh"), Error);
  EXPECT_EQ(jit::closure_of("device/dtype.hpp").size(), 1u) << "embedded";
}

#define DLBLAS_NEEDS_NVRTC() \
  if (!jit::unavailable().empty()) GTEST_SKIP() << jit::unavailable()

TEST(Compile, OnceAProcessAndThenFromTheDisk) {
  DLBLAS_NEEDS_NVRTC();
  write("device/scale.cuh", kScale);
  const KernelSource source{"device/scale.cuh", "dlblas::scale<64>"};
  const auto before = g_counters.compiled.load();
  std::vector<std::thread> threads;
  std::vector<const jit::Cubin*> got(4);
  for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { got[i] = &jit::compile(source, 90); });
  for (auto& t : threads) t.join();
  EXPECT_EQ(g_counters.compiled.load() - before, 1);
  EXPECT_EQ(got[0], got[3]);
  EXPECT_EQ(got[0]->image.substr(1, 3), "ELF");
  EXPECT_GT(got[0]->registers, 0);
  EXPECT_TRUE(got[0]->warnings.empty());
  ASSERT_EQ(cubins().size(), 1u);

  // What another process would read: the same cubin, or nothing once the file is damaged.
  const std::string name = cubins()[0].filename();
  const std::string digest = name.substr(0, name.find('-'));
  jit::Cubin again;
  ASSERT_TRUE(jit::read_cubin(digest, jit::compiler_version(), &again));
  EXPECT_EQ(again.image, got[0]->image);
  ASSERT_TRUE(jit::read_cubin(digest, "", &again)) << "without a compiler any version serves";
  EXPECT_FALSE(jit::read_cubin(digest, "11.0", &again));
  std::string bytes = read(cubins()[0]);
  bytes[bytes.size() / 2] ^= 4;
  std::ofstream(cubins()[0], std::ios::binary) << bytes;
  EXPECT_FALSE(jit::read_cubin(digest, jit::compiler_version(), &again));
  EXPECT_TRUE(cubins().empty()) << "set aside";
}

TEST(Compile, OtherSourceOtherKey) {
  DLBLAS_NEEDS_NVRTC();
  write("device/scale2.cuh", kScale);
  jit::compile({"device/scale2.cuh", "dlblas::scale<64>"}, 90);
  const std::size_t one = cubins().size();
  jit::compile({"device/scale2.cuh", "dlblas::scale<128>"}, 90);
  jit::compile({"device/scale2.cuh", "dlblas::scale<64>"}, 80);
  EXPECT_EQ(cubins().size(), one + 2);
}

TEST(Compile, ErrorsSayWhere) {
  DLBLAS_NEEDS_NVRTC();
  write("device/wrong.cuh", "namespace dlblas { __global__ void k() { undeclared = 1; } }\n");
  try {
    jit::compile({"device/wrong.cuh", "dlblas::k"}, 90);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kCompile);
    EXPECT_NE(std::string(e.what()).find("device/wrong.cuh"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("undeclared"), std::string::npos) << e.what();
  }
  EXPECT_THROW(jit::compile_all({{"device/wrong.cuh", "dlblas::k"}}, 80), Error);
}

TEST(Live, TheTreeIsPartOfTheIdentity) {
  EXPECT_EQ(std::string(jit::source_version()).substr(0, 4), "live");
  // Implementations compiled from the tree include its version in their identity; others do not.
  int compiled = 0;
  for (const Operator* op : Registry::process().operators())
    for (const Implementation* impl : op->candidates()) {
      const bool live = impl->identity().find(jit::source_version()) != std::string::npos;
      EXPECT_EQ(live, impl->sources != nullptr) << impl->name;
      compiled += live;
    }
  EXPECT_GT(compiled, 0);
}

}  // namespace
}  // namespace dlblas::test
