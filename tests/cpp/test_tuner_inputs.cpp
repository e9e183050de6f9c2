// The inputs that the tuner makes: layouts of a problem, values by seed, indices within their
// bounds, gaps and guard zones. Read next: tests/cpp/test_tuner_parts.cpp (its other parts).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/cpp/schema_dummy.hpp"
#include "tests/cpp/tuner_dummy.hpp"
#include "tuner/inputs.hpp"

namespace dlblas::test {
namespace {

// Inputs made for a Problem match it: binding and validating them gives the same Problem.
struct Made {
  DType dtype;
  Layout layout;
  int align_log2;
  std::int64_t width;
};
class MadeInputs : public ::testing::TestWithParam<Made> {};
TEST_P(MadeInputs, GiveTheirProblemBack) {
  static const Behaviour any{};
  static const Operator& op = make_operator({dummy("any", any)});
  const Made& made = GetParam();
  Problem problem = make_problem(op, 32, made.width, made.dtype);
  problem.tensors[0].layout = made.layout;
  problem.tensors[0].align_log2 = static_cast<std::uint8_t>(made.align_log2);
  if (made.layout == Layout::kRowsOuter || made.layout == Layout::kRowsBroadcast)
    problem.tensors[1].layout = Layout::kContiguous;
  problem.tensors[1].align_log2 = static_cast<std::uint8_t>(std::min<int>(
      4, std::countr_zero(static_cast<unsigned>(made.width * size_of(made.dtype)) | 16u)));
  const CallData data(op, problem, 5, nullptr, host_memory());

  dlblas_tensor tensors[2];
  dlblas_value value{};
  for (int i = 0; i < 2; ++i) {
    const TensorView& t = data.args().tensors[i];
    tensors[i] = {t.data,
                  {1, 0},
                  t.rank,
                  {dlpack_code_of(t.dtype), static_cast<std::uint8_t>(8 * size_of(t.dtype)), 1},
                  const_cast<std::int64_t*>(t.shape),
                  const_cast<std::int64_t*>(t.strides),
                  0};
  }
  value.kind = DLBLAS_TENSOR;
  value.as.tensor = &tensors[0];
  dlblas_args call{sizeof call, &value, 1, 0, nullptr, &tensors[1], 1, 0};
  Args args;
  Problem again;
  bind(op.forms.front(), call, args);
  validate(op, call, 1, args, again);
  EXPECT_EQ(again.tensors[0].layout, problem.tensors[0].layout);
  EXPECT_EQ(again.tensors[0].align_log2, problem.tensors[0].align_log2);
  EXPECT_TRUE(again == problem);
  EXPECT_TRUE(data.guards_intact());
}
INSTANTIATE_TEST_SUITE_P(Layouts, MadeInputs,
                         ::testing::Values(Made{DType::kF32, Layout::kContiguous, 4, 64},
                                           Made{DType::kF32, Layout::kContiguous, 2, 63},
                                           Made{DType::kBF16, Layout::kContiguous, 1, 63},
                                           Made{DType::kF32, Layout::kContiguous, 0, 64},
                                           Made{DType::kF16, Layout::kContiguous, 3, 64},
                                           Made{DType::kF32, Layout::kRowStrided, 4, 64},
                                           Made{DType::kF32, Layout::kRowStrided, 4, 63},
                                           Made{DType::kBF16, Layout::kRowStrided, 2, 64},
                                           Made{DType::kF32, Layout::kRowsOuter, 4, 64},
                                           Made{DType::kF32, Layout::kTransposed, 2, 64},
                                           Made{DType::kF32, Layout::kTransposed, 4, 64},
                                           Made{DType::kF32, Layout::kBroadcast, 4, 64},
                                           Made{DType::kF32, Layout::kRowsBroadcast, 4, 64},
                                           Made{DType::kF16, Layout::kOther, 4, 64}),
                         [](const auto& instance) {
                           return "made" + std::to_string(instance.index);
                         });

// Of [*T, H, D], one dimension T that lies apart, or two that no stride joins.
TEST(Inputs, HeadsGiveTheirLayoutBack) {
  const Operator& op = register_schema(
      "parts_heads(q: f[*T, H, D], at: i32[*T] ~index<9) -> y: like(q)[*T, H, D] "
      "where T: bucket(tokens)");
  for (const Layout layout : {Layout::kContiguous, Layout::kRowsOuter, Layout::kTokensOuter}) {
    Problem problem;
    problem.op = op.id;
    for (int i = 0; i < 3; ++i)
      problem.tensors[i] = {i == 1 ? DType::kI32 : DType::kF32, Layout::kContiguous, 4, 0};
    problem.tensors[0].layout = layout;
    const std::int64_t sizes[] = {32, 4, 64};
    std::copy(std::begin(sizes), std::end(sizes), problem.dims);
    const CallData data(op, problem, 5, nullptr, host_memory());
    const bool apart = layout == Layout::kTokensOuter;
    EXPECT_EQ(traits_of(data.args().tensors[0], false, 2).layout, layout);
    EXPECT_EQ(data.args().tensors[0].rank, apart ? 4 : 3);
    EXPECT_EQ(data.args().tensors[1].rank, apart ? 2 : 1);
    EXPECT_TRUE(data.guards_intact());
  }
}

TEST(Inputs, SameSeedSameBitsAndRoughlyNormal) {
  static const Behaviour any{};
  const Operator& op = make_operator({dummy("any", any)});
  const Problem problem = make_problem(op, 256, 256);
  const CallData a(op, problem, 1, nullptr, host_memory()),
      b(op, problem, 1, nullptr, host_memory());
  const CallData c(op, problem, 2, nullptr, host_memory());
  const auto* values = static_cast<const float*>(a.args().tensors[0].data);
  const std::size_t bytes = 256 * 256 * sizeof(float);
  EXPECT_EQ(std::memcmp(values, b.args().tensors[0].data, bytes), 0);
  EXPECT_NE(std::memcmp(values, c.args().tensors[0].data, bytes), 0);
  double sum = 0, squares = 0;
  for (int i = 0; i < 256 * 256; ++i) sum += values[i], squares += values[i] * values[i];
  EXPECT_NEAR(sum / 65536, 0, 0.02);
  EXPECT_NEAR(squares / 65536, 1, 0.03);
}

TEST(Inputs, AWriteIntoAGapOrAGuardIsSeen) {
  TensorView view{};
  view.rank = 2;
  view.dtype = DType::kF32;
  view.shape[0] = 4, view.shape[1] = 5;
  GuardedTensor tensor(view, {DType::kF32, Layout::kRowStrided, 4, 0}, host_memory());
  auto* data = static_cast<float*>(view.data);
  const std::int64_t pitch = view.strides[0];
  for (int t = 0; t < 4; ++t)
    for (int c = 0; c < 5; ++c) data[t * pitch + c] = 1;
  EXPECT_TRUE(tensor.guards_intact());
  for (const std::int64_t at : {std::int64_t{-1}, std::int64_t{5}, pitch - 1, 3 * pitch + 5}) {
    const float before = data[at];
    data[at] = 0;
    EXPECT_FALSE(tensor.guards_intact()) << at;
    std::memcpy(data + at, &before, sizeof before);
    tensor.poison(0x5c);
    EXPECT_TRUE(tensor.guards_intact());
    EXPECT_EQ(tensor.elements_equal_to(0x5c).size(), 20u);
  }
}

// All values change, scalars included, at the same addresses, except one of several index inputs
// that the caller lent; then all change back.
TEST(Inputs, VaryAndComeBack) {
  const Operator& op = register_schema(
      "parts_vary(x: f32[T], ids: i32[T] ~index<T, seen: i32[T]! ~index<T, scale: float = 1, "
      "eps: float = 1e-6) -> y: f32[T]");
  Problem problem;
  problem.op = op.id;
  for (int i = 0; i < 4; ++i)
    problem.tensors[i] = {i == 1 || i == 2 ? DType::kI32 : DType::kF32, Layout::kContiguous, 4, 0};
  problem.dims[0] = 64;
  std::vector<std::int32_t> lent(64);
  std::iota(lent.rbegin(), lent.rend(), 0);
  Args caller;
  caller.schema = &op.schema;
  caller.present = 1u << 2;
  caller.tensors[2] = {};
  caller.tensors[2].data = lent.data();
  caller.tensors[2].rank = 1, caller.tensors[2].shape[0] = 64, caller.tensors[2].strides[0] = 1;
  caller.tensors[2].dtype = DType::kI32;
  caller.scalars[0] = {0, 0.25}, caller.scalars[1] = {0, 1e-6};
  CallData data(op, problem, 1, &caller, host_memory());
  EXPECT_EQ(data.args().scalars[0].f, 0.25) << "the caller's, not the default";
  const auto held = [&](int tensor) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < 64; ++i)
      values.push_back(load_element(data.args().tensors[tensor], i));
    return values;
  };
  const void* const address = data.args().tensors[0].data;
  const std::vector<double> x = held(0), ids = held(1), seen = held(2);
  EXPECT_EQ(seen.front(), 63);
  store_element(data.args().tensors[2], 0, 7);  // as a call would
  data.vary(problem, 1, Look::kScalars);
  EXPECT_EQ(data.args().tensors[0].data, address);
  EXPECT_NE(held(0), x);
  EXPECT_NE(held(1), ids);
  EXPECT_EQ(held(2), seen) << "one of two inputs of indices";
  EXPECT_EQ(data.args().scalars[0].f, 1.0);
  EXPECT_EQ(data.args().scalars[1].f, 0.500002);
  data.remake(problem, 1);
  data.restore();
  EXPECT_EQ(held(0), x);
  EXPECT_EQ(held(1), ids);
  EXPECT_EQ(held(2), seen);
  EXPECT_EQ(data.args().scalars[0].f, 0.25);
}

