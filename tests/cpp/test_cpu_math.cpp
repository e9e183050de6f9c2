// cpu/math.hpp at the baseline level against f64: the error bounds promised at its top, NaN,
// infinities and the ends of f32's range. The other levels compile the same source for wider
// vectors; their exponentials differ, and the harness compares those through softmax and
// silu_and_mul.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/math.hpp"

namespace dlblas::DLBLAS_ISA {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float one(Vec (*f)(Vec), float x) { return f(broadcast(x))[0]; }

/// The largest error in units in the last place, for values in f32's normal range.
double worst(Vec (*f)(Vec), double (*exact)(double), float low, float high) {
  double most = 0;
  constexpr int kSteps = 400000;
  for (int i = 0; i <= kSteps; ++i) {
    const float x = low + (high - low) * static_cast<float>(i) / kSteps;
    const double want = exact(static_cast<double>(x));
    if (std::abs(want) < 0x1p-124 || std::abs(want) > 0x1.fffffep127) continue;
    const double unit = std::ldexp(1, std::ilogb(want) - 23);
    most = std::max(most, std::abs(static_cast<double>(one(f, x)) - want) / unit);
  }
  return most;
}

TEST(CpuMath, ErrorsAreAsPromised) {
  EXPECT_LT(worst(exp, std::exp, -86, 88.7f), 4);
  EXPECT_LT(worst(exp, std::exp, -1, 1), 4);
  EXPECT_LT(worst(exp2, std::exp2, -124, 127.9f), 4);
  EXPECT_LT(worst(log, std::log, 1e-6f, 8), 4);
  EXPECT_LT(worst(log, std::log, 1, 3e38f), 4);
  EXPECT_LT(worst(erf, std::erf, -5, 5), 4);
  EXPECT_LT(worst(tanh, std::tanh, -10, 10), 8);
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LT(worst(sigmoid, logistic, -80, 80), 4);
}

TEST(CpuMath, SpecialValuesAreThoseOfTheFormulas) {
  const float nan = std::nanf("");
  for (Vec (*f)(Vec) : {exp, exp2, log, erf, tanh, sigmoid, silu})
    EXPECT_TRUE(std::isnan(one(f, nan)));
  EXPECT_EQ(one(exp, kInfinity), kInfinity);
  EXPECT_EQ(one(exp, -kInfinity), 0);
  EXPECT_EQ(one(exp, 0), 1);
  EXPECT_EQ(one(exp, 89), kInfinity);
  EXPECT_EQ(one(exp, -120), 0);
  EXPECT_EQ(one(exp2, kInfinity), kInfinity);
  EXPECT_EQ(one(exp2, -kInfinity), 0);
  EXPECT_EQ(one(exp2, 10), 1024);
  EXPECT_EQ(one(log, 0), -kInfinity);
  EXPECT_EQ(one(log, kInfinity), kInfinity);
  EXPECT_EQ(one(log, 1), 0);
  EXPECT_TRUE(std::isnan(one(log, -1)));
  EXPECT_NEAR(one(log, 1e-40f), std::log(1e-40), 1e-5);
  EXPECT_EQ(one(erf, kInfinity), 1);
  EXPECT_EQ(one(erf, -kInfinity), -1);
  EXPECT_EQ(one(tanh, kInfinity), 1);
  EXPECT_EQ(one(tanh, -kInfinity), -1);
  EXPECT_EQ(one(sigmoid, -kInfinity), 0);
  EXPECT_EQ(one(sigmoid, kInfinity), 1);
  EXPECT_TRUE(std::isnan(one(silu, -kInfinity)));
  EXPECT_EQ(one(silu, kInfinity), kInfinity);
}

TEST(CpuMath, NanWinsInMaximaAndMinima) {
  const Vec nan = broadcast(std::nanf("")), two = broadcast(2), one_ = broadcast(1);
  EXPECT_TRUE(std::isnan(max(nan, two)[0]));
  EXPECT_TRUE(std::isnan(max(two, nan)[0]));
  EXPECT_TRUE(std::isnan(min(nan, two)[0]));
  EXPECT_TRUE(std::isnan(min(two, nan)[0]));
  EXPECT_EQ(max(one_, two)[0], 2);
  EXPECT_EQ(min(one_, two)[0], 1);
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
