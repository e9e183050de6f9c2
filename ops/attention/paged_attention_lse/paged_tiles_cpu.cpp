// paged_attention_lse of bf16 on CPUs with AMX, where sequences may have several queries. A task is
// some rows of a sequence with the heads that share a head of the cache; a block's keys are
// gathered from their pages and packed once for all rows. In: Problem; Args. Out: Kernel; o and
// lse.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// ../cpu/attention_tiles_cpu.hpp.
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/attention/cpu/attention_tiles_cpu.hpp"
#include "ops/attention/paged_attention_lse/paged_sight.hpp"

namespace dlblas::attention::paged {

Support serves_tiles(const Query& q) {
  for (const int t : {kQ, kKCache})
    if (q.problem.tensors[t].dtype != DType::kBF16)
      return Support::no("the unit multiplies bf16 alone; {} has another dtype", tensor(t));
  if (q.problem.tensors[kCuSeqlensQ].dtype == DType::kAbsent)
    return Support::no("rounds powers to bf16, which decoding without {} does not",
                       tensor(kCuSeqlensQ));
  return Support::yes();
}

#if defined(DLBLAS_X86)
namespace {

struct State {
  AttentionTiles code;
  TileSizes sizes;
  std::int64_t slots;

  std::size_t row_bytes(std::int64_t width) const {
    return static_cast<std::size_t>(2 * kTileBlock * tile_padded(width));
  }
  std::size_t bytes() const { return sizes.bytes() + row_bytes(sizes.d) + row_bytes(sizes.dv); }
};

class Job {
 public:
  Job(const Args& args, const State& state)
      : args_(args),
        code_(state.code),
        pages_(args),
        heads_(args.letters[kHkv]),
        group_(args.letters[kG]) {
    const std::int64_t rows =
        task_rows(args.letters[kT] * group_ * heads_, state.slots, state.sizes);
    const auto add = [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
      const std::int64_t all = (end - begin) * group_;
      for (std::int64_t first = 0; first < all; first += rows)
        parts_.push_back({b, begin, end, first, std::min(rows, all - first)});
    };
    std::int64_t after = 0;
    for (std::int64_t b = 0; b < args.letters[kB]; ++b) {
      const auto [begin, end] = pages_.queries(b);
      add(-1, after, begin);  // rows of no sequence see nothing
      add(b, begin, end);
      after = std::max(after, end);
    }
    add(-1, after, args.letters[kT]);
  }
  std::int64_t tasks() const { return static_cast<std::int64_t>(parts_.size()) * heads_; }

  void run(std::int64_t i, TileAttention& tiles, std::uint16_t* rows) const {
    const Part& part = parts_[static_cast<std::size_t>(i / heads_)];
    const std::int64_t head = i % heads_;
    load(part, head, tiles);
    const auto scale = static_cast<float>(scale_of(args_)) * value(kKScale);
    const auto cap = static_cast<float>(args_.scalars[kSoftcap].f);
    const Keys keys = tiles.keys();
    std::uint16_t* const values = rows + kTileBlock * tile_padded(args_.letters[kD]);
    for (std::int64_t key = keys.first; key < keys.end; key += kTileBlock) {
      const std::int64_t count = tiles.block_of(key);
      const TileSource k = gather(kKCache, args_.letters[kD], part.b, key, count, head, rows);
      const TileSource v = gather(kVCache, args_.letters[kDv], part.b, key, count, head, values);
      tiles.block(key, k, v, scale, cap);
    }
    store(part, head, tiles);
  }

 private:
  /// Rows [first, first + count) of a sequence, or of the rows that belong to none: all heads of
  /// one position, then of the next.
  struct Part {
    std::int64_t b, begin, end, first, count;  // b −1: of no sequence
  };
  std::int64_t position(const Part& p, std::int64_t r) const { return (p.first + r) / group_; }
  std::int64_t head_of(const Part& p, std::int64_t r, std::int64_t head) const {
    return head * group_ + (p.first + r) % group_;
  }
  float value(int tensor) const {
    return args_.has(tensor) ? *static_cast<const float*>(args_.tensors[tensor].data) : 1.0f;
  }