// A single lent input of lengths or offsets changes, and remains a load like the caller's; if there
// are several, they stay as they are.
TEST(Inputs, LentLengthsAndOffsetsVaryInOrder) {
  using Words = std::vector<std::int32_t>;
  const auto varied = [](const std::string& schema, std::vector<Words> lent) {
    const Operator& op = register_schema(schema);
    Problem problem;
    problem.op = op.id;
    const int count = static_cast<int>(lent.size());
    for (int i = 0; i < count + 2; ++i)
      problem.tensors[i] = {i > 0 && i <= count ? DType::kI32 : DType::kF32, Layout::kContiguous, 4,
                            0};
    problem.dims[0] = 64, problem.dims[1] = 4;
    Args caller;
    caller.schema = &op.schema;
    for (int i = 1; i <= count; ++i) {
      caller.present |= 1u << i;
      TensorView& t = caller.tensors[i] = {};
      t.data = lent[i - 1].data(), t.dtype = DType::kI32, t.rank = 1, t.strides[0] = 1;
      t.shape[0] = static_cast<std::int64_t>(lent[i - 1].size());
    }
    CallData data(op, problem, 1, &caller, host_memory());
    const auto held = [&] {
      Words values;
      for (std::int64_t i = 0; i < data.args().tensors[1].shape[0]; ++i)
        values.push_back(static_cast<std::int32_t>(load_element(data.args().tensors[1], i)));
      return values;
    };
    data.vary(problem, 1, Look::kScalars);
    const Words found = held();
    data.remake(problem, 1);
    EXPECT_EQ(held(), lent[0]);
    return found;
  };
  EXPECT_EQ(
      varied("parts_ends(x: f32[T], ends: i32[E+1] ~offsets<=T) -> y: f32[T]", {{0, 1, 1, 30, 64}}),
      (Words{0, 34, 63, 63, 64}));
  EXPECT_EQ(varied("parts_lens(x: f32[T], lens: i32[E] ~lengths<=T) -> y: f32[T]", {{9, 0, 3, 4}}),
            (Words{4, 3, 0, 9}));
  EXPECT_EQ(varied("parts_both(x: f32[T], ends: i32[E+1] ~offsets<=T, lens: i32[E] ~lengths<=T) "
                   "-> y: f32[T]",
                   {{0, 1, 1, 30, 64}, {1, 0, 29, 34}}),
            (Words{0, 1, 1, 30, 64}));
}

