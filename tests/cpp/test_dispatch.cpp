// First calls from many threads while another one changes what they would get: registers, pins,
// unpins, publishes, clears. Every call must be answered correctly by an implementation that was
// allowed at some moment during the call, and calls after a change must see it. Run under
// ThreadSanitizer by `make test-tsan`.  Read next: src/dispatch/select.cpp.
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/handle.hpp"
#include "core/counters.hpp"
#include "core/element.hpp"
#include "core/in_flight.hpp"
#include "tests/cpp/schema_dummy.hpp"
#include "tests/cpp/temporary_store.hpp"

namespace dlblas::test {
namespace {

constexpr int kThreads = 8;

/// The store of this process is its own folder.
const auto* const kStore = testing::AddGlobalTestEnvironment(new test::TemporaryStore("dispatch"));

// ---- y[0] = 2 · x[0] … , y[1] = which implementation ran -----------------
// One row of results: column 0 is computed, column 1 is the mark of the implementation.

struct State {
  double mark;
  std::int64_t width;  // what prepare saw: a kernel on another problem's arguments shows
};

int run_marked(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const State& state = kernel.load<State>();
  const TensorView &x = args.tensors[0], &y = args.result(0);
  if (x.shape[1] != state.width) return 3;
  context.run(0, x.shape[0], 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      store_element(y, t * 2, 2 * load_element(x, t * x.shape[1]));
      store_element(y, t * 2 + 1, state.mark);
    }
  });
  return 0;
}

template <int kMark>
Implementation marked(const char* name) {
  Implementation impl;
  impl.name = name;
  impl.source_hash = "s1";
  impl.flags.deterministic = true;
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.prepare = [](const Query& q, const Config&) {
    std::this_thread::yield();  // others come in between
    Kernel kernel;
    kernel.steps[0] = run_marked;
    kernel.num_steps = 1;
    kernel.store(State{kMark, q.problem.dims[1]});
    return kernel;
  };
  return impl;
}

const Operator& make_marked(const std::string& name, std::vector<Implementation> implementations) {
  static auto* texts = new std::deque<std::string>;
  OperatorDef def;
  def.family = "test";
  def.schema = texts->emplace_back(name + "(x: f32[T, C]) -> y: f32[T, 2] where T: bucket(tokens)");
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t n, OracleOut* out) {
    const TensorView& x = args.tensors[0];
    for (std::int64_t i = 0; i < n; ++i) {
      out[0].value[2 * i] = 2 * load_element(x, rows[i] * x.shape[1]);
      out[0].value[2 * i + 1] = 0;  // the reference's mark
    }
  };
  def.bound = [](const Problem&, int) { return Bound{0, 1e-3, 0}; };
  def.work_per_row = [](const Problem&) { return 1.0; };
  def.implementations = std::move(implementations);
  return Registry::process().add(std::move(def));
}

/// One call through the C ABI; returns the mark of the implementation that ran, or -1 - status.
int answer(const Operator& op, std::int64_t rows, std::int64_t width, float seed) {
  std::vector<float> x(static_cast<std::size_t>(rows * width)),
      y(static_cast<std::size_t>(rows * 2));
  for (std::int64_t t = 0; t < rows; ++t) x[static_cast<std::size_t>(t * width)] = seed + t;
  Array in{{rows, width}, {}, DType::kF32, x.data()}, out{{rows, 2}, {}, DType::kF32, y.data()};
  const dlblas_tensor tensor = in.tensor();
  dlblas_tensor result = out.tensor();
  const dlblas_value value{DLBLAS_TENSOR, 0, {.tensor = &tensor}};
  const dlblas_args args{sizeof(dlblas_args), &value, 1, 0, nullptr, &result, 1, 0};
  dlblas_context context{};
  context.size = sizeof context;
  context.num_threads = 2;
  const dlblas_status status = dlblas_call(handle_of(op.forms[0]), &args, &context);
  if (status != DLBLAS_OK) return -1 - status;
  for (std::int64_t t = 0; t < rows; ++t) {
    EXPECT_EQ(y[static_cast<std::size_t>(2 * t)], 2 * (seed + t)) << rows << " x " << width;
    EXPECT_EQ(y[static_cast<std::size_t>(2 * t + 1)], y[1]);
  }
  return static_cast<int>(y[1]);
}

