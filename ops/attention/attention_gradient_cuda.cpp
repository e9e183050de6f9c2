// Attention's gradient on NVIDIA GPUs, below the operators: cuda_mma for f16 and bf16 with heads up
// to 256, cuda_rows for everything, and, ahead of both, that of attention_gradient_wgmma_cuda.cpp.
// Three launches: delta, which is subtracted from dP; dk and dv; dq. In: Problem, Config; Args.
// Out: Kernel and its sources; launches. Flow: call > validate > [select] > [compile] > [launch].
// Read next: attention_gradient_mma.cuh, attention_gradient_rows.cuh.
#include "core/source_hash.hpp"
#include "ops/attention/attention_gradient_cuda_host.hpp"

namespace dlblas::attention {
namespace {

const AttentionGradientOp& op_of(const Query& q) { return q.user<AttentionGradientOp>(); }
std::int64_t dim(const Query& q, int letter) { return q.problem.dims[letter]; }

constexpr int kDeltaWarps = 4;  // of a block of attention_delta

}  // namespace

AttentionTraits gradient_traits(const Query& q) {
  const AttentionGradientOp& op = op_of(q);
  const Problem& p = q.problem;
  const std::int64_t d = dim(q, op.of.d), dv = dim(q, op.of.dv);
  AttentionTraits s = traits_of(p, op.of);
  const std::int64_t step = std::max(d, dv) > 128 ? 64 : 32;
  s.d = rounded_up(d, step), s.dv = rounded_up(dv, step);
  s.in = farther(s.in, farther(reach_of(p.tensors[op.dout], dv), reach_of(p.tensors[op.of.o], dv)));
  s.out = farther(reach_of(p.tensors[op.dq], d),
                  farther(reach_of(p.tensors[op.dk], d), reach_of(p.tensors[op.dv], dv)));
  return s;
}

AttentionGradientParams gradient_params(const AttentionGradientOp& op, const Args& args,
                                        float* delta) {
  const AttentionCall call(args, op.of);
  AttentionGradientParams g{};
  g.p = tensors_of(op.of, args);
  const auto put = [&](int tensor, auto& data, std::int64_t(&at)[4]) {
    const Heads heads = call.view(tensor);
    data = heads.t.data;
    std::copy_n(heads.at, 4, at);
  };
  put(op.dout, g.dout, g.dout_at);
  put(op.dq, g.dq, g.dq_at), put(op.dk, g.dk, g.dk_at), put(op.dv, g.dv, g.dv_at);
  if (args.has(op.dlse)) {
    const TensorView& t = args.tensors[op.dlse];
    g.dlse = static_cast<const float*>(t.data);
    g.dlse_at[0] = op.of.packed() ? 0 : t.strides[0];
    g.dlse_at[1] = t.strides[t.rank - 2], g.dlse_at[2] = t.strides[t.rank - 1];
  }
  g.delta = delta;
  return g;
}

namespace {

/// The same traits with element-wise access only.
AttentionTraits plain(AttentionTraits s) {
  for (Reach* r : {&s.in, &s.out})
    if (*r == Reach::kWide) *r = Reach::kElement;
  return s;
}

std::size_t delta_bytes(const Query& q) {
  const AttentionOp& op = op_of(q).of;
  const std::int64_t rows = dim(q, op.q_rows) * dim(q, op.heads) * dim(q, op.group) *
                            (op.packed() ? 1 : dim(q, op.batch));
  return static_cast<std::size_t>(rows) * sizeof(float);
}

/// A launch over tiles of `tile_rows` rows of q or of k.
int launch_tiles(const AttentionGradientOp& op, const cuda::Function& entry, bool keys,
                 int tile_rows, int threads, std::int32_t shared_bytes, const Args& args,
                 const Context& context, void* workspace) {
  AttentionGradientParams g = gradient_params(op, args, static_cast<float*>(workspace));
  const std::int64_t rows = keys ? g.p.k_rows : g.p.q_rows;
  const std::int64_t tiles =
      op.of.packed() ? rows / tile_rows + g.p.batches + 1 : (rows + tile_rows - 1) / tile_rows;
  const std::int64_t heads = g.p.heads * (keys ? std::int64_t{1} : g.p.group);
  const std::int64_t grid = tiles * heads * (op.of.packed() ? 1 : g.p.batches);
  if (rows == 0 || grid == 0) return 0;
  g.p.tiles = static_cast<std::int32_t>(tiles);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(grid), how.block.x = static_cast<unsigned>(threads);
  how.shared_bytes = static_cast<unsigned>(shared_bytes);
  return cuda::launch(entry, how, g, context.stream);
}

/// The three steps, shared by both forms.
template <typename Form>
struct Steps {
  using State = kernels::CudaState<AttentionTraits, typename Form::Config>;