// The smaller sizes that a user's candidate is run on besides its bucket's end have the same key.
TEST(Inputs, SmallerCallsHaveTheSameKey) {
  const Operator& op = register_schema(
      "parts_smaller(x: f[T, C], bias: f[S, L]) -> y: f[T, C] where T: bucket(tokens), "
      "S: bucket(tokens), L: bucket(tokens)");
  Problem problem;
  problem.op = op.id;
  for (int i = 0; i < 3; ++i) problem.tensors[i] = {DType::kF32, Layout::kContiguous, 4, 0};
  for (std::size_t i = 0; i < op.schema.letters.size(); ++i) problem.dims[i] = 512;
  const auto size = [&](const char* name) {
    const Problem other = smaller_call(op, problem);
    for (std::size_t i = 0; i < op.schema.letters.size(); ++i)
      if (op.schema.letters[i].name == name) return other.dims[i];
    return std::int64_t{-1};
  };
  EXPECT_EQ(size("T"), 508);
  EXPECT_EQ(size("C"), 512) << "exact";
  EXPECT_EQ(size("S"), 508);
  EXPECT_EQ(size("L"), 508) << "rows of 16 bytes stay aligned, and all are as much smaller";
  for (std::size_t i = 0; i < op.schema.letters.size(); ++i) problem.dims[i] = 1;
  EXPECT_EQ(size("T"), 1) << "a bucket of one";
}

