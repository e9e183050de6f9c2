// Attention's gradient on CPUs: one implementation per instruction set. Two kinds of tasks, all
// independent: rows of dq, which take the keys block by block, and rows of dk and dv, which take
// the queries. Both recompute scores and dP. "Own" is the side that a task has rows of, "other" the
// side it iterates over. In: Problem, Config; Args. Out: Kernel; dq, dk, dv. Numerics: f32, one
// rounding at the store; sums in the order of rows. Flow: call > validate > [select] > [compile] >
// [launch].  Read next: attention_simd.hpp, attention_cpu.cpp.
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/attention/attention_config.hpp"
#include "ops/attention/attention_host.hpp"

namespace dlblas::attention {
namespace {

constexpr std::int64_t kRows = 64;  // of a task, and of a block that it meets

struct Level {
  AttentionPasses (*passes)();
};
constexpr Level kBaseline = {baseline::attention_passes};
#if defined(__x86_64__)
constexpr Level kAvx2 = {avx2::attention_passes};
constexpr Level kAvx512 = {avx512::attention_passes};
#endif

struct State {
  AttentionPasses passes;
  const AttentionGradientOp* op;
};

std::int64_t lanes(std::int64_t n) { return (n + kCpuLanes - 1) / kCpuLanes * kCpuLanes; }

/// Rows of two tensors: q and dout, or k and v.
struct Side {
  float *inner, *outer;
};
struct Scratch {
  std::vector<float> memory;
  Side own, other, turned, sums;
  float *scores, *dp, *bias, *lse, *delta;
  Scratch(std::int64_t wide, std::int64_t wide_v) {
    memory.resize(static_cast<std::size_t>(kRows * (4 * (wide + wide_v) + 2 * kRows + 3)));
    float* at = memory.data();
    const auto take = [&](std::int64_t count) { return (at += count) - count; };
    for (Side* side : {&own, &other, &turned, &sums})
      *side = {take(kRows * wide), take(kRows * wide_v)};
    scores = take(kRows * kRows), dp = take(kRows * kRows);
    bias = take(kRows), lse = take(kRows), delta = take(kRows);
  }
};

class Job {
 public:
  Job(const Args& args, const AttentionGradientOp& op, const AttentionPasses& passes)
      : op_(op),
        call_(args, op.of),
        dout_(call_.view(op.dout)),
        passes_(passes),
        wide_(lanes(call_.d)),
        wide_v_(lanes(call_.dv)) {
    for (const bool keys : {true, false})
      for (std::int64_t b = 0; b < call_.sequences(); ++b)
        starts_.push_back(starts_.back() + tiles_of(b, keys) * heads_of(keys));
  }
  std::int64_t tasks() const { return starts_.back(); }

  void run(std::int64_t begin, std::int64_t end) const {
    Scratch scratch(wide_, wide_v_);
    for (std::int64_t i = begin; i < end; ++i) {
      const auto next = std::upper_bound(starts_.begin(), starts_.end(), i);
      const std::int64_t which = next - starts_.begin() - 1;
      const bool keys = which < call_.sequences();
      const std::int64_t b = which % call_.sequences(), tiles = tiles_of(b, keys);
      const std::int64_t at = i - *(next - 1), first = at % tiles * kRows;
      run_tile({b, at / tiles, first, std::min(kRows, rows_of(b, keys) - first), keys,
                call_.sequence(b)},
               scratch);
    }
  }

 private:
  struct Tile {
    std::int64_t b, head, first, count;  // head: of k for rows of dk and dv, else of q
    bool keys;
    Sequence s;
  };
  std::int64_t rows_of(std::int64_t b, bool keys) const {
    return keys ? call_.sequence(b).k_rows : call_.sequence(b).q_rows;
  }
  std::int64_t tiles_of(std::int64_t b, bool keys) const {
    return (rows_of(b, keys) + kRows - 1) / kRows;
  }
  std::int64_t heads_of(bool keys) const { return keys ? call_.heads : call_.all_heads(); }

