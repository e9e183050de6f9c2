// Attention of bf16 on CPUs with AMX. A task is some rows of a sequence: positions with all heads
// that share a head of k. Each block of keys is packed once for all rows of the task. In: Problem;
// Args. Out: Kernel; o and lse. Flow: call > validate > [select] > [compile] > [launch].
// Read next: attention_tiles_cpu.hpp, attention_amx.cpp.
#include "ops/attention/cpu/attention_tiles_cpu.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/attention/attention_estimate.hpp"

namespace dlblas::attention {
#if defined(DLBLAS_X86)
namespace {

struct Level {
  AttentionTiles (*code)();
};
constexpr Level kLevel = {avx512::attention_tiles};

constexpr double kPacking = 0.85;  // see estimate

struct State {
  AttentionTiles code;
  const AttentionOp* op;
  TileSizes sizes;
  std::int64_t slots;
};

const void* element(const TensorView& t, std::int64_t offset) {
  return static_cast<const char*>(t.data) + offset * size_of(t.dtype);
}

class Job {
 public:
  Job(const AttentionCall& call, const State& state) : call_(call), code_(state.code) {
    std::int64_t all = 0;
    for (std::int64_t b = 0; b < call.sequences(); ++b) all += rows_of(b) * call.heads;
    rows_ = task_rows(all, state.slots, state.sizes);
    for (std::int64_t b = 0; b < call.sequences(); ++b)
      starts_.push_back(starts_.back() + tasks_of(b) * call.heads);
  }
  std::int64_t tasks() const { return starts_.back(); }

  void run(std::int64_t i, TileAttention& tiles) const {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), i);
    const std::int64_t b = next - starts_.begin() - 1, at = i - *(next - 1), each = tasks_of(b);
    // The last rows see the most keys, so they go first.
    const std::int64_t first = (each - 1 - at % each) * rows_;
    Task task{b, at / each, first, std::min(rows_, rows_of(b) - first), call_.sequence(b)};
    run(task, tiles);
  }

 private:
  struct Task {
    std::int64_t b, hkv, first, count;
    Sequence s;
  };
  std::int64_t rows_of(std::int64_t b) const { return call_.sequence(b).q_rows * call_.group; }
  std::int64_t tasks_of(std::int64_t b) const { return (rows_of(b) + rows_ - 1) / rows_; }
  std::int64_t position(const Task& t, std::int64_t r) const { return (t.first + r) / call_.group; }
  std::int64_t head(const Task& t, std::int64_t r) const {
    return t.hkv * call_.group + (t.first + r) % call_.group;
  }

  void run(const Task& t, TileAttention& tiles) const {
    tiles.begin(t.count);
    for (std::int64_t r = 0; r < t.count; ++r) {
      constexpr std::int64_t kAhead = 16;
      if (r + kAhead < t.count) fetch_row(query(t, r + kAhead), call_.d);
      tiles.query(r, query(t, r), call_.q.at[3], call_.visible(t.s, position(t, r)));
    }
    const auto bias = [&](std::int64_t r, const Keys& keys, float* to) {
      read_bias(t, r, keys, to);
    };
    const Keys keys = tiles.keys();
    for (std::int64_t key = keys.first; key < keys.end; key += kTileBlock)
      tiles.block(key, rows(call_.k, t, key), rows(call_.v, t, key),
                  static_cast<float>(call_.scale), static_cast<float>(call_.cap),
                  call_.has_bias() ? &bias : nullptr);
    for (std::int64_t r = 0; r < t.count; ++r) store(t, r, tiles);
  }
  const std::uint16_t* query(const Task& t, std::int64_t r) const {
    return static_cast<const std::uint16_t*>(call_.q.t.data) +
           call_.q.offset(t.b, t.s.q_from + position(t, r), head(t, r));
  }
  TileSource rows(const Heads& of, const Task& t, std::int64_t key) const {
    return {element(of.t, of.offset(t.b, t.s.k_from + key, t.hkv)), of.at[1], of.at[3]};
  }
  void read_bias(const Task& t, std::int64_t r, const Keys& keys, float* to) const {
    const TensorView& of = call_.bias();
    const std::int64_t step = call_.bias_at(3), count = keys.end - keys.first;
    const std::int64_t at = call_.bias_row(t.b, head(t, r), position(t, r)) + keys.first * step;
    if (step == 1) return code_.widen(of.dtype, element(of, at), count, to);
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = static_cast<float>(load_element(of, at + i * step));
  }
  void store(const Task& t, std::int64_t r, const TileAttention& tiles) const {
    const std::int64_t row = t.s.q_from + position(t, r);
    const Heads& o = call_.o;
    auto* const to = static_cast<std::uint16_t*>(o.t.data) + o.offset(t.b, row, head(t, r));
    const float lse = tiles.finish(r, 1, to, o.at[3]);
    store_element(call_.args.tensors[call_.op.lse],
                  call_.lse_row(t.b, head(t, r)) + row * call_.lse_step(),
                  static_cast<double>(lse));
  }

  const AttentionCall& call_;
  const AttentionTiles& code_;
  std::int64_t rows_ = kTileQueries;
  std::vector<std::int64_t> starts_{0};
};

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& state = kernel.load<State>();
  const AttentionCall call(args, *state.op);
  const Job job(call, state);
  run_tasks(context, state.slots, job.tasks(), [&](std::int64_t slot, const auto& each) {
    TileAttention tiles(state.code, state.sizes,
                        static_cast<char*>(workspace) + slot * state.sizes.bytes());
    each([&](std::int64_t i) { job.run(i, tiles); });
  });
  return 0;
}

Support supports(const Query& q) {
  const auto& op = kernels::op_of<AttentionOp>(q);
  if (q.problem.tensors[op.q].dtype != DType::kBF16)
    return Support::no("the unit multiplies bf16 alone; {} has another dtype", tensor(op.q));
  return Support::yes();
}

double estimate(const Query& q, const Config&) {
  const auto& op = kernels::op_of<AttentionOp>(q);
  return tiles_ms(q, sizes_of(q.problem, op),
                  TileSizes::of(q.problem.dims[op.d], q.problem.dims[op.dv]));
}

}  // namespace

std::vector<Implementation> attention_tiles_cpu(const AttentionOp& op) {
  if (op.q_descale >= 0) return {};  // of f8
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = supports;
  base.estimate = estimate;
  base.prepare = [](const Query& q, const Config&) {
    const auto& of = kernels::op_of<AttentionOp>(q);
    const TileSizes sizes = TileSizes::of(q.problem.dims[of.d], q.problem.dims[of.dv]);
    const std::int64_t slots = std::max<std::int64_t>(1, q.problem.threads);
    return make_kernel({run}, State{kernels::code_of<TileLevel>(q).code(), &of, sizes, slots},
                       static_cast<std::size_t>(slots) * sizes.bytes());
  };
  return tile_level(base, &op);
}
#else
std::vector<Implementation> attention_tiles_cpu(const AttentionOp&) { return {}; }
#endif

}  // namespace dlblas::attention
