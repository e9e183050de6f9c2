// The C++ API as a user sees it: calls, destinations, in-place forms, errors, contexts, tuning,
// allocations. Includes public headers only. The store is a folder of this process, set before the
// library's first use. Values are compared with formulas written out here in f64, not with the
// library's own oracle.
#include <dlblas/dlblas.hpp>
#include <dlblas/ops.hpp>
#undef DLBLAS_OPS_HPP_  // the golden file is another ops.hpp: it must compile as it stands
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/cpp/golden/odd_ops.hpp"
#include "tests/cpp/temporary_store.hpp"

namespace {
std::atomic<long> g_allocations{0};
}  // namespace

// Never inlined: the compiler would see free() meet operator new and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++g_allocations;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
// All pairs go together: a sanitizer's own nothrow new would not match the delete below.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(bytes ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace dlblas;

const auto* const kStore = testing::AddGlobalTestEnvironment(new test::TemporaryStore("api"));

std::vector<float> sequence(std::size_t n, int modulus) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i)
    v[i] = static_cast<float>(static_cast<int>(i * 7 % static_cast<std::size_t>(modulus)) -
                              modulus / 2) /
           4.0f;
  return v;
}

// y of one element, from the formula.
double rms_norm_at(const float* row, std::size_t width, const std::vector<float>& weight,
                   std::size_t c, double eps) {
  double squares = 0;
  for (std::size_t i = 0; i < width; ++i) squares += static_cast<double>(row[i]) * row[i];
  return row[c] / std::sqrt(squares / static_cast<double>(width) + eps) * weight[c];
}

constexpr std::int64_t kT = 3, kC = 33;

struct Norm : testing::Test {
  std::vector<float> x = sequence(kT * kC, 13), weight = sequence(kC, 5);
  TensorRef rows() const { return TensorRef(x, {kT, kC}); }
  void expect_normed(const float* y, std::int64_t pitch, double eps) const {
    for (std::int64_t t = 0; t < kT; ++t)
      for (std::size_t c = 0; c < static_cast<std::size_t>(kC); ++c)
        EXPECT_NEAR(y[t * pitch + static_cast<std::int64_t>(c)],
                    rms_norm_at(&x[static_cast<std::size_t>(t * kC)], kC, weight, c, eps), 1e-5);
  }
};

// ---- calls -------------------------------------------------------

TEST_F(Norm, ReturnsANewResult) {
  const Tensor y = rms_norm(rows(), weight, {.eps = 1e-3});
  EXPECT_EQ(y.shape(), Dims({kT, kC}));
  EXPECT_EQ(y.dtype(), DType::kF32);
  expect_normed(y.span<float>().data(), kC, 1e-3);
}

TEST_F(Norm, WritesIntoGivenMemoryOfAnyPitch) {
  std::vector<float> wide(kT * 40, -7.0f);
  rms_norm_out({wide.data(), {kT, kC}, {40, 1}}, rows(), weight);
  expect_normed(wide.data(), 40, 1e-6);
  for (std::int64_t t = 0; t < kT; ++t)
    for (std::int64_t c = kC; c < 40; ++c)
      EXPECT_EQ(wide[static_cast<std::size_t>(t * 40 + c)], -7.0f);
}

TEST_F(Norm, InPlaceEqualsTheFunctionalForm) {
  const Tensor expected = rms_norm(rows(), weight);
  std::vector<float> copy = x;
  rms_norm_({copy, {kT, kC}}, weight);
  EXPECT_TRUE(std::equal(copy.begin(), copy.end(), expected.span<float>().begin()));
}

TEST_F(Norm, TwoResultsHaveNames) {
  const std::vector<float> residual = sequence(kT * kC, 11);
  const AddRmsNormResults r = add_rms_norm(rows(), weight, TensorRef(residual, {kT, kC}));
  const auto h = r.residual_out.span<float>();
  for (std::size_t i = 0; i < h.size(); ++i) EXPECT_EQ(h[i], x[i] + residual[i]);
  EXPECT_NEAR(r.y.span<float>()[5], rms_norm_at(h.data(), kC, weight, 5, 1e-6), 1e-5);

  std::vector<float> x2 = x, h2 = residual;
  add_rms_norm_({x2, {kT, kC}}, {h2, {kT, kC}}, weight);
  EXPECT_TRUE(std::equal(x2.begin(), x2.end(), r.y.span<float>().begin()));
  EXPECT_TRUE(std::equal(h2.begin(), h2.end(), h.begin()));
}

