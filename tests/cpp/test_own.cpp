// Users' own code through the C ABI: a function and CUDA text as implementations, an operator, what
// is refused, and that the text compiles (which needs no GPU). The C++ header:
// tests/test_own_examples.py. Read next: bindings/c/register.cpp, docs/own.md.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bindings/c/handle.hpp"
#include "core/expression.hpp"
#include "core/harmless.hpp"
#include "jit/jit.hpp"
#include "tests/cpp/temporary_store.hpp"

namespace dlblas::test {
namespace {

const auto* const kStore = testing::AddGlobalTestEnvironment(new test::TemporaryStore("own"));

dlblas_op_t op_of(const char* name) {
  dlblas_op_t op = nullptr;
  EXPECT_EQ(dlblas_op(name, &op), DLBLAS_OK) << name;
  return op;
}

std::string last_message() {
  dlblas_error error{};
  error.size = sizeof error;
  dlblas_last_error(&error);
  return error.message;
}

/// y = x / rms(x) · weight, for contiguous f32.
struct Norm {
  static constexpr int64_t kT = 6, kC = 40;
  std::vector<float> x = std::vector<float>(kT * kC), w = std::vector<float>(kC, 1.5f),
                     y = std::vector<float>(kT * kC);
  int64_t shape[2] = {kT, kC}, width[1] = {kC};
  dlblas_tensor tx{x.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  dlblas_tensor tw{w.data(), {1, 0}, 1, {2, 32, 1}, width, nullptr, 0};
  dlblas_tensor ty{y.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  dlblas_value values[2] = {};
  dlblas_args args{sizeof(dlblas_args), values, 2, 0, nullptr, &ty, 1, 0};

  Norm() {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11) - 5;
    values[0].kind = values[1].kind = DLBLAS_TENSOR;
    values[0].as.tensor = &tx, values[1].as.tensor = &tw;
  }
  std::string explain() {
    char* text = nullptr;
    EXPECT_EQ(dlblas_explain(op_of("rms_norm"), &args, nullptr, 1, &text), DLBLAS_OK);
    std::string s = text;
    dlblas_free(text);
    return s;
  }
};

struct Seen {
  int calls = 0, supports = 0;
  int64_t block = 0;
  double scale = 1;
};

int32_t run_norm(const dlblas_step_args* args, const dlblas_context*, void* user) {
  auto& seen = *static_cast<Seen*>(user);
  ++seen.calls;
  seen.block = args->num_knobs > 0 ? args->config[0] : 0;
  if (args->workspace) std::memset(args->workspace, 1, 100);
  const auto* x = static_cast<const float*>(args->tensors[0].data);
  const auto* w = static_cast<const float*>(args->tensors[1].data);
  auto* y = static_cast<float*>(args->tensors[args->num_inputs].data);
  const int64_t c = args->letters[1];
  if (seen.scale < 0) {
    dlblas_fail("no scale below zero");
    return 7;
  }
  for (int64_t t = 0; t < args->letters[0]; ++t) {
    double sum = 0;
    for (int64_t i = 0; i < c; ++i) sum += static_cast<double>(x[t * c + i]) * x[t * c + i];
    const double r = seen.scale / std::sqrt(sum / static_cast<double>(c) + args->scalars[0].as.f);
    for (int64_t i = 0; i < c; ++i)
      y[t * c + i] = static_cast<float>(x[t * c + i] * r * (w[i] + args->scalars[1].as.f));
  }
  return 0;
}

const char* contiguous_f32(const dlblas_problem* p, void* user) {
  ++static_cast<Seen*>(user)->supports;
  for (int i = 0; i < 3; ++i)
    if (p->tensors[i].layout != DLBLAS_CONTIGUOUS || p->tensors[i].dtype.bits != 32)
      return "takes contiguous f32 alone";
  return p->letters[1] % 8 == 0 ? nullptr : "needs C in steps of 8";
}

dlblas_implementation plain(Seen& seen, const char* name = "mine") {
  dlblas_implementation c{};
  c.size = sizeof c;
  c.name = name;
  c.device = 1;
  c.supports = contiguous_f32;
  c.step = run_norm;
  c.user = &seen;
  return c;
}

TEST(Own, AFunctionIsCalledPinnedAndTuned) {
  Seen seen;
  const int64_t blocks[] = {64, 128};
  const char* const orders[] = {"up", "down"};
  const int64_t codes[] = {0, 1};
  const dlblas_knob knobs[] = {{"block", blocks, nullptr, 2, 0}, {"order", codes, orders, 2, 0}};
  dlblas_implementation c = plain(seen);
  c.knobs = knobs, c.num_knobs = 2;
  c.workspace = [](const dlblas_problem*, const int64_t*, void*) -> int64_t { return 100; };
  ASSERT_EQ(dlblas_register(op_of("rms_norm"), &c), DLBLAS_OK) << last_message();
  Norm n;
  EXPECT_NE(n.explain().find("mine"), std::string::npos);
  ASSERT_EQ(dlblas_pin(op_of("rms_norm"), "mine", "block=128 order=down"), DLBLAS_OK);
  ASSERT_EQ(dlblas_call(op_of("rms_norm"), &n.args, nullptr), DLBLAS_OK) << last_message();
  EXPECT_EQ(seen.block, 128);
  EXPECT_EQ(seen.calls, 1);
  dlblas_pin(op_of("rms_norm"), nullptr, nullptr);
  dlblas_verdict verdict{};
  verdict.size = sizeof verdict;
  ASSERT_EQ(dlblas_verify(op_of("rms_norm"), &n.args, nullptr, 0, &verdict), DLBLAS_OK);
  EXPECT_EQ(verdict.wrong, 0);

  dlblas_tune_options options{};
  options.size = sizeof options;
  options.seconds = 1;
  options.implementations = "mine";
  char* report = nullptr;
  ASSERT_EQ(dlblas_tune(op_of("rms_norm"), &n.args, nullptr, &options, &report), DLBLAS_OK);
  EXPECT_NE(std::string(report).find("\"winner\":{\"implementation\":\"mine\""), std::string::npos)
      << report;
  dlblas_free(report);
  ASSERT_EQ(dlblas_unregister(op_of("rms_norm"), "mine"), DLBLAS_OK);
  EXPECT_EQ(n.explain().find("mine"), std::string::npos);
}

TEST(Own, AFailureIsInItsOwnWords) {
  Seen seen;
  seen.scale = -1;
  const dlblas_implementation c = plain(seen);
  ASSERT_EQ(dlblas_register(op_of("rms_norm"), &c), DLBLAS_OK);
  dlblas_pin(op_of("rms_norm"), "mine", nullptr);
  Norm n;
  EXPECT_EQ(dlblas_call(op_of("rms_norm"), &n.args, nullptr), DLBLAS_LAUNCH);
  EXPECT_EQ(last_message(), "rms_norm: mine failed; expected 0, got no scale below zero");
  n.shape[1] = n.width[0] = 20;
  EXPECT_EQ(dlblas_call(op_of("rms_norm"), &n.args, nullptr), DLBLAS_UNSUPPORTED);
  EXPECT_NE(last_message().find("pinned: mine: no: needs C in steps of 8"), std::string::npos);
  dlblas_pin(op_of("rms_norm"), nullptr, nullptr);
  dlblas_unregister(op_of("rms_norm"), "mine");
}

TEST(Own, AWorkspaceThatFailsIsInItsOwnWords) {
  Seen seen;
  dlblas_implementation c = plain(seen);
  c.workspace = [](const dlblas_problem*, const int64_t*, void*) -> int64_t {
    dlblas_fail("no room today");
    return -1;
  };
  ASSERT_EQ(dlblas_register(op_of("rms_norm"), &c), DLBLAS_OK);
  dlblas_pin(op_of("rms_norm"), "mine", nullptr);
  Norm n;
  EXPECT_EQ(dlblas_call(op_of("rms_norm"), &n.args, nullptr), DLBLAS_LAUNCH);
  EXPECT_EQ(last_message(),
            "rms_norm: workspace of mine failed; expected 0 bytes or more, got no room today");
  dlblas_pin(op_of("rms_norm"), nullptr, nullptr);
  dlblas_unregister(op_of("rms_norm"), "mine");
}

TEST(Own, AnAnswerThatFailsIsInItsOwnWords) {
  Seen seen;
  const int64_t one[] = {1, 2};
  const dlblas_knob knob{"block", one, nullptr, 2, 0};
  dlblas_implementation c = plain(seen);
  c.knobs = &knob, c.num_knobs = 1;
  c.allowed = [](const dlblas_problem*, const int64_t*, void*) -> int32_t {
    dlblas_fail("cannot tell");
    return -1;
  };
  ASSERT_EQ(dlblas_register(op_of("rms_norm"), &c), DLBLAS_OK);
  Norm n;
  EXPECT_NE(
      n.explain().find("no: no configuration of its space is valid for this problem: cannot tell"),
      std::string::npos)
      << n.explain();
  dlblas_unregister(op_of("rms_norm"), "mine");
}

TEST(Own, AnErrorOfAWrapperIsKept) {
  dlblas_error error{sizeof(dlblas_error), DLBLAS_SHAPE, "a: b is c", "a", "b", "d", nullptr};
  EXPECT_EQ(dlblas_keep_error(&error), DLBLAS_SHAPE);
  EXPECT_EQ(last_message(), "a: b is c");
  error.status = DLBLAS_OK;
  EXPECT_EQ(dlblas_keep_error(&error), DLBLAS_INTERNAL);
  EXPECT_EQ(dlblas_keep_error(nullptr), DLBLAS_INTERNAL);
}

TEST(Own, TheHashIsTheSharedObjectsWhereNoneIsGiven) {
  Seen seen;
  dlblas_implementation c = plain(seen);
  const auto hash = [&] {
    EXPECT_EQ(dlblas_register(op_of("rms_norm"), &c), DLBLAS_OK) << last_message();
    const auto& op = *reinterpret_cast<const Form*>(op_of("rms_norm"))->op;
    return op.find("mine")->identity();
  };
  const std::string own = hash();
  EXPECT_EQ(own.size(), 16u);
  EXPECT_EQ(own, hash());
  c.source_hash = "abc";
  EXPECT_EQ(hash(), "abc");
  dlblas_unregister(op_of("rms_norm"), "mine");
}

TEST(Own, WhatIsWrongIsSaid) {
  Seen seen;
  const auto refused = [&](auto&& change) {
    dlblas_implementation c = plain(seen);
    change(c);
    EXPECT_EQ(dlblas_register(op_of("rms_norm"), &c), DLBLAS_ARGUMENT);
    return last_message();
  };
  const int64_t twice[] = {1, 1}, one[] = {1}, two[] = {2};
  const dlblas_knob same{"block", twice, nullptr, 2, 0}, good{"block", one, nullptr, 1, 0};
  EXPECT_EQ(dlblas_register(nullptr, nullptr), DLBLAS_ARGUMENT);
  EXPECT_EQ(refused([](auto& c) { c.size = 8; }).find("rms_norm: implementation has a wrong size"),
            0u);
  EXPECT_EQ(refused([](auto& c) { c.name = "a b"; }),
            "rms_norm: name is no name; expected an identifier, got a b");
  EXPECT_EQ(refused([](auto& c) { c.name = "reference"; }),
            "rms_norm: name is taken by a built-in implementation; expected a name of your own, "
            "got reference");
  EXPECT_EQ(refused([](auto& c) { c.device = 3; }),
            "rms_norm: device is unknown; expected 1 (CPU) or 2 (CUDA), got 3");
  EXPECT_EQ(refused([](auto& c) { c.step = nullptr; }),
            "rms_norm: step is null; expected a step, or CUDA text, got neither");
  EXPECT_EQ(refused([](auto& c) { c.flags = 64; }),
            "rms_norm: flags has an unknown bit; expected bits of 15, got 64");
  EXPECT_EQ(refused([&](auto& c) { c.knobs = &same, c.num_knobs = 1; }),
            "rms_norm: knobs has a value twice; expected different values of block, got 1");
  const int64_t both[] = {1, 2};
  const char* const alike[] = {"p", "p"};
  const dlblas_knob labelled{"block", both, alike, 2, 0};
  EXPECT_EQ(refused([&](auto& c) { c.knobs = &labelled, c.num_knobs = 1; }),
            "rms_norm: knobs has a label twice; expected different labels of block, got p");
  const std::string long_hash(257, 'a');
  for (const char* hash : {"", "q r", "z\nq", "\x7f", "\xc3\xa9", long_hash.c_str()})
    EXPECT_EQ(refused([&](auto& c) { c.source_hash = hash; }),
              std::string("rms_norm: source_hash is no word; expected 1 to 256 letters without "
                          "spaces, got ") +
                  harmless(hash));
  EXPECT_EQ(refused([&](auto& c) { c.knobs = &good, c.num_knobs = 1, c.preset = two; }),
            "rms_norm: preset has a value outside its knob's; expected values of the knobs, got "
            "block=2");
  EXPECT_EQ(dlblas_unregister(op_of("rms_norm"), "mine"), DLBLAS_ARGUMENT);
}

int32_t double_rows(const dlblas_step_args* args, const int64_t* rows, int64_t num_rows,
                    double* const* values, double* const* magnitudes, void*) {
  const auto* x = static_cast<const float*>(args->tensors[0].data);
  const int64_t c = args->letters[1];
  for (int64_t i = 0; i < num_rows; ++i)
    for (int64_t j = 0; j < c; ++j) {
      values[0][i * c + j] = 2.0 * x[rows[i] * c + j];
      magnitudes[0][i * c + j] = std::abs(values[0][i * c + j]);
    }
  return 0;
}

TEST(Own, AnOperator) {
  dlblas_operator_def def{};
  def.size = sizeof def;
  def.schema = "own_double(x: f32[*T, C]) -> y: like(x)[*T, C]";
  def.reference = double_rows;
  dlblas_op_t op = nullptr;
  ASSERT_EQ(dlblas_register_operator(&def, &op), DLBLAS_OK) << last_message();
  EXPECT_EQ(op, op_of("own_double"));
  Norm n;
  n.args.num_values = 1;
  ASSERT_EQ(dlblas_call(op, &n.args, nullptr), DLBLAS_OK) << last_message();
  EXPECT_EQ(n.y[3], 2 * n.x[3]);
  ASSERT_EQ(dlblas_register_operator(&def, nullptr), DLBLAS_OK) << "again";
  def.whole = 1;
  EXPECT_EQ(dlblas_register_operator(&def, nullptr), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message(),
            "own_double: whole differs from the one registered with this operator; expected 0, got "
            "1");
  def.whole = 0;
  def.schema = "own_double(x: f32[*T]) -> y: like(x)[*T]";
  EXPECT_EQ(dlblas_register_operator(&def, nullptr), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message().find("own_double: schema differs from the one registered"), 0u);
  def.schema = "rms_norm(x: f32[*T]) -> y: like(x)[*T]";
  EXPECT_EQ(dlblas_register_operator(&def, nullptr), DLBLAS_ARGUMENT);
  EXPECT_EQ(
      last_message(),
      "rms_norm: name is taken; expected a name apart from rms_norm, rms_norm_out and _rms_norm, "
      "got rms_norm; choose another one");
}

TEST(Own, ABoundThatFailsIsInItsOwnWords) {
  dlblas_operator_def def{};
  def.size = sizeof def;
  def.schema = "own_bounded(x: f32[*T, C]) -> y: like(x)[*T, C]";
  def.reference = double_rows;
  def.source_hash = "two words";
  EXPECT_EQ(dlblas_register_operator(&def, nullptr), DLBLAS_ARGUMENT);
  def.source_hash = "word";
  double given = -1;
  def.user = &given;
  def.bound = [](const dlblas_problem*, int32_t, double* bound, void* user) {
    bound[1] = *static_cast<double*>(user);
    if (std::isnan(bound[1])) dlblas_fail("no bound today");
  };
  dlblas_op_t op = nullptr;
  ASSERT_EQ(dlblas_register_operator(&def, &op), DLBLAS_OK) << last_message();
  Norm n;
  n.args.num_values = 1;
  dlblas_verdict verdict{};
  verdict.size = sizeof verdict;
  ASSERT_EQ(dlblas_call(op, &n.args, nullptr), DLBLAS_OK) << last_message();
  EXPECT_EQ(dlblas_verify(op, &n.args, nullptr, 0, &verdict), DLBLAS_LAUNCH);
  EXPECT_EQ(last_message(),
            "own_bounded: bound failed; expected three numbers from 0 on, got -1.000000");
  given = std::nan("");
  EXPECT_EQ(dlblas_verify(op, &n.args, nullptr, 0, &verdict), DLBLAS_LAUNCH);
  EXPECT_EQ(last_message(),
            "own_bounded: bound failed; expected three numbers from 0 on, got no bound today");
  given = 0;
  EXPECT_EQ(dlblas_verify(op, &n.args, nullptr, 0, &verdict), DLBLAS_OK);
  EXPECT_EQ(verdict.wrong, 0);
}

// Names that Python or torch could not call: a single one would leave torch without any operator.
TEST(Own, AnOperatorsNames) {
  const std::size_t before = Registry::process().operators().size();
  const auto refused = [](const std::string& schema, const char* inplace = nullptr) {
    dlblas_operator_def def{};
    def.size = sizeof def;
    def.schema = schema.c_str();
    def.reference = double_rows;
    def.inplace = &inplace;
    def.num_inplace = inplace ? 1 : 0;
    EXPECT_EQ(dlblas_register_operator(&def, nullptr), DLBLAS_ARGUMENT) << schema;
    const std::string said = last_message();
    return said.substr(0, said.find(", got "));
  };
  const std::string rest = "(x: f32[*T, C]) -> y: like(x)[*T, C]";
  const std::string ours =
      " is taken; expected a name apart from rms_norm, rms_norm_out and _rms_norm";
  EXPECT_EQ(refused("rms_norm_out" + rest), "rms_norm_out: name" + ours);
  EXPECT_EQ(refused("_rms_norm" + rest), "_rms_norm: name" + ours);
  EXPECT_EQ(refused("own_fresh" + rest, "rms_norm_out(x!y)"), "own_fresh: inplace" + ours);
  EXPECT_EQ(refused("own_fresh" + rest, "own_fresh_out(x!y)"),
            "own_fresh: inplace is taken; expected a name apart from own_fresh, own_fresh_out and "
            "_own_fresh");
  EXPECT_EQ(refused("lambda" + rest),
            "lambda: name is a keyword; expected a name that Python can call");
  EXPECT_EQ(refused("name" + rest),
            "name: name is reserved; expected a name that torch.ops can hold");
  EXPECT_EQ(refused("__own" + rest),
            "__own: name is reserved; expected a name that torch.ops can hold");
  EXPECT_EQ(refused("own_fresh(x: f32[*T, C], is: float = 1) -> y: like(x)[*T, C]"),
            "own_fresh: schema names an argument by a keyword; expected a name that Python's calls "
            "take");
  EXPECT_EQ(Registry::process().operators().size(), before);
}

constexpr const char* kText = R"(
extern "C" __global__ void scale_rows(own::y* y, const own::x* x, const own::weight* w, long T,
                                      long C, float eps, float offset, bool cast) {
  __shared__ float parts[BLOCK];
  const own::x* row = x + blockIdx.x * C;
  float sum = 0;
  for (long i = threadIdx.x; i < C; i += BLOCK) sum += float(row[i]) * float(row[i]);
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int n = BLOCK / 2; n > 0; n /= 2) {
    if (threadIdx.x < n) parts[threadIdx.x] += parts[threadIdx.x + n];
    __syncthreads();
  }
  const float r = rsqrtf(parts[0] / C + eps);
  for (long i = threadIdx.x; i < C; i += BLOCK)
    y[blockIdx.x * C + i] = float(row[i]) * r * (float(w[i]) + offset);
}
)";

struct Text {
  int64_t blocks[2] = {128, 256};
  dlblas_knob knob{"BLOCK", blocks, nullptr, 2, 0};
  dlblas_cuda_text text{sizeof(dlblas_cuda_text), kText, "scale_rows", {"T"}, {"BLOCK"}, nullptr};
  dlblas_implementation c{};
  Text() {
    c.size = sizeof c;
    c.name = "text";
    c.device = 2;
    c.knobs = &knob, c.num_knobs = 1;
    c.cuda = &text;
  }
};

TEST(CudaText, CompilesForEveryDtypeConfigurationAndArch) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  Text t;
  ASSERT_EQ(dlblas_register(op_of("rms_norm"), &t.c), DLBLAS_OK) << last_message();
  const auto& op = *reinterpret_cast<const Form*>(op_of("rms_norm"))->op;
  const Implementation& impl = *op.find("text");
  Problem problem;
  problem.op = op.id;
  problem.device_type = DeviceType::kCuda;
  problem.dims[0] = 64, problem.dims[1] = 512;
  for (const int arch : {80, 90})
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
      for (const std::int64_t block : {128, 256}) {
        for (TensorTraits& traits : problem.tensors) traits.dtype = dtype;
        Config config;
        config.values[0] = block, config.count = 1;
        const DeviceInfo device = typical_cuda_device(arch);
        const auto sources = impl.sources({problem, device, impl}, config);
        ASSERT_EQ(sources.size(), 1u);
        const jit::Cubin& cubin = jit::compile(sources[0], arch);
        EXPECT_EQ(cubin.symbol, "scale_rows");
        EXPECT_TRUE(cubin.warnings.empty()) << cubin.warnings[0];
        EXPECT_EQ(cubin.shared_bytes, block * 4);
      }
  dlblas_unregister(op_of("rms_norm"), "text");
}

