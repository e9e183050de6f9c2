// The tuner on a CUDA device: made inputs, guards, comparisons and oracles against the host's, and
// searches over kernels that are right or broken in a chosen way. Skipped, with the reason, without
// a GPU or a compiler. Read next: tests/cpp/test_tuner.cpp (the flow that both devices share).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>

#include "device/whole.hpp"
#include "tests/cpp/gpu_dummy.hpp"
#include "tuner/cuda_measurer.hpp"
#include "tuner/cuda_verifier.hpp"
#include "tuner/machine.hpp"

namespace dlblas::test {
namespace {

class GpuTuner : public TunerTest {
 public:
  using TunerTest::context_;
  using TunerTest::options_;

 protected:
  void SetUp() override {
    if (const std::string why = no_gpu(); !why.empty()) GTEST_SKIP() << why;
    TunerTest::SetUp();
    options_.clock = steady_nanoseconds;
    options_.seconds = 2;
    context_.device = {DeviceType::kCuda, 0};
  }
  void TearDown() override {
    if (!folder_.empty()) TunerTest::TearDown();
  }
  TuneReport tune_zeros(std::vector<Implementation> implementations) {
    const Operator& op = make_zeros(std::move(implementations));
    return tune(op, on_gpu(make_problem(op, 64, 256)), nullptr, context_, options_);
  }
};

// Needs no GPU: this refusal keeps a GPU from losing its context.
TEST(GpuSupport, AnElementAcrossItsSizeIsRefusedWhicheverTheImplementation) {
  Implementation any = zeros("any", Broken::kNone);
  any.sources = nullptr;
  const Operator& op = make_zeros({any});
  const Problem problem = on_gpu(make_problem(op, 8, 16));
  DeviceInfo device;
  device.device = {DeviceType::kCuda, 0};
  device.arch = 90;
  for (const std::uint8_t align_log2 : {0, 1, 2, 3}) {
    Problem moved = problem;
    moved.tensors[1].align_log2 = align_log2;  // f32: four bytes
    const Support support = check_support({moved, device, *op.candidates().front()});
    EXPECT_EQ(static_cast<bool>(support), align_log2 >= 2);
    if (support) continue;
    EXPECT_EQ(support.text(op.schema),
              "an element lies at an address that is not a multiple of its size, which a GPU "
              "cannot read");
  }
  Problem absent = problem;
  absent.tensors[1] = {DType::kAbsent, Layout::kContiguous, 0, 0};
  EXPECT_TRUE(check_support({absent, device, *op.candidates().front()}));
}

TEST_F(GpuTuner, TheSameSeedMakesTheSameBitsAsOnTheHost) {
  CudaMemory memory(0, nullptr);
  for (const Fill fill :
       {Fill::kNormal, Fill::kPositive, Fill::kNegative, Fill::kZeros, Fill::kBits})
    for (int code = 0; code < kNumDTypes; ++code)
      for (const Layout layout : {Layout::kContiguous, Layout::kRowStrided, Layout::kTransposed}) {
        const auto type = static_cast<DType>(code);
        if (fill == Fill::kNegative &&
            (type == DType::kU8 || type == DType::kBool || type == DType::kF4X2))
          continue;  // no such values
        TensorView views[2] = {};
        for (TensorView& v : views) {
          v.rank = 2, v.dtype = static_cast<DType>(code);
          v.shape[0] = 37, v.shape[1] = 129;
        }
        const auto align_log2 = static_cast<std::uint8_t>(std::countr_zero(
            static_cast<unsigned>(size_of(static_cast<DType>(code)))));  // the least on a GPU
        const TensorTraits traits{static_cast<DType>(code), layout, align_log2, 0};
        const GuardedTensor host(views[0], traits, host_memory());
        const GuardedTensor device(views[1], traits, memory);
        for (const int look : {0, 1, 2, 3}) {
          Filler filler(fill, views[0].dtype, tensor_seed(5, 1), 7, views[0].numel());
          filler.width = 129;
          filler.first = tensor_seed(6, 1);
          filler.in_part = look == 1;
          filler.large = look < 2 ? 0 : look == 2 ? 12 : 96;
          filler.zero_row = look == 2 ? 36 : -1;
          filler.small = look == 3;
          filler.large_rows = look == 3;
          host_memory().fill(views[0], filler);
          memory.fill(views[1], filler);
          std::vector<std::byte> bytes;
          TensorView there = views[1];
          there.device = {DeviceType::kCuda, 0};
          const TensorView copy = fetch(there, memory, bytes);
          EXPECT_EQ(std::memcmp(copy.data, views[0].data, bytes.size()), 0)
              << name_of(views[0].dtype) << ", fill " << static_cast<int>(fill) << ", layout "
              << static_cast<int>(layout) << ", look " << look;
        }
      }
}

TEST_F(GpuTuner, AWriteIntoAGapOrAGuardIsSeenAndPoisonIsFound) {
  CudaMemory memory(0, nullptr);
  for (const Layout layout : {Layout::kContiguous, Layout::kRowStrided, Layout::kOther}) {
    TensorView view = {};
    view.rank = 2, view.dtype = DType::kBF16;
    view.shape[0] = 4, view.shape[1] = 5;
    GuardedTensor tensor(view, {DType::kBF16, layout, 1, 0}, memory);
    auto* const data = static_cast<std::uint16_t*>(view.data);
    const std::int64_t last = 3 * view.strides[0] + 4 * view.strides[1];
    memory.set_elements(view, 0x11);
    EXPECT_TRUE(tensor.guards_intact());
    std::vector<std::int64_t> outside = {-1, last + 1};
    if (layout == Layout::kRowStrided) outside.push_back(5);
    if (layout == Layout::kOther) outside.push_back(1);
    for (const std::int64_t at : outside) {
      memory.set(data + at, 0, 2);
      EXPECT_FALSE(tensor.guards_intact()) << at;
      tensor.poison(0x5c);
      EXPECT_TRUE(tensor.guards_intact());
      EXPECT_EQ(tensor.elements_equal_to(0x5c).size(), 20u);
      memory.set(data + view.strides[0], 0, 2);
      EXPECT_EQ(tensor.elements_equal_to(0x5c).size(), 19u);
      EXPECT_EQ(tensor.elements_equal_to(0), std::vector<std::int64_t>{5});
    }
  }
}

// The verdict on crafted results equals the host's, field by field.
TEST_F(GpuTuner, ComparesAsTheHostDoes) {
  static const Behaviour any{};
  const Operator& op = make_operator({dummy("any", any)});
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> x = {1, -2, 3e4, nan, inf, -inf, 0, 4e4, 5, 6};
  const std::vector<std::vector<double>> results = {
      {2, -4, 6e4, nan, inf, -inf, 0, inf, 10, 12},  // right
      {2.01, -4, 6e4, nan, inf, -inf, 0, inf, 10, 12.5},
      {2, -4, nan, 1, inf, -inf, 0, inf, 10, 12},
      {2, -4, 6e4, nan, -inf, 7, 1e-3, -inf, inf, 12}};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2})
    for (std::size_t r = 0; r < 2 * results.size(); ++r) {
      const std::vector<double>& y = results[r / 2];
      g_undefined_from = r % 2 == 0 ? std::numeric_limits<std::int64_t>::max() : 1;
      const Problem problem = make_problem(op, 2, 5, dtype);
      CallData host(op, problem, 0, nullptr, host_memory());
      CudaMemory memory(0, nullptr);
      CallData device(op, on_gpu(problem), 0, nullptr, memory);
      for (std::int64_t i = 0; i < 10; ++i) {
        store_element(host.args().tensors[0], i, x[static_cast<std::size_t>(i)]);
        store_element(host.args().result(0), i, y[static_cast<std::size_t>(i)]);
      }
      const auto bytes = static_cast<std::size_t>(10 * size_of(dtype));
      for (int t : {0, 1})
        memory.copy_in(device.args().tensors[t].data, host.args().tensors[t].data, bytes);
      const Verdict a = verify(op, problem, host.args(), {}, Context{});
      const Verdict b = verify_on_device(op, on_gpu(problem), device.args(), {}, context_);
      EXPECT_EQ(a.wrong, b.wrong);
      EXPECT_EQ(a.checked, b.checked);
      EXPECT_EQ(a.first_wrong, b.first_wrong);
      EXPECT_EQ(a.worst, b.worst);
      EXPECT_NEAR(a.relative, b.relative, 1e-12);
      EXPECT_EQ(a.mistrusted, b.mistrusted);
      EXPECT_EQ(a.checked, r % 2 == 0 ? 10 : 5) << "the second row is undefined";
    }
  g_undefined_from = std::numeric_limits<std::int64_t>::max();
}