TEST_F(Norm, ByNameEqualsByFunction) {
  const Operator op("rms_norm");
  const Tensor expected = rms_norm(rows(), weight, {.eps = 1e-3, .cast_before_weight = true});
  const Tensor y = op({rows(), weight}, {{"eps", 1e-3}, {"cast_before_weight", true}});
  std::vector<float> given(x.size());
  op({rows(), weight, 1e-3}, {{"cast_before_weight", true}}, {{given, {kT, kC}}});
  EXPECT_TRUE(std::equal(given.begin(), given.end(), y.span<float>().begin()));
  EXPECT_TRUE(std::equal(given.begin(), given.end(), expected.span<float>().begin()));

  auto [z, h] = Operator("add_rms_norm").call<2>({rows(), weight, rows()});
  EXPECT_EQ(h.span<float>()[3], 2 * x[3]);
  std::vector<float> copy = x;
  Operator("rms_norm_")
      .inplace({OutRef(copy, {kT, kC}), weight, 1e-3}, {{"cast_before_weight", true}});
  EXPECT_EQ(copy, given);
}

TEST(Matmul, TakesEnumsOptionalTensorsAndDtypes) {
  const std::vector<float> a = {1, 2, -3, 4}, b = {1, 0, 2, -1}, bias = {0.5f, 1};
  const Tensor y = matmul(TensorRef(a, {2, 2}), TensorRef(b, {2, 2}),
                          {.activation = MatmulActivation::kRelu, .bias = bias});
  // a · b = [[5, -2], [5, -4]]; with the bias [[5.5, -1], [5.5, -3]]
  const std::vector<float> expected = {5.5f, 0, 5.5f, 0};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), y.span<float>().begin()));
  const Tensor plain = Operator("matmul")({TensorRef(a, {2, 2}), TensorRef(b, {2, 2})});
  EXPECT_EQ(plain.span<float>()[3], -4.0f);
  const Verdict verdict = Operator("matmul").verify(
      {TensorRef(a, {2, 2}), TensorRef(b, {2, 2})}, {{"activation", "relu"}, {"bias", bias}},
      {OutRef(const_cast<float*>(y.span<float>().data()), {2, 2})});
  EXPECT_LE(verdict.worst, 1.0);
  EXPECT_EQ(verdict.checked, 4);
}