TEST(CudaText, ItsIdentityIsTheTextAndHowItIsLaunched) {
  Text t;
  const auto identity = [&] {
    EXPECT_EQ(dlblas_register(op_of("rms_norm"), &t.c), DLBLAS_OK) << last_message();
    const auto& op = *reinterpret_cast<const Form*>(op_of("rms_norm"))->op;
    return op.find("text")->identity();
  };
  const std::string first = identity();
  EXPECT_EQ(identity(), first);
  t.text.grid[0] = "T + 0";
  EXPECT_NE(identity(), first);
  const std::string other = std::string(kText) + "// more\n";
  t.text.grid[0] = "T", t.text.text = other.c_str();
  EXPECT_NE(identity(), first);
  dlblas_unregister(op_of("rms_norm"), "text");
}

TEST(CudaText, ABadExpressionOrHeaderIsSaidAtRegistration) {
  Text t;
  t.text.grid[0] = "ceil_div(T, ROWS)";
  EXPECT_EQ(dlblas_register(op_of("rms_norm"), &t.c), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message(),
            "rms_norm: grid of text: expression: text is malformed at column 13; expected a "
            "number, a parenthesis, ceil_div, min, max, T, C, BLOCK, got ROWS); in "
            "ceil_div(T, ROWS)");
  t.text.grid[0] = "T";
  t.text.text = "#include \"cuda_fp16.h\"\n__global__ void f() {}";
  EXPECT_EQ(dlblas_register(op_of("rms_norm"), &t.c), DLBLAS_COMPILE);
  EXPECT_NE(last_message().find("cuda_fp16.h"), std::string::npos);
}