// Beyond 2^53 an oracle's magnitude holds the part that its f64 cannot, and any other integer is
// wrong.
TEST_F(GpuTuner, ComparesWholeNumbersAsTheHostDoes) {
  OperatorDef def;
  def.family = "test";
  def.schema = "gpu_whole(x: i64[T, C]) -> y: like(x)[T, C]";
  def.letters = {"T", "C"};
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t n, OracleOut* out) {
    const auto* const x = static_cast<const std::int64_t*>(args.tensors[0].data);
    const std::int64_t width = args.letters[1];
    for (std::int64_t i = 0; i < n * width; ++i) {
      const std::int64_t whole = x[rows[i / width] * width + i % width];
      const bool split = std::abs(static_cast<double>(whole)) >= kWholeBelow;
      out[0].value[i] = static_cast<double>(split ? whole & ~1023 : whole);
      out[0].magnitude[i] = split ? static_cast<double>(whole & 1023) : 0;
    }
  };
  def.bound = [](const Problem&, int) { return Bound{}; };
  def.work_per_row = [](const Problem& p) { return static_cast<double>(p.dims[1]); };
  const Operator& op = Registry::process().add(std::move(def));
  const Problem problem = make_problem(op, 2, 4, DType::kI64);
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::int64_t x[8] = {0, -3, 1L << 53, -(1L << 53) - 1, (1L << 60) + 77, kMax, -kMax - 1, 9};
  CallData host(op, problem, 0, nullptr, host_memory());
  CudaMemory memory(0, nullptr);
  CallData device(op, on_gpu(problem), 0, nullptr, memory);
  for (int off = -1; off < 8; ++off) {
    std::int64_t y[8];
    for (int i = 0; i < 8; ++i) y[i] = x[i] ^ (i == off);
    std::memcpy(host.args().tensors[0].data, x, sizeof x);
    std::memcpy(host.args().result(0).data, y, sizeof y);
    memory.copy_in(device.args().tensors[0].data, x, sizeof x);
    memory.copy_in(device.args().result(0).data, y, sizeof y);
    const Verdict a = verify(op, problem, host.args(), {}, Context{});
    const Verdict b = verify_on_device(op, on_gpu(problem), device.args(), {}, context_);
    for (const Verdict& v : {a, b}) {
      EXPECT_EQ(v.wrong, off < 0 ? 0 : 1) << off;
      EXPECT_EQ(v.first_wrong, off);
      EXPECT_EQ(v.checked, 8);
    }
    CudaVerifier verifier(op, on_gpu(problem), device.args(), {0, 1}, context_, steady_nanoseconds,
                          memory);
    CallData other(device);
    memory.copy_in(other.args().result(0).data, x, sizeof x);
    const std::vector<std::int64_t> disputed = verifier.disputed(device.args(), other.args());
    EXPECT_EQ(disputed, off < 0 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{off / 4});
  }
}

