// No lock is held while a caller's code runs: everything the library calls back (results,
// workspace, parallel_for, an implementation's functions, the tuner's events) may use all of the
// library again, from many threads at once. A lock held there shows as the alarm, or as a
// lock-order report of ThreadSanitizer (`make test-tsan`).  Read next: bindings/c/context.hpp,
// test_dispatch.cpp.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/handle.hpp"
#include "core/element.hpp"
#include "tests/cpp/schema_dummy.hpp"

namespace dlblas::test {
namespace {

constexpr int kThreads = 6;
constexpr unsigned kDeadline = 120;  // seconds; a deadlock is a signal, not a hanging run

/// The store of this process is its own folder, and the process has a deadline.
class Process : public testing::Environment {
 public:
  void SetUp() override {
    std::string name = testing::TempDir() + "dlblas-callbacks-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
    setenv("DLBLAS_CACHE", name.c_str(), 1);
    alarm(kDeadline);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

 private:
  std::filesystem::path path_;
};
const auto* const kProcess = testing::AddGlobalTestEnvironment(new Process);

// ---- y = 2 x, computed through its workspace ----------------------------------------------------

/// What each function of an implementation of `doubled` does in addition to its work.
std::function<void(const char* where)> g_inside = [](const char*) {};

int run_doubled(const Args& args, const Context& context, const Kernel&, void* workspace) {
  g_inside("step");
  const TensorView &x = args.tensors[0], &y = args.result(0);
  auto* const doubled = static_cast<float*>(workspace);
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  for (int pass = 0; pass < 2; ++pass)  // what the first leaves, the second finds
    context.run(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin * width; i < end * width; ++i)
        if (pass == 0)
          doubled[i] = 2 * static_cast<float>(load_element(x, i));
        else
          store_element(y, i, doubled[i]);
    });
  return 0;
}

Implementation doubling(const char* name) {
  Implementation impl;
  impl.name = name;
  impl.source_hash = "s1";
  impl.supports = [](const Query&) {
    g_inside("supports");
    return Support::yes();
  };
  impl.constrain = [](const Query&, Space&) { g_inside("constrain"); };
  impl.heuristic = [](const Query&) {
    g_inside("heuristic");
    return Config{};
  };
  impl.estimate = [](const Query&, const Config&) {
    g_inside("estimate");
    return 1.0;
  };
  impl.prepare = [](const Query& q, const Config&) {
    g_inside("prepare");
    Kernel kernel;
    kernel.steps[0] = run_doubled;
    kernel.num_steps = 1;
    kernel.workspace_bytes = static_cast<std::size_t>(q.problem.dims[0] * q.problem.dims[1]) * 4;
    return kernel;
  };
  return impl;
}

const Operator& add_doubled(const std::string& name) {
  OperatorDef def;
  def.family = "test";
  // Lives as long as the process; many threads add operators.
  static std::mutex mutex;
  static auto* const schemas = new std::deque<std::string>;
  {
    const std::lock_guard lock(mutex);
    def.schema =
        schemas->emplace_back(name + "(x: f32[T, C]) -> y: f32[T, C] where T: bucket(tokens)");
  }
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t n, OracleOut* out) {
    const std::int64_t width = args.tensors[0].shape[1];
    for (std::int64_t i = 0; i < n * width; ++i) {
      const std::int64_t from = rows[i / width] * width + i % width;
      out[0].value[i] = 2 * load_element(args.tensors[0], from);
    }
  };
  def.bound = [](const Problem&, int) { return Bound{0, 1e-6, 0}; };
  def.work_per_row = [](const Problem&) { return 1e9; };  // worth a second thread
  def.implementations = {doubling("first"), doubling("second")};
  return Registry::process().add(std::move(def));
}

/// Makes one call; returns what was wrong with it, or "".
std::string call_doubled(const Operator& op, std::int64_t rows, std::int64_t width,
                         dlblas_context* context) {
  std::vector<float> x(static_cast<std::size_t>(rows * width)), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  Array in{{rows, width}, {}, DType::kF32, x.data()};
  const dlblas_tensor tensor = in.tensor();
  const dlblas_value value{DLBLAS_TENSOR, 0, {.tensor = &tensor}};
  std::int64_t shape[DLBLAS_MAX_RANK], strides[DLBLAS_MAX_RANK];
  Array out{{rows, width}, {}, DType::kF32, y.data()};
  dlblas_tensor result = out.tensor();
  const bool makes = context && context->new_output;
  if (makes) result = {nullptr, {0, 0}, 0, {}, shape, strides, 0};
  const dlblas_args args{sizeof(dlblas_args), &value, 1, 0, nullptr, &result, 1, 0};
  const dlblas_status status = dlblas_call(handle_of(op.forms[0]), &args, context);
  if (status != DLBLAS_OK) {
    dlblas_error error{};
    error.size = sizeof error;
    dlblas_last_error(&error);
    return error.message;
  }
  const auto* const values = static_cast<const float*>(result.data);
  bool right = true;
  for (std::size_t i = 0; i < x.size(); ++i) right &= values[i] == 2 * x[i];
  if (makes) free(result.data);
  return right ? "" : "wrong values at " + std::to_string(rows) + " x " + std::to_string(width);
}