// A search times the caller's own number of tokens, too, as long as it has the key.
TEST(Inputs, TheCallersOwnCallHasItsSizes) {
  const Operator& op = register_schema(
      "parts_own(x: f[T, C], bias: f[S, L]) -> y: f[T, C] where T: bucket(tokens), "
      "S: bucket(tokens), L: bucket(tokens)");
  Problem problem;
  problem.op = op.id;
  for (int i = 0; i < 3; ++i) problem.tensors[i] = {DType::kF32, Layout::kContiguous, 4, 0};
  for (std::size_t i = 0; i < op.schema.letters.size(); ++i) problem.dims[i] = 512;
  std::int64_t sizes[kMaxLetters];
  const auto own = [&](const char* name, std::int64_t size) {
    std::copy_n(problem.dims, kMaxLetters, sizes);
    for (std::size_t i = 0; i < op.schema.letters.size(); ++i)
      if (op.schema.letters[i].name == name) {
        sizes[i] = size;
        return own_call(op, problem, sizes).dims[i];
      }
    return std::int64_t{-1};
  };
  EXPECT_EQ(own("T", 500), 500);
  EXPECT_EQ(own("T", 512), 512);
  EXPECT_EQ(own("T", bucket_before(512)), 512) << "another key";
  EXPECT_EQ(own("T", 0), 512) << "not told";
  EXPECT_EQ(own("C", 500), 512) << "exact";
  EXPECT_EQ(own("L", 501), 512) << "rows would lose their alignment";
  EXPECT_EQ(own("L", 500), 500);
}

// A pool's size is not part of the key (`free`): the tuner's pool is smaller than the caller's,
// whose indices would reach beyond it.
TEST(Inputs, LentIndicesStayInsideTheTunersPool) {
  const Operator& op = register_schema(
      "parts_pool(x: f[P], at: i64[T] ~index<P, slots: i64[T] ~distinct<P|-1) -> y: f[T] "
      "where P: free(2T)");
  Problem problem;
  problem.op = op.id;
  for (int i = 0; i < 4; ++i)
    problem.tensors[i] = {i == 1 || i == 2 ? DType::kI64 : DType::kF32, Layout::kContiguous, 4, 0};
  const auto letter = [&](const char* name) {
    for (std::size_t i = 0; i < op.schema.letters.size(); ++i)
      if (op.schema.letters[i].name == name) return i;
    return std::size_t{0};
  };
  problem.dims[letter("T")] = 8;
  std::vector<std::int64_t> at = {3, 90000, 15, 16, 17, 0, 5, 1 << 20};
  std::vector<std::int64_t> slots = {900, 3, -1, 17, 15, 1 << 20, 0, 16};
  Args caller;
  caller.schema = &op.schema;
  for (const int i : {1, 2}) {
    caller.present |= 1u << i;
    caller.tensors[i] = {};
    caller.tensors[i].data = i == 1 ? at.data() : slots.data();
    caller.tensors[i].rank = 1, caller.tensors[i].shape[0] = 8, caller.tensors[i].strides[0] = 1;
    caller.tensors[i].dtype = DType::kI64;
  }
  const CallData data(op, problem, 1, &caller, host_memory());
  std::set<double> seen;
  for (std::int64_t i = 0; i < 8; ++i) {
    const double index = load_element(data.args().tensors[1], i);
    EXPECT_GE(index, 0);
    EXPECT_LT(index, 16) << i;
    const double given = static_cast<double>(at[static_cast<std::size_t>(i)]);
    if (given < 16) {
      EXPECT_EQ(index, given);
    }
    const double slot = load_element(data.args().tensors[2], i);
    EXPECT_GE(slot, -1) << i;
    EXPECT_LT(slot, 16) << i;
    const double asked = static_cast<double>(slots[static_cast<std::size_t>(i)]);
    if (asked < 16) {
      EXPECT_EQ(slot, asked);
    }
    if (slot >= 0) {
      EXPECT_TRUE(seen.insert(slot).second) << slot << " twice";
    }
  }
}

