// Operators with their own judge: what the C ABI shows it, what it may report, and that an error of
// the judge is not a pass. The same from Python, with searches: tests/own_judge_checks.py.
// Read next: registry/operator.hpp, bindings/c/register_operator.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "dlblas/dlblas.h"
#include "tests/cpp/temporary_store.hpp"

namespace dlblas::test {
namespace {

const auto* const kStore = testing::AddGlobalTestEnvironment(new test::TemporaryStore("judge"));

std::string last_message() {
  dlblas_error error{};
  error.size = sizeof error;
  dlblas_last_error(&error);
  return error.message;
}

// The reference: the index of the first maximum of each row.
int32_t first_largest(const dlblas_step_args* args, const int64_t* rows, int64_t num_rows,
                      double* const* values, double* const* magnitudes, void*) {
  const auto* x = static_cast<const float*>(args->tensors[0].data);
  const int64_t c = args->letters[1];
  for (int64_t i = 0; i < num_rows; ++i) {
    const float* row = x + rows[i] * c;
    values[0][i] = static_cast<double>(std::max_element(row, row + c) - row);
    magnitudes[0][i] = values[0][i];
  }
  return 0;
}

// What the judge does besides judging.
struct Mood {
  int64_t count = -1;  // says so many are wrong, whatever is there
  bool fails = false;
};

// Accepts the index of any maximum.
int32_t any_largest(const dlblas_judgement* j, void* user) {
  const auto& mood = *static_cast<const Mood*>(user);
  if (mood.fails) return dlblas_fail("no judgement today"), 3;
  if (mood.count >= 0) return j->wrong[0] = mood.count, 0;
  const auto* x = static_cast<const float*>(j->before->tensors[0].data);
  const auto* ids = static_cast<const int32_t*>(j->after->tensors[1].data);
  const int64_t c = j->before->letters[1];
  for (int64_t i = 0; i < j->num_rows; ++i) {
    const int64_t row = j->rows[i], id = ids[row], best = static_cast<int64_t>(j->values[0][i]);
    if (id >= 0 && id < c && x[row * c + id] == x[row * c + best]) continue;
    if (j->wrong[0]++ == 0 || row < j->first_wrong[0]) j->first_wrong[0] = row;
  }
  return 0;
}

struct Largest {
  static constexpr int64_t kT = 300, kC = 12;
  std::vector<float> x = std::vector<float>(kT * kC);
  std::vector<int32_t> ids = std::vector<int32_t>(kT);
  int64_t shape[2] = {kT, kC}, rows[2] = {kT, 1};
  dlblas_tensor tx{x.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  dlblas_tensor tids{ids.data(), {1, 0}, 2, {0, 32, 1}, rows, nullptr, 0};
  dlblas_value values[1] = {};
  dlblas_args args{sizeof(dlblas_args), values, 1, 0, nullptr, &tids, 1, 0};
  Mood mood;
  dlblas_operator_def def{};

  explicit Largest(const char* schema) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 5);  // many ties
    values[0].kind = DLBLAS_TENSOR;
    values[0].as.tensor = &tx;
    def.size = sizeof def;
    def.schema = schema;
    def.reference = first_largest;
    def.source_hash = "largest";
    def.judge = any_largest;
    def.user = &mood;
  }
  dlblas_op_t add() {
    dlblas_op_t op = nullptr;
    EXPECT_EQ(dlblas_register_operator(&def, &op), DLBLAS_OK) << last_message();
    return op;
  }
  void fill_last() {
    for (int64_t t = 0; t < kT; ++t) {
      const float* row = x.data() + t * kC;
      for (int32_t c = 0; c < kC; ++c)
        if (row[c] == *std::max_element(row, row + kC)) ids[static_cast<std::size_t>(t)] = c;
    }
  }
};

dlblas_verdict verify(dlblas_op_t op, const dlblas_args& args, dlblas_status expected = DLBLAS_OK) {
  dlblas_verdict verdict{};
  verdict.size = sizeof verdict;
  EXPECT_EQ(dlblas_verify(op, &args, nullptr, 0, &verdict), expected) << last_message();
  return verdict;
}

TEST(Judge, SaysWhatIsWrongWhereNoBoundCould) {
  Largest call("judged_largest(x: f32[T, C]) -> ids: i32[T, 1]");
  const dlblas_op_t op = call.add();
  call.fill_last();
  dlblas_verdict verdict = verify(op, call.args);
  EXPECT_EQ(verdict.wrong, 0);
  EXPECT_EQ(verdict.checked, 300);
  EXPECT_EQ(verdict.worst, 0);
  call.ids[271] = -1;
  call.ids[33] = 12;
  call.ids[270] = call.ids[270] == 0 ? 1 : 0;
  call.x[270 * 12 + 5] = 9;
  verdict = verify(op, call.args);
  EXPECT_EQ(verdict.wrong, 3);
  EXPECT_EQ(verdict.first_wrong, 33);
  EXPECT_GT(verdict.worst, 1);
  const int64_t rows[] = {40, 271};
  verdict.size = sizeof verdict;
  ASSERT_EQ(dlblas_verify(op, &call.args, rows, 2, &verdict), DLBLAS_OK);
  EXPECT_EQ(verdict.wrong, 1) << "only what it was asked about";
  EXPECT_EQ(verdict.checked, 2);
  EXPECT_EQ(verdict.first_wrong, 271);
}

TEST(Judge, ACountSaysNotWhich) {
  Largest call("judged_count(x: f32[T, C]) -> ids: i32[T, 1]");
  call.def.whole = 1;
  const dlblas_op_t op = call.add();
  call.mood.count = 2;
  const dlblas_verdict verdict = verify(op, call.args);
  EXPECT_EQ(verdict.wrong, 2);
  EXPECT_EQ(verdict.first_wrong, -1);
}

TEST(Judge, AnErrorOfTheJudgeIsNoPass) {
  Largest call("judged_error(x: f32[T, C]) -> ids: i32[T, 1]");
  const dlblas_op_t op = call.add();
  call.fill_last();
  call.mood.fails = true;
  verify(op, call.args, DLBLAS_LAUNCH);
  EXPECT_EQ(last_message(), "judged_error: judge failed; expected 0, got no judgement today");
  call.mood.fails = false;
  call.mood.count = 1000;
  verify(op, call.args, DLBLAS_LAUNCH);
  EXPECT_EQ(last_message().find("judged_error: judge failed; expected at most "), 0u)
      << last_message();
}

TEST(Judge, TheDefinitionOfAnOlderHeaderIsTaken) {
  Largest call("judged_never(x: f32[T, C]) -> ids: i32[T, 1]");
  call.def.size = offsetof(dlblas_operator_def, judge);  // what is behind it is not the caller's
  const dlblas_op_t op = call.add();
  call.fill_last();
  EXPECT_GT(verify(op, call.args).wrong, 0) << "another id than the reference's";
  call.def.size = sizeof call.def;
  EXPECT_EQ(dlblas_register_operator(&call.def, nullptr), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message(),
            "judged_never: judge differs from the one registered with this operator; expected "
            "none, got one");
  call.def.size = offsetof(dlblas_operator_def, judge) - 1;
  EXPECT_EQ(dlblas_register_operator(&call.def, nullptr), DLBLAS_ARGUMENT);
}

// Accepts any permutation of the original: the judge sees the input as it was, although the call
// has written it.
int32_t same_elements(const dlblas_judgement* j, void*) {
  const int64_t n = j->before->letters[0];
  const auto* was = static_cast<const int32_t*>(j->before->tensors[0].data);
  const auto* is = static_cast<const int32_t*>(j->after->tensors[0].data);
  std::vector<int32_t> a(was, was + n), b(is, is + n);
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a != b) j->wrong[0] = 1;
  return 0;
}

