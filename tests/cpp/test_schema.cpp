// The schema language: every feature of the grammar read back, the exact text of its errors, and
// what enters a key: buckets of token counts, and each field of a Problem.
#include <cstring>
#include <set>

#include "core/schema.hpp"
#include "tests/cpp/schema_dummy.hpp"

namespace dlblas::test {
namespace {

std::string schema_error(const std::string& text) {
  return error_of([&] { parse_schema(text); });
}
// The message without the schema's own text, which every message repeats at its end.
std::string complaint(const std::string& text) {
  const std::string whole = schema_error(text);
  const std::string tail = "; in " + text;
  EXPECT_TRUE(whole.size() > tail.size() && whole.ends_with(tail)) << whole;
  return whole.substr(0, whole.size() - std::min(whole.size(), tail.size()));
}

// ---- what a schema may say -----------------------------------------

TEST(Schema, TensorsKeepTheirOrderTypesAndDimensions) {
  const Schema s = parse_schema(
      "op(x: f[*T, 2F], w: like(x)|f32[F, K/128], b: i8|u8[B+1, 3]?, c: f64[]!, k: f[K]) -> "
      "(y: like(x)[*T, F], z: bool[B])");
  EXPECT_EQ(s.name, "op");
  EXPECT_EQ(s.num_inputs, 5);
  EXPECT_EQ(s.num_results, 2);
  ASSERT_EQ(s.tensors.size(), 7u);
  std::string letters;
  for (const Letter& letter : s.letters) letters += letter.name + " ";
  EXPECT_EQ(letters, "T F K B ");

  const TensorSpec &x = s.tensors[0], &w = s.tensors[1], &b = s.tensors[2], &c = s.tensors[3];
  EXPECT_EQ(x.dtypes, kFloats);
  EXPECT_TRUE(x.has_leading());
  EXPECT_EQ(x.dims[1].terms[0].coefficient, 2);
  EXPECT_EQ(w.like, 0);
  EXPECT_EQ(w.dtypes, set_of(DType::kF32));
  EXPECT_EQ(w.type_text, "like(x)|f32[F, K/128]");
  EXPECT_EQ(w.dims[1].divisor, 128);
  EXPECT_EQ(b.dtypes, set_of(DType::kI8) | set_of(DType::kU8));
  EXPECT_TRUE(b.optional);
  EXPECT_EQ(b.dims[0].addend, 1);
  EXPECT_TRUE(b.dims[1].is_constant());
  EXPECT_EQ(b.dims[1].addend, 3);
  EXPECT_TRUE(c.dims.empty() && c.written && !c.optional);
  EXPECT_EQ(s.tensors[6].dtypes, set_of(DType::kBool));
}

TEST(Schema, ClassesOfDtypes) {
  const Schema s = parse_schema("op(a: f8[T], b: index[T], c: bf16|f16[T]) -> y: f64[T]");
  EXPECT_EQ(s.tensors[0].dtypes, set_of(DType::kF8E4M3) | set_of(DType::kF8E5M2));
  EXPECT_EQ(s.tensors[1].dtypes, set_of(DType::kI32) | set_of(DType::kI64));
  EXPECT_EQ(s.tensors[2].dtypes, set_of(DType::kBF16) | set_of(DType::kF16));
}

TEST(Schema, ScalarsWithDefaultsAndKeys) {
  const Schema s = parse_schema(
      "op(x: f[T], n: int, k: int = -3 runtime, *, eps: float = 1e-6, s: float = 2 key, "
      "on: bool = true, act: \"\"|\"relu\" = \"relu\", to: dtype(f|f8) = none) -> y: "
      "to|like(x)[T]");
  ASSERT_EQ(s.scalars.size(), 7u);
  EXPECT_FALSE(s.scalars[0].has_default);
  EXPECT_TRUE(s.scalars[0].key);  // all but floats, unless said otherwise
  EXPECT_EQ(s.scalars[1].default_value.i, -3);
  EXPECT_FALSE(s.scalars[1].key);
  EXPECT_DOUBLE_EQ(s.scalars[2].default_value.f, 1e-6);
  EXPECT_FALSE(s.scalars[2].key);
  EXPECT_TRUE(s.scalars[3].key);
  EXPECT_EQ(s.scalars[4].default_value.i, 1);
  EXPECT_EQ(s.scalars[5].labels, (std::vector<std::string>{"", "relu"}));
  EXPECT_EQ(s.scalars[5].default_value.i, 1);
  EXPECT_EQ(s.scalars[6].dtypes, kFloats | set_of(DType::kF8E4M3) | set_of(DType::kF8E5M2));
  EXPECT_EQ(s.scalars[6].default_value.i, -1);
  EXPECT_EQ(s.tensors[1].dtype_scalar, 6);
  std::string slots, keyword_only;
  for (const ScalarSpec& scalar : s.scalars) slots += std::to_string(scalar.key_slot) + " ";
  for (const Param& p : s.params) keyword_only += p.keyword_only ? '*' : '.';
  EXPECT_EQ(slots, "0 -1 -1 1 2 3 4 ");
  EXPECT_EQ(keyword_only, "...*****");
}

TEST(Schema, FillsAndBuckets) {
  const Schema s = parse_schema(
      "op(a: f[T] ~ normal, b: f[T] ~positive, c: index[T]~index<E, d: i32[B+1] ~ offsets, "
      "e: i64[T] ~ permutation, g: f[E] ~ zeros, h: f[E]~negative) -> y: f32[T] "
      "where T: bucket(tokens), B: exact, E: exact");
  const Fill expected[] = {Fill::kNormal,      Fill::kPositive, Fill::kIndex,   Fill::kOffsets,
                           Fill::kPermutation, Fill::kZeros,    Fill::kNegative};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(s.tensors[i].fill.fill, expected[i]) << i;
  EXPECT_EQ(s.tensors[2].fill.size.print(s.letters), "E");
  EXPECT_TRUE(s.letters[s.find_letter("T")].bucketed);
  EXPECT_FALSE(s.letters[s.find_letter("B")].bucketed);
}

TEST(Schema, FillsHaveLimits) {
  const auto fill_of = [](const std::string& fill) {
    const std::string head = "op(x: f[T, E, P], ids: i32[T] ~";
    return parse_schema(head + fill + ") -> y: f[T]").tensors[1].fill;
  };
  const std::int64_t sizes[] = {10, 7, 3};  // T, E, P
  EXPECT_EQ(fill_of("index<E").limit(sizes), 7);
  EXPECT_EQ(fill_of("index < E * P").limit(sizes), 21);
  EXPECT_EQ(fill_of("index<=2E").limit(sizes), 14);
  EXPECT_EQ(fill_of("index<64").limit(sizes), 64);
  EXPECT_TRUE(fill_of("index<=E").inclusive);
  EXPECT_FALSE(fill_of("index<E").inclusive);
  EXPECT_TRUE(fill_of("index<E|-1").minus_one);
  EXPECT_TRUE(fill_of("distinct<P|-1").minus_one);
  EXPECT_EQ(fill_of("distinct_rows<E").fill, Fill::kDistinctRows);
  EXPECT_EQ(fill_of("lengths<=P*E").limit(sizes), 21);
  EXPECT_EQ(fill_of("offsets<=E").limit(sizes), 7);
  EXPECT_FALSE(fill_of("offsets").has_limit);
  const auto refused = [&](const std::string& fill, const std::string& words) {
    const std::string said = error_of([&] { (void)fill_of(fill); });
    EXPECT_NE(said.find(words), std::string::npos) << fill << ": " << said;
  };
  refused("index", "expected < or <= and a limit after index");
  refused("lengths<E", "expected <= and a limit after lengths");
  refused("distinct<=E", "expected < and a limit after distinct");
  refused("offsets<E", "expected <= and a limit after offsets");
  refused("zeros<E", "expected no limit after zeros");
  refused("offsets<=E|-1", "expected no `|-1` after offsets");
  refused("index<E|-2", "expected -1");
  refused("index<Q", "expected a size of an input in the fill of ids, not Q");
  refused("index<", "expected a number or a dimension letter");
  refused("anything", "expected a fill: normal");
}

TEST(Schema, AFillMayDependOnABoolOfTheKey) {
  const Schema s = parse_schema(
      "op(x: f[T] ~ positive if probs, codes: i32[T] ~ bits, probs: bool = false) -> y: f[T]");
  ScalarValue given[1] = {{1, 0}};
  EXPECT_EQ(s.fill_of(0, given), Fill::kPositive);
  given[0].i = 0;
  EXPECT_EQ(s.fill_of(0, given), Fill::kNormal);
  EXPECT_EQ(s.fill_of(0, nullptr), Fill::kNormal) << "the default";
  EXPECT_EQ(s.fill_of(1, given), Fill::kBits);
  const auto refused = [](const std::string& fill, const std::string& words) {
    const std::string said = error_of([&] {
      (void)parse_schema("op(x: f[T] ~ " + fill +
                         ", probs: bool = false, eps: float = 0, once: bool = false runtime) -> "
                         "y: f[T]");
    });
    EXPECT_NE(said.find(words), std::string::npos) << fill << ": " << said;
  };
  refused("positive if eps", "expected a bool of the key in the fill of x, not eps");
  refused("positive if once", "expected a bool of the key in the fill of x, not once");
  refused("positive if nothing", "expected a bool of the key in the fill of x, not nothing");
  refused("bits if probs", "expected ,");
}

TEST(Schema, WhatIsJudgedAreResultsAndWrittenInputs) {
  const Schema s = parse_schema("op(x: f[T], s: f[T]!, r: f[T]?!) -> (y: f[T], z: f[T])");
  EXPECT_EQ(s.judged, (std::vector<std::int8_t>{3, 4, 1, 2}));
  const Schema none = parse_schema("store(x: f[T], cache: f[P]!) -> ()");
  EXPECT_EQ(none.num_results, 0);
  EXPECT_EQ(none.judged, std::vector<std::int8_t>{1});
  EXPECT_NE(schema_error("op(x: f[T]) -> ()").find("it would do nothing"), std::string::npos);
  EXPECT_NE(schema_error("op(a: f[T]!, b: f[T]!, c: f[T]!, d: f[T]!, e: f[T]!, f: f[T]!, g: f[T]!, "
                         "h: f[T]!, i: f[T]!) -> ()")
                .find("at most 8 results and written inputs"),
            std::string::npos);
}

TEST(Schema, WhiteSpaceDoesNotChangeTheHash) {
  const Schema a = parse_schema("op(x: f[T]) -> y: f32[T]");
  const Schema b = parse_schema("  op(x:\n\tf[T])   -> y: f32[T]\n");
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.hash.size(), 16u);
  EXPECT_NE(a.hash, parse_schema("op(x: f[T]) -> y: f16[T]").hash);
}

TEST(Schema, InplaceFormsNameWhatReceivesAResult) {
  const Schema s =
      parse_schema("op(x: f[T], r: like(x)[T], b: f[T]?, e: float = 1) -> (y: f[T], h: f[T])");
  EXPECT_EQ(parse_inplace("op_(r!y, x, *, e)", s).result_source, (std::vector<std::int8_t>{1, -1}));
  EXPECT_EQ(parse_inplace("op_(r!y, x, *, e)", s).returned, (std::vector<std::int8_t>{1}));
  const InplaceForm form = parse_inplace("op_(r!y, x!h, *, e)", s);
  EXPECT_TRUE(form.returned.empty());
  EXPECT_EQ(form.name, "op_");
  EXPECT_EQ(form.result_source, (std::vector<std::int8_t>{1, 0}));
  ASSERT_EQ(form.params.size(), 3u);
  EXPECT_EQ(s.param_name(form.params[0]), "r");
  EXPECT_TRUE(form.params[2].keyword_only && !form.params[2].is_tensor);
}

// ---- what it may not, and with which message -----------------------

struct Malformed {
  const char *text, *complaint;
};

TEST(Schema, ErrorsNameTheColumnAndWhatWasExpected) {
  constexpr Malformed kCases[] = {
#include "tests/cpp/golden/schema_errors.inc"
  };
  for (const Malformed& c : kCases) EXPECT_EQ(complaint(c.text), c.complaint) << c.text;
}

TEST(Schema, InplaceErrors) {
  const Schema s =
      parse_schema("op(x: f[T], r: like(x)[T], b: f[T]?, n: int, e: float = 1) -> y: f[T]");
  constexpr Malformed kCases[] = {
#include "tests/cpp/golden/inplace_errors.inc"
  };
  for (const Malformed& c : kCases)
    EXPECT_EQ(error_of([&] { parse_inplace(c.text, s); }), std::string(c.complaint) + c.text);
}

TEST(Schema, LimitsAreRefusedInWords) {
  std::string letters = "op(x: f32[A", scalars = "op(x: f32[T]", tensors = "op(x: f32[T]";
  for (int i = 0; i < kMaxLetters; ++i)
    letters += text(i == 6 ? "], w: f32[" : ", ", "L", i);  // a tensor has 8 dimensions
  for (int i = 0; i < kMaxScalars + 1; ++i) scalars += ", s" + std::to_string(i) + ": float";
  for (int i = 0; i < kMaxTensors; ++i) tensors += ", t" + std::to_string(i) + ": f32[T]";
  EXPECT_NE(schema_error(letters + "]) -> y: f32[A]").find("at most 12 letters"),
            std::string::npos);
  EXPECT_NE(schema_error(scalars + ") -> y: f32[T]").find("at most 12 scalars"), std::string::npos);
  EXPECT_NE(schema_error(tensors + ") -> y: f32[T]").find("at most 16 tensors"), std::string::npos);
  EXPECT_NE(schema_error("op(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: "
                         "int) -> y: f32[1]")
                .find("at most 8 key scalars"),
            std::string::npos);
  EXPECT_NE(schema_error("op(x: f[T]) -> (a: f[T], b: f[T], c: f[T], d: f[T], e: f[T], f: f[T], g: "
                         "f[T])")
                .find("at most 6 results"),
            std::string::npos);
}

// A parser must end with a Schema or an Error, whatever it reads.
TEST(Schema, EveryPrefixAndEveryChangedByteEndsInASchemaOrAnError) {
  const std::string good =
      "op(x: f[*T, 2F], w: like(x)|f32[F, K/128+1]? ~ index<E, *, a: \"p\"|\"q\" = \"p\" key, "
      "d: dtype(f) = none, E: dim, K: dim, c: float = 0 key(set=5), s: f32[1|E, (F+E)//K-1]) -> "
      "(y: d|f32[*T, F], z: i8[K*E]) where T: bucket(tokens), F: exact, E: free(2F)";
  ASSERT_EQ(schema_error(good), "");
  int refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    refused += !schema_error(good.substr(0, i)).empty();
    for (char byte : std::string("\1*()09\"/ \x80\xff", 11)) {
      std::string changed = good;
      changed[i] = byte;
      refused += !schema_error(changed).empty();
    }
  }
  EXPECT_GT(refused, 1000);
}

