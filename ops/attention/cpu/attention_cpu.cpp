// Attention on CPUs: one implementation per instruction set. A tile is some rows of a sequence: of
// one head or, where there are few positions, of all heads that share a head of k. It takes the
// keys block by block with the online softmax. A task holds such tiles of several heads that share
// a head of k, and runs them one after another on each block. In: Problem, Config; Args. Out:
// Kernel; o and lse. Numerics: f32, one rounding at the store. Flow: call > validate > [select] >
// [compile] > [launch]. Read next: attention_simd.hpp, attention_host.hpp.
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/attention/attention_config.hpp"
#include "ops/attention/attention_estimate.hpp"
#include "ops/attention/attention_host.hpp"

namespace dlblas::attention {
namespace {

constexpr std::int64_t kRows = 64;  // of a tile
constexpr std::int64_t kKeys = 64;  // of a block
constexpr std::int64_t kFew = 8;    // rows of a tile that is bound by memory
constexpr std::int64_t kHeads = 8;  // whose tiles a task has side by side, at most

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
  const AttentionOp* op;
  std::int64_t threads;
};

std::int64_t lanes(std::int64_t n) { return (n + kCpuLanes - 1) / kCpuLanes * kCpuLanes; }

/// The f32 value of each code.
const float* f8_values(DType type) {
  static const auto* made = [] {
    auto* values = new float[2][256];
    for (int code = 0; code < 256; ++code) {
      values[0][code] = f8_to_f32(DType::kF8E4M3, static_cast<std::uint8_t>(code));
      values[1][code] = f8_to_f32(DType::kF8E5M2, static_cast<std::uint8_t>(code));
    }
    return values;
  }();
  return made[type == DType::kF8E4M3 ? 0 : 1];
}

/// A tile's buffers: q, o, most and sum are its own, the others are the task's.
struct Places {
  float *q, *o, *most, *sum, *rows, *k, *v, *scores, *bias;
};
/// The buffers of a task.
class Scratch {
 public:
  Scratch(std::int64_t d, std::int64_t dv, std::int64_t tiles) : d_(d), wide_(lanes(dv)) {
    memory_.resize(static_cast<std::size_t>(tiles * kRows * (d + wide_ + 2) +
                                            kKeys * (std::max(d, dv) + d + wide_ + kRows + 1)));
    float* at = memory_.data();
    const auto take = [&](std::int64_t count) { return (at += count) - count; };
    first_.q = take(tiles * kRows * d), first_.o = take(tiles * kRows * wide_);
    first_.most = take(tiles * kRows), first_.sum = take(tiles * kRows);
    first_.scores = take(kRows * kKeys), first_.rows = take(kKeys * std::max(d, dv));
    first_.k = take(kKeys * d), first_.v = take(kKeys * wide_), first_.bias = take(kKeys);
  }
  Places of(std::int64_t tile) const {
    Places x = first_;
    x.q += tile * kRows * d_, x.o += tile * kRows * wide_;
    x.most += tile * kRows, x.sum += tile * kRows;
    return x;
  }

 private:
  std::int64_t d_, wide_;
  std::vector<float> memory_;
  Places first_;
};

/// Rows [first, first + count) of a sequence, as a tile numbers them: `pack` heads per position,
/// `head` the first of them.
struct Tile {
  std::int64_t b, head, pack, first, count;
  Sequence s;
  std::int64_t position(std::int64_t r) const { return (first + r) / pack; }
  std::int64_t head_of(std::int64_t r) const { return head + (first + r) % pack; }
};

class Job {
 public:
  Job(const AttentionCall& call, const AttentionPasses& passes, std::int64_t threads)
      : call_(call), passes_(passes) {
    std::int64_t longest = 0;
    for (std::int64_t b = 0; b < call.sequences(); ++b)
      longest = std::max(longest, call.sequence(b).q_rows);
    pack_ = longest * call.group <= kRows ? call.group : 1;
    std::int64_t tiles = 0;
    for (std::int64_t b = 0; b < call.sequences(); ++b) tiles += tiles_of(b);
    // Enough tasks that all threads finish at about the same time.
    while (pack_ == 1 && side_ < std::min(kHeads, call.group) &&
           tiles * call.all_heads() / (side_ + 1) >= 4 * threads)
      ++side_;
    while (call.group % side_ != 0) --side_;
    // Few queries are bound by memory. Where the heads of a token lie side by side, each block of
    // keys is read for several heads in turn: its pages are visited once, in order.
    const std::int64_t heads = call.all_heads() / (pack_ * side_);
    for (std::int64_t turns = 2; longest * pack_ <= kFew && turns <= heads; ++turns)
      if (heads % turns == 0 && tiles * (heads / turns) >= threads) turns_ = turns;
    for (std::int64_t b = 0; b < call.sequences(); ++b)
      starts_.push_back(starts_.back() + tiles_of(b) * (heads / turns_));
  }
  std::int64_t tasks() const { return starts_.back(); }

