// A bf16 product with the extra inputs of two epilogues, and its results in f64; a fixture that
// puts arrays on a GPU. Read next: test_gemm_epilogues.cpp, test_gemm_programs.cpp.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cuda/cuda.hpp"

namespace dlblas::test {

using Half = std::uint16_t;  // bits of bf16
inline constexpr Half kUnwritten = 0x7fc1;

inline float value_of(Half bf16) { return std::bit_cast<float>(std::uint32_t{bf16} << 16); }
inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct GemmCase {
  std::int64_t m, n, k, row;  // row: elements from row to row of out and residual, at least n
  std::vector<Half> a, b[2], residual;  // a [m, k]; b [n, k], as a linear layer's weights
  std::vector<float> alpha, beta;

  GemmCase(std::int64_t m_, std::int64_t n_, std::int64_t k_, std::int64_t row_)
      : m(m_), n(n_), k(k_), row(row_), alpha(at(m)), beta(at(n)) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<Half>& v, std::int64_t size) {
      v.resize(at(size));
      for (Half& h : v) h = static_cast<Half>(std::bit_cast<std::uint32_t>(normal(random)) >> 16);
    };
    fill(a, m * k), fill(b[0], n * k), fill(b[1], n * k), fill(residual, m * row);
    for (float& v : alpha) v = normal(random);
    for (float& v : beta) v = normal(random);
  }

  /// The sum of one part, and the sum of its terms' absolute values.
  std::pair<double, double> sum(int part, std::int64_t i, std::int64_t j) const {
    double all = 0, sizes = 0;
    for (std::int64_t d = 0; d < k; ++d) {
      const double term =
          double{value_of(a[at(i * k + d)])} * double{value_of(b[part][at(j * k + d)])};
      all += term, sizes += std::abs(term);
    }
    return {all, sizes};
  }
  std::vector<Half> unwritten() const { return std::vector<Half>(at(m * row), kUnwritten); }
};

class GemmOnGpu : public testing::Test {
 protected:
  /// Skips unless there is a GPU of this architecture or, with `later`, of a later one.
  void start(int arch, bool later) {
    if (const std::string why = cuda::unavailable(); !why.empty()) GTEST_SKIP() << why;
    if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU is visible";
    const int found = cuda::info(0).arch;
    if (later ? found < arch : found != arch)
      GTEST_SKIP() << "needs sm_" << arch << ", this is " << found;
    current_ = std::make_unique<cuda::CurrentDevice>(0);
    stream_ = std::make_unique<cuda::Stream>();
  }
  template <typename T>
  T* upload(const std::vector<T>& host) {
    cuda::Buffer& buffer = buffers_.emplace_back(host.size() * sizeof(T));
    cuda::copy_to_device(buffer.data(), host.data(), buffer.bytes(), stream_->get());
    return static_cast<T*>(buffer.data());
  }

  std::unique_ptr<cuda::CurrentDevice> current_;
  std::unique_ptr<cuda::Stream> stream_;
  std::vector<cuda::Buffer> buffers_;
};

}  // namespace dlblas::test