// ---- everything the library offers, from inside one of its calls --------------------------------

std::atomic<int> g_meddled{0}, g_new{0};

/// Calls, queries, pins, registers, and calls the operator that is calling. Does not nest itself.
void meddle(const Operator& op) {
  thread_local bool inside = false;
  if (inside) return;
  inside = true;
  const int n = g_meddled++;
  EXPECT_EQ(call_doubled(op, 1 + n % 7, 1 + n % 61, nullptr), "");  // mostly a new Problem
  const Problem problem = Call(op.forms[0]).tensor({{3, 1 + n % 61}, {}}).problem(2);
  EXPECT_EQ(explain(op, problem).candidates.size(), 3u);  // the oracle is the third
  pin(op, n % 2 ? "first" : "second", "");
  pin(op, "", "");
  if (n % 16 == 0) add_doubled("cb_new_" + std::to_string(g_new++));
  if (n % 16 == 8) {
    char* text = nullptr;
    EXPECT_EQ(dlblas_info(&text), DLBLAS_OK);
    dlblas_free(text);
  }
  inside = false;
}

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

/// A caller's context in which every function uses the library before it does its work.
struct Host {
  const Operator& op;
  std::vector<std::unique_ptr<std::byte[]>> workspace;  // lives until the call ends
  int results = 0, workspaces = 0, regions = 0;

  dlblas_context context() {
    dlblas_context c{};
    c.size = sizeof c;
    c.self = this;
    c.num_threads = 2;
    c.new_output = [](void* self, std::int32_t, dlblas_tensor* out) {
      Host& host = *static_cast<Host*>(self);
      ++host.results;
      meddle(host.op);
      std::size_t bytes = 4;
      for (int i = 0; i < out->ndim; ++i) bytes *= static_cast<std::size_t>(out->shape[i]);
      out->data = malloc(bytes);
      return 0;
    };
    c.alloc = [](void* self, std::size_t bytes, std::size_t align) -> void* {
      Host& host = *static_cast<Host*>(self);
      ++host.workspaces;
      meddle(host.op);
      host.workspace.push_back(std::make_unique<std::byte[]>(bytes + align));
      const auto address = reinterpret_cast<std::uintptr_t>(host.workspace.back().get());
      return reinterpret_cast<void*>((address + align - 1) / align * align);
    };
    c.parallel_for = [](void* self, std::int64_t begin, std::int64_t end, std::int64_t,
                        void (*fn)(std::int64_t, std::int64_t, void*), void* ctx) {
      Host& host = *static_cast<Host*>(self);
      ++host.regions;
      const std::int64_t middle = begin + (end - begin) / 2;
      std::thread other([&] {
        meddle(host.op);
        fn(begin, middle, ctx);
        meddle(host.op);
      });
      fn(middle, end, ctx);
      meddle(host.op);
      other.join();
    };
    return c;
  }
};

TEST(Callbacks, AContextsFunctionsMayUseTheLibrary) {
  const Operator& op = add_doubled("cb_context");
  together([&](int i) {
    for (int n = 0; n < 25; ++n) {
      Host host{op, {}};
      dlblas_context context = host.context();
      ASSERT_EQ(call_doubled(op, 2 + n % 5, 10 * (i + 1) + n, &context), "");
      EXPECT_EQ(host.results, 1);
      EXPECT_EQ(host.workspaces, 1);
      EXPECT_EQ(host.regions, 2);
    }
  });
}

// A call inside another call's step has the thread's workspace to itself, and gives it back.
TEST(Callbacks, AnImplementationsFunctionsMayUseTheLibrary) {
  const Operator& op = add_doubled("cb_functions");
  static std::atomic<int> supports{0}, chosen{0}, prepares{0}, steps{0};
  g_inside = [&](const char* where) {
    const std::string name = where;
    (name == "supports"  ? supports
     : name == "prepare" ? prepares
     : name == "step"    ? steps
                         : chosen)++;
    meddle(op);
  };
  together([&](int i) {
    for (int n = 0; n < 25; ++n)
      ASSERT_EQ(call_doubled(op, 2 + n % 5, 10 * (i + 1) + n, nullptr), "");
  });
  g_inside = [](const char*) {};
  for (const int count : {supports.load(), chosen.load(), prepares.load(), steps.load()})
    EXPECT_GT(count, kThreads);
}