  static std::vector<KernelSource> sources(const State& s) {
    const auto& table = Form::table();
    const std::string traits = members_of_traits().literal(s.traits);
    const std::string config = table.literal(table.to_config(s.config), Form::kConfigName);
    const auto of = [&](const char* keys) {
      return KernelSource{Form::kInclude, text(Form::kEntry, "<", traits, ", ", config, keys),
                          s.shared_bytes};
    };
    return {{"ops/attention/attention_gradient.cuh",
             text("dlblas::attention::attention_delta<",
                  members_of_traits().literal(plain(s.traits)), ", ", kDeltaWarps, ">"),
             0},
            of(", true>"),
            of(", false>")};
  }
  static std::vector<StepFn> all() { return {step<0>, step<1>, step<2>}; }
  static int launch(int which, const AttentionGradientOp& op, const State& s,
                    const cuda::Function& entry, const Args& args, const Context& context,
                    void* workspace) {
    if (which == 0) return delta(op, entry, args, context, workspace);
    return launch_tiles(op, entry, which == 1, Form::rows(s.config), Form::threads(s.config),
                        s.shared_bytes, args, context, workspace);
  }

 private:
  template <int kWhich>
  static int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const auto& s = kernel.load<State>();
    return launch(kWhich, *static_cast<const AttentionGradientOp*>(s.user), s,
                  *kernel.entries[kWhich], args, context, workspace);
  }
  static int delta(const AttentionGradientOp& op, const cuda::Function& entry, const Args& args,
                   const Context& context, void* workspace) {
    const AttentionGradientParams g = gradient_params(op, args, static_cast<float*>(workspace));
    const std::int64_t rows =
        std::int64_t{g.p.q_rows} * g.p.heads * g.p.group * (op.of.packed() ? 1 : g.p.batches);
    if (rows == 0) return 0;
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>((rows + kDeltaWarps - 1) / kDeltaWarps);
    how.block.x = kDeltaWarps * 32;
    return cuda::launch(entry, how, g, context.stream);
  }
};

struct MmaForm : kernels::CudaForm<AttentionTraits, AttentionGradientMmaConfig> {
  static constexpr const char* kInclude = "ops/attention/attention_gradient_mma.cuh";
  static constexpr const char* kEntry = "dlblas::attention::attention_gradient_mma";
  static constexpr const char* kConfigName = "dlblas::attention::AttentionGradientMmaConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{
        field<&Config::warps>("warps", {1, 2, 4}), field<&Config::halves>("halves", {1, 2}),
        field<&Config::others>("others", {16, 32, 64})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return members_of_traits(); }
  static int rows(const Config& c) { return c.warps * 16; }
  static int threads(const Config& c) { return c.warps * c.halves * 32; }
  static Support supports(const Query& q) {
    const AttentionOp& op = op_of(q).of;
    if (size_of(q.problem.tensors[op.q].dtype) != 2)
      return Support::no("elements of {} do not have 16 bits", tensor(op.q));
    for (const int letter : {op.d, op.dv})
      if (dim(q, letter) > 256) return Support::no("heads of {}; at most 256", dim(q, letter));
    return supports_sizes(q, op);
  }
  static Traits traits(const Query& q, const Config&) { return gradient_traits(q); }
  static std::int64_t bytes(const Traits& s, const Config& c) {
    constexpr std::int64_t kFacts = 24;
    return (c.warps * 16 + c.others) * (2 * s.d + 2 * s.dv + 32) + c.others * kFacts;
  }
  static bool fits(const Traits& s, const Config& c) {
    const bool whole = s.d % (32 * c.halves) == 0 && s.dv % (32 * c.halves) == 0;
    return whole && (s.d + s.dv) / (2 * c.halves) + c.others <= 160 && bytes(s, c) <= 99 * 1024;
  }
  static void constrain(const Query& q, Space& space) {
    space.require(table(), "registers and shared memory hold a block",
                  [s = gradient_traits(q)](const Config& c) { return fits(s, c); });
  }
  static Config preset(const Query& q) { return preset_of(gradient_traits(q)); }
  static Config preset_of(const Traits& s) {
    Config c;
    if (std::max(s.d, s.dv) > 128) c.halves = 2, c.warps = 2;
    if (!fits(s, c)) c.warps = 1;
    return c;
  }
  static double milliseconds(const Query& q, const Config&) {
    // Fractions of the peaks; H200, November 2026: 186 TFLOP/s with heads of 128, 141 with heads of
    // 64.
    const double products = dim(q, op_of(q).of.d) > 64 ? 0.19 : 0.14, bytes = 0.4;
    return 2e3 * launch_s(q.device) + attention_ms(q, op_of(q).of, 7 / products, 4 / bytes);
  }
  static Problem typical(const Problem& problem) { return problem; }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return static_cast<std::int32_t>(bytes(s.traits, s.config));
  }
  static std::size_t workspace_bytes(const Query& q, const State&) { return delta_bytes(q); }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return Steps<MmaForm>::sources(s);
  }
  static std::vector<StepFn> steps(const State&) { return Steps<MmaForm>::all(); }
};