std::size_t most_dims(const Schema& schema) {
  std::size_t most = 0;
  for (const TensorSpec& spec : schema.tensors) most = std::max(most, spec.dims.size());
  return most;
}

// A device oracle throws at its first use if it disagrees with the reference. This many
// combinations of dtype, layout and flag are drawn per operator, by DLBLAS_TEST_SEED;
// DLBLAS_TEST_DEPTH=full runs all, which takes minutes.
constexpr std::size_t kOracleProblems = 3;

struct OracleProblem {
  DType dtype;
  Layout layout;
  std::int64_t flag;
};
std::vector<OracleProblem> oracle_problems(std::mt19937_64& random) {
  std::vector<OracleProblem> all;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (const Layout layout : {Layout::kContiguous, Layout::kRowStrided, Layout::kTransposed})
      for (const std::int64_t flag : {0, 1}) all.push_back({dtype, layout, flag});
  std::shuffle(all.begin(), all.end(), random);
  const char* depth = std::getenv("DLBLAS_TEST_DEPTH");
  if (depth == nullptr || std::string_view(depth) != "full") all.resize(kOracleProblems);
  return all;
}

TEST_F(GpuTuner, EveryDeviceOracleAgreesWithItsReference) {
  CudaMemory memory(0, nullptr);
  std::size_t checked = 0, oracles = 0;
  const char* given = std::getenv("DLBLAS_TEST_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("DLBLAS_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const Operator* op : Registry::process().operators()) {
    if (op->def.device_oracle.source.include.empty()) continue;
    ++oracles;
    for (const auto& [dtype, layout, flag] : oracle_problems(random)) {
      Problem problem;
      problem.op = op->id;
      for (std::size_t i = 0; i < op->schema.tensors.size(); ++i) {
        const TensorSpec& spec = op->schema.tensors[i];
        const bool matrix = spec.dims.size() > 1;
        const bool fits = spec.like >= 0 || (spec.dtypes & set_of(dtype));
        const auto own = static_cast<DType>(std::countr_zero(std::uint32_t{spec.dtypes}));
        const auto align = std::countr_zero(static_cast<unsigned>(size_of(fits ? dtype : own)));
        problem.tensors[i] = {fits ? dtype : own, matrix ? layout : Layout::kContiguous,
                              static_cast<std::uint8_t>(align), 0};
        if (op->schema.tensors[i].optional && layout == Layout::kContiguous)
          problem.tensors[i].dtype = DType::kAbsent;
      }
      std::fill_n(problem.dims, op->schema.letters.size(), most_dims(op->schema) > 3 ? 20 : 150);
      problem.scalars[0] = flag;
      const CallData data(*op, on_gpu(problem), 3, nullptr, memory);
      EXPECT_NO_THROW(make_oracle_source(*op, on_gpu(problem), data.args(), Context{}, memory))
          << op->schema.name << " " << name_of(dtype);
      ++checked;
    }
  }
  EXPECT_GE(oracles, 3u);
  EXPECT_GE(checked, kOracleProblems * oracles);
}

