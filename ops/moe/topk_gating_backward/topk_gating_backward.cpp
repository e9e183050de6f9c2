// topk_gating_backward, the gradient of capacity gating in the logits: schema, oracle, and kernels
// for CPUs and NVIDIA GPUs.
// Read next: topk_gating_backward_ref.hpp (what it computes), ops/moe/gating/gating.cuh (how).
#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/integers.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/moe/gating/gating_host.hpp"
#include "ops/moe/sort/sort_cuda.hpp"
#include "ops/moe/topk_gating_backward/topk_gating_backward_ref.hpp"

namespace dlblas::moe {
namespace {

double bytes_of(const Problem& problem) {
  const auto elements = static_cast<double>(problem.dims[kGateGradT] * problem.dims[kGateGradE]);
  return elements * 2 * size_of(problem.tensors[kGateGradLogits].dtype) +
         static_cast<double>(problem.dims[kGateGradT] * problem.dims[kGateGradK]) * 8;
}

// ---- CPUs ----

/// One call, as its tasks see it: computed in f64; each element is rounded to f32, then to its
/// type.
class Job {
 public:
  Job(const Args& args, const MoeGatePasses& passes)
      : args_(args),
        passes_(passes),
        tokens_(args.letters[kGateGradT]),
        experts_(args.letters[kGateGradE]),
        choices_(args.letters[kGateGradK]),
        least_(least_sum(args.tensors[kGateGradWeights].dtype)) {
    const auto count = static_cast<double>(tokens_);
    const double slope = load_element(args.tensors[kGateGradAux], 0) *
                         static_cast<double>(experts_) / (count * count);
    for (std::int64_t e = 0; e < experts_; ++e) slopes_.push_back(slope * entry(kGateGradFirst, e));
  }
  void run(std::int64_t begin, std::int64_t end) const {
    Row row(experts_, choices_);
    for (std::int64_t t = begin; t < end; ++t) backward(t, row);
  }

 private:
  struct Choice {
    std::int64_t expert;
    double dw;
  };
  /// What a task keeps of its row.
  struct Row {
    std::vector<double> gates;
    std::vector<float> values, gathered;
    std::vector<Choice> kept;
    Row(std::int64_t experts, std::int64_t choices)
        : gates(static_cast<std::size_t>(experts)), values(gates.size()), gathered(gates.size()) {
      kept.reserve(static_cast<std::size_t>(choices));
    }
  };
  double entry(int tensor, std::int64_t at) const {
    const TensorView& t = args_.tensors[tensor];
    return load_element(t, at * t.strides[0]);
  }
  /// Finds the choices that are kept; of each expert only the first.
  void find_kept(std::int64_t t, std::vector<Choice>& kept) const {
    kept.clear();
    for (std::int64_t j = 0; j < choices_; ++j) {
      const double id = entry(kGateGradKept, j * tokens_ + t);
      if (!(id >= 0 && id < static_cast<double>(experts_))) continue;
      const auto e = static_cast<std::int64_t>(id);
      const auto same = [e](const Choice& c) { return c.expert == e; };
      if (std::none_of(kept.begin(), kept.end(), same))
        kept.push_back({e, entry(kGateGradWeights, j * tokens_ + t)});
    }
  }
  void powers_of(std::int64_t t, Row& row, double* of) const {
    const TensorView& logits = args_.tensors[kGateGradLogits];
    const std::int64_t first = t * logits.strides[0], step = logits.strides[1];
    const bool whole = step == 1 || experts_ <= 1;
    for (std::int64_t e = 0; !whole && e < experts_; ++e)
      row.gathered[static_cast<std::size_t>(e)] =
          static_cast<float>(load_element(logits, first + e * step));
    const char* const from = static_cast<const char*>(logits.data) + first * size_of(logits.dtype);
    passes_.powers(whole ? logits.dtype : DType::kF32,
                   whole ? static_cast<const void*>(from) : row.gathered.data(), experts_,
                   slopes_.data(), row.values.data(), row.gates.data(), of);
  }
  void backward(std::int64_t t, Row& row) const {
    const TensorView& to = args_.tensors[kGateGradOut];
    double* const gates = row.gates.data();
    double of[2];
    powers_of(t, row, of);
    const double scale = 1 / of[0];
    const auto gate = [&](std::int64_t e) { return gates[e] * scale; };
    find_kept(t, row.kept);
    double sum = 0, dot = 0, mean = of[1] * scale;
    for (const Choice& c : row.kept) sum += gate(c.expert), dot += gate(c.expert) * c.dw;
    const bool divided = !(sum < least_);
    const double divisor = divided ? sum : least_, along = dot / divisor;
    if (!divided) mean += along;
    const std::int64_t first = t * to.strides[0], step = to.strides[1];
    const bool whole = step == 1 || experts_ <= 1;
    passes_.gradient(to.dtype, gates, slopes_.data(), experts_, scale, mean, row.values.data(),
                     whole ? static_cast<char*>(to.data) + first * size_of(to.dtype) : nullptr);
    for (std::int64_t e = 0; !whole && e < experts_; ++e)
      store_element(to, first + e * step,
                    static_cast<double>(row.values[static_cast<std::size_t>(e)]));
    for (const auto& [e, dw] : row.kept) {
      const double g = gate(e), own = g / divisor * (divided ? dw - along : dw);
      store_element(to, first + e * step, g * (slopes_[static_cast<std::size_t>(e)] - mean) + own);
    }
  }

