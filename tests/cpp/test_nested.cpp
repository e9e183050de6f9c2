// Operators composed of others: the part itself chooses what serves it, through every way a choice
// can be made, and queries about the whole show it. Read next: src/dispatch/nested.cpp.
#include <atomic>
#include <cmath>
#include <deque>
#include <thread>

#include "bindings/c/handle.hpp"
#include "core/in_flight.hpp"
#include "dispatch/decide.hpp"
#include "tests/cpp/norm_linear.hpp"
#include "tests/cpp/schema_dummy.hpp"
#include "tests/cpp/temporary_store.hpp"
#include "tests/cpp/tuner_dummy.hpp"

namespace dlblas::test {
namespace {

const auto* const kStore = testing::AddGlobalTestEnvironment(new test::TemporaryStore("nested"));

const Operator& of(const char* name) { return *Registry::process().at(name).op; }

/// The tensors of one call, and the call.
struct Sample {
  static constexpr std::int64_t kWidth = 48, kColumns = 40;
  std::int64_t t;
  std::vector<float> x, weight, w, out;

  explicit Sample(std::int64_t rows) : t(rows) {
    const auto fill = [](std::vector<float>& v, std::int64_t n, int seed) {
      for (std::int64_t i = 0; i < n; ++i)
        v.push_back(static_cast<float>((i * 37 + seed) % 101 - 50) / 32.0f);
    };
    fill(x, t * kWidth, 3), fill(weight, kWidth, 5), fill(w, kWidth * kColumns, 7);
    out.assign(static_cast<std::size_t>(std::max<std::int64_t>(t, 1) * kColumns), -1);
  }
  dlblas_status call(std::uint32_t flags = 0, bool warmup = false) {
    std::int64_t x_shape[] = {t, kWidth}, w_shape[] = {kWidth, kColumns}, y_shape[] = {t, kColumns};
    dlblas_tensor in[] = {{x.data(), {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0},
                          {weight.data(), {1, 0}, 1, {2, 32, 1}, w_shape, nullptr, 0},
                          {w.data(), {1, 0}, 2, {2, 32, 1}, w_shape, nullptr, 0}};
    dlblas_tensor result{out.data(), {1, 0}, 2, {2, 32, 1}, y_shape, nullptr, 0};
    dlblas_value values[3] = {};
    for (int i = 0; i < 3; ++i) values[i].kind = DLBLAS_TENSOR, values[i].as.tensor = &in[i];
    const dlblas_args args{sizeof(dlblas_args), values, 3, 0, nullptr, &result, 1, flags};
    dlblas_context context{};
    context.size = sizeof context;
    context.num_threads = 1;
    const dlblas_op_t op = handle_of(norm_linear().forms[0]);
    return warmup ? dlblas_warmup(op, &args, &context) : dlblas_call(op, &args, &context);
  }
  /// The largest difference from the formula, relative to the bound.
  double error() const {
    double worst = 0;
    for (std::int64_t i = 0; i < t; ++i) {
      double squares = 0;
      for (std::int64_t k = 0; k < kWidth; ++k) squares += std::pow(at(x, i * kWidth + k), 2);
      const double scale = 1 / std::sqrt(squares / kWidth + 1e-5);
      for (std::int64_t j = 0; j < kColumns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < kWidth; ++k)
          sum += at(x, i * kWidth + k) * scale * at(weight, k) * at(w, k * kColumns + j);
        worst = std::max(worst, std::abs(sum - at(out, i * kColumns + j)));
      }
    }
    return worst / 1e-4;
  }
  static double at(const std::vector<float>& v, std::int64_t i) {
    return v[static_cast<std::size_t>(i)];
  }
  Problem problem(std::uint32_t flags = 0) const {
    return Call(norm_linear().forms[0])
        .tensor({{t, kWidth}, {}})
        .tensor({{kWidth}, {}})
        .tensor({{kWidth, kColumns}, {}})
        .flags(flags)
        .problem();
  }
};

// An implementation of rms_norm that counts its runs. It counts as registered from outside, so it
// is chosen only where it was measured or pinned.
std::atomic<int> g_spied{0};
int run_spy(const Args& args, const Context&, const Kernel&, void*) {
  ++g_spied;
  const TensorView &x = args.tensors[0], &y = args.result(0);
  const std::int64_t c = x.shape[1];
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    double squares = 0;
    for (std::int64_t k = 0; k < c; ++k) squares += std::pow(load_element(x, i * c + k), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(c) + args.scalars[0].f);
    for (std::int64_t k = 0; k < c; ++k)
      store_element(y, i * c + k,
                    load_element(x, i * c + k) * scale * load_element(args.tensors[1], k));
  }
  return 0;
}
Implementation spy(const char* source_hash = "spy1") {
  Implementation impl;
  impl.name = "spy";
  impl.source_hash = source_hash;
  impl.flags.deterministic = true;
  impl.flags.user = true;
  impl.supports = [](const Query& q) {
    return q.problem.tensors[0].dtype == DType::kF32 ? Support::yes() : Support::no("not f32");
  };
  impl.prepare = [](const Query&, const Config&) { return make_kernel({run_spy}, 0); };
  return impl;
}

class NestedTest : public testing::Test {
 protected:
  void SetUp() override { Registry::process().put_user_implementation(of("rms_norm"), spy()); }
  void TearDown() override {
    pin(of("rms_norm"), "", "");
    pin(of("matmul"), "", "");
    Store::process().clear();
    for (const char* name : {"rms_norm", "matmul", "nested_norm_linear"}) forget(of(name));
  }
  static int spied(Sample& sample, std::uint32_t flags = 0) {
    const int before = g_spied;
    std::fill(sample.out.begin(), sample.out.end(), -1.0f);
    EXPECT_EQ(sample.call(flags), DLBLAS_OK);
    EXPECT_LT(sample.error(), 1);
    return g_spied - before;
  }
  static Explanation explain_of(const Sample& sample, std::uint32_t flags = 0) {
    const InFlight in_flight;
    return explain(norm_linear(), sample.problem(flags));
  }
  /// Stores a measurement of this implementation and configuration, as the tuner would publish it.
  static void store(const Plan& of, const char* implementation) {
    const Operator& op = Registry::process().by_id(of.problem.op);
    const Query q{of.problem, device_info({}), *op.find(implementation)};
    Record record{store_key(op, of.problem), {}, {}};
    Record::Candidate& c = record.candidates.emplace_back();
    c.implementation = implementation;
    c.source_hash = Identity(q).of(default_config(q));
    c.config = q.self.table().print(default_config(q));
    c.samples_ms.assign(30, 1e-3);
    Store::process().publish(record);
    forget(op);
  }
};

TEST_F(NestedTest, IsRightForEachNumberOfRows) {
  for (const std::int64_t t : {1, 2, 3, 17, 64, 65, 100}) {
    Sample sample(t);
    ASSERT_EQ(sample.call(), DLBLAS_OK);
    EXPECT_LT(sample.error(), 1) << t;
    ASSERT_EQ(sample.call(DLBLAS_DETERMINISTIC), DLBLAS_OK);
    EXPECT_LT(sample.error(), 1) << t;
  }
  Sample empty(0);
  EXPECT_EQ(empty.call(), DLBLAS_OK);
}

TEST_F(NestedTest, FollowsThePinOfAPart) {
  Sample sample(5);
  EXPECT_EQ(spied(sample), 0);
  pin(of("rms_norm"), "spy", "");
  EXPECT_EQ(spied(sample), 1);
  EXPECT_EQ(spied(sample), 1);
  pin(of("rms_norm"), "", "");
  EXPECT_EQ(spied(sample), 0);
}

TEST_F(NestedTest, UsesTheStoredWinnerOfAPart) {
  Sample sample(5);
  EXPECT_EQ(spied(sample), 0);
  store(*explain_of(sample).parts[0], "spy");
  EXPECT_EQ(spied(sample), 1);
  EXPECT_EQ(explain_of(sample).parts[0]->why, Why::kStore);
}

// A ready kernel selects nothing again: the whole keeps its parts' decisions and kernels.
TEST_F(NestedTest, AWarmCallSelectsAndPreparesNothing) {
  Sample sample(5);
  ASSERT_EQ(sample.call(0, true), DLBLAS_OK);
  const auto selected = g_counters.selected.load(), prepared = g_counters.prepared.load(),
             misses = g_counters.store_misses.load();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(sample.call(), DLBLAS_OK);
  EXPECT_LT(sample.error(), 1);
  EXPECT_EQ(g_counters.selected.load(), selected);
  EXPECT_EQ(g_counters.prepared.load(), prepared);
  EXPECT_EQ(g_counters.store_misses.load(), misses);
}

TEST_F(NestedTest, DeterministicRowsKeepTheirBits) {
  Sample one(1), many(33);
  ASSERT_EQ(one.call(DLBLAS_DETERMINISTIC), DLBLAS_OK);
  ASSERT_EQ(many.call(DLBLAS_DETERMINISTIC), DLBLAS_OK);
  const auto first = [](const Sample& s) {
    return std::vector<float>(s.out.begin(), s.out.begin() + Sample::kColumns);
  };
  EXPECT_EQ(first(one), first(many));
  store(*explain_of(many, DLBLAS_DETERMINISTIC).parts[0], "spy");
  EXPECT_EQ(spied(many, DLBLAS_DETERMINISTIC), 0) << "a measurement changes no bits";
  EXPECT_EQ(first(one), first(many));
  for (const auto& part : explain_of(many, DLBLAS_DETERMINISTIC).parts)
    EXPECT_TRUE(part->implementation->flags.deterministic);
}

TEST_F(NestedTest, RepeatableCallsLeaveOutPartsThatAreNot) {
  Implementation loose = spy("spy2");
  loose.flags.deterministic = loose.flags.repeatable = false;
  Registry::process().put_user_implementation(of("rms_norm"), loose);
  Sample sample(5);
  store(*explain_of(sample).parts[0], "spy");
  EXPECT_EQ(spied(sample), 1);
  EXPECT_EQ(spied(sample, DLBLAS_REPEATABLE), 0);
  EXPECT_EQ(spied(sample), 1);
}

TEST_F(NestedTest, AStoredResultIsOfTheseWinners) {
  Sample sample(5);
  const Problem problem = sample.problem();
  const auto measured_rows = [&] {
    const auto merged = Store::process().load(store_key(norm_linear(), problem));
    return current_rows(norm_linear(), problem, *merged).size();
  };
  store(*explain_of(sample).plan, "composed");
  EXPECT_EQ(measured_rows(), 1u);
  EXPECT_EQ(explain_of(sample).plan->why, Why::kStore);
  pin(of("rms_norm"), "spy", "");
  EXPECT_EQ(measured_rows(), 0u);
  EXPECT_EQ(explain_of(sample).plan->why, Why::kHeuristic);
  store(*explain_of(sample).plan, "composed");
  EXPECT_EQ(measured_rows(), 1u);
  Registry::process().put_user_implementation(of("rms_norm"), spy("spy2"));
  EXPECT_EQ(measured_rows(), 0u) << "the part is made of other code";
  pin(of("rms_norm"), "", "");
  EXPECT_EQ(measured_rows(), 1u) << "the first measurement is of these winners again";
}

TEST_F(NestedTest, ExplainSaysWhatServesTheParts) {
  Sample sample(5);
  pin(of("rms_norm"), "spy", "");
  const Explanation e = explain_of(sample);
  const std::string table = print_table(e);
  EXPECT_NE(table.find("\n  part rms_norm [T=8 C=48] x f32, weight f32, y f32; "),
            std::string::npos)
      << table;
  // Parts are chosen for the process's number of threads, whatever the call uses.
  const int threads = cpu_info().units;
  EXPECT_NE(table.find(text(threads, threads == 1 ? " thread" : " threads",
                            ": spy default (pinned)\n  part matmul [M=8 K=48 N=40] a f32,")),
            std::string::npos)
      << table;
  const std::string json = print_json(e);
  EXPECT_NE(json.find("\"parts\":[{\"op\":\"rms_norm\""), std::string::npos) << json;
}

TEST_F(NestedTest, WhatCannotServeAPartCannotServeTheWhole) {
  Sample sample(5);
  Registry::process().remove_user_implementation(of("rms_norm"), "spy");
  Implementation never = spy("spy3");
  never.supports = [](const Query&) { return Support::no("today is {}", 7); };
  Registry::process().put_user_implementation(of("rms_norm"), never);
  pin(of("rms_norm"), "spy", "");
  const Explanation e = explain_of(sample);
  EXPECT_FALSE(e.candidates[0].support);
  EXPECT_EQ(e.candidates[0]
                .support.text(norm_linear().schema)
                .find("its part rms_norm: pinned: spy: no: today is 7"),
            0u)
      << e.candidates[0].support.text(norm_linear().schema);
  EXPECT_STREQ(e.plan->implementation->name, "reference");
  EXPECT_TRUE(e.parts.empty());
  EXPECT_EQ(spied(sample), 0);
  EXPECT_EQ(error_of([] { pin(norm_linear(), "composed", ""); }), "");
  EXPECT_EQ(sample.call(), DLBLAS_UNSUPPORTED);
  pin(norm_linear(), "", "");
}

TEST_F(NestedTest, ManyThreadsWhileAPinComesAndGoes) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, calls{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      Sample sample(3 + i % 3);
      do {
        std::fill(sample.out.begin(), sample.out.end(), -1.0f);
        if (sample.call() != DLBLAS_OK || !(sample.error() < 1)) ++wrong;
        ++calls;
      } while (!stop);
    });
  for (int i = 0; calls < 2000; ++i) {
    pin(of("rms_norm"), i % 2 ? "" : "spy", "");
    Registry::process().put_user_implementation(of("rms_norm"), spy(i % 3 ? "a" : "b"));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- a whole around one dummy: y = part(x) ------------------------------------------------------

int run_around(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  kernel.part(0)({args.tensors[0]}, {args.tensors[1]}, context, workspace);
  return 0;
}
std::vector<Part> around_parts(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const std::vector<std::int64_t> shape{p.dims[0], p.dims[1]};
  return {{q.user<std::string>().c_str(), {{p.tensors[0], shape}}, {{p.tensors[1], shape}}}};
}
Implementation around(const std::string& part) {
  static auto* const names = new std::deque<std::string>;
  Implementation impl;
  impl.name = "around";
  impl.source_hash = "s1";
  impl.user = &names->emplace_back(part);
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.parts = around_parts;
  impl.prepare = [](const Query&, const Config&) { return make_kernel({run_around}, 0); };
  return impl;
}
std::string call_of(const Operator& op, const Context& context = {}) {
  return error_of([&] {
    const InFlight in_flight;
    std::vector<float> x(128, 1.5f), y(128, 0.0f);
    Array in{{8, 16}, {}}, out{{8, 16}, {}};
    in.data = x.data(), out.data = y.data();
    Call call(op.forms[0]);
    const Problem problem = call.tensor(in).out(out).problem();
    launch(compile(select(op, problem)), call.args, context);
    EXPECT_EQ(y, std::vector<float>(128, 3.0f));
  });
}

using NestedTuning = TunerTest;

TEST_F(NestedTuning, ErrorsOfAPartNameIt) {
  static const Behaviour code{Defect::kCode}, throws{Defect::kThrow}, unbuilt{Defect::kPrepare};
  const auto error_around = [](const Behaviour& behaviour, std::string* part, std::string* whole) {
    const Operator& inner = make_operator({dummy("broken", behaviour)});
    const Operator& outer = make_operator({around(inner.schema.name)});
    *part = inner.schema.name, *whole = outer.schema.name;
    return call_of(outer);
  };
  std::string part, whole;
  std::string error = error_around(code, &part, &whole);
  EXPECT_EQ(error, whole + ": part " + part + ": broken failed; expected 0, got code 7");
  error = error_around(throws, &part, &whole);
  EXPECT_EQ(error, whole + ": part " + part + ": dummy: kernel fell over");
  error = error_around(unbuilt, &part, &whole);
  EXPECT_EQ(error, whole + ": part " + part + ": dummy: will not build");
}

TEST_F(NestedTuning, ACallThatAPartRefusesSaysSo) {
  const Operator& inner = make_operator({dummy("plain", kPlain)});
  const auto refused = [&](StepFn step) {
    Implementation impl = around(inner.schema.name);
    static StepFn now;
    now = step;
    impl.prepare = [](const Query&, const Config&) { return make_kernel({now}, 0); };
    const std::string error = call_of(make_operator({impl}));
    return error.substr(error.find(": part ") + 7);
  };
  const std::string& name = inner.schema.name;
  EXPECT_EQ(refused([](const Args& args, const Context& context, const Kernel& kernel, void* w) {
              kernel.part(0)({args.tensors[0]}, {}, context, w);
              return 0;
            }).find(name + ": "),
            0u);
  EXPECT_EQ(refused([](const Args& args, const Context& context, const Kernel& kernel, void* w) {
              kernel.part(0)({{"scale", 2.0}, args.tensors[0]}, {args.tensors[1]}, context, w);
              return 0;
            }).find(name + ": "),
            0u);
  EXPECT_EQ(refused([](const Args& args, const Context& context, const Kernel& kernel, void* w) {
              TensorView nowhere = args.tensors[1];
              nowhere.data = nullptr;
              kernel.part(0)({args.tensors[0]}, {nowhere}, context, w);
              return 0;
            }).find(name + ": "),
            0u);
}

// A part called on another problem than planned is correct: it is selected at the call.
int row_by_row(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  for (std::int64_t i = 0; i < 8; ++i) {
    TensorView x = args.tensors[0], y = args.tensors[1];
    x.data = static_cast<float*>(x.data) + i * 16;
    y.data = static_cast<float*>(y.data) + i * 16;
    x.shape[0] = y.shape[0] = 1;
    kernel.part(0)({x}, {y}, context, workspace);
  }
  return 0;
}
TEST_F(NestedTuning, ACallOfAnotherProblemIsSelectedThen) {
  const Operator& inner = make_operator({dummy("plain", kPlain)});
  Implementation impl = around(inner.schema.name);
  impl.prepare = [](const Query&, const Config&) { return make_kernel({row_by_row}, 0); };
  EXPECT_EQ(call_of(make_operator({impl})), "");
}

TEST_F(NestedTuning, ACycleIsRefusedInWords) {
  const Operator& itself = make_operator({});
  Registry::process().add_implementation(itself, around(itself.schema.name));
  const Operator &a = make_operator({}), &b = make_operator({around(a.schema.name)});
  Registry::process().add_implementation(a, around(b.schema.name));
  const auto reason = [&](const Operator& op) {
    const InFlight in_flight;
    return explain(op, make_problem(op)).candidates[0].support.text(op.schema);
  };
  const std::string& name = itself.schema.name;
  EXPECT_EQ(reason(itself), "its part " + name +
                                ": parts lead back to it; expected operators that are no part of "
                                "themselves, got " +
                                name + " > " + name);
  EXPECT_EQ(call_of(itself), "") << "its reference serves it";
  EXPECT_EQ(call_of(a), "");
  EXPECT_EQ(call_of(b), "");
}

TEST_F(NestedTuning, AnUnknownPartIsRefusedInWords) {
  const Operator& op = make_operator({around("no_such_operator")});
  const InFlight in_flight;
  EXPECT_EQ(explain(op, make_problem(op))
                .candidates[0]
                .support.text(op.schema)
                .find("its part no_such_operator: operator is unknown"),
            0u);
}

TEST_F(NestedTuning, TheWholeIsMeasuredAgainWhenAPartIsAnother) {
  const Operator& inner = make_operator({dummy("plain", kPlain), dummy("fast", kFast)});
  const Operator& outer = make_operator({around(inner.schema.name), dummy("slow", kSlow)});
  TuneReport report = run_get_op(outer);
  EXPECT_EQ(report.source, "tuned");
  EXPECT_EQ(find(report, "around")->failure, Failure::kNone) << find(report, "around")->note;
  EXPECT_EQ(run_get_op(outer).source, "store");
  pin(inner, "fast", "");
  report = run_get_op(outer);
  EXPECT_EQ(report.source, "tuned") << "what was measured was another";
  EXPECT_STREQ(report.winner->name, "around");
  EXPECT_EQ(run_get_op(outer).source, "store");
  pin(inner, "", "");
}

// DLBLAS_REQUIRE_HIT applies to calls: a part's time is in the record of the whole.
TEST(NestedUnderRequireHit, APartNeedsNoRecord) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("DLBLAS_REQUIRE_HIT", "1", 1);
        const Operator& inner = make_operator({dummy("plain", kPlain), dummy("slow", kSlow)});
        const Operator& outer = make_operator({around(inner.schema.name)});
        const Support part =
            check_support({make_problem(outer), device_info({}), *outer.candidates().front()});
        const std::string whole = error_of([&] { decide(outer, make_problem(outer)); });
        const bool named = whole.starts_with(outer.schema.name + ": call has no tuned result");
        std::fprintf(stderr, "%s; %s\n", part.text(outer.schema).c_str(), whole.c_str());
        std::exit(part && named ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// Calls on other problems than planned keep no memory: the tuner makes thousands of them.
TEST_F(NestedTuning, ACallOfAnotherProblemAsksNoContextForWorkspace) {
  Implementation needy = dummy("plain", kPlain);
  needy.prepare = [](const Query&, const Config&) {
    Kernel kernel =
        make_kernel({[](const Args& args, const Context&, const Kernel&, void* workspace) {
                      auto* sums = static_cast<double*>(workspace);
                      for (std::int64_t i = 0; i < args.tensors[0].numel(); ++i) {
                        sums[i] = 2 * load_element(args.tensors[0], i);
                        store_element(args.tensors[1], i, sums[i]);
                      }
                      return 0;
                    }},
                    0);
    kernel.workspace_bytes = 16 * sizeof(double);
    return kernel;
  };
  const Operator& inner = make_operator({needy});
  Implementation impl = around(inner.schema.name);
  impl.prepare = [](const Query&, const Config&) { return make_kernel({row_by_row}, 0); };
  static int asked;
  asked = 0;
  alignas(64) static std::uint8_t own[1024];
  Context context;
  context.alloc = [](void*, std::size_t, std::size_t) -> void* { return ++asked, own; };
  EXPECT_EQ(call_of(make_operator({impl}), context), "");
  EXPECT_EQ(asked, 1) << "the whole's, in which its part of the planned problem would work";
}

// A whole may call its part once per row: each call's workspace is released at its end, so that a
// context with few workspaces suffices.
TEST_F(NestedTuning, WhatAPartAsksForGoesWhenThePartEnds) {
  Implementation asks = dummy("plain", kPlain);
  asks.prepare = [](const Query&, const Config&) {
    return make_kernel({[](const Args& args, const Context& context, const Kernel&, void*) {
                         auto* sums = static_cast<double*>(context.alloc(context.self, 128, 64));
                         if (!sums) return 1;
                         for (std::int64_t i = 0; i < args.tensors[0].numel(); ++i) {
                           sums[i % 16] = 2 * load_element(args.tensors[0], i);
                           store_element(args.tensors[1], i, sums[i % 16]);
                         }
                         return 0;
                       }},
                       0);
  };
  const Operator& inner = make_operator({asks});
  Implementation impl = around(inner.schema.name);
  impl.prepare = [](const Query&, const Config&) { return make_kernel({row_by_row}, 0); };
  Context context;
  context.alloc = [](void*, std::size_t, std::size_t) -> void* { return nullptr; };
  EXPECT_EQ(call_of(make_operator({impl}), context), "");
}

// The workspace of parts, and of their parts, lies inside the whole's.
TEST_F(NestedTuning, PartsWorkInTheWorkspaceOfTheWhole) {
  constexpr std::size_t kBytes = 100;
  const auto needy = [](Implementation impl) {
    impl.prepare = [](const Query&, const Config&) {
      Kernel kernel = make_kernel(
          {[](const Args& args, const Context&, const Kernel&, void* workspace) {
            const auto* bytes = static_cast<std::uint8_t*>(workspace);
            if (!std::all_of(bytes, bytes + kBytes, [](std::uint8_t b) { return b == 0; }))
              return 1;
            for (std::int64_t i = 0; i < args.tensors[0].numel(); ++i)
              store_element(args.tensors[1], i, 2 * load_element(args.tensors[0], i));
            return 0;
          }},
          0);
      kernel.workspace_bytes = kernel.zeroed_bytes = kBytes;
      return kernel;
    };
    return impl;
  };
  const auto owns = [](Implementation impl) {
    impl.prepare = [](const Query&, const Config&) {
      Kernel kernel = make_kernel({run_around}, 0);
      kernel.workspace_bytes = kBytes;
      return kernel;
    };
    return impl;
  };
  const Operator& inner = make_operator({needy(dummy("plain", kPlain))});
  const Operator& middle = make_operator({owns(around(inner.schema.name))});
  const Operator& outer = make_operator({owns(around(middle.schema.name))});
  {
    const InFlight in_flight;
    EXPECT_EQ(compile(select(outer, make_problem(outer))).workspace_bytes, 256 + 256 + kBytes);
  }
  struct Pool {
    alignas(256) std::uint8_t bytes[1024];
    int asked = 0;
  } pool;
  std::memset(pool.bytes, 0x77, sizeof pool.bytes);
  Context context;
  context.self = &pool;
  context.alloc = [](void* self, std::size_t, std::size_t) -> void* {
    auto& from = *static_cast<Pool*>(self);
    return ++from.asked, from.bytes;
  };
  EXPECT_EQ(call_of(outer, context), "");
  EXPECT_EQ(pool.asked, 1);
  EXPECT_EQ(pool.bytes[0], 0x77) << "the whole's own is left alone";
  EXPECT_EQ(pool.bytes[512], 0) << "what the part zeroed";
}

}  // namespace
}  // namespace dlblas::test