Problem problem_of(const Operator& op, std::int64_t rows, std::int64_t width) {
  alignas(64) static float memory[1 << 14];
  return Call(op.forms[0])
      .tensor({{rows, width}, {}, DType::kF32, memory})
      .out({{rows, 2}, {}, DType::kF32, memory + (1 << 13)})
      .problem(2);
}

void publish(const Operator& op, const Problem& problem, const char* implementation, double ms) {
  Record record;
  record.key = store_key(op, problem);
  Record::Candidate c;
  c.implementation = implementation;
  c.source_hash = "s1";
  c.config = Implementation::no_knobs().print(Config{});
  c.samples_ms.assign(30, ms);
  record.candidates.push_back(c);
  EXPECT_TRUE(Store::process().publish(std::move(record)));
  forget(op);
}

/// Runs the body on kThreads threads that start together.
void together(const std::function<void(int)>& body) {
  std::atomic<int> waiting{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      body(i);
    });
  for (std::thread& t : threads) t.join();
}

// ---- first calls ------------------------------------------------------

TEST(Dispatch, FirstCallsOnOneProblemShareOnePlanAndOneKernel) {
  for (int round = 0; round < 20; ++round) {
    const Operator& op = make_marked("d_first_" + std::to_string(round), {marked<1>("one")});
    const Problem problem = problem_of(op, 4, 8);
    std::mutex mutex;
    std::set<const Plan*> plans;
    std::set<const Kernel*> kernels;
    together([&](int i) {
      EXPECT_EQ(answer(op, 4, 8, static_cast<float>(i)), 1);
      const InFlight in_flight;
      const Plan& plan = select(op, problem);
      const Kernel& kernel = compile(plan);
      const std::lock_guard lock(mutex);
      plans.insert(&plan);
      kernels.insert(&kernel);
    });
    EXPECT_EQ(kernels.size(), plans.size());
    EXPECT_EQ(plans.size(), 1u);
  }
}

TEST(Dispatch, FirstCallsOnManyProblemsGrowTheMapUnderReaders) {
  const Operator& op = make_marked("d_many", {marked<1>("one")});
  constexpr int kWidths = 300;  // the map doubles three times
  together([&](int i) {
    for (int w = 0; w < kWidths; ++w) {
      const int width = 1 + (w * 7 + i * 40) % kWidths;
      ASSERT_EQ(answer(op, 1 + w % 3, width, static_cast<float>(w)), 1);
    }
  });
  const std::int64_t selected = g_counters.selected, prepared = g_counters.prepared;
  for (int width = 1; width <= kWidths; ++width)
    for (int rows = 1; rows <= 3; ++rows) {
      const InFlight in_flight;
      const Plan& plan = select(op, problem_of(op, rows, width));
      EXPECT_EQ(plan.problem.dims[1], width);
      EXPECT_EQ(&select(op, plan.problem), &plan);
    }
  // Problems that were called are remembered; the rest of rows × widths was decided just now.
  EXPECT_LE(g_counters.selected - selected, 3 * kWidths);
  EXPECT_EQ(g_counters.prepared, prepared);
  const std::int64_t before = g_counters.selected;
  for (int width = 1; width <= kWidths; ++width) EXPECT_EQ(answer(op, 1, width, 1), 1);
  EXPECT_EQ(g_counters.selected, before);
}

TEST(Dispatch, SeveralOperatorsAreCalledWhileOthersAreAdded) {
  const Operator& op = make_marked("d_steady", {marked<1>("one")});
  const Operator& reference_only = make_marked("d_reference", {});
  std::atomic<bool> stop{false};
  std::thread registrar([&] {
    for (int i = 0; i < 200; ++i) {
      const Operator& added = make_marked("d_added_" + std::to_string(i), {marked<2>("two")});
      EXPECT_EQ(answer(added, 2, 4, 1), 2);
      EXPECT_NE(Registry::process().find("d_added_" + std::to_string(i)), nullptr);
    }
    stop = true;
  });
  together([&](int i) {
    for (int n = 0; !stop || n < 50; ++n) {
      ASSERT_EQ(answer(op, 1 + n % 5, 4 + i, 3), 1);
      ASSERT_EQ(answer(reference_only, 1 + n % 70, 4 + n % 40, 3), 0);
    }
  });
  registrar.join();
}