// ---- registration -------------------------------------------------

TEST(Registration, ARefusedOperatorLeavesNothingBehind) {
  const std::size_t before = Registry::process().operators().size();
  EXPECT_EQ(error_of([] { register_schema("reg_bad(x: f[T]) -> y: f[T]", {"reg_bad_(x!z)"}); }),
            "schema: text is malformed at column 13; expected a result of reg_bad, got ); in "
            "reg_bad_(x!z)");
  EXPECT_EQ(Registry::process().operators().size(), before);
  EXPECT_EQ(Registry::process().find("reg_bad"), nullptr);
  register_schema("reg_bad(x: f[T]) -> y: f[T]", {"reg_bad_(x!y)"});
  EXPECT_NE(Registry::process().find("reg_bad_"), nullptr);
}

TEST(Registration, NamesOfAllFormsAreTaken) {
  register_schema("reg_name(x: f[T]) -> y: f[T]", {"reg_name_(x!y)"});
  EXPECT_EQ(error_of([] { register_schema("reg_name_(x: f[T]) -> y: f[T]"); }),
            "reg_name_: name is taken; expected a name apart from reg_name_, reg_name__out and "
            "_reg_name_, got reg_name_; choose another one");
  EXPECT_EQ(error_of([] { register_schema("reg_other(x: f[T]) -> y: f[T]", {"reg_name(x!y)"}); }),
            "reg_other: inplace is taken; expected a name apart from reg_name, reg_name_out and "
            "_reg_name, got reg_name; choose another one");
}