  /// Reads a row of a head as f32, padded with zeros.
  void read(const Heads& t, std::int64_t offset, std::int64_t width, std::int64_t wide,
            float* to) const {
    if (t.at[3] == 1 || width <= 1)
      passes_.widen(t.t.dtype, static_cast<const char*>(t.t.data) + offset * size_of(t.t.dtype),
                    width, to);
    else
      for (std::int64_t c = 0; c < width; ++c) to[c] = static_cast<float>(t.element(offset, c));
    std::fill(to + width, to + wide, 0.0f);
  }
  void read_side(bool keys, const Tile& tile, std::int64_t head, std::int64_t first,
                 std::int64_t count, const Side& to) const {
    const std::int64_t from = (keys ? tile.s.k_from : tile.s.q_from) + first;
    const Heads &inner = keys ? call_.k : call_.q, &outer = keys ? call_.v : dout_;
    for (std::int64_t r = 0; r < count; ++r) {
      read(inner, inner.offset(tile.b, from + r, head), call_.d, wide_, to.inner + r * wide_);
      read(outer, outer.offset(tile.b, from + r, head), call_.dv, wide_v_, to.outer + r * wide_v_);
    }
  }
  /// lse and delta of a query; without keys, its lse is +inf here.
  void read_query(const Tile& tile, std::int64_t head, std::int64_t row, float* lse,
                  float* delta) const {
    const std::int64_t at = tile.s.q_from + row;
    const std::int64_t o0 = call_.o.offset(tile.b, at, head), d0 = dout_.offset(tile.b, at, head);
    float sum = 0;
    for (std::int64_t c = 0; c < call_.dv; ++c)
      sum += static_cast<float>(call_.o.element(o0, c) * dout_.element(d0, c));
    if (op_.dlse >= 0 && call_.args.has(op_.dlse))
      sum -= static_cast<float>(call_.row_value(op_.dlse, tile.b, head, at));
    *delta = sum;
    const auto value = static_cast<float>(call_.row_value(op_.of.lse, tile.b, head, at));
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    *lse = value == -kInfinity ? kInfinity : value;
  }

  void run_tile(const Tile& tile, const Scratch& x) const {
    Keys all{std::numeric_limits<std::int64_t>::max(), 0}, seen[kRows];
    for (std::int64_t r = 0; r < tile.count; ++r) {
      seen[r] =
          tile.keys ? call_.seeing(tile.s, tile.first + r) : call_.visible(tile.s, tile.first + r);
      if (seen[r].first < seen[r].end)
        all = {std::min(all.first, seen[r].first), std::max(all.end, seen[r].end)};
    }
    read_side(tile.keys, tile, tile.head, tile.first, tile.count, x.own);
    std::fill(x.sums.inner, x.sums.inner + kRows * wide_, 0.0f);
    std::fill(x.sums.outer, x.sums.outer + kRows * wide_v_, 0.0f);
    if (!tile.keys)
      for (std::int64_t r = 0; r < tile.count; ++r)
        read_query(tile, tile.head, tile.first + r, x.lse + r, x.delta + r);
    for (std::int64_t g = 0; g < (tile.keys ? call_.group : 1); ++g) {
      const std::int64_t head = tile.keys ? tile.head * call_.group + g : tile.head / call_.group;
      for (std::int64_t at = all.first; at < all.end; at += kRows)
        meet(tile, head, {at, std::min(all.end, at + kRows)}, seen, x);
    }
    const auto factor = static_cast<float>(call_.scale);
    passes_.scale(x.sums.inner, tile.count * wide_, factor);
    for (std::int64_t r = 0; r < tile.count; ++r) {
      write(tile, tile.keys ? op_.dk : op_.dq, r, call_.d, x.sums.inner + r * wide_);
      if (tile.keys) write(tile, op_.dv, r, call_.dv, x.sums.outer + r * wide_v_);
    }
  }

