// A dummy operator for the tuner's tests: y = 2 x, with implementations that are fast, slow or
// broken in a chosen way. Time is a counter that the kernels advance, so every test is exact.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/counters.hpp"
#include "core/element.hpp"
#include "tuner/inputs.hpp"
#include "tuner/tune.hpp"

namespace dlblas::test {

inline std::int64_t g_now = 0;
inline std::int64_t fake_clock() { return g_now; }

enum class Defect {
  kNone,
  kWrong,
  kNan,
  kTail,
  kPastEnd,
  kCode,
  kThrow,
  kPrepare,
  kSecondRun,
  kWritesInput,
  kRemembers,
  kReadsFirst,   // the tensor that the first call of this shape had
  kWritesFirst,  // its result
  kProbes,       // kRemembers, of an address and what a few elements hold
  kKeepsPitch,   // of x, by its shape
  kKeepsRows,    // by their width
  kClips,
  kCountsOnZeros,  // in its workspace, as a counter that each run sets back
  kPacksOnce,      // into its workspace, as long as a word there says that it did
  kSkipsUndefined,
  kOneRow
};

struct Behaviour {
  Defect defect = Defect::kNone;
  /// Nanoseconds of a run with `block`.
  std::int64_t (*cost)(std::int64_t block) = [](std::int64_t) -> std::int64_t { return 100'000; };
  int from_run = 0;  // the defect shows from this run on, counted from 1
  mutable int runs = 0;
  std::int64_t compile_ns = 0;
};
inline const Behaviour kSlow{Defect::kNone, [](std::int64_t) -> std::int64_t { return 200'000; }};
inline const Behaviour kKnobbed{
    Defect::kNone, [](std::int64_t b) -> std::int64_t { return b == 4 ? 25'000 : 50'000; }};
inline const Behaviour kFast{Defect::kNone, [](std::int64_t) -> std::int64_t { return 10'000; }};
/// Rows from this one on are undefined, like the padding of groups.
inline std::int64_t g_undefined_from = std::numeric_limits<std::int64_t>::max();
/// The row that kOneRow gets wrong, and by what fraction of a value.
inline std::int64_t g_wrong_row = 0;
inline double g_wrong_by = 1;
/// Multiply-adds per row, as the operator claims; 0: its width.
inline double g_row_work = 0;
/// Nanoseconds per row of the reference.
inline std::int64_t g_row_ns = 0;

inline Memory& host_memory() {
  static HostMemory memory{Context{}};
  return memory;
}

struct DummyConfig {
  int block = 1;
};
inline const ConfigTable<DummyConfig>& dummy_table() {
  static const ConfigTable<DummyConfig> table{field<&DummyConfig::block>("block", {1, 2, 4, 8})};
  return table;
}
inline const ConfigTable<DummyConfig>& wide_table() {
  static const ConfigTable<DummyConfig> table{field<&DummyConfig::block>("block", [] {
    std::vector<std::int64_t> values;
    for (int i = 1; i <= 200; ++i) values.push_back(i);
    return values;
  }())};
  return table;
}

/// The content at the tensor's address when first requested; with `probe`, as long as the first and
/// the last element stay the same.
inline const std::vector<double>& first_seen(const TensorView& t, bool probe = false) {
  using Key = std::tuple<const void*, double, double>;
  static auto* const seen = new std::map<Key, std::vector<double>>;
  const Rows all = rows_of(t, 0);
  const auto at = [&](std::int64_t i) { return load_element(t, all.offset(i)); };
  std::vector<double>& values = (*seen)[{t.data, probe ? at(0) : 0, probe ? at(all.count - 1) : 0}];
  if (values.empty())
    for (std::int64_t i = 0; i < all.count; ++i) values.push_back(load_element(t, all.offset(i)));
  return values;
}

/// The address of the first tensor of this shape in the current search.
inline std::map<std::pair<bool, std::int64_t>, void*> g_first_data;
/// Strides of x, and rows, at the first request for this shape or width.
inline std::map<std::int64_t, TensorView> g_first_pitch;
inline std::map<std::int64_t, std::int64_t> g_first_rows;
/// The address of x in every run.
inline std::vector<const void*> g_seen_data;

inline double packed_in(void* workspace, double value) {
  constexpr std::uint64_t kPacked = 0x6b63617020736920;
  struct Packed {
    std::uint64_t word;
    double value;
  };
  auto& packed = *static_cast<Packed*>(workspace);
  if (packed.word != kPacked) packed = {kPacked, value};
  return packed.value;
}

inline int run_dummy(const Args& args, const Context&, const Kernel& kernel, void* workspace) {
  struct State {
    const Behaviour* behaviour;
    std::int64_t block;
  };
  const State& state = kernel.load<State>();
  static int runs = 0;
  const bool shows = ++state.behaviour->runs >= state.behaviour->from_run;
  const Defect defect = shows ? state.behaviour->defect : Defect::kNone;
  g_now += state.behaviour->cost(state.block);
  if (defect == Defect::kCode) return 7;
  if (defect == Defect::kThrow) throw Error(ErrorKind::kLaunch, "dummy: kernel fell over");
  TensorView x = args.tensors[0], y = args.result(0);
  g_seen_data.push_back(x.data);
  if (defect == Defect::kReadsFirst)
    x.data = g_first_data.try_emplace({true, x.numel()}, x.data).first->second;
  if (defect == Defect::kWritesFirst)
    y.data = g_first_data.try_emplace({false, y.numel()}, y.data).first->second;
  if (defect == Defect::kKeepsPitch) {
    const TensorView& first = g_first_pitch.try_emplace(x.numel(), x).first->second;
    std::copy_n(first.strides, kMaxRank, x.strides);
  }
  const Rows from = rows_of(x), to = rows_of(y);
  const std::int64_t width = x.shape[x.rank - 1];
  const std::int64_t sx = x.strides[x.rank - 1], sy = y.strides[y.rank - 1];
  const bool probes = defect == Defect::kProbes;
  const std::vector<double>* const kept =
      probes || defect == Defect::kRemembers ? &first_seen(x, probes) : nullptr;
  std::int64_t count = from.count;
  if (defect == Defect::kKeepsRows)
    count = std::min(count, g_first_rows.try_emplace(width, count).first->second);
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t c = 0; c < width; ++c) {
      if (defect == Defect::kSkipsUndefined && t >= g_undefined_from) break;
      const bool last = t == from.count - 1 && c == width - 1;
      if (defect == Defect::kTail && last) continue;
      double v = 2 * (kept ? (*kept)[static_cast<std::size_t>(t * width + c)]
                           : load_element(x, from.offset(t) + c * sx));
      if (defect == Defect::kCountsOnZeros) v += *static_cast<double*>(workspace);
      if (defect == Defect::kPacksOnce && t == 0 && c == 0) v = packed_in(workspace, v);
      if (defect == Defect::kClips) v = std::clamp(v, -8.0, 8.0);
      if (t == g_wrong_row && c == 0 && defect == Defect::kOneRow) v *= 1 + g_wrong_by;
      if (last && defect == Defect::kWrong) v += 1;
      if (last && defect == Defect::kNan) v = std::nan("");
      if (last && defect == Defect::kSecondRun && ++runs % 2 == 0) v += 1;
      store_element(y, to.offset(t) + c * sy, v);
    }
  if (defect == Defect::kWritesInput)
    store_element(x, from.offset(0), load_element(x, from.offset(0)) + 1);
  if (defect == Defect::kPastEnd) store_element(y, to.offset(from.count - 1) + width * sy, 0);
  return 0;
}

/// `behaviour` lives as long as the process.
inline Implementation dummy(const char* name, const Behaviour& behaviour,
                            const KnobTable* knobs = nullptr, const char* source_hash = "s1") {
  Implementation impl;
  impl.name = name;
  impl.source_hash = source_hash;
  impl.knobs = knobs;
  impl.user = &behaviour;
  impl.flags.deterministic = true;
  impl.supports = [](const Query&) { return Support::yes(); };
  if (knobs)
    impl.heuristic = [](const Query&) {
      Config c;
      c.values[c.count++] = 1;
      return c;
    };
  impl.prepare = [](const Query& q, const Config& config) {
    const Behaviour& b = q.user<Behaviour>();
    g_now += b.compile_ns;
    if (b.defect == Defect::kPrepare) throw Error(ErrorKind::kCompile, "dummy: will not build");
    struct State {
      const Behaviour* behaviour;
      std::int64_t block;
    };
    Kernel kernel = make_kernel({run_dummy}, State{&b, config.count > 0 ? config.values[0] : 1});
    if (b.defect == Defect::kCountsOnZeros || b.defect == Defect::kPacksOnce)
      kernel.workspace_bytes = 64;
    return kernel;
  };
  return impl;
}

inline const Behaviour kPlain{Defect::kNone, [](std::int64_t) -> std::int64_t { return 200'000; }};
/// As if it had been registered from outside.
inline Implementation user(Implementation impl) {
  impl.flags.user = true;
  return impl;
}

/// A new operator with these implementations and the reference; `bound` is its error bound.
inline const Operator& make_operator(
    std::vector<Implementation> implementations, BoundFn bound = [](const Problem&, int) {
      return Bound{0, 1e-3, 0};
    }) {
  static int count = 0;
  static std::vector<std::string>* schemas = new std::vector<std::string>(1000);
  std::string& schema = (*schemas)[static_cast<std::size_t>(count)];
  schema = "tuner_dummy_" + std::to_string(count++) +
           "(x: f[*T, C], scale: float = 2) -> y: like(x)[*T, C] where T: bucket(tokens)";
  OperatorDef def;
  def.family = "test";
  def.schema = schema;
  def.formula = "y = 2 x";
  def.letters = {"T", "C"};
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t n, OracleOut* out) {
    const TensorView& x = args.tensors[0];
    const Rows map = rows_of(x);
    const std::int64_t width = x.shape[x.rank - 1], stride = x.strides[x.rank - 1];
    g_now += n * g_row_ns;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t c = 0; c < width; ++c) {
        const double v = 2 * load_element(x, map.offset(rows[i]) + c * stride);
        out[0].value[i * width + c] = v;
        out[0].magnitude[i * width + c] = rows[i] < g_undefined_from ? std::abs(v) : -1;
      }
  };
  def.bound = bound;
  def.work_per_row = [](const Problem& p) {
    return g_row_work > 0 ? g_row_work : static_cast<double>(p.dims[1]);
  };
  def.implementations = std::move(implementations);
  return Registry::process().add(std::move(def));
}

inline Problem make_problem(const Operator& op, std::int64_t rows = 8, std::int64_t width = 16,
                            DType dtype = DType::kF32) {
  Problem problem;
  problem.op = op.id;
  problem.threads = 1;
  problem.tensors[0] = problem.tensors[1] = {dtype, Layout::kContiguous, 4, 0};
  problem.dims[0] = rows;
  problem.dims[1] = width;
  return problem;
}

/// A store in its own folder, removed at the end; options with the fake clock.
class TunerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dlblas-tuner-XXXXXX";
    folder_ = mkdtemp(name);
    store_ = std::make_unique<Store>(folder_ + "/v1");
    options_.store = store_.get();
    options_.clock = fake_clock;
    options_.seconds = 10;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TuneReport run_tune(const Operator& op) {
    return tune(op, make_problem(op), nullptr, context_, options_);
  }
  TuneReport run_get_op(const Operator& op) {
    return get_op(op, make_problem(op), nullptr, context_, options_);
  }
  static std::int64_t measured() { return g_counters.measured.load(); }
  static const Evaluated* find(const TuneReport& report, std::string_view name, int block = 0) {
    for (const Evaluated& e : report.evaluated)
      if (e.plan->implementation->name == name && (block == 0 || e.plan->config.values[0] == block))
        return &e;
    return nullptr;
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
  Context context_;
  TuneOptions options_;
};

}  // namespace dlblas::test