MmaForm::State mma_state(const AttentionTraits& traits) {
  MmaForm::State s{};
  s.traits = traits, s.config = MmaForm::preset_of(traits);
  s.shared_bytes = static_cast<std::int32_t>(MmaForm::bytes(traits, s.config));
  return s;
}

struct RowsForm : kernels::CudaForm<AttentionTraits, AttentionGradientRowsConfig> {
  static constexpr const char* kInclude = "ops/attention/attention_gradient_rows.cuh";
  static constexpr const char* kEntry = "dlblas::attention::attention_gradient_rows";
  static constexpr const char* kConfigName = "dlblas::attention::AttentionGradientRowsConfig";
  static constexpr std::int64_t kMaxShared = 96 * 1024;

  static const ConfigTable<Config>& table() {
    static const auto* knobs =
        new ConfigTable<Config>{field<&Config::warps>("warps", {1, 2, 4, 8})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() { return members_of_traits(); }
  static int rows(const Config& c) { return c.warps * kRowsOfWarp; }
  static int threads(const Config& c) { return c.warps * 32; }
  static std::int64_t bytes(const Query& q, const Config& c) {
    const AttentionOp& op = op_of(q).of;
    return c.warps * kRowsOfWarp * (dim(q, op.d) + dim(q, op.dv)) * std::int64_t{sizeof(float)};
  }
  static Support supports(const Query& q) {
    const AttentionOp& op = op_of(q).of;
    if (bytes(q, {1}) > kMaxShared)
      return Support::no("heads of {} and {}; at most {} together", dim(q, op.d), dim(q, op.dv),
                         kMaxShared / (kRowsOfWarp * std::int64_t{sizeof(float)}));
    return supports_sizes(q, op);
  }
  static Support same_bits(const Query& q) {
    if (MmaForm::supports(q)) return Support::no("cuda_mma adds in another order");
    return Support::yes();
  }
  static Problem typical(const Problem& problem) { return problem; }
  static void constrain(const Query& q, Space& space) {
    const QueryCopy copy(q);
    space.require(table(), "shared memory holds the rows",
                  [copy](const Config& c) { return bytes(copy, c) <= kMaxShared; });
  }
  static Traits traits(const Query& q, const Config&) {
    Traits s = plain(gradient_traits(q));
    s.d = s.dv = 0;
    return s;
  }
  static Config preset(const Query& q) {
    Config c;
    while (c.warps > 1 && bytes(q, c) > kMaxShared) c.warps /= 2;
    return c;
  }
  static double milliseconds(const Query& q, const Config&) {
    const bool half = size_of(q.problem.tensors[op_of(q).of.q].dtype) == 2;
    return 2e3 * launch_s(q.device) +
           attention_ms(q, op_of(q).of, 7 / (half ? 0.004 : 0.05), 4 / 0.3);  // not measured yet
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return static_cast<std::int32_t>(bytes(q, s.config));
  }
  static std::size_t workspace_bytes(const Query& q, const State&) { return delta_bytes(q); }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return Steps<RowsForm>::sources(s);
  }
  static std::vector<StepFn> steps(const State&) { return Steps<RowsForm>::all(); }
};

}  // namespace

std::vector<KernelSource> GradientMma::sources(const AttentionTraits& traits) {
  return Steps<MmaForm>::sources(mma_state(traits));
}
int GradientMma::launch(int step, const AttentionGradientOp& op, const AttentionTraits& traits,
                        const cuda::Function& entry, const Args& args, const Context& context,
                        void* workspace) {
  return Steps<MmaForm>::launch(step, op, mma_state(traits), entry, args, context, workspace);
}

std::vector<Implementation> attention_gradient_cuda(const AttentionGradientOp& op) {
  const char* hash = source_hash<"ops/attention/attention_gradient_cuda.cpp">();
  return {attention_gradient_wgmma(op), kernels::make_cuda<MmaForm>("cuda_mma", hash, &op),
          kernels::make_cuda<RowsForm>("cuda_rows", hash, &op)};
}

}  // namespace dlblas::attention
