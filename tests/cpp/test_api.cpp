// The C++ API as a user sees it: calls, destinations, in-place forms, types, errors, devices.
// Includes public headers only. The store is a folder of this process, set before the library is
// first used. Values are compared with a formula written out in f64, not with the library's own
// oracle. Read next: tests/cpp/test_api_context.cpp.
#include <gtest/gtest.h>
#include <dlblas/dlblas.hpp>

#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/cpp/api_norm.hpp"
#undef DLBLAS_OPS_HPP_  // the golden file is another ops.hpp: it must compile as it stands
#include "tests/cpp/golden/odd_ops.hpp"
#include "tests/cpp/temporary_store.hpp"

namespace {

using namespace dlblas;
using namespace dlblas::test;

const auto* const kStore = testing::AddGlobalTestEnvironment(new TemporaryStore("api"));

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
  expect_error<ArgumentError>([&] { rms_norm(TensorRef(), weight); }, DLBLAS_ARGUMENT, "rms_norm",
                              "x", "tensor", "nothing");
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

// A device that no machine has: what the caller states about it must reach the library, with or
// without a GPU.
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
  const std::string one = info("add_rms_norm");
  EXPECT_NE(info().find(one), std::string::npos);
  EXPECT_EQ(one.find("\"layer_norm\""), std::string::npos);
  EXPECT_NE(cache("path").find("dlblas-api-"), std::string::npos);
  EXPECT_EQ(version(), dlblas_version());
}

TEST(Generated, OddSchemasMarshalToTheirOperator) {
  std::vector<float> x(8);
  // The operators exist only in the generator's test, so each call ends at the look-up of its name.
  auto expect_unknown = [](auto&& call, const std::string& name) {
    expect_error<UnknownOperatorError>(call, DLBLAS_UNKNOWN_OPERATOR, name, "name", "rms_norm",
                                       name);
  };
  expect_unknown(
      [&] { odd_two(x, {.bias = x, .mode = OddTwoMode::kAB_, .out_dtype = DType::kF16}); },
      "odd_two");
  expect_unknown([&] { odd_two_(x, {.bias = x, .mode = OddTwoMode::kNone}); }, "odd_two_");
  expect_unknown([&] { switch_(x, x, 3); }, "switch");
  expect_unknown([&] { odd_after(x, DType::kBF16, OddAfterMode::kNone_, {.x = x}); }, "odd_after");
  expect_unknown([&] { odd_no_tensor(4, {.seed = 1}); }, "odd_no_tensor");
  static_assert(std::is_same_v<decltype(odd_two(TensorRef())), OddTwoResults>);
  static_assert(!std::is_invocable_v<decltype(switch_), const std::vector<float>&, TensorRef, int>,
                "a written input refuses const memory");
  EXPECT_STREQ(name_of(OddTwoMode::kAB), "a-b");
}

}  // namespace