  const Args& args_;
  const MoeGatePasses passes_;
  std::vector<double> slopes_;  // of l_aux in an expert's gate
  std::int64_t tokens_, experts_, choices_;
  double least_;
};

int run_cpu(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const Job job(args, kernel.load<MoeGatePasses>());
  context.run(0, args.letters[kGateGradT], 16,
              [&](std::int64_t begin, std::int64_t end) { job.run(begin, end); });
  return 0;
}

// ---- NVIDIA GPUs ----

struct NoKnobs {};

constexpr int kLanesOfWarp = 32;

struct Form : kernels::CudaForm<MoeGradientTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  /// Accesses of 16 bytes, two per lane; else of one logit, with a whole warp per token.
  static Traits traits(const Query& q, const Config&) {
    const TensorTraits* const t = q.problem.tensors;
    const TensorTraits &logits = t[kGateGradLogits], &to = t[kGateGradOut];
    const std::int64_t experts = q.problem.dims[kGateGradE];
    const int size = size_of(logits.dtype), most = 16 / size;
    Traits s{logits.dtype, t[kGateGradWeights].dtype, kLanesOfWarp, 1, 0, true, true};
    const bool plain = has_rows(logits) && has_rows(to) && is_aligned(logits, 16) &&
                       is_aligned(to, 16) && experts % most == 0;
    if (plain && experts > 0) {
      s.vec = most, s.lanes = 1;
      while (s.lanes < kLanesOfWarp && s.lanes * 2 * s.vec < experts) s.lanes *= 2;
    }
    const std::int64_t held = ceil_div(experts, std::int64_t{s.lanes} * s.vec);
    s.held = held * s.vec <= kMoeMaxHeld
                 ? static_cast<std::int32_t>(std::max<std::int64_t>(1, held))
                 : 0;
    s.aligned = is_aligned(logits, size) && is_aligned(to, size);
    for (const int i : {kGateGradAux, kGateGradWeights, kGateGradKept, kGateGradFirst})
      s.aligned_results = s.aligned_results && is_aligned(t[i], size_of(t[i].dtype));
    return s;
  }
  static double milliseconds(const Query& q, const Config&) {
    return 1e3 * (launch_s(q.device) + bytes_of(q.problem) / memory_bytes_per_s(q.device));
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    using T = MoeGradientTraits;
    static const auto* members = new TraitsTable<T>{
        "dlblas::moe::MoeGradientTraits",
        {member<&T::type>("type"), member<&T::result>("result"), member<&T::lanes>("lanes"),
         member<&T::vec>("vec"), member<&T::held>("held"), member<&T::aligned>("aligned"),
         member<&T::aligned_results>("aligned_results")}};
    return {{"ops/moe/gating/gating_gradient.cuh",
             "dlblas::moe::moe_gate_backward<" + members->literal(s.traits) + ">"}};
  }
  static std::vector<StepFn> steps(const State&) { return {backward}; }