TEST(Callbacks, TheTunersMayUseTheLibrary) {
  const Operator& op = add_doubled("cb_tuned");
  struct Seen {
    const Operator& op;
    int events = 0, asked = 0;
  } seen{op};
  dlblas_tune_options options{};
  options.size = sizeof options;
  options.seconds = 2;
  options.max_evaluations = 4;
  options.self = &seen;
  options.where = [](void* self, const char*, const char*) {
    ++static_cast<Seen*>(self)->asked;
    meddle(static_cast<Seen*>(self)->op);
    return 1;
  };
  options.on_event = [](void* self, const dlblas_event*) {
    ++static_cast<Seen*>(self)->events;
    meddle(static_cast<Seen*>(self)->op);
    return 0;
  };
  std::vector<float> x(4 * 32, 1.0F);
  Array in{{4, 32}, {}, DType::kF32, x.data()};
  const dlblas_tensor tensor = in.tensor();
  const dlblas_value value{DLBLAS_TENSOR, 0, {.tensor = &tensor}};
  const dlblas_args args{sizeof(dlblas_args), &value, 1, 0, nullptr, nullptr, 0, 0};
  ASSERT_EQ(dlblas_tune(handle_of(op.forms[0]), &args, nullptr, &options, nullptr), DLBLAS_OK);
  EXPECT_GE(seen.asked, 2);   // every candidate
  EXPECT_GE(seen.events, 4);  // start, both candidates, done
  EXPECT_EQ(call_doubled(op, 4, 32, nullptr), "");
}

// ---- memory that differs from what was requested ------------------------------------------------

struct OddMemory {
  std::vector<float> memory = std::vector<float>(64, -1);
  std::size_t shift = 0;   // bytes past a multiple of 64
  std::int64_t pitch = 0;  // 0: as asked
  bool none = false;
  bool untouched() const { return std::count(memory.begin(), memory.end(), -1.0F) == 64; }
  dlblas_context context() {
    dlblas_context c{};
    c.size = sizeof c;
    c.self = this;
    c.new_output = [](void* self, std::int32_t, dlblas_tensor* out) {
      const OddMemory& odd = *static_cast<OddMemory*>(self);
      const auto begin = reinterpret_cast<std::uintptr_t>(odd.memory.data());
      const std::uintptr_t aligned = (begin + 63) / 64 * 64;
      out->data = odd.none ? nullptr : reinterpret_cast<void*>(aligned + odd.shift);
      if (odd.pitch > 0) out->strides[0] = odd.pitch;
      return 0;
    };
    return c;
  }
};

/// The message of a call [2, 8] whose result is placed in `odd`.
std::string call_into(const Operator& op, OddMemory& odd, dlblas_status expected) {
  float x[16] = {};
  Array in{{2, 8}, {}, DType::kF32, x};
  const dlblas_tensor tensor = in.tensor();
  const dlblas_value value{DLBLAS_TENSOR, 0, {.tensor = &tensor}};
  std::int64_t shape[DLBLAS_MAX_RANK], strides[DLBLAS_MAX_RANK];
  dlblas_tensor result{nullptr, {0, 0}, 0, {}, shape, strides, 0};
  const dlblas_args args{sizeof(dlblas_args), &value, 1, 0, nullptr, &result, 1, 0};
  const dlblas_context context = odd.context();
  EXPECT_EQ(dlblas_call(handle_of(op.forms[0]), &args, &context), expected);
  dlblas_error error{};
  error.size = sizeof error;
  dlblas_last_error(&error);
  return expected == DLBLAS_OK ? "" : error.message;
}

TEST(NewOutput, MemoryOtherThanAskedForIsRefusedAndNotWritten) {
  const Operator& op = add_doubled("cb_odd");
  OddMemory odd;
  odd.shift = 4;
  EXPECT_EQ(call_into(op, odd, DLBLAS_ARGUMENT),
            "cb_odd: y is not in the memory that was asked of new_output; expected an address that "
            "is a multiple of 16, got a multiple of 4; pass such a result as an output instead");
  odd.shift = 0;
  odd.pitch = 12;
  EXPECT_EQ(call_into(op, odd, DLBLAS_ARGUMENT),
            "cb_odd: y is not in the memory that was asked of new_output; expected strides (8, 1), "
            "got strides (12, 1); pass such a result as an output instead");
  EXPECT_TRUE(odd.untouched());
  odd.pitch = 0;
  odd.shift = 16;
  EXPECT_EQ(call_into(op, odd, DLBLAS_OK), "");
  EXPECT_FALSE(odd.untouched());
}

TEST(NewOutput, NoMemorySaysHowMuchAndWhatToDo) {
  const Operator& op = add_doubled("cb_none");
  OddMemory odd;
  odd.none = true;
  EXPECT_EQ(call_into(op, odd, DLBLAS_LAUNCH),
            "cb_none: y could not be allocated; expected 64 bytes, got none; free memory of the "
            "host, or call with smaller tensors");
}

}  // namespace
}  // namespace dlblas::test
