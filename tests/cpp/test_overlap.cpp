// Which views share memory, checked by brute force over every byte: slices of one tensor as
// programs make them, and arbitrary strides. An overlap accepted by mistake corrupts memory; one
// refused by mistake is a program that cannot be written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "core/tensor.hpp"

namespace dlblas::test {
namespace {

constexpr int kPool = 1 << 13;  // bytes, around the middle of which views lie
alignas(64) char g_pool[kPool];
constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kU8, DType::kF64};

std::int64_t at_of(const TensorView& t) { return static_cast<char*>(t.data) - g_pool; }

// Calls body(byte offset) for each element.
template <typename F>
void each(const TensorView& t, F&& body) {
  std::int64_t index[kMaxRank] = {};
  for (std::int64_t n = t.numel(); n > 0; --n) {
    std::int64_t at = at_of(t);
    for (int i = 0; i < t.rank; ++i) at += index[i] * t.strides[i] * size_of(t.dtype);
    body(at);
    for (int i = t.rank - 1; i >= 0 && ++index[i] == t.shape[i]; --i) index[i] = 0;
  }
}

bool inside(const TensorView& t) {
  bool good = true;
  each(t, [&](std::int64_t at) { good &= at >= 0 && at + size_of(t.dtype) <= kPool; });
  return good;
}

// How often a view touches each byte.
std::vector<std::uint8_t> touched(const TensorView& t) {
  std::vector<std::uint8_t> bytes(kPool);
  each(t, [&](std::int64_t at) {
    for (int i = 0; i < size_of(t.dtype); ++i)
      bytes[at + i] = static_cast<std::uint8_t>(std::min(2, bytes[at + i] + 1));
  });
  return bytes;
}

bool share(const TensorView& a, const TensorView& b) {
  const auto of_a = touched(a);
  bool found = false;
  each(b, [&](std::int64_t at) {
    for (int i = 0; i < size_of(b.dtype); ++i) found |= of_a[at + i] != 0;
  });
  return found;
}

bool shares_with_itself(const TensorView& t) {
  const auto of_t = touched(t);
  return std::count(of_t.begin(), of_t.end(), 2) > 0;
}

class Views {
 public:
  explicit Views(std::uint64_t seed) : random_(seed) {}
  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  // Any strides, any place; often far from what a program would use.
  TensorView any() {
    TensorView t{};
    do {
      t.dtype = kDTypes[draw(0, 3)];
      t.rank = static_cast<std::int32_t>(draw(1, 4));
      for (int i = 0; i < t.rank; ++i) {
        t.shape[i] = draw(1, 5);
        t.strides[i] = draw(-40, 40);
      }
      t.data = g_pool + draw(0, kPool - 1);
    } while (!inside(t));
    return t;
  }

  // Two views of one tensor: slices, single indices, steps, reversals, transposed, flattened.
  void of_one(TensorView* a, TensorView* b) {
    TensorView whole{};
    whole.dtype = kDTypes[draw(0, 3)];
    whole.rank = static_cast<std::int32_t>(draw(1, 4));
    whole.data = g_pool;
    std::int64_t pitch;
    do {
      pitch = 1;
      for (int i = whole.rank - 1; i >= 0; --i) {
        whole.shape[i] = draw(1, 6);
        whole.strides[i] = pitch;
        pitch *= whole.shape[i] + (draw(0, 4) == 0 ? draw(0, 3) : 0);  // sometimes rows with a gap
      }
    } while (pitch * size_of(whole.dtype) > kPool);
    *a = view(whole), *b = view(whole);
  }