// The caller's own half type, declared below at namespace scope.
struct MyHalf {
  unsigned short bits;
};
}  // namespace
template <>
struct dlblas::DTypeOf<MyHalf> {
  static constexpr DType value = DType::kBF16;
};
namespace {

TEST(Types, StorageTypesOfTheCallersOwn) {
  const std::vector<MyHalf> ones(8, MyHalf{0x3f80});
  const Tensor y = rms_norm(TensorRef(ones, {2, 4}), TensorRef(ones.data(), {4}));
  EXPECT_EQ(y.dtype(), DType::kBF16);
  for (BF16 v : y.span<BF16>()) EXPECT_EQ(v.bits, 0x3f80);
  EXPECT_THROW((void)y.span<float>(), UnsupportedDtypeError);
}

TEST(Types, ConstMemoryIsNeverADestination) {
  static_assert(std::is_convertible_v<std::vector<float>&, OutRef>);
  static_assert(!std::is_convertible_v<const std::vector<float>&, OutRef>);
  static_assert(!std::is_constructible_v<OutRef, const float*, Dims>);
  static_assert(std::is_convertible_v<Tensor&, OutRef> &&
                !std::is_convertible_v<const Tensor&, OutRef>);
  static_assert(!std::is_copy_constructible_v<Tensor> && std::is_trivially_copyable_v<TensorRef>);
  std::vector<float> four(4);
  EXPECT_THROW(TensorRef(four, {5}), ShapeMismatchError);
  EXPECT_THROW(Dims({1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeMismatchError);
  EXPECT_THROW(TensorRef(four.data(), {2, 2}, {2}), ShapeMismatchError);
}

TEST_F(Norm, ByNameReadOnlyMemoryIsNotWritten) {
  const Operator inplace("rms_norm_");
  const std::vector<float> before = x;
  const auto argument_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const ArgumentError& e) {
      EXPECT_NE(std::string(e.what()).find("is written by this operator; expected an OutRef"),
                std::string::npos)
          << e.what();
      return e.argument();
    }
    return "none";
  };
  EXPECT_EQ(argument_of([&] { inplace.inplace({rows(), weight}); }), "x");
  EXPECT_EQ(argument_of([&] { inplace.inplace({}, {{"weight", weight}, {"x", rows()}}); }), "x");
  const Operator both("add_rms_norm_");
  const OutRef writable(x, {kT, kC});
  EXPECT_EQ(argument_of([&] { both.inplace({writable, rows(), weight}); }), "residual");
  EXPECT_EQ(x, before);

  const TensorRef w(weight);  // what is only read may be const
  inplace.inplace({writable, w});
  Tensor y = rms_norm(TensorRef(before, {kT, kC}), w);
  EXPECT_TRUE(std::equal(x.begin(), x.end(), y.span<float>().begin()));
  inplace.inplace({y, w});  // a result is memory of one's own
  EXPECT_NE(x[3], y.span<float>()[3]);
  std::vector<float> row(before.begin(), before.begin() + kC);
  inplace.inplace({row, w});  // and so is a vector
  EXPECT_EQ(row[3], x[3]);
  const Tensor& constant = y;
  EXPECT_EQ(argument_of([&] { inplace.inplace({constant, w}); }), "x");
}

TEST(Matmul, ANullTextIsAnError) {
  const std::vector<float> a(4);
  const TensorRef square(a, {2, 2});
  const char* null = nullptr;
  const Operator op("matmul");
  try {
    op({square, square}, {{"activation", null}});
    FAIL() << "a null text was taken";
  } catch (const ArgumentError& e) {
    EXPECT_EQ(e.argument(), "activation");
  }
  EXPECT_THROW(op({square, square, null}), ArgumentError);
  EXPECT_THROW(op({square, square}, {{null, "relu"}}), ArgumentError);
}

TEST(Types, EmptyTensorsNeedNoMemory) {
  const std::vector<float> weight(4, 1.0f);
  const Tensor y = rms_norm(TensorRef(static_cast<const float*>(nullptr), {0, 4}), weight);
  EXPECT_EQ(y.numel(), 0);
  rms_norm_out({static_cast<float*>(nullptr), {0, 4}},
               TensorRef(static_cast<const float*>(nullptr), {0, 4}), weight);
}

// ---- errors ------------------------------------------------------

template <typename E, typename F>
void expect_error(F&& body, dlblas_status status, const std::string& op,
                  const std::string& argument, const std::string& expected,
                  const std::string& got) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const E& e) {
    EXPECT_EQ(e.status(), status);
    EXPECT_EQ(e.op(), op) << e.what();
    EXPECT_EQ(e.argument(), argument) << e.what();
    EXPECT_NE(e.expected().find(expected), std::string::npos) << e.what();
    EXPECT_EQ(e.got(), got) << e.what();
    EXPECT_EQ(std::string(e.what()).find(op), 0u) << e.what();
  }
}

TEST_F(Norm, ErrorsSayWhichArgument) {
  const std::vector<float> narrow(kC - 1);
  const std::vector<double> wide(kT * kC);
  expect_error<ShapeMismatchError>([&] { rms_norm(rows(), narrow); }, DLBLAS_SHAPE, "rms_norm",
                                   "weight", "C = 33", "32");
  expect_error<UnsupportedDtypeError>(
      [&] {
        rms_norm(TensorRef(wide, {kT, kC}), weight);
      },
      DLBLAS_DTYPE, "rms_norm", "x", "f32, f16, bf16", "f64");
  const Operator op("rms_norm");
  expect_error<ArgumentError>(
      [&] {
        op({rows(), weight}, {{"epsilon", 1e-3}});
      },
      DLBLAS_ARGUMENT, "rms_norm", "epsilon", "eps", "epsilon");
  expect_error<ArgumentError>(
      [&] {
        op({rows(), weight}, {{"eps", "small"}});
      },
      DLBLAS_ARGUMENT, "rms_norm", "eps", "a number", "\"small\"");
  expect_error<ArgumentError>([&] { rms_norm(rows(), TensorRef()); }, DLBLAS_ARGUMENT, "rms_norm",
                              "weight", "tensor", "nothing");
  expect_error<UnknownOperatorError>([] { Operator("rms_nrom"); }, DLBLAS_UNKNOWN_OPERATOR,
                                     "rms_nrom", "name", "rms_norm", "rms_nrom");
  EXPECT_THROW(op({rows(), weight}, {{"eps", "small"}}), Error);  // all share the base
}

