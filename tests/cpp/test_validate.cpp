// Arguments against a schema: the exact text of every refusal, the sizes that letters get, and
// which memory a result may share with what. Calls end at `validate`: nothing is computed.
#include <limits>

#include "tests/cpp/schema_dummy.hpp"

namespace dlblas::test {
namespace {

alignas(64) float g_memory[1 << 16];

Array at(std::int64_t offset, std::vector<std::int64_t> shape,
         std::vector<std::int64_t> strides = {}) {
  return {std::move(shape), std::move(strides), DType::kF32, g_memory + offset};
}
Array of(DType dtype, std::vector<std::int64_t> shape) {
  return {std::move(shape), {}, dtype, g_memory};
}
Array on(dlblas_device device, std::vector<std::int64_t> shape) {
  return {std::move(shape), {}, DType::kF32, g_memory, device};
}

const Operator& norm() {
  static const Operator& op = register_schema(
      "v_norm(x: f[*T, C], weight: like(x)|f32[C], residual: like(x)[*T, C]?, eps: float = 1e-6, "
      "*, mode: \"a\"|\"b\" = \"a\", on: bool = false, n: int = 1, to: dtype(f16|f32) = none) -> "
      "y: to|like(x)[*T, C] where T: bucket(tokens)",
      {"v_norm_(x!y, weight)"});
  return op;
}
Call norm_call(Array x, Array weight) {
  return Call(norm().forms[0]).tensor(std::move(x)).tensor(std::move(weight));
}

// ---- names, numbers, kinds ----------------------------------------

TEST(CallErrors, Arguments) {
  const Form& form = norm().forms[0];
  const auto good = [] { return norm_call(at(0, {7, 8}), at(1000, {8})); };
  EXPECT_EQ(good().error(), "");
  EXPECT_EQ(Call(form).error(), "v_norm: x is missing; expected a tensor f[*T, C], got nothing");
  EXPECT_EQ(Call(form).tensor(at(0, {7, 8})).none().error(),
            "v_norm: weight is missing; expected a tensor like(x)|f32[C], got nothing");
  EXPECT_EQ(Call(form).integer(3).error(),
            "v_norm: x is not a tensor; expected a tensor f[*T, C], got the integer 3");
  EXPECT_EQ(good().tensor(at(0, {8})).named("bias").error(),
            "v_norm: bias is not an argument; expected one of x, weight, residual, eps, mode, on, "
            "n, to, got bias");
  EXPECT_EQ(good().tensor(at(0, {8})).named("wieght").error(),
            "v_norm: wieght is not an argument; expected one of x, weight, residual, eps, mode, "
            "on, n, to, got wieght; did you mean weight?");
  EXPECT_EQ(good().tensor(at(0, {8})).named("weight").error(),
            "v_norm: weight is given twice; expected one value, got two");
  Call many = good();
  for (int i = 0; i < 7; ++i) many.none();
  EXPECT_EQ(many.error(),
            "v_norm: call has a wrong number of arguments; expected at most 8 (x, weight, "
            "residual, eps, mode, on, n, to), got 9");
}

TEST(CallErrors, Scalars) {
  const auto good = [] { return norm_call(at(0, {7, 8}), at(1000, {8})); };
  EXPECT_EQ(good().word("tiny").named("eps").error(),
            "v_norm: eps has a wrong value; expected a number, got \"tiny\"");
  EXPECT_EQ(good().word("c").named("mode").error(),
            "v_norm: mode has a wrong value; expected one of \"a\", \"b\", got \"c\"");
  EXPECT_EQ(good().word(nullptr).named("mode").error(),
            "v_norm: mode has a wrong value; expected one of \"a\", \"b\", got a null string");
  EXPECT_EQ(good().integer(2).named("on").error(),
            "v_norm: on has a wrong value; expected true or false, got the integer 2");
  EXPECT_EQ(good().boolean(true).named("n").error(),
            "v_norm: n has a wrong value; expected an integer, got true");
  EXPECT_EQ(good().number(1.5).named("n").error(),
            "v_norm: n has a wrong value; expected an integer, got the float 1.500000");
  EXPECT_EQ(good().word("bf16").named("to").error(),
            "v_norm: to has a wrong value; expected one of f32, f16, got \"bf16\"");
  EXPECT_EQ(good().integer(3).named("eps").error(), "");  // a whole number is a number
  EXPECT_EQ(good().integer(1).named("on").error(), "");   // C has no bool of its own here
}

TEST(CallErrors, Descriptors) {
  const Form& form = norm().forms[0];
  EXPECT_EQ(Call(form).tensor(at(0, {1, 1, 1, 1, 1, 1, 1, 1, 8})).error(),
            "v_norm: x has 9 dimensions; expected 0 to 8, got 9");
  EXPECT_EQ(Call(form).tensor(at(0, {7, -8})).error(),
            "v_norm: x has a negative size; expected sizes of 0 and more, got -8");
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(Call(form).tensor(at(0, {huge, huge})).error(),
            "v_norm: x has too many elements; expected at most 2^56, got more");
  // Sizes beside a 0 count: T is their product.
  EXPECT_EQ(Call(form).tensor(at(0, {huge, huge, 0})).error(),
            "v_norm: x has too many elements; expected at most 2^56, got more");
  dlblas_tensor complex = at(0, {7, 8}).tensor();
  Array shape = at(0, {7, 8});
  complex = shape.tensor();
  complex.dtype = {5, 64, 1};
  const dlblas_value value{DLBLAS_TENSOR, 0, {.tensor = &complex}};
  const dlblas_args call{sizeof(dlblas_args), &value, 1, 0, nullptr, nullptr, 0, 0};
  Args args;
  EXPECT_EQ(error_of([&] { bind(form, call, args); }),
            "v_norm: x has a dtype the library does not know; expected f32, f16, bf16, f8e4m3, "
            "f8e5m2, i8, i32, i64, u8, bool, f64, f8e8m0, f4x2, got DLPack code 5 with 64 bits");
}

TEST(CallErrors, AnOptionalArgumentThatReceivesAResultMustBeThere) {
  static const Operator& op =
      register_schema("v_receive(x: f[T], b: f32[T]?) -> y: f32[T]", {"v_receive_(x, b!y)"});
  EXPECT_EQ(Call(op.forms[1]).tensor(at(0, {8})).tensor(at(100, {8})).error(), "");
  EXPECT_EQ(Call(op.forms[1]).tensor(at(0, {8})).error(),
            "v_receive_: b is missing; expected a tensor f32[T]?, got nothing");
}

TEST(CallErrors, Outputs) {
  static const Operator& two = register_schema("v_two(x: f[T]) -> (y: f32[T], z: f32[T])");
  EXPECT_EQ(Call(two.forms[0]).tensor(at(0, {8})).out(at(100, {8})).error(),
            "v_two: outputs has a wrong number of tensors; expected at least 2, got 1");
}

// ---- shapes --------------------------------------------------------

TEST(ShapeErrors, NameTheLetterAndWhereItCameFrom) {
  EXPECT_EQ(norm_call(at(0, {7, 8}), at(1000, {9})).error(),
            "v_norm: weight has length 9; expected C = 8 from x [T=7, C=8], got 9");
  EXPECT_EQ(norm_call(at(0, {7, 8}), at(1000, {8, 1})).error(),
            "v_norm: weight has 2 dimensions; expected 1 [C], got (8, 1)");
  EXPECT_EQ(norm_call(at(0, {}), at(1000, {8})).error(),
            "v_norm: x has 0 dimensions; expected at least 1 [*T, C], got ()");
  EXPECT_EQ(norm_call(at(0, {7, 8}), at(1000, {8})).tensor(at(2000, {7, 9})).error(),
            "v_norm: residual has size 9 in dimension 1; expected C = 8 from x [T=7, C=8], got 9");
  EXPECT_EQ(norm_call(at(0, {7, 8}), at(1000, {8})).out(at(2000, {7, 9})).error(),
            "v_norm: y has size 9 in dimension 1; expected C = 8 from x [T=7, C=8], got 9");
}

TEST(ShapeErrors, LeadingDimensionsAreSharedAsTheyStand) {
  const Array x = at(0, {2, 3, 8});
  EXPECT_EQ(norm_call(x, at(1000, {8})).tensor(at(2000, {6, 8})).error(),
            "v_norm: residual has other leading dimensions; expected those of x (2, 3, 8), got "
            "(6, 8)");
  EXPECT_EQ(norm_call(x, at(1000, {8})).tensor(at(2000, {3, 2, 8})).error(),
            "v_norm: residual has other leading dimensions; expected those of x (2, 3, 8), got "
            "(3, 2, 8)");
  EXPECT_EQ(norm_call(x, at(1000, {8})).out(at(2000, {6, 8})).error(),
            "v_norm: y has other leading dimensions; expected those of x (2, 3, 8), got (6, 8)");
  Call call = norm_call(x, at(1000, {8}));
  EXPECT_EQ(call.problem().dims[0], 8);  // the bucket of 6
  EXPECT_EQ(call.args.letters[0], 6);    // its exact size
  const TensorView& y = call.args.result(0);
  ASSERT_EQ(y.rank, 3);
  EXPECT_EQ(y.shape[0], 2);
  EXPECT_EQ(y.strides[0], 24);
  Call row = norm_call(at(0, {8}), at(1000, {8}));
  EXPECT_EQ(row.problem().dims[0], 1);  // no leading dimension is one row
  EXPECT_EQ(row.args.result(0).rank, 1);
}

// A letter may be plain in one tensor and starred in another, in either order.
TEST(ShapeErrors, StarredAndPlainLettersAgree) {
  static const Operator& after =
      register_schema("v_after(x: f[*T, C], ids: index[T]) -> y: like(x)[*T, C]");
  static const Operator& before =
      register_schema("v_before(s: f[C], ids: index[T], x: f[*T, C]) -> y: like(x)[*T, C]");
  static const Operator& spread =
      register_schema("v_spread(s: f[C], x: f[T, C]) -> y: like(x)[*T, 2C]");
  const auto ids = [](std::int64_t n) { return of(DType::kI32, {n}); };
  Call a = Call(after.forms[0]).tensor(at(0, {2, 3, 8})).tensor(ids(6));
  EXPECT_EQ(a.error(), "");
  EXPECT_EQ(Call(after.forms[0]).tensor(at(0, {2, 3, 8})).tensor(ids(7)).error(),
            "v_after: ids has length 7; expected T = 6 from x [T=6, C=8], got 7");
  Call b = Call(before.forms[0]).tensor(at(0, {8})).tensor(ids(6)).tensor(at(0, {2, 3, 8}));
  EXPECT_EQ(b.error(), "");
  ASSERT_EQ(b.args.result(0).rank, 3);
  EXPECT_EQ(b.args.result(0).shape[1], 3);
  EXPECT_EQ(
      Call(before.forms[0]).tensor(at(0, {8})).tensor(ids(7)).tensor(at(0, {2, 3, 8})).error(),
      "v_before: x has 6 rows in its leading dimensions; expected T = 7 from ids [T=7], got "
      "(2, 3, 8)");
  Call c = Call(spread.forms[0]).tensor(at(0, {8})).tensor(at(0, {5, 8}));
  EXPECT_EQ(c.error(), "");
  ASSERT_EQ(c.args.result(0).rank, 2);
  EXPECT_EQ(c.args.result(0).shape[0], 5);
  EXPECT_EQ(c.args.result(0).shape[1], 16);
}

TEST(ShapeErrors, DerivedDimensions) {
  static const Operator& op = register_schema(
      "v_derived(h: f[T, 2F], s: f32[K/128], w: f[K, F], offsets: index[B+1], odd: f32[2E+1], "
      "three: f32[3]) -> y: f32[T, K/128]");
  struct Sizes {
    std::int64_t h = 6, s = 2, k = 129, f = 3, offsets = 5, odd = 7, three = 3;
  };
  const auto call = [&](const Sizes& n) {
    return Call(op.forms[0])
        .tensor(at(0, {4, n.h}))
        .tensor(at(0, {n.s}))
        .tensor(at(0, {n.k, n.f}))
        .tensor(of(DType::kI64, {n.offsets}))
        .tensor(at(0, {n.odd}))
        .tensor(at(0, {n.three}));
  };
  Call good = call({});
  EXPECT_EQ(good.error(), "");
  EXPECT_EQ(good.args.result(0).shape[1], 2);
  EXPECT_EQ(good.args.letters[op.schema.find_letter("B")], 4);
  EXPECT_EQ(good.args.letters[op.schema.find_letter("E")], 3);
  EXPECT_EQ(call({.h = 7}).error(),
            "v_derived: h has size 7 in dimension 1; expected a multiple of 2 (2F), got 7");
  EXPECT_EQ(call({.h = 8}).error(),
            "v_derived: w has size 3 in dimension 1; expected F = 4 from h [T=4, 2F=8], got 3");
  // s comes before the K that it depends on, and is checked when K is known.
  EXPECT_EQ(call({.s = 1}).error(),
            "v_derived: s has length 1; expected K/128 = 2 from w [K=129, F=3], got 1");
  EXPECT_EQ(call({.s = 2, .k = 128}).error(),
            "v_derived: s has length 2; expected K/128 = 1 from w [K=128, F=3], got 2");
  EXPECT_EQ(call({.offsets = 0}).error(),
            "v_derived: offsets has length 0; expected at least 1 (B+1), got 0");
  EXPECT_EQ(call({.odd = 8}).error(),
            "v_derived: odd has length 8; expected 2E+1 with a whole E, got 8");
  EXPECT_EQ(call({.three = 4}).error(), "v_derived: three has length 4; expected 3, got 4");
}

TEST(ShapeErrors, LettersThatNothingGives) {
  static const Operator& op =
      register_schema("v_unbound(x: f[T], e: f[E]?, s: f32[K/2]?, k: f[K]?) -> y: f32[E]");
  const auto call = [] { return Call(op.forms[0]).tensor(at(0, {4})); };
  EXPECT_EQ(call().error(),
            "v_unbound: y has an unknown size; expected an argument that gives E, got none; give "
            "out, or the optional argument");
  EXPECT_EQ(call().none().tensor(at(0, {2})).error(),
            "v_unbound: s has an unknown size; expected an argument that gives K, got none; give "
            "out, or the optional argument");
  Call given = call().out(at(100, {5}));
  EXPECT_EQ(given.problem().dims[1], 5);
  EXPECT_EQ(given.problem().dims[2], 0);  // K: of an absent tensor alone
}

// ---- dtypes and devices --------------------------------------------

TEST(DTypeErrors, NameWhatIsAllowedAndWhy) {
  EXPECT_EQ(norm_call(of(DType::kI32, {7, 8}), at(1000, {8})).error(),
            "v_norm: x has dtype i32; expected f32, f16, bf16, got i32");
  EXPECT_EQ(norm_call(of(DType::kBF16, {7, 8}), of(DType::kF16, {8})).error(),
            "v_norm: weight has dtype f16; expected f32, bf16 (like x), got f16");
  EXPECT_EQ(norm_call(of(DType::kBF16, {7, 8}), at(1000, {8})).error(), "");
  Call half = norm_call(at(0, {7, 8}), at(1000, {8}));
  half.word("f16").named("to");
  EXPECT_EQ(half.error(), "");
  EXPECT_EQ(half.args.result(0).dtype, DType::kF16);
  Array y = of(DType::kF32, {7, 8});
  y.data = g_memory + 4096;
  EXPECT_EQ(norm_call(at(0, {7, 8}), at(1000, {8})).word("f16").named("to").out(y).error(),
            "v_norm: y has dtype f32; expected f16 (to), got f32");
}

TEST(DeviceErrors, AllTensorsShareOneThatThisBuildServes) {
  EXPECT_EQ(norm_call(at(0, {7, 8}), on({2, 1}, {8})).error(),
            "v_norm: weight is on cuda:1; expected cpu (where x is), got cuda:1");
  EXPECT_EQ(norm_call(on({2, 0}, {7, 8}), on({2, 0}, {8})).error(), "");
  EXPECT_EQ(norm_call(on({10, 0}, {7, 8}), on({10, 0}, {8})).error(),
            "v_norm: x is on DLPack device type 10:0; expected cpu or cuda, got DLPack device type "
            "10:0; move the tensor to one of these");
  EXPECT_EQ(norm_call(at(0, {7, 8}), at(1000, {8})).out(on({2, 0}, {7, 8})).error(),
            "v_norm: y is on cuda:0; expected cpu (where x is), got cuda:0");
  EXPECT_EQ(norm_call(on({10, 3}, {7, 8}), at(1000, {8})).error(),
            "v_norm: weight is on cpu; expected DLPack device type 10:3 (where x is), got cpu");
}

// ---- memory --------------------------------------------------------

const char* const kOverlapsX =
    "v_norm: y overlaps x; expected memory of its own, got memory shared with x; give another out, "
    "or call an in-place form";
const char* const kOverlapsItself =
    "v_norm: y overlaps itself; expected a destination in which every element has its own memory, "
    "got a broadcast or overlapping view";

TEST(Aliasing, ExactlyTheInputThatAFormNames) {
  const Array x = at(0, {7, 8});
  EXPECT_EQ(norm_call(x, at(1000, {8})).problem().tensors[3].alias, 0);
  Call same = norm_call(x, at(1000, {8}));
  EXPECT_EQ(same.out(x).problem().tensors[3].alias, 1);  // v_norm_ says x receives y
  Call inplace = Call(norm().forms[1]).tensor(x).tensor(at(1000, {8}));
  EXPECT_EQ(inplace.problem().tensors[3].alias, 1);
  EXPECT_EQ(norm_call(x, at(1000, {8})).out(at(1, {7, 8})).error(), kOverlapsX);
  EXPECT_EQ(norm_call(x, at(1000, {8})).out(at(0, {7, 8}, {16, 1})).error(), kOverlapsX);
  EXPECT_EQ(norm_call(at(0, {8, 8}), at(1000, {8})).out(at(0, {8, 8}, {1, 8})).error(), kOverlapsX);
  EXPECT_EQ(norm_call(x, at(1000, {8})).tensor(at(2000, {7, 8})).out(at(2000, {7, 8})).error(),
            "v_norm: y overlaps residual; expected memory of its own, got memory shared with "
            "residual; give another out, or call an in-place form");
  EXPECT_EQ(norm_call(at(0, {8}), at(8, {8})).out(at(8, {8})).error(),
            "v_norm: y overlaps weight; expected memory of its own, got memory shared with weight; "
            "give another out, or call an in-place form");
  // In place, while another argument uses the same memory.
  EXPECT_EQ(norm_call(x, at(1000, {8})).tensor(x).out(x).error(),
            "v_norm: y overlaps residual; expected memory of its own, got memory shared with "
            "residual; give another out, or call an in-place form");
}

TEST(Aliasing, TwoResultsNeedMemoryEach) {
  static const Operator& op = register_schema("v_pair(x: f[T, C]) -> (y: f32[T, C], z: f32[T, C])");
  const auto call = [](Array y, Array z) {
    return Call(op.forms[0]).tensor(at(0, {4, 8})).out(std::move(y)).out(std::move(z)).error();
  };
  EXPECT_EQ(call(at(100, {4, 8}), at(132, {4, 8})), "");
  EXPECT_EQ(call(at(100, {4, 8}), at(131, {4, 8})),
            "v_pair: z overlaps y; expected memory of its own, got memory shared with y; give "
            "another out, or call an in-place form");
  // Columns of one matrix share no element, though their address ranges overlap.
  EXPECT_EQ(call(at(100, {4, 8}, {16, 1}), at(108, {4, 8}, {16, 1})), "");
  EXPECT_EQ(call(at(100, {4, 8}, {16, 1}), at(107, {4, 8}, {16, 1})),
            "v_pair: z overlaps y; expected memory of its own, got memory shared with y; give "
            "another out, or call an in-place form");
  EXPECT_EQ(call(at(108, {4, 8}, {15, 1}), at(100, {4, 8}, {15, 1})),
            "v_pair: z overlaps y; expected memory of its own, got memory shared with y; give "
            "another out, or call an in-place form");
}

TEST(Aliasing, InterleavedColumnsOfAnInput) {
  EXPECT_EQ(norm_call(at(0, {7, 8}, {24, 1}), at(1000, {8})).out(at(16, {7, 8}, {24, 1})).error(),
            "");
  EXPECT_EQ(norm_call(at(0, {7, 8}, {24, 1}), at(1000, {8})).out(at(17, {7, 8}, {24, 1})).error(),
            kOverlapsX);
}

TEST(Aliasing, AResultMayNotOverlapItself) {
  const auto into = [](std::vector<std::int64_t> strides) {
    return norm_call(at(0, {7, 8}), at(1000, {8}))
        .out(at(4096, {7, 8}, std::move(strides)))
        .error();
  };
  EXPECT_EQ(into({0, 1}), kOverlapsItself);   // one row for all
  EXPECT_EQ(into({8, 0}), kOverlapsItself);   // one column
  EXPECT_EQ(into({4, 1}), kOverlapsItself);   // a sliding window
  EXPECT_EQ(into({-4, 1}), kOverlapsItself);  // backwards too
  EXPECT_EQ(into({1, 7}), "");                // transposed
  EXPECT_EQ(into({-8, 1}), "");               // rows backwards
  EXPECT_EQ(into({8, -1}), "");
  EXPECT_EQ(into({100, 3}), "");
}

TEST(Aliasing, InputsMayLieAnywhere) {
  // Broadcast, sliding, backwards, the same tensor twice: allowed, since nothing is written there.
  for (const Array& x : {at(0, {7, 8}, {0, 1}), at(0, {7, 8}, {4, 1}), at(100, {7, 8}, {-8, 1}),
                         at(100, {7, 8}, {8, -1}), at(0, {7, 8}, {0, 0})})
    EXPECT_EQ(norm_call(x, at(1000, {8})).tensor(x).out(at(4096, {7, 8})).error(), "");
  // Backwards from 200: the last row begins at 152, so memory up to 151 is free and 152 is not.
  const Array back = at(200, {7, 8}, {-8, 1});
  EXPECT_EQ(norm_call(back, at(1000, {8})).out(at(152 - 56, {7, 8})).error(), "");
  EXPECT_EQ(norm_call(back, at(1000, {8})).out(at(153 - 56, {7, 8})).error(), kOverlapsX);
  EXPECT_EQ(norm_call(back, at(1000, {8})).out(at(208, {7, 8})).error(), "");
  EXPECT_EQ(norm_call(back, at(1000, {8})).out(at(207, {7, 8})).error(), kOverlapsX);
}

TEST(Aliasing, NothingOverlapsWhatIsEmpty) {
  EXPECT_EQ(norm_call(at(0, {0, 8}), at(0, {8})).out(at(0, {0, 8})).error(), "");
  EXPECT_EQ(norm_call(at(0, {7, 0}), at(0, {0})).out(at(0, {7, 0}, {0, 0})).error(), "");
  Call empty = norm_call(at(0, {3, 0, 8}), at(0, {8}));
  EXPECT_EQ(empty.problem().dims[0], 0);
  EXPECT_EQ(empty.args.result(0).numel(), 0);
}

TEST(Aliasing, WrittenInputsAreDestinations) {
  static const Operator& op =
      register_schema("v_cache(k: f[T, C], cache: like(k)[S, C]!) -> n: f32[1]");
  const auto call = [](Array cache) {
    return Call(op.forms[0]).tensor(at(0, {2, 8})).tensor(std::move(cache));
  };
  EXPECT_EQ(call(at(16, {4, 8})).error(), "");
  EXPECT_EQ(call(at(8, {4, 8})).error(),
            "v_cache: cache overlaps k; expected memory of its own, got memory shared with k; give "
            "a copy of one of them");
  EXPECT_EQ(call(at(16, {4, 8}, {0, 1})).error(),
            "v_cache: cache overlaps itself; expected a destination in which every element has its "
            "own memory, got a broadcast or overlapping view");
  EXPECT_EQ(call(at(16, {4, 8})).out(at(20, {1})).error(),
            "v_cache: n overlaps cache; expected memory of its own, got memory shared with cache; "
            "give another out, or call an in-place form");
}

// ---- what the key says of memory -----------------------------------

TEST(Traits, LayoutsAndAlignment) {
  struct Row {
    std::vector<std::int64_t> shape, strides;
    Layout layout;
  };
  const Row rows[] = {
      {{4, 8}, {8, 1}, Layout::kContiguous},         {{4, 8}, {12, 1}, Layout::kRowStrided},
      {{4, 8}, {-8, 1}, Layout::kRowStrided},        {{4, 8}, {1, 4}, Layout::kTransposed},
      {{4, 8}, {0, 1}, Layout::kRowsBroadcast},      {{4, 8}, {16, 2}, Layout::kOther},
      {{4, 8}, {1, 0}, Layout::kBroadcast},          {{2, 3, 8}, {0, 8, 1}, Layout::kRowsBroadcast},
      {{2, 2, 8}, {32, 16, 1}, Layout::kRowStrided}, {{2, 2, 8}, {100, 16, 1}, Layout::kRowsOuter},
      {{1, 8}, {99, 1}, Layout::kContiguous},        {{4, 1}, {3, 99}, Layout::kRowStrided}};
  for (const Row& row : rows) {
    const Array x = at(1000, row.shape, row.strides);
    Call call = norm_call(x, at(0, {row.shape.back()}));
    EXPECT_EQ(call.problem().tensors[0].layout, row.layout) << testing::PrintToString(row.strides);
  }
  for (int offset : {0, 1, 2, 3, 4}) {
    const int expected[] = {4, 2, 3, 2, 4};  // log2 of bytes: 16, 4, 8, 4, 16
    Call call = norm_call(at(offset, {4, 8}), at(1000, {8}));
    EXPECT_EQ(call.problem().tensors[0].align_log2, expected[offset]) << offset;
  }
  // Three-dimensional tensors whose matrices the schema names: [E, K, N] seen as [E, N, K].
  const auto view = [](const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& strides) {
    TensorView t{};
    t.data = g_memory, t.dtype = DType::kF32;
    t.rank = static_cast<std::int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), t.shape);
    std::copy(strides.begin(), strides.end(), t.strides);
    return t;
  };
  const Row matrices[] = {{{2, 3, 8}, {24, 1, 3}, Layout::kMatricesTransposed},
                          {{1, 3, 8}, {7, 1, 16}, Layout::kMatricesTransposed},
                          {{2, 3, 8}, {24, 8, 1}, Layout::kContiguous},
                          {{2, 3, 8}, {48, 2, 6}, Layout::kOther}};
  for (const Row& row : matrices) {
    const TensorView x = view(row.shape, row.strides);
    EXPECT_EQ(traits_of(x, true).layout, row.layout) << testing::PrintToString(row.strides);
    const Layout as_rows = row.layout == Layout::kMatricesTransposed ? Layout::kOther : row.layout;
    EXPECT_EQ(traits_of(x).layout, as_rows) << "leading dimensions are rows";
  }
  // Heads [*T, H, D]: do the dimensions of *T flatten among themselves?
  const Row heads[] = {{{2, 3, 4, 8}, {120, 40, 8, 1}, Layout::kRowsOuter},    // of a projection
                       {{2, 3, 4, 8}, {96, 8, 24, 1}, Layout::kTokensOuter},   // before tokens
                       {{2, 3, 4, 8}, {200, 32, 8, 1}, Layout::kTokensOuter},  // of a larger batch
                       {{2, 1, 4, 8}, {200, 32, 8, 1}, Layout::kRowsOuter},    // one token each
                       {{6, 4, 8}, {8, 48, 1}, Layout::kRowsOuter},
                       {{2, 3, 4, 8}, {96, 32, 8, 1}, Layout::kContiguous}};
  for (const Row& row : heads) {
    const TensorView x = view(row.shape, row.strides);
    EXPECT_EQ(traits_of(x, false, 2).layout, row.layout) << testing::PrintToString(row.strides);
    EXPECT_NE(traits_of(x).layout, Layout::kTokensOuter) << "of rows [*T, C]";
  }
  EXPECT_EQ(traits_of(view({2, 4, 8}, {64, 1, 4}), true).align_log2, 4);
  EXPECT_EQ(traits_of(view({2, 4, 8}, {64, 1, 6}), true).align_log2, 3);
  EXPECT_EQ(traits_of(view({2, 4, 8}, {33, 1, 4}), true).align_log2, 2);
  // The alignment of the rows counts as much as that of the first element.
  EXPECT_EQ(norm_call(at(0, {4, 8}, {9, 1}), at(1000, {8})).problem().tensors[0].align_log2, 2);
  // The rows of a transposed matrix are its columns.
  EXPECT_EQ(norm_call(at(0, {4, 8}, {1, 4}), at(1000, {8})).problem().tensors[0].align_log2, 4);
  EXPECT_EQ(norm_call(at(0, {4, 8}, {1, 6}), at(1000, {8})).problem().tensors[0].align_log2, 3);
}

}  // namespace
}  // namespace dlblas::test