  void load(const Part& p, std::int64_t head, TileAttention& tiles) const {
    const TensorView& q = args_.tensors[kQ];
    tiles.begin(p.count);
    const std::int64_t length = p.b < 0 ? 0 : pages_.length(p.b);
    for (std::int64_t r = 0; r < p.count; ++r) {
      const std::int64_t h = head_of(p, r, head);
      const auto* from = static_cast<const std::uint16_t*>(q.data) +
                         (p.begin + position(p, r)) * q.strides[0] + h * q.strides[1];
      const auto [first, end] = pages_.sight(length - (p.end - p.begin) + position(p, r), length);
      tiles.query(r, from, q.strides[2], {first, end});
      if (p.b < 0 || !args_.has(kSinks)) continue;
      const TensorView& s = args_.tensors[kSinks];
      tiles.sink(r, static_cast<const float*>(s.data)[h * s.strides[0]]);
    }
  }
  TileSource gather(int cache, std::int64_t width, std::int64_t b, std::int64_t key,
                    std::int64_t count, std::int64_t head, std::uint16_t* to) const {
    const TensorView& t = args_.tensors[cache];
    const std::int64_t pitch = tile_padded(width);
    const auto at = [&](std::int64_t j) {
      return static_cast<const std::uint16_t*>(t.data) + pages_.offset(t, b, key + j, head);
    };
    for (std::int64_t j = 0; j < count; ++j) {
      constexpr std::int64_t kAhead = 16;
      if (j + kAhead < count) fetch_row(at(j + kAhead), width);
      code_.pack_query(at(j), t.strides[3], width, to + j * pitch);
    }
    return {to, pitch, 1};
  }
  void store(const Part& p, std::int64_t head, const TileAttention& tiles) const {
    const TensorView &o = args_.tensors[kO], &lse = args_.tensors[kLse];
    const float scale = value(kVScale);
    for (std::int64_t r = 0; r < p.count; ++r) {
      const std::int64_t t = p.begin + position(p, r), h = head_of(p, r, head);
      auto* const to = static_cast<std::uint16_t*>(o.data) + t * o.strides[0] + h * o.strides[1];
      static_cast<float*>(lse.data)[t * lse.strides[0] + h * lse.strides[1]] =
          tiles.finish(r, scale, to, o.strides[2]);
    }
  }

  const Args& args_;
  const AttentionTiles& code_;
  Pages pages_;
  std::int64_t heads_, group_;
  std::vector<Part> parts_;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& state = kernel.load<State>();
  const Job job(args, state);
  run_tasks(context, state.slots, job.tasks(), [&](std::int64_t slot, const auto& each) {
    char* const memory = static_cast<char*>(workspace) + slot * state.bytes();
    TileAttention tiles(state.code, state.sizes, memory);
    auto* const rows = reinterpret_cast<std::uint16_t*>(memory + state.sizes.bytes());
    each([&](std::int64_t i) { job.run(i, tiles, rows); });
  });
  return 0;
}

double estimate(const Query& q, const Config&) {
  const auto size = [&](int letter) { return static_cast<double>(q.problem.dims[letter]); };
  // As the other levels estimate: sequences are half as long as their pages allow.
  const double heads = size(kHkv) * std::max(1.0, size(kB));
  return tiles_ms(
      q,
      {size(kT) * size(kHkv) * size(kG), heads, size(kW) * size(kPage) / 2, size(kD) + size(kDv)},
      TileSizes::of(q.problem.dims[kD], q.problem.dims[kDv]));
}

}  // namespace

std::vector<Implementation> cpu_tiles() {
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = serves_tiles;
  base.estimate = estimate;
  base.prepare = [](const Query& q, const Config&) {
    const State state{kernels::code_of<TileLevel>(q).code(),
                      TileSizes::of(q.problem.dims[kD], q.problem.dims[kDv]),
                      std::max<std::int64_t>(1, q.problem.threads)};
    return make_kernel({run}, state, static_cast<std::size_t>(state.slots) * state.bytes());
  };
  return tile_level(base);
}
#else
std::vector<Implementation> cpu_tiles() { return {}; }
#endif

}  // namespace dlblas::attention::paged