TEST(CudaText, ALaunchThatCannotBeIsSaidAtRegistration) {
  const auto refused = [](auto&& change) {
    Text t;
    change(t.text);
    EXPECT_EQ(dlblas_register(op_of("rms_norm"), &t.c), DLBLAS_ARGUMENT);
    return last_message();
  };
  EXPECT_EQ(refused([](auto& text) { text.grid[1] = "1 - 2"; }),
            "rms_norm: grid is out of range; expected 1 to 2147483647, got -1");
  EXPECT_EQ(refused([](auto& text) { text.block[0] = "2000"; }),
            "rms_norm: block is out of range; expected 1 to 1024, got 2000");
  EXPECT_EQ(refused([](auto& text) { text.shared_bytes = "-4"; }),
            "rms_norm: shared_bytes is out of range; expected 0 to 2147483647, got -4");
}

std::int64_t value_of(std::string_view text) {
  static const std::vector<std::string_view> kNames{"T", "C", "BLOCK"};
  constexpr std::int64_t kValues[] = {10, 7, 4};
  return Expression(text, kNames).evaluate(kValues);
}

TEST(Expressions, Evaluate) {
  EXPECT_EQ(value_of("T"), 10);
  EXPECT_EQ(value_of("1 + 2 * 3 - 4"), 3);
  EXPECT_EQ(value_of("(C + BLOCK - 1) / BLOCK"), 2);
  EXPECT_EQ(value_of("ceil_div(C, BLOCK) * T"), 20);
  EXPECT_EQ(value_of("min(T, C) + max(T, BLOCK * 3)"), 19);
  EXPECT_EQ(value_of("-T % BLOCK"), 2) << "rounds down, as for sizes";
  EXPECT_EQ(value_of("-C / 2"), -4);
  EXPECT_EQ(value_of("T / (C - 7)"), 0) << "a division by zero is 0";
  EXPECT_EQ(value_of("ceil_div(-C, 2)"), -3);
}

TEST(Expressions, RefuseInWords) {
  for (const char* bad :
       {"", "T +", "(T", "T)", "Q", "T T", "ceil_div(T)", "min(T, C, C)", "1.5", "T ** 2",
        "99999999999", "f(T)", "T;", "T / 0", "T % (0)", "ceil_div(T, 0)"}) {
    try {
      value_of(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kArgument);
      EXPECT_EQ(std::string(e.what()).find("expression: text is malformed at column "), 0u) << bad;
    }
  }
  const std::string deep(200, '(');
  EXPECT_THROW(value_of(deep), Error);
  std::string chain = "-";
  chain.append(200, '-');
  EXPECT_THROW(value_of(chain + "T"), Error);
  std::string sum = "T";
  for (int i = 0; i < 200; ++i) sum += "+T";
  EXPECT_THROW(value_of(sum), Error);
}

}  // namespace
}  // namespace dlblas::test