TEST_F(Norm, AWrongNumberOfResultsIsAnError) {
  EXPECT_THROW(Operator("rms_norm").call<2>({rows(), weight}), ArgumentError);
  EXPECT_THROW(Operator("add_rms_norm")({rows(), weight, rows()}), ArgumentError);
  std::vector<float> y(x.size());
  EXPECT_THROW(Operator("add_rms_norm")({rows(), weight, rows()}, {}, {{y, {kT, kC}}}),
               ArgumentError);
  EXPECT_THROW(Operator("rms_norm")({rows(), weight}, {}, {OutRef()}), ArgumentError);
}

TEST(Descriptors, WithoutMemoryAreExplainedButNotCalled) {
  const TensorRef a(nullptr, DType::kBF16, {512, 64}), b(nullptr, DType::kBF16, {64, 128});
  EXPECT_NE(explain("matmul", {a, b}).find("bf16"), std::string::npos);
  EXPECT_THROW(matmul(a, b), ArgumentError);
  std::vector<float> weight(64);
  EXPECT_THROW(rms_norm_({static_cast<float*>(nullptr), {2, 64}}, weight), ArgumentError);
}

// ---- devices -----------------------------------------------------

// A device that no machine has: what is said of it must reach the library, with a GPU or without.
constexpr Device kNowhere = Device::cuda(63);

TEST_F(Norm, TensorsAreTheHostsUntilOnSaysOtherwise) {
  EXPECT_EQ(rows().device(), Device());
  EXPECT_EQ(rows().descriptor().device.type, 1);
  const OutRef there = OutRef(x, {kT, kC}).on(kNowhere);
  EXPECT_EQ(there.device(), kNowhere);
  EXPECT_EQ(there.shape(), rows().shape());
  EXPECT_EQ(there.descriptor().device.type, 2);
  EXPECT_EQ(there.descriptor().device.index, 63);
  EXPECT_EQ(rows().device(), Device()) << "a copy moved, not the reference";
}

TEST_F(Norm, ADeviceThatIsNotThereIsADeviceError) {
  const TensorRef there = rows().on(kNowhere), scale = TensorRef(weight).on(kNowhere);
  EXPECT_THROW(rms_norm(there, scale), DeviceError);
  EXPECT_THROW(bench_machine(kNowhere, 1 << 20), DeviceError);
  EXPECT_THROW(rms_norm(rows(), scale), DeviceError) << "tensors on two devices";
  std::vector<float> y(x.size());
  EXPECT_THROW(rms_norm_out(OutRef(y, {kT, kC}).on(kNowhere), rows(), weight), DeviceError);
}

TEST_F(Norm, ElementsElsewhereAreNotReadAsTheHosts) {
  Tensor y(OutRef(x, {kT, kC}).on(kNowhere), nullptr);
  EXPECT_EQ(y.device(), kNowhere);
  EXPECT_EQ(TensorRef(y).device(), kNowhere);
  EXPECT_THROW(y.span<float>(), DeviceError);
  EXPECT_THROW(std::as_const(y).span<float>(), DeviceError);
}

// ---- explain -----------------------------------------------------

TEST_F(Norm, ExplainNamesEveryCandidateAndRunsNothing) {
  const Counters before = counters();
  const std::string table = explain("rms_norm", {rows(), weight});
  for (const char* word : {"reference", "cpu_baseline", "yes"})
    EXPECT_NE(table.find(word), std::string::npos) << word << " in\n" << table;
  const std::string json = explain("rms_norm", {rows(), weight}, {}, Format::kJson);
  EXPECT_EQ(json.front(), '{');
  EXPECT_NE(json.find("\"rms_norm\""), std::string::npos) << json;
  const Counters after = counters();
  EXPECT_EQ(after.launched, before.launched);
  EXPECT_EQ(after.measured, before.measured);
}

TEST(Info, SpeaksOfOperatorsAndStore) {
  EXPECT_NE(info().find("add_rms_norm"), std::string::npos);
  EXPECT_NE(cache("path").find("dlblas-api-"), std::string::npos);
  EXPECT_EQ(version(), dlblas_version());
}

