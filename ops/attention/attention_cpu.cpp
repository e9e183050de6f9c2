// Attention on CPUs: one implementation per instruction set. A task is some rows of a sequence, of
// one head or, where there are few positions, of all heads over one of k: it meets the keys block
// by block, with the online softmax. In: Problem, Config; Args. Out: Kernel; o and lse. Numerics:
// f32, one rounding at the store. Flow: call > validate > [select] > [compile] > [launch].
// Read next: attention_simd.hpp, attention_host.hpp.
#include "core/rates.hpp"
#include "generated/source_hashes.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/attention/attention_config.hpp"
#include "ops/attention/attention_host.hpp"

namespace dlblas::attention {
namespace {

constexpr std::int64_t kRows = 64;  // of a task
constexpr std::int64_t kKeys = 64;  // of a block

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
};

std::int64_t lanes(std::int64_t n) { return (n + kCpuLanes - 1) / kCpuLanes * kCpuLanes; }

/// Each code's value.
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

/// What a task holds.
struct Scratch {
  std::vector<float> memory;
  float *q, *o, *rows, *k, *v, *scores, *bias, *most, *sum;
  Scratch(std::int64_t d, std::int64_t dv) {
    const std::int64_t wide = lanes(dv);
    memory.resize(static_cast<std::size_t>(kRows * (d + wide + kKeys + 2) +
                                           kKeys * (std::max(d, dv) + d + wide + 1)));
    float* at = memory.data();
    const auto take = [&](std::int64_t count) { return (at += count) - count; };
    q = take(kRows * d), o = take(kRows * wide), scores = take(kRows * kKeys);
    most = take(kRows), sum = take(kRows);
    rows = take(kKeys * std::max(d, dv)), k = take(kKeys * d), v = take(kKeys * wide);
    bias = take(kKeys);
  }
};

/// Rows [first, first + count) of a sequence, as a tile numbers them: `pack` heads for each
/// position, of which `head` is the first.
struct Tile {
  std::int64_t b, head, pack, first, count;
  Sequence s;
  std::int64_t position(std::int64_t r) const { return (first + r) / pack; }
  std::int64_t head_of(std::int64_t r) const { return head + (first + r) % pack; }
};

class Job {
 public:
  Job(const AttentionCall& call, const AttentionPasses& passes) : call_(call), passes_(passes) {
    std::int64_t longest = 0;
    for (std::int64_t b = 0; b < call.sequences(); ++b)
      longest = std::max(longest, call.sequence(b).q_rows);
    pack_ = longest * call.group <= kRows ? call.group : 1;
    for (std::int64_t b = 0; b < call.sequences(); ++b)
      starts_.push_back(starts_.back() + tiles_of(b) * (call.all_heads() / pack_));
  }
  std::int64_t tasks() const { return starts_.back(); }

  void run(std::int64_t begin, std::int64_t end) const {
    Scratch scratch(call_.d, call_.dv);
    for (std::int64_t i = begin; i < end; ++i) {
      const auto next = std::upper_bound(starts_.begin(), starts_.end(), i);
      const std::int64_t b = next - starts_.begin() - 1, tiles = tiles_of(b);
      const std::int64_t at = i - *(next - 1), rows = call_.sequence(b).q_rows * pack_;
      const std::int64_t first = at % tiles * kRows;
      run_tile(
          {b, at / tiles * pack_, pack_, first, std::min(kRows, rows - first), call_.sequence(b)},
          scratch);
    }
  }

 private:
  std::int64_t tiles_of(std::int64_t b) const {
    return (call_.sequence(b).q_rows * pack_ + kRows - 1) / kRows;
  }
  /// A row of a head as f32 side by side.
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

