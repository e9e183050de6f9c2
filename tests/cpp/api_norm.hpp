// What the tests of the C++ API call most: rms_norm on three rows, and its formula written out in
// f64. Read next: tests/cpp/test_api.cpp.
#pragma once

#include <gtest/gtest.h>
#include <dlblas/ops.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace dlblas::test {

inline std::vector<float> sequence(std::size_t n, int modulus) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i)
    v[i] = static_cast<float>(static_cast<int>(i * 7 % static_cast<std::size_t>(modulus)) -
                              modulus / 2) /
           4.0f;
  return v;
}

// One element of y, from the formula.
inline double rms_norm_at(const float* row, std::size_t width, const std::vector<float>& weight,
                          std::size_t c, double eps) {
  double squares = 0;
  for (std::size_t i = 0; i < width; ++i) squares += static_cast<double>(row[i]) * row[i];
  return row[c] / std::sqrt(squares / static_cast<double>(width) + eps) * weight[c];
}

inline constexpr std::int64_t kT = 3, kC = 33;

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

}  // namespace dlblas::test