TEST(Judge, SeesWrittenInputsAsTheyWere) {
  dlblas_operator_def def{};
  def.size = sizeof def;
  def.schema = "judged_shuffle(x: i32[N]!) -> ()";
  def.whole = 1;
  def.reference = [](const dlblas_step_args* args, const int64_t*, int64_t, double* const* values,
                     double* const* magnitudes, void*) -> int32_t {
    const auto* x = static_cast<const int32_t*>(args->tensors[0].data);
    const int64_t n = args->letters[0];
    for (int64_t i = 0; i < n; ++i) values[0][i] = x[n - 1 - i], magnitudes[0][i] = 1;
    return 0;
  };
  def.judge = same_elements;
  dlblas_op_t op = nullptr;
  ASSERT_EQ(dlblas_register_operator(&def, &op), DLBLAS_OK) << last_message();
  std::vector<int32_t> before = {1, 2, 3, 4}, after = {2, 4, 1, 3};
  int64_t shape[1] = {4};
  dlblas_tensor tensor{before.data(), {1, 0}, 1, {0, 32, 1}, shape, nullptr, 0};
  dlblas_tensor left{after.data(), {1, 0}, 1, {0, 32, 1}, shape, nullptr, 0};
  dlblas_value value{};
  value.kind = DLBLAS_TENSOR;
  value.as.tensor = &tensor;
  const dlblas_args args{sizeof(dlblas_args), &value, 1, 0, nullptr, &left, 1, 0};
  EXPECT_EQ(verify(op, args).wrong, 0);
  after[2] = 2;
  EXPECT_EQ(verify(op, args).wrong, 1);
}

}  // namespace
}  // namespace dlblas::test