  void meet(const Tile& tile, std::int64_t head, const Keys& block, const Keys* seen,
            const Scratch& x) const {
    const std::int64_t count = block.end - block.first;
    read_side(!tile.keys, tile, head, block.first, count, x.other);
    passes_.turn(x.other.inner, wide_, count, wide_, x.turned.inner, kRows);
    passes_.turn(x.other.outer, wide_v_, count, wide_v_, x.turned.outer, kRows);
    passes_.multiply(x.own.inner, wide_, x.turned.inner, kRows, x.scores, kRows, tile.count,
                     call_.d, lanes(count), false);
    passes_.multiply(x.own.outer, wide_v_, x.turned.outer, kRows, x.dp, kRows, tile.count, call_.dv,
                     lanes(count), false);
    float lse[kRows], delta[kRows];
    if (tile.keys)
      for (std::int64_t j = 0; j < count; ++j)
        read_query(tile, head, block.first + j, lse + j, delta + j);
    for (std::int64_t r = 0; r < tile.count; ++r) {
      float *scores = x.scores + r * kRows, *dp = x.dp + r * kRows;
      const std::int64_t first = std::max(seen[r].first, block.first) - block.first;
      const std::int64_t end = std::min(seen[r].end, block.end) - block.first;
      if (first >= end) {
        std::fill(scores, scores + count, 0.0f), std::fill(dp, dp + count, 0.0f);
        continue;
      }
      if (!tile.keys)
        std::fill(lse, lse + count, x.lse[r]), std::fill(delta, delta + count, x.delta[r]);
      const float* bias = nullptr;
      if (call_.has_bias()) {
        for (std::int64_t j = first; j < end; ++j)
          x.bias[j] = bias_of(tile, head, r, block.first + j);
        bias = x.bias + first;
      }
      passes_.gradient(scores + first, dp + first, end - first, static_cast<float>(call_.scale),
                       static_cast<float>(call_.cap), bias, lse + first, delta + first);
      for (float* row : {scores, dp})
        std::fill(row, row + first, 0.0f), std::fill(row + end, row + count, 0.0f);
    }
    passes_.multiply(x.dp, kRows, x.other.inner, wide_, x.sums.inner, wide_, tile.count, count,
                     wide_, true);
    if (tile.keys)
      passes_.multiply(x.scores, kRows, x.other.outer, wide_v_, x.sums.outer, wide_v_, tile.count,
                       count, wide_v_, true);
  }
  float bias_of(const Tile& tile, std::int64_t head, std::int64_t r, std::int64_t other) const {
    const std::int64_t own = tile.first + r, row = tile.keys ? other : own;
    const std::int64_t key = tile.keys ? own : other;
    return static_cast<float>(load_element(
        call_.bias(),
        call_.bias_row(tile.b, tile.keys ? head : tile.head, row) + key * call_.bias_at(3)));
  }
  void write(const Tile& tile, int result, std::int64_t r, std::int64_t width,
             const float* from) const {
    const Heads to = call_.view(result);
    const std::int64_t at = (tile.keys ? tile.s.k_from : tile.s.q_from) + tile.first + r;
    const std::int64_t offset = to.offset(tile.b, at, tile.head);
    if (to.at[3] == 1 || width <= 1)
      return passes_.narrow(to.t.dtype, from, width,
                            static_cast<char*>(to.t.data) + offset * size_of(to.t.dtype));
    for (std::int64_t c = 0; c < width; ++c)
      store_element(to.t, offset + c * to.at[3], static_cast<double>(from[c]));
  }

  const AttentionGradientOp& op_;
  AttentionCall call_;
  Heads dout_;
  const AttentionPasses& passes_;
  std::int64_t wide_, wide_v_;
  std::vector<std::int64_t> starts_{0};
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& state = kernel.load<State>();
  const Job job(args, *state.op, state.passes);
  context.run(0, job.tasks(), 1,
              [&](std::int64_t begin, std::int64_t end) { job.run(begin, end); });
  return 0;
}

double estimate(const Query& q, const Config&) {
  const AttentionOp& op = kernels::op_of<AttentionGradientOp>(q).of;
  const auto size = [&](int letter) { return static_cast<double>(q.problem.dims[letter]); };
  const double rows =
      size(op.q_rows) * size(op.heads) * size(op.group) * (op.packed() ? 1 : size(op.batch));
  const double keys = size(op.k_rows) / (op.packed() ? std::max(1.0, size(op.batch)) : 1);
  const double width = size(op.d) + size(op.dv);
  const double bytes = 4 * rows * width * size_of(q.problem.tensors[op.q].dtype);
  constexpr double kReached = 0.4;  // of the peak; not measured yet
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(std::max<double>(1, q.problem.threads), bytes,
                                          7 * rows * keys * width / kReached, DType::kF32);
}

}  // namespace

std::vector<Implementation> attention_gradient_cpu(const AttentionGradientOp& op) {
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = [](const Query&) { return Support::yes(); };
  base.estimate = estimate;
  base.prepare = [](const Query& q, const Config&) {
    return make_kernel(
        {run}, State{kernels::code_of<Level>(q).passes(), &kernels::op_of<AttentionGradientOp>(q)});
  };
  return kernels::per_level(
      base, "cpu_",
      {
#if defined(__x86_64__)
        {Isa::kAvx512, source_hash<"ops/attention/cpu/attention_avx512.cpp">(), &kAvx512},
            {Isa::kAvx2, source_hash<"ops/attention/cpu/attention_avx2.cpp">(), &kAvx2},
#endif
        {
          Isa::kBaseline, source_hash<"ops/attention/cpu/attention_baseline.cpp">(), &kBaseline
        }
      },
      &op);
}

}  // namespace dlblas::attention