// ---- the caller's context ----------------------------------------

// Memory and threads of the caller's own, counting what is asked of them.
struct Host {
  std::vector<std::vector<float>> results;
  int workspaces = 0;
  int regions = 0;
  std::atomic<std::int64_t> items{0};
  std::vector<std::vector<char>> memory;

  void* new_output(const NewOutput& spec) {
    EXPECT_EQ(spec.device, Device()) << "where the call's tensors are";
    if (spec.bytes > (1u << 26)) throw std::bad_alloc();
    results.emplace_back(spec.bytes / sizeof(float));
    return results.back().data();
  }
  void* alloc(std::size_t bytes, std::size_t align) {
    ++workspaces;
    memory.emplace_back(bytes + align);
    auto at = reinterpret_cast<std::uintptr_t>(memory.back().data());
    return reinterpret_cast<void*>((at + align - 1) / align * align);
  }
  void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t, Body body) {
    ++regions;
    const std::int64_t middle = begin + (end - begin) / 2;
    std::thread first([=] { body(begin, middle); });
    body(middle, end);
    first.join();
    items += end - begin;
  }
};

TEST(Contexts, TheCallersMemoryAndThreadsAreUsed) {
  constexpr std::int64_t kRows = 2048, kWidth = 512;
  const std::vector<float> x = sequence(kRows * kWidth, 17), weight = sequence(kWidth, 5);
  const TensorRef rows(x, {kRows, kWidth});
  Host host;
  const Context context(host, 2);
  const Tensor y = rms_norm(rows, weight, {}, context);
  ASSERT_EQ(host.results.size(), 1u);
  EXPECT_EQ(y.data(), host.results[0].data());
  EXPECT_GT(host.regions, 0);
  const Tensor own = rms_norm(rows, weight);
  EXPECT_TRUE(
      std::equal(host.results[0].begin(), host.results[0].end(), own.span<float>().begin()));

  host.regions = 0;
  rms_norm(rows, weight, {}, Context(host, 1));
  EXPECT_EQ(host.regions, 0) << "one thread needs no parallel region";
}

TEST(Contexts, WorkspaceComesFromTheCaller) {
  const std::vector<float> a = sequence(192 * 256, 7), b = sequence(256 * 192, 5);
  const TensorRef lhs(a, {192, 256}), rhs(b, {256, 192});
  Operator("matmul").pin("cpu_baseline");  // it packs both operands
  Host host;
  const Tensor y = matmul(lhs, rhs, {}, Context(host, 2));
  const Tensor own = matmul(lhs, rhs, {}, Context().threads(2));
  Operator("matmul").unpin();
  EXPECT_TRUE(
      std::equal(own.span<float>().begin(), own.span<float>().end(), y.span<float>().begin()));
  EXPECT_EQ(host.workspaces, 1);
  EXPECT_EQ(host.results.size(), 1u);
}

struct Throwing {
  void* new_output(const NewOutput&) { throw std::runtime_error("no memory here"); }
};

TEST_F(Norm, AThrowingAllocatorIsALaunchError) {
  Throwing host;
  EXPECT_THROW(rms_norm(rows(), weight, {}, Context(host)), LaunchError);
}

// ---- tuning ------------------------------------------------------

TEST(Tuning, MeasuresOnceAndRemembers) {
  const std::vector<float> x = sequence(64 * 256, 17), weight = sequence(256, 5);
  int events = 0;
  TuneOptions options;
  options.seconds = 0.3;
  options.max_evaluations = 6;
  options.on_event = [&](const TuneEvent&) {
    ++events;
    return true;
  };
  const Counters before = counters();
  std::string report;
  const Operator op =
      get_op("rms_norm", {TensorRef(x, {64, 256}), weight}, {}, options, {}, &report);
  const Counters tuned = counters();
  EXPECT_GT(tuned.measured, before.measured);
  EXPECT_GT(tuned.published, before.published);
  EXPECT_GT(events, 1);
  EXPECT_EQ(report.front(), '{');

  const Tensor y = op({TensorRef(x, {64, 256}), weight});
  EXPECT_NEAR(y.span<float>()[7], rms_norm_at(x.data(), 256, weight, 7, 1e-6), 1e-5);
  get_op("rms_norm", {TensorRef(x, {64, 256}), weight}, {}, options);
  EXPECT_EQ(counters().measured, tuned.measured) << "a hit measures nothing";
  EXPECT_NE(op.explain({TensorRef(x, {64, 256}), weight}).find("store"), std::string::npos);
}