  void run(std::int64_t begin, std::int64_t end) const {
    const Scratch scratch(call_.d, call_.dv, side_ * turns_);
    for (std::int64_t i = begin; i < end; ++i) {
      const auto next = std::upper_bound(starts_.begin(), starts_.end(), i);
      const std::int64_t b = next - starts_.begin() - 1, tiles = tiles_of(b);
      const std::int64_t at = i - *(next - 1), rows = call_.sequence(b).q_rows * pack_;
      const std::int64_t first = at % tiles * kRows;
      run_tiles({b, at / tiles * pack_ * side_ * turns_, pack_, first,
                 std::min(kRows, rows - first), call_.sequence(b)},
                scratch);
    }
  }

 private:
  std::int64_t tiles_of(std::int64_t b) const {
    return (call_.sequence(b).q_rows * pack_ + kRows - 1) / kRows;
  }
  /// Reads a row of a head as contiguous f32.
  void read(const Heads& t, std::int64_t offset, std::int64_t width, float* to) const {
    if (is_f8(t.t.dtype)) {
      const auto* from = static_cast<const std::uint8_t*>(t.t.data) + offset;
      const float* values = f8_values(t.t.dtype);
      for (std::int64_t c = 0; c < width; ++c) to[c] = values[from[c * t.at[3]]];
      return;
    }
    if (t.at[3] == 1 || width <= 1) {
      const char* from = static_cast<const char*>(t.t.data) + offset * size_of(t.t.dtype);
      return passes_.widen(t.t.dtype, from, width, to);
    }
    for (std::int64_t c = 0; c < width; ++c) to[c] = static_cast<float>(t.element(offset, c));
  }

  /// Rows of f32, `pitch` apart.
  struct Rows {
    const float* data;
    std::int64_t pitch;
  };
  /// Rows of a head from `row` on: in place if `in_place` and they are f32 in whole vectors, else
  /// in `to`.
  Rows rows_of(const Heads& t, std::int64_t b, std::int64_t row, std::int64_t head,
               std::int64_t count, std::int64_t width, bool in_place, float* to,
               std::int64_t pitch) const {
    const char* from = static_cast<const char*>(t.t.data) + t.offset(b, row, head) * 4;
    if (in_place && t.t.dtype == DType::kF32 && t.at[3] == 1 && width == pitch &&
        reinterpret_cast<std::uintptr_t>(from) % sizeof(float) == 0)
      return {reinterpret_cast<const float*>(from), t.at[1]};
    for (std::int64_t j = 0; j < count; ++j) {
      read(t, t.offset(b, row + j, head), width, to + j * pitch);
      std::fill(to + j * pitch + width, to + (j + 1) * pitch, 0.0f);
    }
    return {to, pitch};
  }

  /// Runs `tile` and the tiles of the heads after it.
  void run_tiles(const Tile& tile, const Scratch& scratch) const {
    Keys all{tile.s.k_rows, 0}, seen[kRows];
    for (std::int64_t r = 0; r < tile.count; ++r) {
      seen[r] = call_.visible(tile.s, tile.position(r));
      if (seen[r].first < seen[r].end)
        all = {std::min(all.first, seen[r].first), std::max(all.end, seen[r].end)};
    }
    // The tiles of a turn share a head of k.
    const auto each_of = [&](std::int64_t turn, const auto& body) {
      for (std::int64_t i = 0; i < side_; ++i) {
        Tile one = tile;
        one.head += turn * side_ * pack_ + i;
        body(one, scratch.of(turn * side_ + i));
      }
    };
    const auto each = [&](const auto& body) {
      for (std::int64_t turn = 0; turn < turns_; ++turn) each_of(turn, body);
    };
    each([&](const Tile& one, const Places& x) { begin(one, x); });
    // Blocks start at the same keys for every tile, so a row has the same bits in any batch.
    for (std::int64_t key = all.first / kKeys * kKeys; key < all.end; key += kKeys) {
      const Keys block = {key, std::min(all.end, key + kKeys)};
      for (std::int64_t turn = 0; turn < turns_; ++turn) {
        const auto step = [&](std::int64_t of, std::int64_t at) {
          return Step{(tile.head + of * side_ * pack_) / call_.group, at,
                      std::max(at, std::min(all.end, at + kKeys))};
        };
        const Step next = turn + 1 < turns_ ? step(turn + 1, key) : step(0, key + kKeys);
        const Rows v = prepare(tile, step(turn, key), next, scratch.of(0));
        each_of(turn, [&](const Tile& one, const Places& x) { meet(one, seen, block, v, x); });
      }
    }
    each([&](const Tile& one, const Places& x) {
      for (std::int64_t r = 0; r < one.count; ++r) store(one, r, x);
    });
  }
  void begin(const Tile& tile, const Places& x) const {
    for (std::int64_t r = 0; r < tile.count; ++r) {
      x.most[r] = -std::numeric_limits<float>::infinity(), x.sum[r] = 0;
      const std::int64_t row = tile.s.q_from + tile.position(r);
      read(call_.q, call_.q.offset(tile.b, row, tile.head_of(r)), call_.d, x.q + r * call_.d);
    }
    std::fill(x.o, x.o + tile.count * lanes(call_.dv), 0.0f);
  }

