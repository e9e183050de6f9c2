// paged_attention_lse by Hopper's WGMMA, for chunks of prefill: attention_wgmma, whose copying warp
// looks pages up. In: Problem, Config; Args. Out: Kernel and its sources; launches. Flow: call >
// validate > [select] > [compile] > [launch].  Read next: ops/attention/cuda/attention_wgmma.cuh.
#include "ops/attention/cuda/attention_wgmma_host.hpp"
#include "ops/attention/paged_attention_lse/paged_cuda.hpp"

namespace dlblas::attention::paged {
namespace {

/// `rows`: traits of the kernel for strides that the copy engine cannot walk.
struct WgmmaTraits {
  AttentionTraits of;
  PagedTraits rows;
};

struct Form : kernels::CudaForm<WgmmaTraits, AttentionWgmmaConfig>, AttentionWgmma {
  static constexpr bool kHopper = true;
  static constexpr std::int64_t kMax = std::int64_t{1} << 30;

  static Support supports(const Query& q) {
    const Problem& p = q.problem;
    const auto& d = p.dims;
    if (p.tensors[kCuSeqlensQ].dtype == DType::kAbsent)
      return Support::no("{} is absent: one query a sequence", tensor(kCuSeqlensQ));
    if (size_of(p.tensors[kQ].dtype) != 2) return Support::no("{} is not of 16 bits", tensor(kQ));
    if (const Support heads = supports_heads(d[kD], d[kDv]); !heads) return heads;
    for (const int i : {kQ, kKCache, kVCache, kO})
      if (const Support rows = supports_rows(q, i, d[i == kQ || i == kKCache ? kD : kDv]); !rows)
        return rows;
    for (const Letter letter : {kT, kHkv, kG, kB, kW})
      if (d[letter] > kMax) return Support::no("a size is {}; at most {}", d[letter], kMax);
    if (d[kPage] == 0) return Support::no("there are no pages");
    if (d[kW] * d[kPage] > kMax)
      return Support::no("sequences of {} keys; at most {}", d[kW] * d[kPage], kMax);
    if ((d[kT] / 128 + d[kB] + 2) * d[kHkv] * d[kG] > kMax)
      return Support::no("{} heads of {} rows", d[kHkv] * d[kG], d[kT]);
    if (!fits(q, preset(q)))
      return Support::no("no block holds whole pages of {} keys, heads of {} and {}", d[kPage],
                         d[kD], d[kDv]);
    return Support::yes();
  }
  static Support same_bits(const Query&) { return Support::no("cuda_rows adds in another order"); }
  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    AttentionTraits s{};
    s.type = s.from = s.to = p.tensors[kQ].dtype, s.bias = DType::kAbsent;
    set_widths(s, p.dims[kD], p.dims[kDv]);
    s.in = s.out = Reach::kWide;
    s.cap = p.scalars[kKeySoftcap] != 0, s.packed_sequences = true;
    s.page = static_cast<std::int32_t>(p.dims[kPage]), s.cache = p.tensors[kKCache].dtype;
    return {s, PagedRows::rows_traits(p)};
  }
  static bool fits(const Query& q, const Config& c) {
    const std::int64_t page = q.problem.dims[kPage];
    const Block b = block_of(q);
    // The copy engine writes at multiples of 128 bytes.
    const std::int64_t box = std::min(page, std::int64_t{c.keys});
    const bool narrow = size_of(b.cache) == 1 && std::min(b.d, b.dv) <= 64;
    const bool aligned = box % (narrow ? 2 : 1) == 0;
    return aligned && (c.keys % page == 0 || page % c.keys == 0) && holds(b, c);
  }
  static Block block_of(const Query& q) {
    const Problem& p = q.problem;
    return {p.tensors[kQ].dtype, p.tensors[kKCache].dtype,    p.dims[kD],
            p.dims[kDv],         p.scalars[kKeySoftcap] != 0, 0};
  }
  static void constrain(const Query& q, Space& space) {
    const QueryCopy copy(q);
    space.require(table(), "registers and shared memory hold a block of whole pages",
                  [copy](const Config& c) { return fits(copy, c); });
  }
  /// As for attention over unpaged keys (attention_cuda.cpp), except that a block must hold whole
  /// pages, or a page whole blocks.
  static Config preset(const Query& q) {
    const std::int64_t wide = std::max(q.problem.dims[kD], q.problem.dims[kDv]);
    const bool codes = is_f8(q.problem.tensors[kKCache].dtype);
    Config c = wide <= 64 && !codes ? Config{3, 128, 2, 1, false, true}
                                    : Config{2, 128, 2, 1, false, true};
    for (const int keys : {128, 112, 96, 80, 64, 144, 160, 176, 192}) {
      c.keys = keys;
      if (fits(q, c)) break;
    }
    c.draws = many_lengths(q.problem.dims[kB], milliseconds(q, c));
    return c;
  }
  static double milliseconds(const Query& q, const Config& c) {
    const auto& d = q.problem.dims;
    constexpr double kPages = 1.1;      // over contiguous keys
    constexpr double kAnswered = 0.75;  // of lengths up to the table's end
    const double keys = kAnswered * static_cast<double>(d[kW] * d[kPage]);
    const double tiles =
        std::ceil(static_cast<double>(d[kT]) / rows_of(c) + 0.5 * static_cast<double>(d[kB])) *
        static_cast<double>(d[kHkv] * d[kG]);
    const double rounds = std::ceil(tiles / q.device.units);
    const double width = static_cast<double>(d[kD] + d[kDv]);
    const double each = 2.0 * rows_of(c) * keys * width * kPages * slowdown(width, 0);
    const double rate = flops(q.device, DType::kBF16) / q.device.units;
    return 1e3 * (launch_s(q.device) + rounds * each / rate);
  }
  static std::size_t workspace_bytes(const Query&, const State& s) {
    return counter_bytes(s.config);
  }
  static std::size_t zeroed_bytes(const Query&, const State& s) { return counter_bytes(s.config); }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return static_cast<std::int32_t>(bytes(block_of(q), s.config));
  }

  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    const std::string of = members_of_traits().literal(s.traits.of);
    const std::string config = table().literal(table().to_config(s.config), kConfigName);
    std::vector<KernelSource> made{
        {kInclude, text(kEntry, "<", of, ", ", config, ">"), s.shared_bytes}};
    if (!may_lie_otherwise(q)) return made;
    const auto& knobs = PagedRows::table();
    const std::string rows = knobs.literal(knobs.to_config({}), PagedRows::kConfigName);
    made.push_back({PagedRows::kInclude,
                    text(PagedRows::kEntry, "<", paged::traits_table().literal(s.traits.rows), ", ",
                         rows, ">"),
                    0});
    return made;
  }
  static bool may_lie_otherwise(const Query& q) {
    for (const int i : {kQ, kKCache, kVCache})
      if (q.problem.tensors[i].layout != Layout::kContiguous) return true;
    return false;
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }

  static AttentionParams rows_of_queries(const Args& args, const Heads& q, const Heads& o) {
    AttentionParams p{};
    p.q = q.t.data, p.o = o.t.data;
    std::copy_n(q.at, 4, p.q_at), std::copy_n(o.at, 4, p.o_at);
    const TensorView& lse = args.tensors[kLse];
    p.lse = static_cast<float*>(lse.data);
    p.lse_at[1] = lse.strides[1], p.lse_at[2] = lse.strides[0];
    // Sequence 0 holds the rows before the first one.
    point_words(args, kCuSeqlensQ, p.cu_q, p.cu_q_at);
    p.cu_q -= p.cu_q_at, p.cu_k = p.cu_q, p.cu_k_at = p.cu_q_at;
    p.batches = static_cast<std::int32_t>(args.letters[kB] + 1);
    p.q_rows = p.k_rows = static_cast<std::int32_t>(args.letters[kT]);
    p.heads = static_cast<std::int32_t>(args.letters[kHkv]);
    p.group = static_cast<std::int32_t>(args.letters[kG]), p.pack = 1;
    p.d = static_cast<std::int32_t>(args.letters[kD]);
    p.dv = static_cast<std::int32_t>(args.letters[kDv]);
    p.window = static_cast<std::int32_t>(std::min(args.scalars[kWindow].i, kMax));
    p.scale = static_cast<float>(scale_of(args));
    p.cap = static_cast<float>(args.scalars[kSoftcap].f);
    p.causal = args.scalars[kCausal].i != 0;
    return p;
  }
  static AttentionPages pages_of(const Args& args) {
    AttentionPages s{};
    std::int64_t none = 0;
    point_words(args, kPageTable, s.table, s.table_at);
    if (args.tensors[kPageTable].shape[0] == 1) s.table_at[0] = 0;
    point_words(args, kSeqLens, s.lengths, s.lengths_at);
    point_words(args, kIndptr, s.indptr, s.indptr_at);
    point(args, kSinks, s.sinks, s.sinks_at);
    point(args, kKScale, s.k_scale, none);
    point(args, kVScale, s.v_scale, none);
    s.entries = args.letters[kP] == 0 ? 0 : static_cast<std::int32_t>(args.letters[kW]);
    s.sequences = static_cast<std::int32_t>(args.letters[kB]);
    return s;
  }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& s = kernel.load<State>();
    const auto& sizes = args.letters;
    const auto heads = [&](int i) {
      const TensorView& t = args.tensors[i];
      if (t.rank == 3) return Heads{t, {0, t.strides[0], t.strides[1], t.strides[2]}};
      return Heads{t, {t.strides[0], t.strides[1], t.strides[2], t.strides[3]}};
    };
    const Heads q = heads(kQ), k = heads(kKCache), v = heads(kVCache);
    AttentionWgmmaParams g{};
    g.p = rows_of_queries(args, q, heads(kO)), g.pages = pages_of(args);
    g.drawn = static_cast<std::uint32_t*>(workspace);
    const int rows = rows_of(s.config), keys = s.config.keys;
    g.p.tiles = g.p.q_rows / rows + g.p.batches + 1;
    const std::int64_t grid = std::int64_t{g.p.tiles} * g.p.heads * g.p.group;
    if (grid == 0 || g.p.q_rows == 0) return 0;
    const int box = static_cast<int>(std::min<std::int64_t>(sizes[kPage], keys));
    const auto encode_cache = [&](TensorMap& map, const Heads& cache, int width) {
      return encode(map, cache, sizes[kPage], sizes[kHkv], sizes[kP], sizes[width], box);
    };
    const bool walked = encode(g.q, q, sizes[kT], g.p.heads * g.p.group, 1, sizes[kD], rows) &&
                        encode_cache(g.k, k, kD) && encode_cache(g.v, v, kDv);
    if (!walked && !kernel.entries[1]) return kNotWalked;
    if (!walked)
      return PagedRows::launch_rows(args, s.traits.rows, {}, *kernel.entries[1], context);
    g.p.grid = static_cast<std::int32_t>(grid);
    walk_together(g.p, 2, true, s.units, s.config.persistent);
    return start(g, s, kernel, context);
  }
};

}  // namespace

Implementation cuda_wgmma() {
  return kernels::make_cuda<Form>(
      "cuda_wgmma", source_hash<"ops/attention/paged_attention_lse/paged_wgmma_cuda.cpp">());
}

}  // namespace dlblas::attention::paged