TEST_F(GpuTuner, TheRightKernelWinsAndTheBrokenAreNamed) {
  const TuneReport report =
      tune_zeros({zeros("right", Broken::kNone), zeros("wrong", Broken::kWrong),
                  zeros("tail", Broken::kTail), zeros("past_end", Broken::kPastEnd),
                  zeros("code", Broken::kCode), zeros("too_large", Broken::kTooLarge)});
  ASSERT_NE(report.winner, nullptr);
  EXPECT_STREQ(report.winner->name, "right");
  const auto failure = [&](const char* name) { return find(report, name)->failure; };
  EXPECT_EQ(failure("wrong"), Failure::kWrongResult);
  EXPECT_EQ(failure("tail"), Failure::kUnwritten);
  EXPECT_EQ(failure("past_end"), Failure::kOutOfBounds);
  EXPECT_EQ(failure("code"), Failure::kLaunchError);
  EXPECT_NE(find(report, "code")->note.find("CUDA_ERROR_INVALID_VALUE"), std::string::npos);
  EXPECT_EQ(failure("too_large"), Failure::kCompileError);
  EXPECT_GE(find(report, "right")->samples_ms.size(), 5u) << "a finalist";
  EXPECT_EQ(report.conditions.at(0).value, "cold") << "what was touched between two launches";
  EXPECT_EQ(report.conditions.at(1).value, "graph");
}