TEST(Tuning, WhatACallbackThrowsArrivesHere) {
  const std::vector<float> x = sequence(32 * 128, 17), weight = sequence(128, 5);
  TuneOptions options;
  options.seconds = 0.3;
  options.on_event = [](const TuneEvent&) -> bool { throw std::out_of_range("stop here"); };
  EXPECT_THROW(tune("rms_norm", {TensorRef(x, {32, 128}), weight}, {}, options), std::out_of_range);
}

TEST(Tuning, NarrowingDecidesWhatIsMeasured) {
  const std::vector<float> x = sequence(16 * 128, 17), weight = sequence(128, 5);
  TuneOptions options;
  options.seconds = 0.5;
  options.implementations = "cpu_baseline";
  options.space = {{"cpu_baseline", "unroll", "2"}};
  options.where = [](std::string_view, std::string_view config) {
    return config.find("task_kib=64") != config.npos;
  };
  std::set<std::string> wanted, others;
  options.on_event = [&](const TuneEvent& e) {
    if (e.kind != TuneEvent::Kind::kMeasured) return true;
    const std::string point = std::string(e.implementation) + " " + std::string(e.config);
    const bool inside = e.implementation == "cpu_baseline" &&
                        e.config.find("unroll=2 ") != e.config.npos &&
                        e.config.find("task_kib=64") != e.config.npos;
    (inside ? wanted : others).insert(point);
    return true;
  };
  tune("rms_norm", {TensorRef(x, {16, 128}), weight}, {}, options);
  EXPECT_GT(wanted.size(), 1u);
  // The default always runs too: a narrow search must not hide what is faster.
  EXPECT_LE(others.size(), 1u) << testing::PrintToString(others);
}

TEST_F(Norm, APinHoldsUntilItIsTakenBack) {
  const Operator op("rms_norm");
  op.pin("reference");
  const std::string pinned = op.explain({rows(), weight});
  op.unpin();
  EXPECT_NE(pinned.find("pinned"), std::string::npos) << pinned;
  EXPECT_EQ(op.explain({rows(), weight}).find("pinned"), std::string::npos);
  EXPECT_THROW(op.pin("cpu_9000"), Error);
}

// ---- what a warm call costs --------------------------------------

TEST_F(Norm, AWarmCallWithItsDestinationAllocatesNothing) {
  std::vector<float> y(x.size());
  const Operator op("rms_norm");
  auto both = [&] {
    rms_norm_out({y, {kT, kC}}, rows(), weight, {.eps = 1e-5});
    op({rows(), weight}, {{"eps", 1e-5}}, {{y, {kT, kC}}});
  };
  both();
  const long before = g_allocations;
  for (int i = 0; i < 100; ++i) both();
  EXPECT_EQ(g_allocations, before);
}

TEST(Generated, OddSchemasMarshalToTheirOperator) {
  std::vector<float> x(8);
  // The operators exist in the generator's test alone, so each call ends at the look-up of its
  // name.
  auto expect_unknown = [](auto&& call, const std::string& name) {
    expect_error<UnknownOperatorError>(call, DLBLAS_UNKNOWN_OPERATOR, name, "name", "rms_norm",
                                       name);
  };
  expect_unknown(
      [&] { odd_two(x, {.bias = x, .mode = OddTwoMode::kAB_, .out_dtype = DType::kF16}); },
      "odd_two");
  expect_unknown([&] { odd_two_(x, {.bias = x, .mode = OddTwoMode::kNone}); }, "odd_two_");
  expect_unknown([&] { class_(x, x, 3); }, "class");
  expect_unknown([&] { odd_after(x, DType::kBF16, OddAfterMode::kNone_, {.x = x}); }, "odd_after");
  expect_unknown([&] { odd_no_tensor(4, {.seed = 1}); }, "odd_no_tensor");
  static_assert(std::is_same_v<decltype(odd_two(TensorRef())), OddTwoResults>);
  static_assert(!std::is_invocable_v<decltype(class_), const std::vector<float>&, TensorRef, int>,
                "a written input refuses const memory");
  EXPECT_STREQ(name_of(OddTwoMode::kAB), "a-b");
}

}  // namespace
