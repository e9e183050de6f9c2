// Measuring in a worker on a GPU: each kernel that breaks its context or never ends costs one
// worker, and this process continues with its own context. The program is its own worker. Skipped,
// with the reason, without a GPU or a compiler. Read next: tests/cpp/test_worker.cpp.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/cpp/gpu_dummy.hpp"
#include "tuner/cuda_memory.hpp"
#include "tuner/worker_process.hpp"
#include "tuner/worker_serve.hpp"

namespace dlblas::test {
namespace {

// The same operator in the test and in its workers.
const Operator& broken() {
  static const Operator& made = make_zeros(
      {zeros("right", Broken::kNone), zeros("illegal", Broken::kIllegal),
       zeros("huge", Broken::kHuge), zeros("past_end", Broken::kPastEnd),
       zeros("wrong", Broken::kWrong), zeros("nan", Broken::kNan), zeros("crash", Broken::kCrash),
       zeros("exit", Broken::kExit), zeros("hang", Broken::kHang)});
  return made;
}
// A separate operator: in a batch, a compilation that never ends takes half of the remaining time
// from all others.
const Operator& slow() {
  static const Operator& made =
      make_zeros({zeros("right", Broken::kNone), zeros("slow", Broken::kSlowCompile)});
  return made;
}

int serve_tests() {
  Context context;
  return worker::serve(worker::kWorkerSocket, [&](const Problem& problem) -> const Context& {
    context.device = problem.device();
    return context;
  });
}

std::string own_path() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, n > 0 ? static_cast<std::size_t>(n) : 0);
}

class GpuWorker : public TunerTest {
 protected:
  void SetUp() override {
    if (const std::string why = no_gpu(); !why.empty()) GTEST_SKIP() << why;
    TunerTest::SetUp();
    options_.clock = steady_nanoseconds;
    options_.seconds = 30;  // each that ends its worker costs a start, with a context
    options_.measure_in = MeasureIn::kWorker;
    options_.start_worker = [](const worker::Waiting& waiting, double limit_s) {
      return worker::start({{own_path(), "--worker"}, {}}, waiting, limit_s);
    };
    context_.device = {DeviceType::kCuda, 0};
  }
  void TearDown() override {
    if (!folder_.empty()) TunerTest::TearDown();
  }
};

TEST_F(GpuWorker, WhatBreaksAContextBreaksAWorkerAndNothingHere) {
  CudaMemory mine(0, nullptr);  // this process's context, before and after
  std::byte* const kept = mine.allocate(64);
  mine.set(kept, 0x5c, 64);
  const Problem problem = on_gpu(make_problem(broken(), 64, 256));
  const TuneReport report = tune(broken(), problem, nullptr, context_, options_);
  ASSERT_NE(report.winner, nullptr);
  EXPECT_STREQ(report.winner->name, "right");
  EXPECT_EQ(report.place, "worker");
  EXPECT_LE(report.elapsed_s, 1.1 * 30 + 3) << "a driver may take its time to end a kernel";
  const auto expect = [&](const char* name, Failure failure) {
    const Evaluated* e = find(report, name);
    ASSERT_NE(e, nullptr) << name;
    EXPECT_EQ(name_of(e->failure), name_of(failure)) << name << ": " << e->note;
  };
  expect("illegal", Failure::kIllegalAccess);
  expect("hang", Failure::kTimeout);
  expect("huge", Failure::kOutOfMemory);
  expect("past_end", Failure::kOutOfBounds);
  expect("wrong", Failure::kWrongResult);
  expect("nan", Failure::kWrongResult);
  expect("crash", Failure::kCrash);
  expect("exit", Failure::kCrash);
  EXPECT_TRUE(mine.all_equal(kept, 0x5c, 64)) << "the context lives, and its memory";
  mine.release(kept);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "no worker is left";
  options_.measure_in = MeasureIn::kProcess;
  options_.implementations = {"right"};
  EXPECT_EQ(tune(broken(), problem, nullptr, context_, options_).place, "process");
}

TEST_F(GpuWorker, WhatNeverCompilesIsToldFromWhatHangs) {
  options_.seconds = 10;
  const Problem problem = on_gpu(make_problem(slow(), 64, 256));
  const TuneReport report = tune(slow(), problem, nullptr, context_, options_);
  ASSERT_NE(report.winner, nullptr);
  EXPECT_STREQ(report.winner->name, "right");
  const Evaluated* e = find(report, "slow");
  ASSERT_NE(e, nullptr);
  EXPECT_EQ(e->failure, Failure::kCompileTimeout) << e->note;
}

}  // namespace
}  // namespace dlblas::test

int main(int argc, char** argv) {
  dlblas::test::broken();
  dlblas::test::slow();
  if (argc > 1 && std::string(argv[1]) == "--worker") return dlblas::test::serve_tests();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
