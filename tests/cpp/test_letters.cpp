// Calls whose sizes are products, sums, quotients and arguments: which letters they bind, what is
// refused with which message, and what of it is in the key. Calls end at `validate`.
#include <limits>

#include "tests/cpp/schema_dummy.hpp"

namespace dlblas::test {
namespace {

alignas(64) float g_memory[1 << 16];

Array at(std::int64_t offset, std::vector<std::int64_t> shape) {
  return {std::move(shape), {}, DType::kF32, g_memory + offset};
}
std::int64_t letter(const Call& call, const char* name) {
  return call.args.letters[call.args.schema->find_letter(name)];
}

TEST(Letters, ASizeArgumentGivesTheShapeOfAResult) {
  static const Operator& op = register_schema(
      "l_topk(x: f[T, E], topk: dim, block: dim = 4) -> (w: f32[T, topk], i: "
      "i32[(T*topk+E*block)/block]) "
      "where topk: bucket(tokens)");
  const auto call = [](std::int64_t topk) {
    return Call(op.forms[0]).tensor(at(0, {5, 8})).integer(topk);
  };
  Call good = call(3);
  const Problem p = good.problem();
  EXPECT_EQ(good.args.result(0).shape[1], 3);
  EXPECT_EQ(good.args.result(1).shape[0], 12);          // (15 + 32) / 4, rounded up
  EXPECT_EQ(p.dims[op.schema.find_letter("topk")], 4);  // its bucket
  EXPECT_FALSE(call(2).problem() == p);
  EXPECT_TRUE(call(5).problem() == call(7).problem());
  EXPECT_EQ(call(-1).error(),
            "l_topk: topk has a wrong value; expected a size from 0 to 2^56, got the integer -1");
  EXPECT_EQ(call(std::numeric_limits<std::int64_t>::max()).error(),
            "l_topk: topk has a wrong value; expected a size from 0 to 2^56, got the integer "
            "9223372036854775807");
  EXPECT_EQ(call(std::int64_t{1} << 56).error(),
            "l_topk: w would have too many elements; expected at most 2^56, got more, "
            "topk=72057594037927936");
  EXPECT_EQ(call(3).integer(0).error(),
            "l_topk: i has no size in dimension 0; expected (T*topk+E*block)/block with a block of "
            "at least 1, from the argument topk=3 and the argument block=0 and x [T=5, E=8], got "
            "T=5, E=8, topk=3, block=0");
  EXPECT_EQ(call(3).out(at(100, {5, 4})).out({{12}, {}, DType::kI32, g_memory + 200}).error(),
            "l_topk: w has size 4 in dimension 1; expected topk = 3 from the argument topk, got 4");
}

// D is known once H is, whatever the order of the arguments.
TEST(Letters, ProductsAndSumsAreSolvedOnceOneLetterIsOpen) {
  static const Operator& op = register_schema(
      "l_qkv(qkv: f[T, H*D+2Hkv*D], w: f[H*D, D], d: f[D]?, heads: f[H]?, kv: f[Hkv]?) -> "
      "(q: f[T, H, D], k: f[T, Hkv, D])");
  const auto call = [](std::int64_t width, std::int64_t rows, std::int64_t d) {
    return Call(op.forms[0]).tensor(at(0, {5, width})).tensor(at(0, {rows, d}));
  };
  Call good = call(8 * 4 + 2 * 2 * 4, 8 * 4, 4);
  EXPECT_EQ(good.error(), "");
  EXPECT_EQ(letter(good, "H"), 8);
  EXPECT_EQ(letter(good, "Hkv"), 2);
  EXPECT_EQ(good.args.result(0).shape[2], 4);
  EXPECT_EQ(good.args.result(1).shape[1], 2);
  EXPECT_EQ(call(52, 32, 4).error(),
            "l_qkv: qkv has size 52 in dimension 1; expected H*D+2Hkv*D with a whole Hkv, H=8, D=4 "
            "from w [H*D=32, D=4], got 52");
  EXPECT_EQ(call(16, 32, 4).error(),
            "l_qkv: qkv has size 16 in dimension 1; expected at least 32 (H*D+2Hkv*D, H=8, D=4 "
            "from w [H*D=32, D=4]), got 16");
  EXPECT_EQ(call(48, 30, 4).error(),
            "l_qkv: w has size 30 in dimension 0; expected a multiple of 4 (H*D, D=4 from w "
            "[H*D, D=4]), got 30");
  EXPECT_EQ(call(48, 0, 0).error(),
            "l_qkv: qkv has size 48 in dimension 1; expected 0 (H*D+2Hkv*D, D=0 from w [H*D, "
            "D=0]), got 48");
  EXPECT_EQ(call(0, 0, 0).error(),
            "l_qkv: q has an unknown size; expected an argument that gives H, got none; give out, "
            "or the optional argument");
  EXPECT_EQ(call(48, 32, 4).none().tensor(at(0, {9})).error(),
            "l_qkv: heads has length 9; expected H = 8 from qkv [T=5, H*D+2Hkv*D=48], got 9");
  EXPECT_EQ(call(52, 32, 4).none().tensor(at(0, {9})).error(),
            "l_qkv: qkv has size 52 in dimension 1; expected H*D+2Hkv*D with a whole Hkv, H=8, D=4 "
            "from w [H*D=32, D=4] and heads [H=8], got 52");
}

// A tensor whose dimension waits for a letter is bound as soon as that letter is known: the first
// tensors give the letters, and a later one that does not fit is the one that is refused.
TEST(Letters, EarlierTensorsGiveTheLetters) {
  static const Operator& op = register_schema(
      "l_groups(x: f[T, G*R], b: f[G, N], d: f[G*R]?, groups: f[G]?) -> y: like(x)[T, G*R]");
  const auto call = [](std::int64_t heads, std::int64_t groups) {
    return Call(op.forms[0]).tensor(at(0, {5, heads})).tensor(at(0, {groups, 3}));
  };
  Call good = call(8, 2).tensor(at(0, {8})).tensor(at(0, {2}));
  EXPECT_EQ(good.error(), "");
  EXPECT_EQ(letter(good, "R"), 4);
  EXPECT_EQ(call(8, 2).tensor(at(0, {6})).error(),
            "l_groups: d has length 6; expected G*R = 8 from b [G=2, N=3] and x [T=5, G*R=8], got "
            "6");
  EXPECT_EQ(call(8, 2).tensor(at(0, {7})).error(),
            "l_groups: d has length 7; expected G*R = 8 from b [G=2, N=3] and x [T=5, G*R=8], got "
            "7");
  EXPECT_EQ(call(8, 2).none().tensor(at(0, {4})).error(),
            "l_groups: groups has length 4; expected G = 2 from b [G=2, N=3], got 4");
  EXPECT_EQ(call(8, 3).tensor(at(0, {6})).error(),
            "l_groups: x has size 8 in dimension 1; expected a multiple of 3 (G*R, G=3 from b "
            "[G=3, N=3]), got 8");
  static const Operator& last =
      register_schema("l_last(x: f[T, G*R], d: f[G*R], b: f[G, N]) -> y: like(x)[T, G*R]");
  EXPECT_EQ(
      Call(last.forms[0]).tensor(at(0, {5, 8})).tensor(at(0, {6})).tensor(at(0, {2, 3})).error(),
      "l_last: d has length 6; expected G*R = 8 from b [G=2, N=3] and x [T=5, G*R=8], got 6");
}

// Where Hkv is 0, any G fits Hkv*G: whatever needs no G is served, and 0 is the only size.
TEST(Letters, AQuotientOfZeroIsLeftOpen) {
  static const Operator& op = register_schema(
      "l_heads(q: f[S, Hkv*G], k: f[Hkv], bias: f[1|Hkv*G]?, each: f[G]?) -> (y: f[Hkv*G, S], "
      "of: f[(Hkv*G)/128])");
  const auto call = [](std::int64_t heads, std::int64_t kv) {
    return Call(op.forms[0]).tensor(at(0, {3, heads})).tensor(at(0, {kv}));
  };
  Call zero = call(0, 0);
  EXPECT_EQ(zero.error(), "");
  EXPECT_EQ(zero.args.result(0).shape[0], 0);
  EXPECT_EQ(zero.args.result(0).shape[1], 3);
  EXPECT_EQ(zero.args.result(1).shape[0], 0);
  EXPECT_EQ(letter(zero, "G"), 0);
  EXPECT_EQ(call(0, 0).tensor(at(0, {0})).error(), "");
  EXPECT_EQ(call(0, 0).tensor(at(0, {1})).error(), "");
  Call given = call(0, 0);
  EXPECT_EQ(given.none().tensor(at(0, {7})).error(), "");
  EXPECT_EQ(letter(given, "G"), 7);
  EXPECT_EQ(call(4, 0).error(),
            "l_heads: q has size 4 in dimension 1; expected 0 (Hkv*G, Hkv=0 from k [Hkv=0]), "
            "got 4");
  EXPECT_EQ(call(4, 0).none().tensor(at(0, {2})).error(),
            "l_heads: q has size 4 in dimension 1; expected 0 (Hkv*G, Hkv=0 from k [Hkv=0]), "
            "got 4");
  EXPECT_EQ(call(0, 0).tensor(at(0, {2})).error(),
            "l_heads: bias has length 2; expected 0 (1|Hkv*G, Hkv=0 from k [Hkv=0]), got 2");
  static const Operator& lone = register_schema("l_lone(q: f[Hkv*G], k: f[Hkv]) -> y: f[G]");
  EXPECT_EQ(Call(lone.forms[0]).tensor(at(0, {0})).tensor(at(0, {0})).error(),
            "l_lone: y has an unknown size; expected an argument that gives G, got none; give out, "
            "or the optional argument");
  EXPECT_EQ(Call(lone.forms[0]).tensor(at(0, {0})).tensor(at(0, {0})).out(at(100, {5})).error(),
            "");
}

TEST(Letters, QuotientsRefuseWhatTheyCannotDivide) {
  static const Operator& op = register_schema(
      "l_halves(x: f[T, D], c: f[T, D//2], s: f32[T, D/group], g: f[G//3, N-1]?, n: f[N]?, "
      "group: dim = 128) -> y: f[T, D//2]");
  const auto call = [](std::int64_t d, std::int64_t half, std::int64_t groups) {
    return Call(op.forms[0])
        .tensor(at(0, {5, d}))
        .tensor(at(0, {5, half}))
        .tensor(at(0, {5, groups}));
  };
  EXPECT_EQ(call(130, 65, 2).error(), "");
  EXPECT_EQ(call(5, 2, 1).error(),
            "l_halves: c has size 2 in dimension 1; expected D//2 with a multiple of 2 before //, "
            "from x [T=5, D=5], got 2");
  EXPECT_EQ(call(130, 65, 3).error(),
            "l_halves: s has size 3 in dimension 1; expected D/group = 2 from the argument "
            "group=128 and x [T=5, D=130], got 3");
  EXPECT_EQ(call(130, 65, 3).none().none().integer(0).error(),
            "l_halves: s has size 3 in dimension 1; expected D/group with a group of at least 1, "
            "from the argument group=0 and x [T=5, D=130], got 3");
  Call given = call(130, 65, 2);
  EXPECT_EQ(given.tensor(at(0, {2, 4})).error(), "");
  EXPECT_EQ(letter(given, "G"), 6);
  EXPECT_EQ(letter(given, "N"), 5);
  Call none = call(130, 65, 2);
  EXPECT_EQ(none.tensor(at(0, {2, 4})).tensor(at(0, {0})).error(),
            "l_halves: n has length 0; expected N = 5 from g [G//3=2, N-1=4], got 0");
  static const Operator& odd = register_schema("l_odd(x: f[T, D]) -> y: f[T, D//2]");
  EXPECT_EQ(Call(odd.forms[0]).tensor(at(0, {5, 7})).error(),
            "l_odd: y has no size in dimension 1; expected D//2 with a multiple of 2 before //, "
            "from x [T=5, D=7], got D=7");
  static const Operator& less = register_schema("l_less(x: f[K]) -> y: f[K-2]");
  EXPECT_EQ(Call(less.forms[0]).tensor(at(0, {1})).error(),
            "l_less: y has no size in dimension 0; expected K-2 of at least 0, from x [K=1], got "
            "K=1");
}

// Takes as many rounds as there are letters that depend on one another.
TEST(Letters, ChainsOfLettersAreSolvedInAnyOrder) {
  static const Operator& op =
      register_schema("l_chain(a: f[A+B], b: f[B+C], c: f[C+D], d: f[D]) -> y: f[A]");
  Call call = Call(op.forms[0]).tensor(at(0, {10})).tensor(at(0, {9})).tensor(at(0, {7}));
  EXPECT_EQ(call.tensor(at(0, {3})).error(), "");
  EXPECT_EQ(letter(call, "A"), 5);
  Call wrong = Call(op.forms[0]).tensor(at(0, {4})).tensor(at(0, {9})).tensor(at(0, {7}));
  EXPECT_EQ(wrong.tensor(at(0, {3})).error(),
            "l_chain: a has length 4; expected at least 5 (A+B, B=5 from b [B+C=9]), got 4");
}

TEST(Letters, DimensionsThatMayBeOneAreInTheKey) {
  static const Operator& op = register_schema(
      "l_scaled(x: f[M, K], s: f32[1|M, 1|K/128]) -> y: f[M, K]", {"l_scaled_(x!y, s)"});
  const auto call = [](std::int64_t rows, std::int64_t groups) {
    return Call(op.forms[0]).tensor(at(0, {5, 300})).tensor(at(0, {rows, groups}));
  };
  EXPECT_EQ(call(5, 3).problem().ones[1], 0);
  EXPECT_EQ(call(1, 3).problem().ones[1], 1);
  EXPECT_EQ(call(5, 1).problem().ones[1], 2);
  EXPECT_EQ(call(1, 1).problem().ones[1], 3);
  EXPECT_NE(store_key(op, call(1, 3).problem()), store_key(op, call(5, 3).problem()));
  EXPECT_NE(print_problem(op, call(1, 1).problem()).find("s f32 1 for M 1 for K/128"),
            std::string::npos);
  EXPECT_EQ(
      call(2, 3).error(),
      "l_scaled: s has size 2 in dimension 0; expected 1 or M = 5 from x [M=5, K=300], got 2");
  // If M is 1 there is only one key.
  Call one = Call(op.forms[0]).tensor(at(0, {1, 300})).tensor(at(0, {1, 3}));
  EXPECT_EQ(one.problem().ones[1], 0);
}

// Either width fits D, which another tensor gives, before it or after it.
TEST(Letters, DimensionsThatMayBeHalfAreInTheKey) {
  static const Operator& op = register_schema(
      "l_half(t: f[T, D|2D], x: f[T, 2D], u: f[D|2D]) -> y: f[T, D]", {"l_half_(x!y, t, u)"});
  const auto call = [](std::int64_t table, std::int64_t vector) {
    return Call(op.forms[0])
        .tensor(at(0, {5, table}))
        .tensor(at(0, {5, 8}))
        .tensor(at(0, {vector}));
  };
  EXPECT_EQ(call(8, 8).problem().ones[0], 0);
  EXPECT_EQ(call(4, 8).problem().ones[0], 2);
  EXPECT_EQ(call(8, 4).problem().ones[2], 1);
  EXPECT_EQ(call(4, 8).problem().dims[1], 4);
  EXPECT_NE(store_key(op, call(4, 8).problem()), store_key(op, call(8, 8).problem()));
  EXPECT_NE(print_problem(op, call(4, 8).problem()).find("t f32 D for 2D"), std::string::npos);
  EXPECT_EQ(call(6, 8).error(),
            "l_half: t has size 6 in dimension 1; expected 4 or 2D = 8 from x [T=5, 2D=8], got 6");
  EXPECT_EQ(op.schema.tensors[0].type_text, "f[T, D|2D]");
  EXPECT_EQ(op.schema.print_dims(op.schema.tensors[0]), "[T, D|2D]");
  // Of no columns there is only one key.
  Call none = Call(op.forms[0]).tensor(at(0, {5, 0})).tensor(at(0, {5, 0})).tensor(at(0, {0}));
  EXPECT_EQ(none.problem().ones[0], 0);
}

TEST(Letters, AScalarTensorMayHaveOneElement) {
  static const Operator& op = register_schema("l_scalar(x: f[T], s: f32[]) -> (y: f[T], m: f32[])");
  Call a = Call(op.forms[0]).tensor(at(0, {5})).tensor(at(0, {}));
  Call b = Call(op.forms[0]).tensor(at(0, {5})).tensor(at(0, {1}));
  EXPECT_TRUE(a.problem() == b.problem());
  EXPECT_EQ(b.args.tensors[1].rank, 0);
  EXPECT_EQ(Call(op.forms[0]).tensor(at(0, {5})).tensor(at(0, {2})).error(),
            "l_scalar: s has 1 dimension; expected 0 [], got (2,)");
}

TEST(Letters, PoolsAndPresenceInTheKey) {
  static const Operator& op = register_schema(
      "l_pool(x: f[B, C], k: f[P, C], t: i32[B, W] ~ index<P, cap: float = 0 key(set), "
      "n: int = -1 key(set=64)) -> y: f[B, C] where B: bucket(tokens), P: free(B*W)");
  const auto call = [](std::int64_t pool, double cap) {
    return Call(op.forms[0])
        .tensor(at(0, {5, 8}))
        .tensor(at(0, {pool, 8}))
        .tensor({{5, 3}, {}, DType::kI32, g_memory})
        .number(cap);
  };
  Call first = call(100, 0);
  const Problem p = first.problem();
  EXPECT_EQ(letter(first, "P"), 100);
  EXPECT_EQ(p.dims[op.schema.find_letter("P")], 0);
  EXPECT_TRUE(call(7, 0).problem() == p);
  EXPECT_FALSE(call(7, 30).problem() == p);
  EXPECT_TRUE(call(7, 30).problem() == call(7, 50).problem());
  EXPECT_FALSE(call(7, 30).integer(9).problem() == call(7, 30).problem());
  EXPECT_TRUE(call(7, 30).integer(9).problem() == call(7, 30).integer(8).problem());
  std::string key;
  for (const auto& [name, value] : store_key(op, call(7, 30).problem()))
    key += name + "=" + value + "\n";
  EXPECT_NE(key.find("dims=B=8 C=8 W=3\n"), std::string::npos) << key;
  EXPECT_NE(key.find("scalars=cap=set n=default\n"), std::string::npos) << key;
}

TEST(Letters, LikeAnAbsentTensor) {
  static const Operator& op =
      register_schema("l_like(x: f[C], w: f16|bf16[C]?) -> dw: like(w|f32)[C]");
  Call with = Call(op.forms[0]).tensor(at(0, {5})).tensor({{5}, {}, DType::kBF16, g_memory});
  Call without = Call(op.forms[0]).tensor(at(0, {5}));
  EXPECT_EQ(with.problem().tensors[2].dtype, DType::kBF16);
  EXPECT_EQ(without.problem().tensors[2].dtype, DType::kF32);
  EXPECT_EQ(Call(op.forms[0]).tensor(at(0, {5})).out({{5}, {}, DType::kF16, g_memory + 99}).error(),
            "l_like: dw has dtype f16; expected f32 (like w, absent), got f16");
}

// ---- forms that receive some of the results, and operators without results -----------------

TEST(Forms, PartOfTheResultsIsReceived) {
  static const Operator& op = register_schema(
      "l_quant(x: f[T, C], residual: like(x)[T, C]) -> (q: i8[T, C], h: like(x)[T, C], s: f32[T])",
      {"l_quant_(x, residual!h)"});
  const Form& form = op.forms[1];
  ASSERT_EQ(form.num_outputs, 2);
  EXPECT_EQ(form.result_of(1), 2);
  const auto call = [&] { return Call(form).tensor(at(0, {5, 8})).tensor(at(400, {5, 8})); };
  Call fresh = call();
  const Problem p = fresh.problem();
  EXPECT_EQ(p.tensors[3].alias, 2);  // h is residual
  EXPECT_EQ(p.tensors[2].alias, 0);
  EXPECT_EQ(fresh.args.result(0).data, nullptr);
  EXPECT_EQ(fresh.args.result(1).data, g_memory + 400);
  EXPECT_EQ(fresh.args.result(2).shape[0], 5);
  Call into = call();
  into.out({{5, 8}, {}, DType::kI8, g_memory + 800}).out(at(900, {5}));
  EXPECT_TRUE(into.problem() == p);
  EXPECT_EQ(into.args.result(2).data, g_memory + 900);
  EXPECT_EQ(call().out({{5, 8}, {}, DType::kI8, g_memory + 800}).error(),
            "l_quant_: outputs has a wrong number of tensors; expected at least 2, got 1");
  EXPECT_EQ(call().out({{5, 8}, {}, DType::kI8, g_memory + 800}).out(at(400, {5})).error(),
            "l_quant_: s overlaps residual; expected memory of its own, got memory shared with "
            "residual; give another out, or call an in-place form");
}

TEST(Forms, AnOperatorMayHaveNoResults) {
  static const Operator& op = register_schema(
      "l_store(k: f[T, C], cache: like(k)[S, C]!, slots: index[T] ~ index<S) -> ()");
  EXPECT_EQ(op.forms[0].num_outputs, 0);
  const auto call = [](Array cache) {
    return Call(op.forms[0])
        .tensor(at(0, {2, 8}))
        .tensor(std::move(cache))
        .tensor({{2}, {}, DType::kI32, g_memory});
  };
  EXPECT_EQ(call(at(64, {4, 8})).error(), "");
  EXPECT_EQ(call(at(64, {4, 9})).error(),
            "l_store: cache has size 9 in dimension 1; expected C = 8 from k [T=2, C=8], got 9");
}

}  // namespace
}  // namespace dlblas::test