 private:
  TensorView view(TensorView t) {
    char* data = static_cast<char*>(t.data);
    int rank = 0;
    for (int i = 0; i < t.rank; ++i) {
      const std::int64_t n = t.shape[i], first = draw(0, n - 1), step = draw(0, 3) ? 1 : draw(1, 3);
      const bool whole = draw(0, 2) == 0, single = draw(0, 4) == 0, back = draw(0, 5) == 0;
      const std::int64_t from = whole ? 0 : first, to = whole ? n : draw(first + 1, n);
      const std::int64_t count = (to - from + step - 1) / step;
      data += (back ? from + (count - 1) * step : from) * t.strides[i] * size_of(t.dtype);
      if (single) continue;
      t.shape[rank] = count;
      t.strides[rank++] = t.strides[i] * (back ? -step : step);
    }
    t.rank = rank;
    t.data = data;
    if (rank > 1 && draw(0, 3) == 0) {
      std::swap(t.shape[0], t.shape[rank - 1]);
      std::swap(t.strides[0], t.strides[rank - 1]);
    }
    return t;
  }
  std::mt19937_64 random_;
};

struct Verdicts {
  int pairs = 0, apart = 0, wrongly_accepted = 0, refused_needlessly = 0, undecided = 0;
  void add(const TensorView& a, const TensorView& b) {
    const bool shared = share(a, b);
    const Sharing said = sharing_of(a, b);
    ++pairs;
    apart += !shared;
    wrongly_accepted += shared && said == Sharing::kNone;
    refused_needlessly += !shared && said != Sharing::kNone;
    undecided += said == Sharing::kUndecided;
    EXPECT_EQ(sharing_of(b, a) == Sharing::kNone, said == Sharing::kNone);
    EXPECT_TRUE(said != Sharing::kSome || shared) << "sure of what is not so";
  }
};

TEST(Overlap, SlicesOfOneTensorAgainstBruteForce) {
  Views views(7);
  Verdicts verdicts;
  for (int i = 0; i < 100'000; ++i) {
    TensorView a, b;
    views.of_one(&a, &b);
    verdicts.add(a, b);
  }
  EXPECT_GT(verdicts.apart, 20'000);
  EXPECT_EQ(verdicts.wrongly_accepted, 0);
  EXPECT_EQ(verdicts.refused_needlessly, 0);
  RecordProperty("attacked", verdicts.pairs);
}

TEST(Overlap, AnyStridesAgainstBruteForce) {
  Views views(11);
  Verdicts verdicts;
  while (verdicts.pairs < 100'000) {
    const TensorView a = views.any();
    TensorView b = views.any();
    b.data = static_cast<char*>(a.data) + views.draw(-200, 200);  // ranges that mostly meet
    if (inside(b)) verdicts.add(a, b);
  }
  EXPECT_GT(verdicts.apart, 20'000);
  EXPECT_EQ(verdicts.wrongly_accepted, 0);
  EXPECT_LE(verdicts.refused_needlessly, verdicts.apart / 100);
  RecordProperty("undecided", verdicts.undecided);
  RecordProperty("attacked", verdicts.pairs);
}

TEST(Overlap, OfAViewWithItselfAgainstBruteForce) {
  Views views(13);
  int wrong = 0, needless = 0, shared = 0;
  for (int i = 0; i < 50'000; ++i) {
    const TensorView t = views.any();
    const bool is = shares_with_itself(t), said = overlaps_itself(t);
    shared += is;
    wrong += is && !said;
    needless += !is && said;
  }
  EXPECT_GT(shared, 5'000);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(needless, 0);
  RecordProperty("attacked", 50'000);
}

TensorView f16(std::int64_t element, std::vector<std::int64_t> shape,
               std::vector<std::int64_t> strides) {
  TensorView t{};
  t.dtype = DType::kF16;
  t.data = reinterpret_cast<char*>(std::int64_t{1} << 40) + 2 * element;
  t.rank = static_cast<std::int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), t.shape);
  std::copy(strides.begin(), strides.end(), t.strides);
  return t;
}

TEST(Overlap, WhatModelsDo) {
  // q, k and v of one projection of 32 + 8 + 8 heads of 128, 8,192 rows.
  const std::int64_t row = 48 * 128;
  const TensorView q = f16(0, {8192, 32, 128}, {row, 128, 1});
  const TensorView k = f16(32 * 128, {8192, 8, 128}, {row, 128, 1});
  const TensorView v = f16(40 * 128, {8192, 8, 128}, {row, 128, 1});
  EXPECT_EQ(sharing_of(q, k), Sharing::kNone);
  EXPECT_EQ(sharing_of(k, v), Sharing::kNone);
  EXPECT_EQ(sharing_of(q, f16(32 * 128 - 1, {8192, 8, 128}, {row, 128, 1})), Sharing::kSome);
  // kv[:, 0] and kv[:, 1] of pages [N, 2, 16, 8, 128].
  const std::int64_t half = 16 * 8 * 128;
  const std::vector<std::int64_t> page{4000, 16, 8, 128}, pitch{2 * half, 8 * 128, 128, 1};
  EXPECT_EQ(sharing_of(f16(0, page, pitch), f16(half, page, pitch)), Sharing::kNone);
  EXPECT_EQ(sharing_of(f16(0, page, pitch), f16(half - 8, page, pitch)), Sharing::kSome);
  // Even and odd columns; heads before rows.
  EXPECT_EQ(sharing_of(f16(0, {4096, 64}, {128, 2}), f16(1, {4096, 64}, {128, 2})), Sharing::kNone);
  EXPECT_EQ(sharing_of(f16(0, {32, 8192, 128}, {128, row, 1}), k), Sharing::kNone);
}

TEST(Overlap, FartherThanMemoryIsUndecided) {
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_EQ(sharing_of(f16(0, {4, 4}, {huge, 1}), f16(1, {4, 4}, {4, 1})), Sharing::kUndecided);
  EXPECT_EQ(sharing_of(f16(0, {4, 4}, {INT64_MIN, 1}), f16(1, {4}, {1})), Sharing::kUndecided);
  EXPECT_TRUE(overlaps_itself(f16(0, {4, 4}, {INT64_MIN, 1})));
  EXPECT_EQ(sharing_of(f16(0, {1, 4}, {huge, 1}), f16(4, {1, 4}, {-huge, 1})), Sharing::kNone);
}

}  // namespace
}  // namespace dlblas::test
