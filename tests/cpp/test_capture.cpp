// A call on a stream that is being captured into a CUDA graph chooses among the capturable
// implementations, or is refused with a message. Needs no GPU: the driver is
// tests/stubs/driver.cpp, for which a stream at an odd address is being captured, and steps only
// note that they ran. Read next: src/dispatch/prepare.cpp (compile_cold).
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <string>

#include "bindings/c/handle.hpp"
#include "core/absent_device.hpp"
#include "core/nested.hpp"
#include "cuda/cuda.hpp"
#include "tests/cpp/schema_dummy.hpp"
#include "tests/cpp/temporary_store.hpp"

namespace dlblas::test {
namespace {

const auto* const kStore = testing::AddGlobalTestEnvironment(new TemporaryStore("capture"));

class StubDriver : public testing::Environment {
 public:
  void SetUp() override { setenv("DLBLAS_LIBS", STUBS, 1); }
};
const auto* const kDriver = testing::AddGlobalTestEnvironment(new StubDriver);

constexpr std::uintptr_t kPlain = 0x100, kCaptured = 0x101;
std::string g_ran;  // the implementations whose steps ran, in order

int note(const Args&, const Context&, const Kernel& kernel, void*) {
  g_ran += text(g_ran.empty() ? "" : " ", kernel.implementation->name);
  return 0;
}

Implementation made(const char* name, bool capturable) {
  Implementation impl;
  impl.name = name;
  impl.backend = DeviceType::kCuda;
  impl.source_hash = "noted";
  impl.flags = {.deterministic = true, .capturable = capturable};
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.prepare = [](const Query&, const Config&) { return make_kernel({note}, 0); };
  return impl;
}

const Operator& add(const std::string& name, std::vector<Implementation> implementations) {
  static auto* texts = new std::deque<std::string>;
  OperatorDef def;
  def.family = "test";
  def.schema = texts->emplace_back(name + "(x: f[*T, C]) -> y: like(x)[*T, C]");
  def.reference = [](const Args&, const std::int64_t*, std::int64_t, OracleOut*) {};
  def.bound = [](const Problem&, int) { return Bound{}; };
  def.work_per_row = [](const Problem&) { return 1.0; };
  def.implementations = std::move(implementations);
  return Registry::process().add(std::move(def));
}

/// A call on tensors that no step touches.
dlblas_status call(const Operator& op, std::uintptr_t stream, bool warmup = false) {
  std::int64_t shape[] = {4, 8};
  const dlblas_dtype f32{2, 32, 1};
  dlblas_tensor x{reinterpret_cast<void*>(0x10000), {2, 0}, 2, f32, shape, nullptr, 0};
  dlblas_tensor y{reinterpret_cast<void*>(0x20000), {2, 0}, 2, f32, shape, nullptr, 0};
  dlblas_value value{};
  value.kind = DLBLAS_TENSOR, value.as.tensor = &x;
  const dlblas_args args{sizeof(dlblas_args), &value, 1, 0, nullptr, &y, 1, 0};
  dlblas_context context{};
  context.size = sizeof context;
  context.stream = reinterpret_cast<void*>(stream);
  const dlblas_op_t form = handle_of(op.forms[0]);
  return warmup ? dlblas_warmup(form, &args, &context) : dlblas_call(form, &args, &context);
}

std::string message() {
  dlblas_error error{};
  error.size = sizeof error;
  dlblas_last_error(&error);
  return error.message;
}

class Capture : public testing::Test {
 protected:
  void SetUp() override {
    Registry::process();  // which attaches the driver
    if (cuda::device_count() == 0) GTEST_SKIP() << "the stub is not the driver here";
    if (device_info({DeviceType::kCuda, 0}).model != "Stub GPU")
      GTEST_SKIP() << "a real driver is found before the stub";
    g_ran.clear();
  }
};

TEST_F(Capture, ChoosesWhatMayBeCaptured) {
  const Operator& op = add("capture_two", {made("eager", false), made("graph", true)});
  EXPECT_EQ(call(op, kPlain), DLBLAS_OK);
  EXPECT_EQ(g_ran, "eager");
  // Nothing may be compiled or loaded during capture: a warm-up prepares both choices.
  EXPECT_EQ(call(op, kCaptured), DLBLAS_COMPILE);
  EXPECT_NE(message().find("dlblas.warmup(\"capture_two\""), std::string::npos) << message();
  EXPECT_EQ(call(op, kPlain, true), DLBLAS_OK) << message();
  EXPECT_EQ(call(op, kCaptured), DLBLAS_OK) << message();
  EXPECT_EQ(call(op, kPlain), DLBLAS_OK);
  EXPECT_EQ(call(op, kCaptured), DLBLAS_OK);
  EXPECT_EQ(g_ran, "eager graph eager graph");
}

TEST_F(Capture, RefusesInWordsWhereNothingMayBe) {
  const Operator& op = add("capture_none", {made("eager", false)});
  EXPECT_EQ(call(op, kPlain, true), DLBLAS_OK) << message();
  EXPECT_EQ(call(op, kPlain), DLBLAS_OK) << message();
  EXPECT_EQ(call(op, kCaptured), DLBLAS_UNSUPPORTED);
  EXPECT_NE(message().find("eager"), std::string::npos) << message();
  EXPECT_NE(message().find("may not be captured into a CUDA graph; call the operator outside"),
            std::string::npos)
      << message();
  EXPECT_EQ(g_ran, "eager");
}

TEST_F(Capture, APinServesOrTheCallFails) {
  const Operator& op = add("capture_pinned", {made("graph", true), made("eager", false)});
  pin(op, "eager", "");
  EXPECT_EQ(call(op, kPlain, true), DLBLAS_OK) << message();
  EXPECT_EQ(call(op, kPlain), DLBLAS_OK) << message();
  EXPECT_EQ(call(op, kCaptured), DLBLAS_UNSUPPORTED);
  EXPECT_NE(message().find("pinned: eager: no: may not be captured"), std::string::npos)
      << message();
  pin(op, "", "");
  EXPECT_EQ(call(op, kPlain, true), DLBLAS_OK) << message();
  EXPECT_EQ(call(op, kCaptured), DLBLAS_OK) << message();
  EXPECT_EQ(g_ran, "eager graph");
}

int run_part(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  kernel.part(0)({args.tensors[0]}, {args.tensors[1]}, context, workspace);
  return 0;
}

TEST_F(Capture, APartIsAnotherThere) {
  add("capture_part", {made("eager", false), made("graph", true)});
  Implementation whole = made("whole", true);
  whole.parts = [](const Query& q, const Config&) {
    const TensorTraits& x = q.problem.tensors[0];
    const std::vector<std::int64_t> sizes{q.problem.dims[0], q.problem.dims[1]};
    return std::vector<Part>{{"capture_part", {{x, sizes}}, {{x, sizes}}}};
  };
  whole.prepare = [](const Query&, const Config&) { return make_kernel({run_part}, 0); };
  const Operator& op = add("capture_whole", {whole});
  EXPECT_EQ(call(op, kPlain, true), DLBLAS_OK) << message();
  EXPECT_EQ(call(op, kPlain), DLBLAS_OK) << message();
  EXPECT_EQ(call(op, kCaptured), DLBLAS_OK) << message();
  EXPECT_EQ(g_ran, "eager graph");
}

TEST(CaptureChoice, IsOfTheSameMeasurements) {
  const Operator& op = add("capture_key", {made("eager", false), made("graph", true)});
  const dlblas_device absent{2, kAbsentGpu + 90};
  Problem problem = Call(op.forms[0]).tensor({{4, 8}, {}, DType::kF32, nullptr, absent}).problem();
  const Problem captured = for_capture(problem);
  EXPECT_NE(problem, captured);
  EXPECT_EQ(store_key(op, problem), store_key(op, captured));
  EXPECT_EQ(std::string(select(op, problem).implementation->name), "eager");
  EXPECT_EQ(std::string(select(op, captured).implementation->name), "graph");
}

}  // namespace
}  // namespace dlblas::test