// ---- changes under calls ------------------------------------------------

TEST(Dispatch, CallsRaceWithEveryKindOfChange) {
  const Operator& op = make_marked("d_race", {marked<1>("one"), marked<2>("two")});
  constexpr int kRounds = 60;
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < kThreads; ++i)
    callers.emplace_back([&, i] {
      for (int n = 0; !stop; ++n) {
        // Half of the threads share their problems, half have their own; T runs through its
        // buckets.
        const int width = i % 2 ? 3 + n % 5 : 16 * (i + 1) + n % 11;
        const int mark = answer(op, 1 + n % 9, width, static_cast<float>(n % 100));
        ASSERT_TRUE(mark >= 0 && mark <= 3) << mark << ": only these were ever registered";
        ++calls;
      }
    });
  const Problem problem = problem_of(op, 4, 5);
  double best_ms = 1;
  for (int round = 0; round < kRounds; ++round) {
    pin(op, "two", "");
    EXPECT_EQ(answer(op, 4, 5, 1), 2);  // a change is seen by the call after it
    pin(op, "reference", "");
    EXPECT_EQ(answer(op, 4, 5, 1), 0);
    pin(op, "", "");
    if (round == 0) {
      EXPECT_EQ(answer(op, 4, 5, 1), 1);
    }
    publish(op, problem, round % 2 ? "one" : "two", best_ms *= 0.8);
    EXPECT_EQ(answer(op, 4, 5, 1), round % 2 ? 1 : 2);
    if (round == kRounds / 2) Registry::process().add_implementation(op, marked<3>("three"));
    if (round > kRounds / 2) {
      pin(op, "three", "");
      EXPECT_EQ(answer(op, 4, 5, 1), 3);
      pin(op, "", "");
    }
    const InFlight in_flight;
    const Explanation explained = explain(op, problem);
    EXPECT_EQ(explained.candidates.size(), round < kRounds / 2 ? 3u : 4u);
    EXPECT_FALSE(print_table(explained).empty());
  }
  stop = true;
  for (std::thread& t : callers) t.join();
  EXPECT_GT(calls, kThreads);
}

TEST(Dispatch, ForgettingAllTheTimeServesNoStalePlan) {
  const Operator& op = make_marked("d_forget", {marked<1>("one"), marked<2>("two")});
  std::atomic<bool> stop{false};
  std::thread forgetter([&] {
    while (!stop) forget(op), std::this_thread::yield();
  });
  together([&](int i) {
    for (int n = 0; n < 300; ++n) ASSERT_EQ(answer(op, 1, 1 + (n + i) % 20, 5), 1);
  });
  stop = true;
  forgetter.join();
  pin(op, "two", "");
  together([&](int i) { EXPECT_EQ(answer(op, 1, 1 + i, 5), 2); });
}

// Errors belong to their thread, and an implementation that refuses does so for all threads.
TEST(Dispatch, FailuresOfOneThreadAreNotAnothers) {
  Implementation picky = marked<1>("picky");
  picky.supports = [](const Query& q) {
    const std::int64_t width = q.problem.dims[1];
    return width % 2 ? Support::no("width {} is odd", width) : Support::yes();
  };
  const Operator& op = make_marked("d_picky", {picky});
  pin(op, "picky", "");
  together([&](int i) {
    for (int n = 0; n < 200; ++n) {
      const int width = 2 + (n + i) % 10;
      const int mark = answer(op, 2, width, 1);
      if (width % 2 == 0) {
        ASSERT_EQ(mark, 1);
        continue;
      }
      ASSERT_EQ(mark, -1 - DLBLAS_UNSUPPORTED);
      dlblas_error error{};
      error.size = sizeof error;
      dlblas_last_error(&error);
      const std::string wanted = "width " + std::to_string(width) + " is odd";
      ASSERT_NE(std::string(error.message).find(wanted), std::string::npos) << error.message;
    }
  });
}

}  // namespace
}  // namespace dlblas::test
