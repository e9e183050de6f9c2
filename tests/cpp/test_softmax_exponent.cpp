// The arguments that attention's kernels pass to exp2, on a host: the largest weight of a row is 1,
// however large its logit. Read next: device/attention/exponent.cuh.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "device/attention/exponent.cuh"

namespace dlblas {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The weights of a row's scores as the kernels compute them, one block of keys at a time, and
/// their sum.
struct Row {
  float most = -kInfinity, sum = 0, value = 0;
  void meet(const std::vector<float>& scores, const std::vector<float>& values, float factor) {
    float peak = most;
    for (const float s : scores) peak = std::fmax(peak, s);
    const ExponentBase by = exponent_base(peak, factor);
    const float rescale = std::exp2(rescale_exponent(by, most, peak, factor));
    most = peak, sum *= rescale, value *= rescale;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const float weight = std::exp2(exponent_of(by, scores[i], peak, factor));
      sum += weight, value += weight * values[i];
    }
  }
};

TEST(SoftmaxExponent, TheLargestWeightIsOneWhateverItsLogit) {
  std::mt19937 draw(7);
  std::normal_distribution<float> normal;
  const float factor = 1.44269504f / std::sqrt(40.0f);
  int rounded_away = 0;
  for (int power = 0; power <= 120; ++power)
    for (int turn = 0; turn < 50; ++turn) {
      const float peak = std::ldexp(normal(draw), power);
      const ExponentBase by = exponent_base(peak, factor);
      EXPECT_NEAR(std::exp2(exponent_of(by, peak, peak, factor)), 1, 0x1p-8) << peak;
      // What the rounding of the product alone would have given.
      const float was = std::exp2(std::fma(peak, factor, -(peak * factor)));
      rounded_away += was == 0 || was > 65504;
    }
  EXPECT_GT(rounded_away, 1000);  // or this test would see nothing
}

TEST(SoftmaxExponent, RowsOfLargeLogitsAreTheLargestKeysValue) {
  std::mt19937 draw(11);
  std::normal_distribution<float> normal;
  for (int turn = 0; turn < 200; ++turn) {
    Row row;
    double best = -INFINITY, expected = 0;
    for (int block = 0; block < 5; ++block) {
      std::vector<float> scores(8), values(8);
      for (std::size_t i = 0; i < 8; ++i) {
        scores[i] = std::ldexp(normal(draw), 120), values[i] = normal(draw);
        if (scores[i] > best) best = scores[i], expected = values[i];
      }
      row.meet(scores, values, 0.2281f);
    }
    EXPECT_EQ(row.sum, 1);
    EXPECT_EQ(row.value / row.sum, static_cast<float>(expected));
  }
}

TEST(SoftmaxExponent, ASumOverManyBlocksIsAsGoodAsOverOne) {
  std::mt19937 draw(13);
  std::normal_distribution<float> normal;
  const float factor = 0.125f * 1.44269504f;
  for (int turn = 0; turn < 20; ++turn) {
    Row row;
    std::vector<double> all;
    for (int block = 0; block < 400; ++block) {
      std::vector<float> scores(8), values(8);
      for (float& s : scores) all.push_back(s = 8 * normal(draw));
      row.meet(scores, values, factor);
    }
    const double most = row.most;
    double sum = 0;
    for (const double s : all) sum += std::exp2((s - most) * double{factor});
    const double log2 = most * double{factor} + std::log2(sum);
    // Half an ulp for the base, for the sum's 3,200 roundings and for the result.
    EXPECT_NEAR(log2_of_sum(row.most, factor, std::log2(row.sum)), log2, 16 * 0x1p-24 * log2);
  }
}

TEST(SoftmaxExponent, BlocksThatMeetNothingAndInfinitiesStayWhatTheyWere) {
  const float factor = 0.5f;
  Row row;
  row.meet({-kInfinity, -kInfinity}, {1, 2}, factor);
  EXPECT_EQ(row.sum, 0);
  row.meet({0x1p100f, -kInfinity}, {3, 4}, factor);
  EXPECT_EQ(row.value / row.sum, 3);
  row.meet({-0x1p100f, 2.0f}, {5, 6}, factor);
  EXPECT_EQ(row.value / row.sum, 3);
  row.meet({kInfinity, 1}, {7, 8}, factor);
  EXPECT_TRUE(std::isnan(row.sum));
}

TEST(SoftmaxExponent, RaisedWeightsAreWhatF16Holds) {
  for (int power = -10; power <= 40; ++power)
    for (const float part : {1.0f, 1.3f, 1.999f, -1.0f, -1.7f}) {
      const float base = std::ldexp(part, power);
      EXPECT_LE(std::exp2(base - raised_base(base, 10)), 65504) << base;
    }
}

}  // namespace
}  // namespace dlblas