// The inputs are made again before another candidate reads them: the digest is that of fresh ones.
TEST_F(GpuTuner, AUsersKernelThatWritesAnInputFailsAlone) {
  const TuneReport report =
      tune_zeros({user(zeros("spoils", Broken::kWritesInput)), zeros("right", Broken::kNone),
                  user(zeros("theirs", Broken::kNone))});
  ASSERT_NE(report.winner, nullptr);
  EXPECT_EQ(find(report, "spoils")->failure, Failure::kOutOfBounds);
  EXPECT_EQ(find(report, "spoils")->note, "the input x was written");
  EXPECT_EQ(find(report, "right")->failure, Failure::kNone);
  // With zeros, right and wrong look the same; it is not blamed for another candidate's write.
  EXPECT_EQ(find(report, "theirs")->failure, Failure::kUnjudged) << find(report, "theirs")->note;
}

TEST_F(GpuTuner, AUsersKernelThatRemembersByAddressFailsInWords) {
  const Operator& op = make_copies(
      {user(copies("packs_once", true)), copies("right", false), user(copies("theirs", false))});
  const TuneReport report =
      tune(op, on_gpu(make_problem(op, 64, 256)), nullptr, context_, options_);
  ASSERT_NE(report.winner, nullptr);
  EXPECT_EQ(find(report, "packs_once")->failure, Failure::kWrongResult);
  EXPECT_EQ(find(report, "packs_once")->note,
            "gave the first call's result for other values at the same addresses");
  EXPECT_EQ(find(report, "right")->failure, Failure::kNone) << find(report, "right")->note;
  EXPECT_EQ(find(report, "theirs")->failure, Failure::kNone) << find(report, "theirs")->note;
}

TEST_F(GpuTuner, WhatMayNotBeCapturedIsTimedWithoutAGraph) {
  const TuneReport report = tune_zeros({zeros("eager", Broken::kEager)});
  ASSERT_NE(report.winner, nullptr);
  EXPECT_EQ(report.conditions.at(1).value, "eager");
  const double ms = find(report, "eager")->samples_ms.front();
  EXPECT_GT(ms, 1e-3);
  EXPECT_LT(ms, 1);
}

TEST_F(GpuTuner, TimesGrowWithTheBytes) {
  const Operator& op = make_zeros({zeros("right", Broken::kNone)});
  const auto ms = [&](std::int64_t rows) {
    const Problem problem = on_gpu(make_problem(op, rows, 4096));
    const auto measurer = make_measurer({op, problem, 0, nullptr, context_, steady_nanoseconds});
    Plan plan;
    plan.problem = problem;
    plan.implementation = op.candidates().front();
    EXPECT_EQ(measurer->check(plan).failure, Failure::kNone);
    measurer->sample(plan, 0.01);
    return measurer->sample(plan, 0.01);
  };
  const double small = ms(1024), large = ms(16384);
  EXPECT_GT(large, 4 * small);
}

// A search inside a capture would break it, so it is refused before anything is waited for or
// allocated.
TEST_F(GpuTuner, UnderCaptureItIsATypedError) {
  const cuda::CurrentDevice current(0);
  const cuda::Stream stream;
  struct Self {
    GpuTuner* test;
    const Operator* op;
    void* stream;
    ErrorKind kind = ErrorKind::kInternal;
  } self{this, &make_zeros({zeros("right", Broken::kNone)}), stream.get()};
  const cuda::Graph graph(
      stream.get(),
      [](void* s) {
        Self& of = *static_cast<Self*>(s);
        Context context = of.test->context_;
        context.stream = of.stream;
        try {
          get_op(*of.op, on_gpu(make_problem(*of.op, 8, 16)), nullptr, context, of.test->options_);
        } catch (const Error& e) {
          of.kind = e.kind();
        }
        return 0;
      },
      &self);
  EXPECT_EQ(self.kind, ErrorKind::kTuning);
}

TEST_F(GpuTuner, MoreThanTheMemoryIsATypedError) {
  const Operator& op = make_zeros({zeros("right", Broken::kNone)});
  try {
    tune(op, on_gpu(make_problem(op, std::int64_t{1} << 26, 4096)), nullptr, context_, options_);
    ADD_FAILURE() << "1 TiB was measured";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kTuning);
    EXPECT_NE(std::string(e.what()).find("a GPU of"), std::string::npos) << e.what();
  }
}

