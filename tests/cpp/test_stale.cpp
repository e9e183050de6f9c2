// Measurements made under another driver or compiler: served as before; the four best and the
// default are measured again when tuning next runs. Read next: src/dispatch/stale.hpp.
#include "dispatch/stale.hpp"

#include <set>

#include "store/ranking.hpp"
#include "tests/cpp/tuner_dummy.hpp"

namespace dlblas::test {
namespace {

const Behaviour kSlow{Defect::kNone, [](std::int64_t) -> std::int64_t { return 200'000; }};
const Behaviour kFaster{Defect::kNone,
                        [](std::int64_t b) -> std::int64_t { return 100'000 - 10'000 * b; }};

class StaleTest : public TunerTest {
 protected:
  /// What a run measured, recorded as if it had been under `env`.
  const Operator& tuned_under(const Fields& env) {
    const Operator& op = make_operator(
        {dummy("slow", kSlow), dummy("faster", kFaster, &dummy_table()), dummy("plain", kPlain)});
    run_get_op(op);
    const auto merged = store_->load(store_key(op, make_problem(op)));
    Record record{merged->key, env, {}};
    for (const Merged::Row& row : merged->rows) record.candidates.push_back(row.candidate);
    store_->clear();
    store_->publish(record);
    return op;
  }
  static std::set<std::string> names(const TuneReport& report) {
    std::set<std::string> names;
    for (const Evaluated& e : report.evaluated)
      names.insert(e.plan->implementation->name + std::string(" ") +
                   e.plan->implementation->table().print(e.plan->config));
    return names;
  }
};

TEST_F(StaleTest, TheBestFourAndTheDefaultAreMeasuredAgainOnce) {
  const Operator& op = tuned_under({{"compiler", "another"}});
  const TuneReport report = run_get_op(op);
  EXPECT_EQ(report.source, "tuned");
  EXPECT_EQ(names(report),
            (std::set<std::string>{"slow default", "faster block=1", "faster block=2",
                                   "faster block=4", "faster block=8"}));
  EXPECT_STREQ(report.winner->name, "faster");
  EXPECT_EQ(report.config.values[0], 8);
  const std::int64_t before = measured();
  EXPECT_EQ(run_get_op(op).source, "store") << "once: now they are of this compiler";
  EXPECT_EQ(measured(), before);
}

// Otherwise every process would measure again what none has the time to decide.
TEST_F(StaleTest, ABudgetTooShortForAFinalMeasuresAgainOnceToo) {
  const Operator& op = tuned_under({{"compiler", "another"}});
  options_.on_event = [](const dlblas_event& event) { return event.kind == DLBLAS_EVENT_FINAL; };
  const TuneReport report = run_get_op(op);
  EXPECT_EQ(report.source, "tuned");
  EXPECT_EQ(report.final_rounds, 0);
  EXPECT_EQ(report.served_config.values[0], 8) << "what the old final decided";
  options_.on_event = {};
  const std::int64_t before = measured();
  const TuneReport hit = run_get_op(op);
  EXPECT_EQ(hit.source, "store");
  EXPECT_EQ(hit.config.values[0], 8);
  EXPECT_EQ(measured(), before);
}

TEST_F(StaleTest, ARunThatDidNotComeToTheWinnerSaysNothingOfIt) {
  const Operator& op = tuned_under({{"compiler", "another"}});
  options_.on_event = [](const dlblas_event& event) {
    return event.kind == DLBLAS_EVENT_MEASURED && event.done == 2;  // the default, block=1
  };
  const TuneReport report = run_get_op(op);
  EXPECT_EQ(find(report, "faster", 8), nullptr);
  options_.on_event = {};
  const TuneReport whole = run_get_op(op);
  EXPECT_EQ(whole.source, "tuned");
  EXPECT_EQ(whole.config.values[0], 8);
}

TEST_F(StaleTest, ItIsServedUntilThen) {
  const Operator& op = tuned_under({{"compiler", "another"}});
  const auto merged = store_->load(store_key(op, make_problem(op)));
  const std::vector<CurrentRow> rows = current_rows(op, make_problem(op), *merged);
  EXPECT_EQ(rows.size(), 6u) << "every row may be served";
  const CurrentRow* best = best_row(rows);
  ASSERT_NE(best, nullptr);
  EXPECT_STREQ(best->implementation->name, "faster");
  EXPECT_EQ(changed_since(*best, surroundings(make_problem(op))),
            std::string("compiler another, now ") + __VERSION__);
}

TEST_F(StaleTest, OnlyWhatIsKnownAndDiffersCounts) {
  for (const Fields& env :
       {Fields{}, Fields{{"compiler", __VERSION__}}, Fields{{"driver", "12.0"}, {"sm_mhz", "1"}}}) {
    const Operator& op = tuned_under(env);
    EXPECT_EQ(run_get_op(op).source, "store");
  }
  const Operator& op = tuned_under({{"driver", "12.8"}, {"nvrtc", "12.8"}});
  const auto merged = store_->load(store_key(op, make_problem(op)));
  const std::vector<CurrentRow> rows = current_rows(op, make_problem(op), *merged);
  EXPECT_EQ(stale_rows(rows, {{"driver", "13.0"}, {"nvrtc", "12.8"}}).size(), 4u);
  EXPECT_EQ(stale_rows(rows, {{"driver", "12.8"}, {"nvrtc", "13.0"}}).size(), 4u);
  EXPECT_EQ(stale_rows(rows, {{"driver", "12.8"}, {"nvrtc", ""}}).size(), 0u);
  EXPECT_EQ(changed_since(rows[0], {{"driver", "13.0"}, {"nvrtc", "13.1"}}),
            "driver 12.8, now 13.0, nvrtc 12.8, now 13.1");
}

TEST_F(StaleTest, TheDriverOfAGpuIsAmongTheSurroundings) {
  Problem problem = make_problem(make_operator({dummy("slow", kSlow)}));
  problem.device_type = DeviceType::kCuda;
  std::set<std::string> known;
  for (const Record::Field& f : surroundings(problem)) known.insert(f.name);
  EXPECT_EQ(known, (std::set<std::string>{"compiler", "driver", "nvrtc"}));
}

}  // namespace
}  // namespace dlblas::test