  /// Fetches rows of a head into the caches: the hardware does not foresee them.
  static void fetch(const Heads& t, std::int64_t b, std::int64_t row, std::int64_t head,
                    std::int64_t count, std::int64_t width) {
    constexpr std::int64_t kLine = 64;
    const std::int64_t bytes = width * size_of(t.t.dtype);
    for (std::int64_t j = 0; t.at[3] == 1 && j < count; ++j) {
      const char* const at =
          static_cast<const char*>(t.t.data) + t.offset(b, row + j, head) * size_of(t.t.dtype);
      for (std::int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(at + i);
    }
  }

  /// A head's block of keys.
  struct Step {
    std::int64_t head, first, end;
  };
  /// Transposes a block's keys into columns; returns where its values are. `next`: what comes after
  /// it, maybe no key.
  Rows prepare(const Tile& tile, const Step& now, const Step& next, const Places& x) const {
    const std::int64_t wide = lanes(call_.dv), count = now.end - now.first;
    const std::int64_t from = tile.s.k_from + now.first, from_next = tile.s.k_from + next.first;
    // Many queries reread v, whose heads are interleaved and so map to few sets of the cache:
    // without a copy, f32 prefill of 512 took 46 ms instead of 41.
    const bool few = tile.count <= kFew;
    constexpr std::int64_t kSome = 16;
    for (std::int64_t j = 0; j < count; j += kSome) {
      const std::int64_t some = std::min(kSome, count - j);
      if (few) {
        const std::int64_t left = std::min(kSome, next.end - next.first - j);
        fetch(call_.v, tile.b, from + j, now.head, some, call_.dv);
        fetch(call_.k, tile.b, from_next + j, next.head, left, call_.d);
      }
      const Rows k =
          rows_of(call_.k, tile.b, from + j, now.head, some, call_.d, true, x.rows, call_.d);
      passes_.turn(k.data, k.pitch, some, call_.d, x.k + j, kKeys);
    }
    return rows_of(call_.v, tile.b, from, now.head, count, call_.dv, few, x.v, wide);
  }

  void meet(const Tile& tile, const Keys* seen, const Keys& block, const Rows& v,
            const Places& x) const {
    const std::int64_t wide = lanes(call_.dv), count = block.end - block.first;
    passes_.multiply(x.q, call_.d, x.k, kKeys, x.scores, kKeys, tile.count, call_.d, lanes(count),
                     false);
    // All heads over one head of k share the scale.
    const auto scale = static_cast<float>(call_.scale_of(tile.b, tile.head));
    bool alike = true;
    for (std::int64_t r = 0; r < tile.count; ++r) {
      const Keys keys = inside(seen[r], block);
      alike &= keys.first == block.first && keys.end == block.end;
      if (keys.first >= keys.end) continue;
      const float* bias = nullptr;
      if (call_.has_bias()) {
        read_bias(tile, r, keys, x.bias);
        bias = x.bias;
      }
      const float factor =
          passes_.softmax(x.scores + r * kKeys + keys.first - block.first, keys.end - keys.first,
                          scale, static_cast<float>(call_.cap), bias, x.most + r, x.sum + r);
      if (factor != 1) passes_.scale(x.o + r * wide, wide, factor);
    }
    if (alike)
      return passes_.multiply(x.scores, kKeys, v.data, v.pitch, x.o, wide, tile.count, count, wide,
                              true);
    // Each row takes only the keys it sees: 0 · NaN of an unseen key would be NaN.
    for (std::int64_t r = 0; r < tile.count; ++r) {
      const Keys keys = inside(seen[r], block);
      const std::int64_t first = keys.first - block.first;
      if (keys.first < keys.end)
        passes_.multiply(x.scores + r * kKeys + first, kKeys, v.data + first * v.pitch, v.pitch,
                         x.o + r * wide, wide, 1, keys.end - keys.first, wide, true);
    }
  }
  static Keys inside(const Keys& a, const Keys& b) {
    return {std::max(a.first, b.first), std::min(a.end, b.end)};
  }
  void read_bias(const Tile& tile, std::int64_t r, const Keys& keys, float* to) const {
    const TensorView& t = call_.bias();
    const std::int64_t step = call_.bias_at(3);
    const std::int64_t at = call_.bias_row(tile.b, tile.head_of(r), tile.position(r));
    for (std::int64_t i = keys.first; i < keys.end; ++i)
      *to++ = static_cast<float>(load_element(t, at + i * step));
  }

  void store(const Tile& tile, std::int64_t r, const Places& x) const {
    const std::int64_t row = tile.s.q_from + tile.position(r), head = tile.head_of(r);
    float* o = x.o + r * lanes(call_.dv);
    const bool none = x.sum[r] == 0;
    const auto v_scale = static_cast<float>(call_.value_scale(tile.b, head));
    passes_.scale(o, call_.dv, none ? 0 : v_scale / x.sum[r]);
    const Heads& to = call_.o;
    const std::int64_t offset = to.offset(tile.b, row, head);
    if (to.at[3] == 1 || call_.dv <= 1)
      passes_.narrow(to.t.dtype, o, call_.dv,
                     static_cast<char*>(to.t.data) + offset * size_of(to.t.dtype));
    else
      for (std::int64_t c = 0; c < call_.dv; ++c)
        store_element(to.t, offset + c * to.at[3], static_cast<double>(o[c]));
    const double lse =
        none ? -std::numeric_limits<double>::infinity()
             : static_cast<double>(x.most[r]) + std::log(static_cast<double>(x.sum[r]));
    store_element(call_.args.tensors[call_.op.lse],
                  call_.lse_row(tile.b, head) + row * call_.lse_step(), lse);
  }

  const AttentionCall& call_;
  const AttentionPasses& passes_;
  std::int64_t pack_, side_ = 1;  // heads of a tile, and of tiles side by side
  std::int64_t turns_ = 1;        // heads of k whose tiles take turns at each block
  std::vector<std::int64_t> starts_{0};
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& state = kernel.load<State>();
  const AttentionCall call(args, *state.op);
  const Job job(call, state.passes, state.threads);
  context.run(0, job.tasks(), 1,
              [&](std::int64_t begin, std::int64_t end) { job.run(begin, end); });
  return 0;
}

double estimate(const Query& q, const Config&) {
  const auto& op = kernels::op_of<AttentionOp>(q);
  const AttentionSizes s = sizes_of(q.problem, op);
  const double bytes = 2 * s.rows * s.columns * size_of(q.problem.tensors[op.q].dtype);
  constexpr double kReached = 0.5;  // of the peak; not measured yet
  // Granite Rapids, one thread, November 2026: decoding of 1 to 8 × 2048 bf16, 32 heads over 8.
  constexpr double kPreparing = 0.6;
  const double threads = std::max<double>(1, q.problem.threads);
  const double rows_together = kRows * kHeads;
  const double times = std::max(1.0, s.rows / s.heads / rows_together) * s.heads;
  return 1e3 * (launch_s(q.device) + times * packing_s(q, s, kPreparing) / threads) +
         kernels::rates_of(q).roofline_ms(threads, bytes,
                                          2 * s.rows * s.keys * s.columns / kReached, DType::kF32);
}

}  // namespace

std::vector<Implementation> attention_cpu(const AttentionOp& op) {
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = [](const Query&) { return Support::yes(); };
  base.same_bits = [](const Query& q) {
    return bits_beside_tiles(
        q, q.problem.tensors[kernels::op_of<AttentionOp>(q).q].dtype == DType::kBF16);
  };
  base.estimate = estimate;
  base.prepare = [](const Query& q, const Config&) {
    return make_kernel({run},
                       State{kernels::code_of<Level>(q).passes(), &kernels::op_of<AttentionOp>(q),
                             std::max<std::int64_t>(1, q.problem.threads)});
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