TEST_F(GpuTuner, ARecordSaysHowItWasMeasured) {
  const Operator& op = make_zeros({zeros("right", Broken::kNone)});
  const Problem problem = on_gpu(make_problem(op, 64, 256));
  EXPECT_EQ(get_op(op, problem, nullptr, context_, options_).source, "tuned");
  const auto before = measured();
  const TuneReport again = get_op(op, problem, nullptr, context_, options_);
  EXPECT_EQ(again.source, "store");
  EXPECT_EQ(measured(), before);
}

// y is what the zeroed part of the workspace holds; then all of it is overwritten for the next run.
int run_zeroed(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto bytes = static_cast<std::size_t>(args.result(0).numel() * 4);
  cuda::copy_on_device(args.result(0).data, workspace, bytes, context.stream);
  cuda::fill_bytes(workspace, 0xff, kernel.workspace_bytes, context.stream);
  return 0;
}

// Run once, and captured into graphs: the workspace is zeroed at every run where that was
// requested.
TEST_F(GpuTuner, AWorkspaceIsZeroedInEveryRunOfAGraphToo) {
  const auto zeroed = [](const char* name, bool all) {
    Implementation impl = zeros(name, Broken::kNone);
    impl.sources = nullptr;
    impl.user = new bool(all);
    impl.prepare = [](const Query& q, const Config&) {
      Kernel kernel;
      kernel.steps[0] = run_zeroed;
      kernel.num_steps = 1;
      kernel.workspace_bytes = static_cast<std::size_t>(q.problem.dims[0] * q.problem.dims[1] * 4);
      const bool whole = q.user<bool>();
      kernel.zeroed_bytes = whole ? kernel.workspace_bytes : kernel.workspace_bytes / 2;
      return kernel;
    };
    return impl;
  };
  const TuneReport report = tune_zeros({zeroed("all", true), zeroed("half", false)});
  ASSERT_NE(report.winner, nullptr);
  EXPECT_STREQ(report.winner->name, "all");
  EXPECT_EQ(find(report, "half")->failure, Failure::kWrongResult);
}

// y = 0; the judge reads inputs and results on the host.
TEST_F(GpuTuner, AJudgeSeesEveryElementOfADevicesResults) {
  OperatorDef def = make_zeros({}).def;
  static const std::string schema =
      "gpu_judged(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)";
  def.schema = schema;
  def.implementations = {zeros("zero", Broken::kNone), zeros("nan", Broken::kNan),
                         zeros("wrong", Broken::kWrong)};
  def.judge = [](const Judgement& j, Finding* found) {
    const TensorView &x = j.before.tensors[0], &y = j.after.result(0);
    const std::int64_t width = y.shape[y.rank - 1];
    const Rows rows = rows_of(y);
    for (std::int64_t i = 0; i < j.num_rows * width; ++i) {
      const std::int64_t row = j.rows[i / width];
      const double v = load_element(y, rows.offset(row) + i % width);
      const bool seen = std::isfinite(load_element(x, rows_of(x).offset(row) + i % width));
      if (!seen || v != 0) found[0].add(row * width + i % width);
    }
  };
  const Operator& op = Registry::process().add(std::move(def));
  const TuneReport report =
      tune(op, on_gpu(make_problem(op, 3000, 2048)), nullptr, context_, options_);
  ASSERT_NE(report.winner, nullptr);
  EXPECT_STREQ(report.winner->name, "zero");
  for (const char* name : {"nan", "wrong"}) {
    EXPECT_EQ(find(report, name)->failure, Failure::kWrongResult) << name;
    EXPECT_NE(
        find(report, name)->note.find("6144000 of 6144000 elements are wrong, the first at 0"),
        std::string::npos)
        << find(report, name)->note;
  }
}

TEST(GpuCeilings, CopiesAndMultiplies) {
  if (const std::string why = no_gpu(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_GT(cuda_copy_rate(0, 256 << 20), 1e11);
  EXPECT_GT(cuda_peak_rate(0), 1e12);
}

}  // namespace
}  // namespace dlblas::test