  static int backward(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const TensorView &logits = args.tensors[kGateGradLogits], &to = args.tensors[kGateGradOut];
    MoeGateBackwardParams p{};
    p.dl_aux = args.tensors[kGateGradAux].data;
    p.logits = logits.data;
    p.dweights = column_of(args.tensors[kGateGradWeights]);
    p.kept = column_of(args.tensors[kGateGradKept]);
    p.first_choices = column_of(args.tensors[kGateGradFirst]);
    p.dlogits = to.data;
    p.row = stride_of(logits, 0), p.column = stride_of(logits, 1);
    p.out_row = stride_of(to, 0), p.out_column = stride_of(to, 1);
    p.tokens = static_cast<std::int32_t>(args.letters[kGateGradT]);
    p.experts = static_cast<std::int32_t>(args.letters[kGateGradE]);
    p.choices = static_cast<std::int32_t>(args.letters[kGateGradK]);
    p.eps = static_cast<float>(least_sum(args.tensors[kGateGradWeights].dtype));
    const double tokens = std::max(1, p.tokens);
    p.share = p.experts / (tokens * tokens);
    const std::int64_t lanes = args.letters[kGateGradT] * kernel.load<State>().traits.lanes;
    return launch_warps(*kernel.entries[0], p, ceil_div(lanes, kLanesOfWarp), 0, context);
  }
};

void check(const Args& args) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const std::int64_t items = args.letters[kGateGradT] * args.letters[kGateGradK];
  if (std::max(items, args.letters[kGateGradT]) <= kMax) return;
  const std::string expected = text("at most ", kMax, " choices");
  throw Error(
      ErrorKind::kArgument,
      text("topk_gating_backward: logits is too large; expected ", expected, ", got ", items),
      {"topk_gating_backward", "logits", expected, text(items)});
}

}  // namespace

OperatorDef topk_gating_backward();
OperatorDef topk_gating_backward() {
  OperatorDef def;
  def.family = "moe";
  def.schema =
      "topk_gating_backward(dl_aux: f[], dweights: like(dl_aux)[k*T], logits: f[T, E], "
      "kept: i32[k*T] ~ index<E|-1, first_choices: i32[E] ~ index<=T, k: dim) -> "
      "dlogits: like(logits)[T, E] where T: bucket(tokens)";
  def.formula =
      "g = softmax_E(logits); D = Σ g of those kept, D' = max(D, eps); "
      "dg = dl_aux · E · first_choices / T², and dw / D' − [D ≥ eps] · Σ dw · g / D'² where kept; "
      "dlogits = g · (dg − Σ_E g · dg)";
  def.letters = {"k", "T", "E"};
  kernels::set_row_oracle<topk_gating_backward_row<kernels::HostRow>>(def);
  def.bound = [](const Problem& problem, int) {
    const DType type = problem.tensors[kGateGradLogits].dtype;
    const FloatTraits out = float_traits(type);
    return Bound{.magnitude = kRounding * (1 + out.eps),
                 .value = type == DType::kF32 ? 0 : out.eps / 2,
                 .absolute = out.tiny};
  };
  def.check = check;
  def.work_per_row = [](const Problem& problem) {
    return 40.0 * static_cast<double>(problem.dims[kGateGradE]);
  };
  Implementation cpu;
  cpu.flags = {.deterministic = true};
  cpu.estimate = [](const Query& q, const Config&) {
    const double units = std::max<double>(1, q.problem.threads), bytes = bytes_of(q.problem);
    return 1e3 * launch_s(q.device) +
           kernels::rates_of(q).roofline_ms(units, bytes, 8 * bytes, DType::kF32);
  };
  cpu.prepare = [](const Query& q, const Config&) {
    return make_kernel({run_cpu}, gate_passes(q));
  };
  def.implementations = gate_levels(cpu);
  def.implementations.push_back(kernels::make_cuda<Form>(
      "cuda_warps", source_hash<"ops/moe/topk_gating_backward/topk_gating_backward.cpp">()));
  return def;
}

}  // namespace dlblas::moe
