// Sizes of dimensions: every form of the grammar parsed, printed, evaluated and solved; arithmetic
// near 2^63; which letters a call can determine; the messages for schema authors.
#include "core/dim.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/schema.hpp"
#include "tests/cpp/schema_dummy.hpp"

namespace dlblas::test {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// `a` and `b` are letters 0 and 1, `c` is 2; `size` is the size of a result.
Schema with_size(const std::string& size) {
  return parse_schema("op(a: dim, b: dim, c: dim, x: f[N]) -> y: f[" + size + "]");
}
DimExpr dim_of(const std::string& size) { return with_size(size).tensors[1].dims[0]; }
std::int64_t value_of(const std::string& size, std::int64_t a, std::int64_t b = 1,
                      std::int64_t c = 1) {
  const std::int64_t letters[] = {a, b, c, 0};
  return dim_of(size).evaluate(letters);
}
std::string complaint(const std::string& schema) {
  const std::string whole = error_of([&] { parse_schema(schema); });
  const std::size_t begin = whole.find("expected "), end = whole.find("; in op(");
  return begin == std::string::npos ? whole : whole.substr(begin, end - begin);
}

TEST(Dims, PrintAsTheyAreWritten) {
  for (const std::string size :
       {"7",         "a",       "2a",    "a*b",  "2a*b",    "a+b",
        "a*b+2c*b",  "a+b+c",   "a+1",   "a-1",  "a*b-3",   "a/128",
        "2a/3",      "a*b/c",   "a//2",  "a//b", "(a+b)/c", "(a*b+2c*b)//64",
        "(a+b)/8+1", "a/128+1", "a//2-1"}) {
    const Schema schema = with_size(size);
    EXPECT_EQ(schema.tensors[1].dims[0].print(schema.letters), size);
    EXPECT_EQ(schema.print_dims(schema.tensors[1]), "[" + size + "]");
  }
  const Schema starred = parse_schema("op(x: f[*T, 1|N, N]) -> y: f[*T, N]");
  EXPECT_EQ(starred.print_dims(starred.tensors[0]), "[*T, 1|N, N]");
}

TEST(Dims, Evaluate) {
  EXPECT_EQ(value_of("a/128", 129), 2);  // rounds up
  EXPECT_EQ(value_of("2a", 129), 258);
  EXPECT_EQ(value_of("a+1", 129), 130);
  EXPECT_EQ(value_of("a-1", 129), 128);
  EXPECT_EQ(value_of("a*b+2c*b", 3, 5, 7), 85);
  EXPECT_EQ(value_of("a*b/c", 3, 5, 4), 4);
  EXPECT_EQ(value_of("(a+b)/8+1", 3, 5), 2);
  EXPECT_EQ(value_of("a//2", 6), 3);
  EXPECT_EQ(value_of("a//b", 6, 3), 2);
  EXPECT_EQ(dim_of("7").evaluate(nullptr), 7);
}

TEST(Dims, WhatHasNoSizeSaysSo) {
  EXPECT_EQ(value_of("a//2", 5), kNoSize);  // a remainder
  EXPECT_EQ(value_of("a/b", 5, 0), kNoSize);
  EXPECT_EQ(value_of("a//b", 0, 0), kNoSize);
  EXPECT_EQ(value_of("a-3", 2), kNoSize);
  EXPECT_EQ(value_of("a-3", 3), 0);
}

TEST(Dims, ArithmeticNearTheLargestNumberSaturates) {
  EXPECT_EQ(value_of("2a", kMax / 2), kMax - 1);
  EXPECT_EQ(value_of("2a", kMax / 2 + 1), kTooLarge);
  EXPECT_EQ(value_of("a*b", std::int64_t{1} << 32, std::int64_t{1} << 31), kTooLarge);
  EXPECT_EQ(value_of("a+b", kMax - 1, 2), kTooLarge);
  EXPECT_EQ(value_of("2147483647a*b/2", kMax, kMax), kTooLarge);
  EXPECT_EQ(value_of("a+2147483647", kMax - 1), kTooLarge);
  const std::int64_t letters[] = {kMax, kMax, 1, 0};
  EXPECT_FALSE(dim_of("a//b").solve(0, letters, kMax).found);
  EXPECT_FALSE(dim_of("a+b").solve(0, letters, 5).found);
}

// Whatever size a dimension has, solving it for a linear letter returns the letter.
TEST(Dims, SolvingGivesBackWhatWasEvaluated) {
  std::mt19937_64 random(7);
  for (const std::string size : {"a", "3a", "a*b", "a+b", "2a*b+3c*b", "a+5", "a-2", "a*b+c",
                                 "2a+3b+4c", "(a+b)//c", "a//b", "a*c//2+1"}) {
    const DimExpr d = dim_of(size);
    for (int i = 0; i < 200; ++i) {
      std::int64_t letters[4] = {2 + static_cast<std::int64_t>(random() % 64),
                                 1 + static_cast<std::int64_t>(random() % 64),
                                 1 + static_cast<std::int64_t>(random() % 64), 0};
      const std::int64_t n = d.evaluate(letters);
      if (n == kNoSize) continue;
      for (int letter = 0; letter < 3; ++letter) {
        if (!d.is_linear_in(letter)) continue;
        std::int64_t others[4];
        std::copy_n(letters, 4, others);
        others[letter] = -77;  // must not be read
        const DimExpr::Solution found = d.solve(letter, others, n);
        ASSERT_TRUE(found.found) << size << " " << letter;
        ASSERT_EQ(found.size, letters[letter]) << size << " " << letter;
      }
    }
  }
  EXPECT_FALSE(dim_of("a*a").is_linear_in(0));
  EXPECT_FALSE(dim_of("a/2").is_linear_in(0));  // 3 is 5/2 and 6/2
  EXPECT_FALSE(dim_of("a//b").is_linear_in(1));
  EXPECT_TRUE(dim_of("a//b").is_linear_in(0));
}

// No letter that is multiplied by 0 matters, and none but the others' sizes is read.
TEST(Dims, ALetterThatIsMultipliedByZeroIsIgnored) {
  const auto ignores = [](const char* size, std::vector<int> open, std::int64_t others) {
    const std::int64_t letters[4] = {others, others, others, others};
    std::int64_t sizes[4];
    std::copy_n(letters, 4, sizes);
    std::uint32_t bits = 0;
    for (const int letter : open) bits |= 1u << letter, sizes[letter] = -77;
    return dim_of(size).ignores(bits, sizes);
  };
  for (const char* size : {"a*b", "b*a", "3a*b+c", "a*b+2a*c", "(a*b)/128", "a*b//c", "b", "7"}) {
    EXPECT_TRUE(ignores(size, {0}, 0)) << size;
    EXPECT_EQ(ignores(size, {0}, 1), size == std::string("b") || size == std::string("7")) << size;
  }
  EXPECT_TRUE(ignores("a*b+c*b", {0, 2}, 0));
  for (const char* size : {"a", "2a+b", "a*a", "b//a", "a*b+a", "a+1"})
    EXPECT_FALSE(ignores(size, {0}, 0)) << size;
  EXPECT_FALSE(ignores("a*b", {0, 1}, 0));
}

// ---- the rest of the grammar ---------------------------------------

TEST(Grammar, SizeArgumentsBindLetters) {
  const Schema s = parse_schema(
      "op(x: f[T, E], topk: dim, cap: dim = 4) -> i: i32[T, topk] where cap: bucket(tokens)");
  EXPECT_EQ(s.scalars[0].letter, s.find_letter("topk"));
  EXPECT_EQ(s.letters[s.find_letter("cap")].scalar, 1);
  EXPECT_TRUE(s.letters[s.find_letter("cap")].bucketed);
  EXPECT_FALSE(s.scalars[0].key);  // in the key as its letter
  EXPECT_EQ(s.scalars[1].default_value.i, 4);
}

TEST(Grammar, PoolsStayOutOfTheKey) {
  const Schema s = parse_schema(
      "op(x: f[B, C], k: f[P, page, C], t: i32[B, W] ~ index<P) -> y: f[B, C] "
      "where B: bucket(tokens), P: free(B*W)");
  const Letter& pool = s.letters[s.find_letter("P")];
  EXPECT_TRUE(pool.pool);
  EXPECT_EQ(pool.pool_size.print(s.letters), "B*W");
  Problem p;
  p.dims[s.find_letter("B")] = 4;
  p.dims[s.find_letter("W")] = 3;
  EXPECT_EQ(s.sizes_of(p)[s.find_letter("P")], 12);
}

TEST(Grammar, KeysOfPresence) {
  const Schema s = parse_schema(
      "op(x: f[T], softcap: float = 0 key(set), window: int = -1 key(set=128)) -> y: f[T]");
  EXPECT_TRUE(s.scalars[0].key && s.scalars[0].key_set);
  EXPECT_TRUE(s.scalars[0].is_set({0, 30.0}));
  EXPECT_FALSE(s.scalars[0].is_set({0, 0.0}));
  EXPECT_EQ(s.scalars[0].set_value.f, 1.0);
  EXPECT_EQ(s.scalars[1].set_value.i, 128);
}

TEST(Grammar, AFallbackOfLike) {
  const Schema s = parse_schema("op(x: f[C], w: like(x)|f32[C]?) -> dw: like(w|f32)[C]");
  EXPECT_EQ(s.tensors[2].like, 1);
  EXPECT_EQ(s.tensors[2].like_absent, set_of(DType::kF32));
}

TEST(Grammar, NoResults) {
  const Schema s = parse_schema("op(k: f[T, C], cache: like(k)[S, C]!) -> ()");
  EXPECT_EQ(s.num_results, 0);
}

TEST(Grammar, ScalarTypesAreToldFromTensors) {
  const Schema s =
      parse_schema("op(x: bool[T], b: bool, c: bool = true, m: bool|u8[T]) -> y: f[T]");
  EXPECT_EQ(s.tensors.size(), 3u);
  EXPECT_EQ(s.scalars.size(), 2u);
}

// The message names the rule, and the nearest schema that would work.
TEST(Grammar, AuthorsAreToldTheRule) {
  const struct {
    const char *schema, *complaint;
  } cases[] = {
      {"op(x: f[T, E], k: int) -> o: f[T, k]",
       "expected an argument that gives k of o [T, k] (write k: dim), got the end"},
      {"op(x: f[T]) -> o: f[T, k]",
       "expected an argument that gives k of o [T, k] (a tensor with it, or k: dim), got the end"},
      {"op(x: f[H*D]) -> o: f[H]",
       "expected an argument that gives H of x [H*D] (a tensor with it, or H: dim), got the end"},
      {"op(x: f[K], s: f[K/128, N/128]) -> o: f[K]",
       "expected an argument that gives N of s [K/128, N/128] (a tensor with it, or N: dim), got "
       "the end"},
      {"op(x: f[Dn+Dr/2]) -> o: f[1]",
       "expected parentheses around a sum that is divided: (Dn+Dr)/..., got /2]) -> o: f"},
      {"op(x: f[(A+B)]) -> o: f[1]",
       "expected / or // after a sum in parentheses, got ]) -> o: f[1"},
      {"op(x: f[A+B+C+D]) -> o: f[1]", "expected at most 3 terms in a size, got D]) -> o: f["},
      {"op(x: f[A*B*C]) -> o: f[1]",
       "expected a product of two letters at the most, got *C]) -> o: f"},
      {"op(x: f[H*2]) -> o: f[1]",
       "expected a letter after * (a number stands first: 2H), got 2]) -> o: f["},
      {"op(x: f[A-B]) -> o: f[1]",
       "expected a number after - (only numbers are subtracted), got B]) -> o: f["},
      {"op(x: f[A/2+B]) -> o: f[1]",
       "expected a number after a division (letters stand before it, in parentheses), got B]) -> "
       "o: "
       "f["},
      {"op(x: f[1|4]) -> o: f[1]", "expected a size with letters after 1|, got ]) -> o: f[1"},
      {"op(x: f[T]) -> o: f[1|T]",
       "expected a size that is known for the result o, without |, got the end"},
      {"op(x: f[T]) -> o: f[T|2T]",
       "expected a size that is known for the result o, without |, got the end"},
      {"op(x: f[2T], y: f[T|3T]) -> o: f[T]",
       "expected twice the size before |, as in D|2D, got ]) -> o: f[T"},
      {"op(x: f[2T], y: f[T+1|2T]) -> o: f[T]",
       "expected twice the size before |, as in D|2D, got ]) -> o: f[T"},
      {"op(x: f[T], k: int[]) -> o: f[T]",
       "expected one number (a list is several arguments, or an index tensor), got []) -> o: f["},
      {"op(x: f[T], k: float?) -> o: f[T]",
       "expected a default (= ...) instead of ?: a scalar may be left out when it has one, got ?) "
       "-> o: f[T"},
      {"op(x: f[T], k: dim key) -> o: f[T]",
       "expected no mark: a dim is in the key as its letter (see where), got ) -> o: f[T]"},
      {"op(x: f[T], k: dim = -1) -> o: f[T]",
       "expected an integer from 0 to 2147483647, got -1) -> o: f["},
      {"op(x: f[T], k: float key(set)) -> o: f[T]",
       "expected an int or float with a default before key(set), got )) -> o: f[T"},
      {"op(x: f[T], k: float = 2 key(set=2)) -> o: f[T]",
       "expected a value that is not the default in key(set=...), got )) -> o: f[T"},
      {"op(x: f[T]) -> ()",
       "expected a result, or an input marked `!`: it would do nothing, got the end"},
      {"op(x: f[T], w: like(x|f32)[T]) -> o: f[T]",
       "expected ), for x is always given, got f32)[T]) -> "},
      {"op(x: f[T, D//2], c: f[D]) -> o: f[T] where D: bucket(tokens)",
       "expected / instead of // in D//2, for D stands for all sizes of a bucket, got the end"},
      {"op(x: f[P, B]) -> o: f[B] where P: free(Q)",
       "expected letters of this schema in free(), got )"},
      {"op(x: f[P, Q]) -> o: f[1] where P: free(Q), Q: free(P)",
       "expected letters in the key in free() of P, not Q, got the end"},
  };
  for (const auto& c : cases) EXPECT_EQ(complaint(c.schema), c.complaint) << c.schema;
}

}  // namespace
}  // namespace dlblas::test