// ---- keys ---------------------------------------------------------

TEST(BucketTokens, TheTable) {
  constexpr std::int64_t kTable[][2] = {
      {0, 0},      {1, 1},       {2, 2},       {3, 4},         {4, 4},         {5, 8},
      {8, 8},      {9, 16},      {16, 16},     {17, 32},       {32, 32},       {33, 64},
      {48, 64},    {64, 64},     {65, 96},     {96, 96},       {97, 128},      {128, 128},
      {129, 192},  {192, 192},   {193, 256},   {257, 384},     {385, 512},     {513, 768},
      {769, 1024}, {1536, 1536}, {1537, 2048}, {16384, 16384}, {16385, 24576}, {24577, 32768}};
  for (const auto& [n, upper] : kTable) EXPECT_EQ(bucket_tokens(n), upper) << n;
}

TEST(BucketTokens, CoversMonotoneAndItsOwnFixedPoint) {
  std::int64_t last = 0;
  for (std::int64_t n = 0; n < 100000; ++n) {
    const std::int64_t b = bucket_tokens(n);
    ASSERT_GE(b, n);
    ASSERT_GE(b, last);
    ASSERT_EQ(bucket_tokens(b), b);
    ASSERT_LE(b, n < 2 ? n : 2 * n - 2 + (n == 2));
    ASSERT_LT(bucket_before(b), n) << "shares the bucket of " << b;
    if (n > 0) {
      ASSERT_LT(bucket_tokens(bucket_before(b)), b);
    }
    last = b;
  }
  EXPECT_EQ(bucket_before(2048), 1536);
  EXPECT_EQ(bucket_before(1536), 1024);
  EXPECT_EQ(bucket_before(64), 32);
  EXPECT_EQ(bucket_before(1000), 999) << "no bucket ends there";
  EXPECT_EQ(bucket_tokens((std::int64_t{1} << 56) - 1), std::int64_t{1} << 56);
}

