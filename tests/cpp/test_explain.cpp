// Which of several measured times is shown: for the chosen implementation its configuration's own,
// for the others a final's time before one of the race. Read next: src/dispatch/explain.cpp,
// src/tuner/report.cpp.
#include "store/ranking.hpp"
#include "tests/cpp/temporary_store.hpp"
#include "tests/cpp/tuner_dummy.hpp"

namespace dlblas::test {
namespace {

const auto* const g_store = testing::AddGlobalTestEnvironment(new TemporaryStore("explain"));

Record::Candidate timed(const char* implementation, const char* config, int samples, double ms) {
  Record::Candidate c;
  c.implementation = implementation;
  c.source_hash = "s1";
  c.config = config;
  c.samples_ms.assign(static_cast<std::size_t>(samples), ms);
  c.measured_at = 1;  // all in one run
  return c;
}

/// Blocks 1 and 2 were in a final, where the default is within noise of 2; block 4 was not, and had
/// a lucky sample.
const Operator& make_known() {
  const Operator& op =
      make_operator({dummy("wide", kPlain, &dummy_table()), dummy("other", kPlain)});
  Record record;
  record.key = store_key(op, make_problem(op));
  record.candidates = {timed("wide", "block=1", 30, 0.0201), timed("wide", "block=2", 30, 0.0200),
                       timed("wide", "block=4", 2, 0.0180), timed("other", "default", 2, 0.0500)};
  EXPECT_TRUE(Store::process().publish(std::move(record)));
  return op;
}

const CandidateRow& row_of(const Explanation& explained, std::string_view name) {
  for (const CandidateRow& row : explained.candidates)
    if (row.implementation->name == name) return row;
  throw std::runtime_error("no such row");
}

TEST(Explain, WhatIsChosenHasTheTimeOfItsOwnConfiguration) {
  const Operator& op = make_known();
  const Explanation explained = explain(op, make_problem(op));
  const CandidateRow& wide = row_of(explained, "wide");
  EXPECT_TRUE(wide.chosen);
  EXPECT_EQ(wide.config.values[0], 1);
  EXPECT_DOUBLE_EQ(wide.best_ms, 0.0201);
  EXPECT_EQ(wide.samples, 30);
  const std::string table = print_table(explained);
  EXPECT_NE(table.find("  20.1 µs "), std::string::npos) << table;
  EXPECT_NE(table.find("  ~50 µs, 2 samples "), std::string::npos) << table;
  EXPECT_NE(table.find("wide won; the results store keeps 4 measured configurations of this key ("),
            std::string::npos)
      << table;
}

TEST(Explain, OfTheOthersATimeOfAFinalGoesBeforeTheRaces) {
  const Operator& op = make_known();
  pin(op, "other", "");
  const Explanation explained = explain(op, make_problem(op));
  EXPECT_DOUBLE_EQ(row_of(explained, "wide").best_ms, 0.0200);
  EXPECT_EQ(row_of(explained, "wide").config.values[0], 2);
  EXPECT_EQ(row_of(explained, "other").samples, 2);
}

TEST(Explain, APinnedConfigurationThatWasNotMeasuredHasNoTime) {
  const Operator& op = make_known();
  pin(op, "wide", "block=8");
  const Explanation explained = explain(op, make_problem(op));
  EXPECT_EQ(row_of(explained, "wide").config.values[0], 8);
  EXPECT_LT(row_of(explained, "wide").best_ms, 0);
}

TEST(Explain, WhyACallFailsDoesNotRepeatTheTable) {
  Implementation picky = dummy("picky", kPlain);
  picky.supports = [](const Query&) { return Support::no("too wide"); };
  const Operator& op = make_operator({picky});
  pin(op, "picky", "");
  const std::string table = print_table(explain(op, make_problem(op)));
  EXPECT_EQ(table.find("implementation  supports"), table.rfind("implementation  supports"));
  EXPECT_TRUE(table.ends_with(", got\n  pinned: picky: no: too wide\n")) << table;
}

TEST(Explain, AReportShowsTheSameTimes) {
  const Operator& op = make_known();
  TuneReport report;
  report.op = &op;
  report.problem = make_problem(op);
  const Implementation* const wide = op.find("wide");
  report.candidates.emplace_back().implementation = wide;
  for (const auto& [samples, ms] : {std::pair(2, 0.018), std::pair(30, 0.02), std::pair(2, 0.01)}) {
    Evaluated e;
    e.plan = std::make_unique<Plan>();
    e.plan->problem = report.problem;
    e.plan->implementation = wide;
    e.plan->config.values[e.plan->config.count++] = 1;
    e.samples_ms.assign(static_cast<std::size_t>(samples), ms);
    report.evaluated.push_back(std::move(e));
  }
  EXPECT_NE(print_json(report).find(R"("best_ms":0.02,"samples":30)"), std::string::npos)
      << print_json(report);
  report.evaluated.erase(report.evaluated.begin() + 1);
  EXPECT_NE(print_json(report).find(R"("best_ms":0.01,"samples":2)"), std::string::npos)
      << print_json(report);
}

}  // namespace
}  // namespace dlblas::test