  void run_tile(const Tile& tile, const Scratch& x) const {
    const std::int64_t wide = lanes(call_.dv);
    Keys all{tile.s.k_rows, 0}, seen[kRows];
    for (std::int64_t r = 0; r < tile.count; ++r) {
      seen[r] = call_.visible(tile.s, tile.position(r));
      if (seen[r].first < seen[r].end)
        all = {std::min(all.first, seen[r].first), std::max(all.end, seen[r].end)};
      x.most[r] = -std::numeric_limits<float>::infinity(), x.sum[r] = 0;
      const std::int64_t row = tile.s.q_from + tile.position(r);
      read(call_.q, call_.q.offset(tile.b, row, tile.head_of(r)), call_.d, x.q + r * call_.d);
    }
    std::fill(x.o, x.o + tile.count * wide, 0.0f);
    // Blocks begin at the same keys for every tile: a row has the same bits in any batch.
    for (std::int64_t key = all.first / kKeys * kKeys; key < all.end; key += kKeys)
      meet(tile, seen, {key, std::min(all.end, key + kKeys)}, x);
    for (std::int64_t r = 0; r < tile.count; ++r) store(tile, r, x);
  }

  void meet(const Tile& tile, const Keys* seen, const Keys& block, const Scratch& x) const {
    const std::int64_t wide = lanes(call_.dv), count = block.end - block.first;
    const std::int64_t hkv = tile.head / call_.group, from = tile.s.k_from + block.first;
    for (std::int64_t j = 0; j < count; ++j) {
      read(call_.k, call_.k.offset(tile.b, from + j, hkv), call_.d, x.rows + j * call_.d);
      read(call_.v, call_.v.offset(tile.b, from + j, hkv), call_.dv, x.v + j * wide);
      std::fill(x.v + j * wide + call_.dv, x.v + (j + 1) * wide, 0.0f);
    }
    passes_.turn(x.rows, count, call_.d, x.k, kKeys);
    passes_.multiply(x.q, call_.d, x.k, kKeys, x.scores, kKeys, tile.count, call_.d, lanes(count),
                     false);
    // One for all heads over one of k.
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
      return passes_.multiply(x.scores, kKeys, x.v, wide, x.o, wide, tile.count, count, wide, true);
    // Each row with its own keys alone: 0 · NaN of one that it does not see would be NaN.
    for (std::int64_t r = 0; r < tile.count; ++r) {
      const Keys keys = inside(seen[r], block);
      const std::int64_t first = keys.first - block.first;
      if (keys.first < keys.end)
        passes_.multiply(x.scores + r * kKeys + first, kKeys, x.v + first * wide, wide,
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

  void store(const Tile& tile, std::int64_t r, const Scratch& x) const {
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
  std::int64_t pack_;
  std::vector<std::int64_t> starts_{0};
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& state = kernel.load<State>();
  const AttentionCall call(args, *state.op);
  const Job job(call, state.passes);
  context.run(0, job.tasks(), 1,
              [&](std::int64_t begin, std::int64_t end) { job.run(begin, end); });
  return 0;
}

double estimate(const Query& q, const Config&) {
  const auto& op = kernels::op_of<AttentionOp>(q);
  const auto size = [&](int letter) { return static_cast<double>(q.problem.dims[letter]); };
  const double rows =
      size(op.q_rows) * size(op.heads) * size(op.group) * (op.packed() ? 1 : size(op.batch));
  const double keys = size(op.k_rows) / (op.packed() ? std::max(1.0, size(op.batch)) : 1);
  const double products = 2 * rows * keys * (size(op.d) + size(op.dv));
  const double bytes =
      2 * rows * (size(op.d) + size(op.dv)) * size_of(q.problem.tensors[op.q].dtype);
  constexpr double kReached = 0.5;  // of the peak; not measured yet
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(std::max<double>(1, q.problem.threads), bytes,
                                          products / kReached, DType::kF32);
}

}  // namespace

std::vector<Implementation> attention_cpu(const AttentionOp& op) {
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = [](const Query&) { return Support::yes(); };
  base.estimate = estimate;
  base.prepare = [](const Query& q, const Config&) {
    return make_kernel({run},
                       State{kernels::code_of<Level>(q).passes(), &kernels::op_of<AttentionOp>(q)});
  };
  return kernels::per_level(
      base, "cpu_",
      {
#if defined(__x86_64__)
        {Isa::kAvx512, source_hash("ops/attention/attention_avx512.cpp"), &kAvx512},
            {Isa::kAvx2, source_hash("ops/attention/attention_avx2.cpp"), &kAvx2},
#endif
        {
          Isa::kBaseline, source_hash("ops/attention/attention_baseline.cpp"), &kBaseline
        }
      },
      &op);
}

}  // namespace dlblas::attention