// Guards are as wide as a tile on both sides, and narrow for copies, so that a set of rotated
// tensors stays small.
TEST(Inputs, AWriteATileAwayIsSeen) {
  for (const Layout layout : {Layout::kContiguous, Layout::kRowStrided}) {
    TensorView view{};
    view.rank = 2;
    view.dtype = DType::kBF16;
    view.shape[0] = 4, view.shape[1] = 5;
    GuardedTensor tensor(view, {DType::kBF16, layout, 4, 0}, host_memory());
    auto* data = static_cast<std::uint16_t*>(view.data);
    constexpr std::int64_t kTile = 65536 / 2;
    for (const std::int64_t at : {-kTile, 4 * view.strides[0] + kTile}) {
      tensor.poison(0x5c);
      EXPECT_TRUE(tensor.guards_intact());
      data[at] = 0;
      EXPECT_FALSE(tensor.guards_intact()) << at;
      tensor.mend_guards();
      EXPECT_TRUE(tensor.guards_intact()) << at;
    }
    EXPECT_LE(tensor.bytes(), 1024u) << "what a call touches, without the guards";
    const GuardedTensor copy(tensor);
    EXPECT_TRUE(copy.guards_intact());
    EXPECT_EQ(copy.elements_equal_to(0x5c).size(), 20u);
  }
}

// Every index-valued fill stays inside its bounds, and offsets end at the right letter.
TEST(Inputs, IndicesStayInsideTheirBounds) {
  const Schema schema = parse_schema(
      "op(x: f[T, C], page: i32[P, G], near: i32[T] ~index<P*G, upto: i32[T] ~index<=C, "
      "slots: i64[T] ~index<P|-1, once: i32[T] ~distinct<4P, ids: i32[T, K] ~distinct_rows<C, "
      "ends: i32[B+1] ~offsets<=L, lens: i32[B] ~lengths<=2L, five: i32[T] ~index<5, "
      "more: i32[P] ~distinct<C|-1, order: i32[T] ~permutation, starts: i32[B+1] ~offsets, "
      "k: f[L]) -> y: f[T] where T: bucket(tokens)");
  const std::map<std::string, std::int64_t> sizes = {{"T", 40}, {"C", 11}, {"P", 16}, {"G", 3},
                                                     {"K", 4},  {"B", 7},  {"L", 100}};
  std::int64_t letters[kMaxLetters] = {};
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    letters[i] = sizes.at(schema.letters[i].name);
  const auto made = [&](const char* name, std::uint64_t seed) {
    const int tensor = schema.params[static_cast<std::size_t>(schema.find_param(name))].index;
    TensorView view{};
    view.dtype = DType::kI64;
    for (const DimExpr& d : schema.tensors[static_cast<std::size_t>(tensor)].dims)
      view.shape[view.rank++] = d.evaluate(letters);
    const Filler filler = make_filler(schema, tensor, letters, view, seed);
    std::vector<double> values;
    for (std::int64_t i = 0; i < view.numel(); ++i) values.push_back(filler.value(i));
    return values;
  };
  const auto within = [](const std::vector<double>& v, double least, double most) {
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    return *low >= least && *high <= most;
  };
  bool reached = false, none = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_TRUE(within(made("near", seed), 0, 47));
    const std::vector<double> upto = made("upto", seed), slots = made("slots", seed);
    EXPECT_TRUE(within(upto, 0, 11));
    reached |= std::count(upto.begin(), upto.end(), 11) > 0;
    EXPECT_TRUE(within(slots, -1, 15));
    none |= std::count(slots.begin(), slots.end(), -1) > 0;
    EXPECT_TRUE(within(made("five", seed), 0, 4));
    const std::vector<double> once = made("once", seed), ids = made("ids", seed);
    EXPECT_TRUE(within(once, 0, 63));
    EXPECT_EQ(std::set<double>(once.begin(), once.end()).size(), 40u);
    EXPECT_TRUE(within(ids, 0, 10));
    for (auto row = ids.begin(); row != ids.end(); row += 4)
      EXPECT_EQ(std::set<double>(row, row + 4).size(), 4u);
    const std::vector<double> ends = made("ends", seed), starts = made("starts", seed);
    EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));
    EXPECT_EQ(ends.front(), 0);
    EXPECT_EQ(ends.back(), 100) << "of L, not of the tokens";
    EXPECT_EQ(starts.back(), 40) << "where it names no letter, of the tokens";
    const std::vector<double> lens = made("lens", seed);
    EXPECT_TRUE(within(lens, 1, 200));
    EXPECT_EQ(lens.back(), 200);
    const std::vector<double> more = made("more", seed);  // 16 of 11
    EXPECT_TRUE(within(more, -1, 10));
    EXPECT_GE(std::count(more.begin(), more.end(), -1), 5);
    std::vector<double> order = made("order", seed);
    std::sort(order.begin(), order.end());
    for (int i = 0; i < 40; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
  EXPECT_TRUE(reached);
  EXPECT_TRUE(none);
  EXPECT_NE(made("ends", 1), made("ends", 2));
  EXPECT_NE(made("order", 1), made("order", 2));
}

}  // namespace
}  // namespace dlblas::test