TEST(ProblemKey, EveryByteMatters) {
  Problem base;
  std::set<std::uint64_t> hashes{base.hash()};
  for (std::size_t i = 0; i < sizeof(Problem); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      Problem changed = base;
      reinterpret_cast<unsigned char*>(&changed)[i] ^= static_cast<unsigned char>(1u << bit);
      EXPECT_FALSE(changed == base) << i;
      EXPECT_TRUE(hashes.insert(changed.hash()).second) << "byte " << i << " bit " << bit;
    }
}

TEST(ProblemKey, EachFieldOfACallMatters) {
  const Operator& op = register_schema(
      "key_op(x: f[*T, C], w: f[C]?, n: int = 1, s: float = 1 key, e: float = 1, "
      "to: dtype(f) = none, *, a: \"p\"|\"q\" = \"p\") -> y: to|like(x)[*T, C] "
      "where T: bucket(tokens)",
      {"key_op_(x!y, w, n, s, e, to, *, a)"});
  const Form &form = op.forms[0], &inplace = op.forms[1];
  alignas(16) static float memory[4096];
  const Array x{{5, 8}, {}, DType::kF32, memory};
  const auto call = [&](const Array& array) { return Call(form).tensor(array); };
  const Problem base = call(x).problem();

  std::vector<Problem> different = {
      call({{9, 8}, {}, DType::kF32, memory}).problem(),       // another bucket of T
      call({{5, 9}, {}, DType::kF32, memory}).problem(),       // C
      call({{5, 8}, {}, DType::kBF16, memory}).problem(),      // dtype
      call({{5, 8}, {10, 1}, DType::kF32, memory}).problem(),  // layout and alignment
      call({{5, 8}, {16, 1}, DType::kF32, memory}).problem(),  // layout
      call({{5, 8}, {1, 5}, DType::kF32, memory}).problem(),   // transposed
      call({{5, 8}, {0, 1}, DType::kF32, memory}).problem(),   // broadcast
      call({{5, 8}, {}, DType::kF32, memory + 1}).problem(),   // alignment
      Call(form).tensor(x).tensor({{8}, {}, DType::kF32, memory}).problem(),  // an optional tensor
      Call(form).tensor(x).none().integer(2).problem(),
      Call(form).tensor(x).number(2).named("s").problem(),
      Call(form).tensor(x).word("bf16").named("to").problem(),
      Call(form).tensor(x).word("q").named("a").problem(),
      call(x).flags(DLBLAS_DETERMINISTIC).problem(),
      call(x).problem(2),                 // threads
      Call(inplace).tensor(x).problem(),  // alias
  };
  for (std::size_t i = 0; i < different.size(); ++i) {
    EXPECT_FALSE(different[i] == base) << i;
    EXPECT_NE(different[i].hash(), base.hash()) << i;
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(different[i] == different[j]) << i << " " << j;
    EXPECT_NE(store_key(op, different[i]), store_key(op, base)) << i;
  }
  const std::vector<Problem> same = {
      call({{6, 8}, {}, DType::kF32, memory + 64}).problem(),   // a neighbour in the bucket
      call({{1, 7, 1, 8}, {}, DType::kF32, memory}).problem(),  // other leading dimensions
      Call(form).tensor(x).number(7).named("e").problem(),      // a run-time scalar
      Call(form).tensor(x).integer(1).named("n").problem(),     // a default, said
      Call(form).tensor(x).out({{5, 8}, {}, DType::kF32, memory + 256}).problem(),
  };
  for (std::size_t i = 0; i < same.size(); ++i) EXPECT_TRUE(same[i] == base) << i;
}

}  // namespace
}  // namespace dlblas::test
