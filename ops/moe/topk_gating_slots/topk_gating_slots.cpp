// topk_gating_slots, capacity gating with the capacity as an argument: schema, oracle, and kernels
// for CPUs and NVIDIA GPUs. `dlblas.topk_gating` (ops/moe/api.py) computes the capacity.
// Read next: topk_gating_slots_ref.hpp (what it computes), ops/moe/gating/gating.cuh (how).
#include <vector>

#include "core/error.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/moe/gating/gating_config.hpp"
#include "ops/moe/gating/gating_host.hpp"
#include "ops/moe/sort/sort_cpu.hpp"
#include "ops/moe/sort/sort_cuda.hpp"
#include "ops/moe/topk_gating_slots/topk_gating_slots_ref.hpp"

namespace dlblas::moe {
namespace {

std::int64_t items_of(const Problem& problem) {
  return problem.dims[kGateT] * problem.dims[kGateK];
}
double bytes_of(const Problem& problem) {
  return static_cast<double>(problem.dims[kGateT] * problem.dims[kGateE]) *
             size_of(problem.tensors[kGateLogits].dtype) +
         static_cast<double>(items_of(problem)) * 40 +
         static_cast<double>(problem.dims[kGateE] * problem.dims[kGateCapacity]) * 8;
}

// ---- CPUs ----

struct CpuState {
  MoeGatePasses passes;
  std::int64_t threads;
};
constexpr std::int64_t kPart = 256;  // tokens whose gates are added up together

/// The index that follows `last` in descending order of x; −1 if there is none.
std::int64_t next_of(const float* x, std::int64_t count, std::int64_t last) {
  std::int64_t best = -1;
  for (std::int64_t e = 0; e < count; ++e) {
    if (last >= 0) {
      const bool before = kernels::larger(x[last], x[e]);
      if (!before && (kernels::larger(x[e], x[last]) || e <= last)) continue;
    }
    if (best < 0 || kernels::larger(x[e], x[best])) best = e;
  }
  return best;
}

/// One call, as its tasks see it.
class Job {
 public:
  Job(const Args& args, const CpuState& state, void* workspace)
      : args_(args),
        state_(state),
        tokens_(args.letters[kGateT]),
        experts_(args.letters[kGateE]),
        choices_(args.letters[kGateK]),
        capacity_(args.letters[kGateCapacity]),
        sums_(static_cast<double*>(workspace)),
        gates_(reinterpret_cast<float*>(sums_ + parts() * experts_)),
        chosen_(reinterpret_cast<std::int32_t*>(gates_ + tokens_ * choices_)),
        sort_(tokens_ * choices_, experts_, 1, state.threads, chosen_ + tokens_ * choices_) {}
  static std::size_t bytes(const Problem& problem, std::int64_t threads) {
    const std::int64_t parts = (problem.dims[kGateT] + kPart - 1) / kPart;
    return static_cast<std::size_t>(parts * problem.dims[kGateE] * 8 + items_of(problem) * 8) +
           CpuSort::bytes(problem.dims[kGateE], threads);
  }

  void run(const Context& context) {
    context.run(0, parts(), 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(static_cast<std::size_t>(3 * experts_));
      for (std::int64_t part = begin; part < end; ++part) choose(part, scratch.data());
    });
    balance();
    const auto expert_of = [&](std::int64_t item) { return std::int64_t{chosen_[item]}; };
    sort_.count(context, expert_of);
    const TensorView& select = args_.tensors[kGateSelect];
    const auto token_at = [&](std::int64_t slot, std::int64_t token) {
      std::memcpy(static_cast<char*>(select.data) + slot * select.strides[0] * 8, &token, 8);
    };
    sort_.place(context, expert_of, [&](std::int64_t item, std::int64_t e, std::int64_t position) {
      const std::int64_t place = e < 0 ? 0 : position - sort_.base(e);
      const bool stays = e >= 0 && place < capacity_;
      put(kGateSlots, item, stays ? e * capacity_ + place : 0);
      put(kGateKept, item, stays ? e : -1);
      if (stays)
        token_at(e * capacity_ + place, item % tokens_);
      else
        chosen_[item] = -1;
    });
    for (std::int64_t e = 0; e < experts_; ++e)
      for (std::int64_t place = sort_.end_of(e) - sort_.base(e); place < capacity_; ++place)
        token_at(e * capacity_ + place, 0);
    context.run(0, tokens_, 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) weigh(t);
    });
  }

 private:
  std::int64_t parts() const { return (tokens_ + kPart - 1) / kPart; }
  void put(int tensor, std::int64_t at, std::int64_t value) const {
    const TensorView& to = args_.tensors[tensor];
    const auto word = static_cast<std::int32_t>(value);
    std::memcpy(static_cast<char*>(to.data) + at * to.strides[0] * 4, &word, 4);
  }
  void choose(std::int64_t part, float* scratch) const {
    float *x = scratch, *gates = x + experts_, *gathered = gates + experts_;
    double* const sums = sums_ + part * experts_;
    std::fill(sums, sums + experts_, 0.0);
    const std::int64_t end = std::min(tokens_, (part + 1) * kPart);
    for (std::int64_t t = part * kPart; t < end; ++t) {
      softmax_of(state_.passes, args_.tensors[kGateLogits], t, x, gates, gathered);
      for (std::int64_t e = 0; e < experts_; ++e) sums[e] += static_cast<double>(gates[e]);
      std::int64_t last = -1;
      for (std::int64_t j = 0; j < choices_; ++j) {
        last = j < experts_ ? next_of(x, experts_, last) : -1;
        chosen_[j * tokens_ + t] = static_cast<std::int32_t>(last);
        gates_[j * tokens_ + t] = last >= 0 ? gates[last] : 0.0f;
      }
    }
  }
  /// Computes l_aux and the numbers of first choices.
  void balance() const {
    double l_aux = 0;
    std::vector<std::int32_t> first(static_cast<std::size_t>(experts_));
    for (std::int64_t t = 0; t < tokens_ && choices_ > 0; ++t)
      if (chosen_[t] >= 0) ++first[static_cast<std::size_t>(chosen_[t])];
    const auto tokens = static_cast<double>(std::max<std::int64_t>(1, tokens_));
    for (std::int64_t e = 0; e < experts_; ++e) {
      double sum = 0;
      for (std::int64_t part = 0; part < parts(); ++part) sum += sums_[part * experts_ + e];
      const std::int32_t count = first[static_cast<std::size_t>(e)];
      l_aux += static_cast<double>(experts_) * (sum / tokens) * (count / tokens);
      put(kGateFirst, e, count);
    }
    store_element(args_.tensors[kGateAux], 0, l_aux);
  }
  void weigh(std::int64_t t) const {
    const TensorView& weights = args_.tensors[kGateWeights];
    const auto least = static_cast<float>(least_sum(weights.dtype));
    float sum = 0;
    for (std::int64_t j = 0; j < choices_; ++j)
      if (chosen_[j * tokens_ + t] >= 0) sum += gates_[j * tokens_ + t];
    const float divisor = sum < least ? least : sum;
    for (std::int64_t j = 0; j < choices_; ++j) {
      const std::int64_t item = j * tokens_ + t;
      const float weight = chosen_[item] >= 0 ? gates_[item] / divisor : 0.0f;
      store_element(weights, item * weights.strides[0], static_cast<double>(weight));
    }
  }

  const Args& args_;
  const CpuState& state_;
  std::int64_t tokens_, experts_, choices_, capacity_;
  double* sums_;  // [parts, experts]
  float* gates_;
  std::int32_t* chosen_;
  CpuSort sort_;
};

int run_cpu(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  Job(args, kernel.load<CpuState>(), workspace).run(context);
  return 0;
}

Kernel prepare_cpu(const Query& q, const Config&) {
  const std::int64_t threads = std::max<std::int64_t>(1, q.problem.threads);
  return make_kernel({run_cpu}, CpuState{gate_passes(q), threads}, Job::bytes(q.problem, threads));
}

// ---- NVIDIA GPUs ----

struct NoKnobs {};

struct Form : kernels::CudaForm<MoeGateTraits, NoKnobs> {
  static constexpr bool kSearched = false;
  static constexpr bool kDependent = true;

  /// The workspace: tables of the sort, terms of l_aux, choices, gates, sums of gates.
  struct Layout {
    std::int64_t tokens, experts, choices;
    /// Chunks of tokens, which are the blocks of moe_gate.
    std::int64_t segment_chunks() const { return (tokens + kMoeGateChunk - 1) / kMoeGateChunk; }
    std::int64_t chunks() const { return choices * segment_chunks(); }
    /// Sums of gates per expert: one per block, or one per warp if rows are read again.
    std::int64_t parts() const { return segment_chunks() * (holds_rows(experts) ? 1 : kMoeWarps); }
    std::int64_t counters() const {
      return choices * experts <= kMoeGateCounters ? choices * experts : 0;
    }
    std::int64_t gate_shared_bytes() const {
      return 4 * (counters() + (holds_rows(experts) ? kMoeWarps * experts : 0));
    }
    std::int64_t terms_at() const {
      return static_cast<std::int64_t>(sort_bytes(chunks(), experts));
    }
    std::int64_t chosen_at() const { return terms_at() + 8 * experts; }
    std::int64_t gates_at() const { return chosen_at() + 4 * tokens * choices; }
    std::int64_t sums_at() const { return gates_at() + 4 * tokens * choices; }
    std::int64_t bytes() const { return sums_at() + 4 * experts * parts(); }
  };
  static Layout layout_of(const std::int64_t* sizes) {
    return {sizes[kGateT], sizes[kGateE], sizes[kGateK]};
  }
  template <typename T>
  static T* at(void* workspace, std::int64_t offset) {
    return reinterpret_cast<T*>(static_cast<char*>(workspace) + offset);
  }

  static Traits traits(const Query& q, const Config&) {
    const TensorTraits* const t = q.problem.tensors;
    Traits s = gate_traits(t[kGateLogits], t[kGateWeights].dtype, q.problem.dims[kGateE]);
    for (int i = kGateAux; i <= kGateFirst; ++i)
      s.aligned_results = s.aligned_results && is_aligned(t[i], std::min(4, size_of(t[i].dtype)));
    return s;
  }
  static double milliseconds(const Query& q, const Config&) {
    return 1e3 * (3 * launch_s(q.device) + bytes_of(q.problem) / memory_bytes_per_s(q.device));
  }
  static std::size_t workspace_bytes(const Query& q, const State&) {
    return static_cast<std::size_t>(layout_of(q.problem.dims).bytes());
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    const char* const include = "ops/moe/gating/gating.cuh";
    const std::string of = "<" + gate_traits_table().literal(s.traits) + ">";
    const auto shared = static_cast<std::int32_t>(walk_bytes(q.problem.dims[kGateE]));
    const auto gate = static_cast<std::int32_t>(layout_of(q.problem.dims).gate_shared_bytes());
    return {{include, "dlblas::moe::moe_gate" + of, gate},
            {include, "dlblas::moe::moe_gate_scan" + of},
            {include, "dlblas::moe::moe_gate_place" + of, shared}};
  }
  static std::vector<StepFn> steps(const State&) { return {gate, scan, place}; }

  static MoeSortParams sort(const Args& args, void* workspace) {
    const Layout l = layout_of(args.letters);
    MoeSortParams p = sort_params(at<char>(workspace, l.chosen_at()), 1, 0, l.tokens * l.choices, 1,
                                  l.experts, 1, workspace);
    p.chunks = static_cast<std::int32_t>(l.chunks());
    p.segment_chunks = static_cast<std::int32_t>(l.segment_chunks());
    p.segment = static_cast<std::int32_t>(l.tokens);
    p.totals = p.counts + l.experts * l.chunks();
    p.bases = p.totals + l.experts;
    return p;
  }
  static int gate(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const Layout l = layout_of(args.letters);
    const TensorView& logits = args.tensors[kGateLogits];
    MoeGateParams p{};
    p.logits = logits.data;
    p.row = stride_of(logits, 0), p.column = stride_of(logits, 1);
    p.tokens = static_cast<std::int32_t>(l.tokens);
    p.experts = static_cast<std::int32_t>(l.experts);
    p.choices = static_cast<std::int32_t>(l.choices);
    p.parts = static_cast<std::int32_t>(l.parts());
    p.chosen = at<std::int32_t>(workspace, l.chosen_at());
    p.gates = at<float>(workspace, l.gates_at());
    p.sums = at<float>(workspace, l.sums_at());
    p.counts = sort(args, workspace).counts;
    p.blocks = static_cast<std::int32_t>(l.segment_chunks());
    return launch_blocks(*kernel.entries[0], &p, sizeof p, p.blocks, kMoeThreads,
                         static_cast<unsigned>(l.gate_shared_bytes()), context,
                         kernel.load<State>().dependent);
  }
  static int scan(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const Layout l = layout_of(args.letters);
    MoeGateScanParams p{};
    p.sort = sort(args, workspace);
    p.first_choices = column_of(args.tensors[kGateFirst]);
    p.sums = at<float>(workspace, l.sums_at());
    p.terms = at<double>(workspace, l.terms_at());
    p.parts = static_cast<std::int32_t>(l.parts());
    p.tokens = static_cast<std::int32_t>(l.tokens);
    return launch_warps(*kernel.entries[1], p, l.experts, 0, context,
                        kernel.load<State>().dependent);
  }
  static int place(const Args& args, const Context& context, const Kernel& kernel,
                   void* workspace) {
    const Layout l = layout_of(args.letters);
    MoeGatePlaceParams p{};
    p.sort = sort(args, workspace);
    p.slots = column_of(args.tensors[kGateSlots]);
    p.kept = column_of(args.tensors[kGateKept]);
    p.select = column_of(args.tensors[kGateSelect]);
    p.places = args.tensors[kGateSelect].shape[0];
    p.capacity = static_cast<std::int32_t>(args.letters[kGateCapacity]);
    p.tokens = static_cast<std::int32_t>(args.letters[kGateT]);
    p.choices = static_cast<std::int32_t>(l.choices);
    p.weights = column_of(args.tensors[kGateWeights]);
    p.l_aux = args.tensors[kGateAux].data;
    p.gates = at<float>(workspace, l.gates_at());
    p.terms = at<double>(workspace, l.terms_at());
    p.eps = static_cast<float>(least_sum(args.tensors[kGateWeights].dtype));
    const std::int64_t fill = std::clamp<std::int64_t>(p.places / 32, 1, 2048);
    return launch_warps(*kernel.entries[2], p, p.sort.segment_chunks + fill,
                        walk_bytes(p.sort.experts), context, kernel.load<State>().dependent);
  }
};

void check(const Args& args) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const std::int64_t items = args.letters[kGateT] * args.letters[kGateK];
  const std::int64_t places = args.tensors[kGateSelect].shape[0];
  if (std::max(items, places) <= kMax) return;
  const char* const argument = items > kMax ? "logits" : "capacity";
  const std::string expected = text("at most ", kMax, " choices and slots, which are i32");
  const std::string got = text(items, " and ", places);
  throw Error(
      ErrorKind::kArgument,
      text("topk_gating_slots: ", argument, " is too large; expected ", expected, ", got ", got),
      {"topk_gating_slots", argument, expected, got});
}

}  // namespace

OperatorDef topk_gating_slots();
OperatorDef topk_gating_slots() {
  OperatorDef def;
  def.family = "moe";
  def.schema =
      "topk_gating_slots(logits: f[T, E], k: dim, capacity: dim, dtype: dtype(f32) = none) -> "
      "(l_aux: dtype|like(logits)[], token_rearranged_ec_idx: i32[k*T], "
      "token_exp_weights: dtype|like(logits)[k*T], expert_select_token_idx: i64[E*capacity], "
      "kept: i32[k*T], first_choices: i32[E]) where T: bucket(tokens), capacity: bucket(tokens)";
  def.formula =
      "g = softmax_E(logits); the k largest of a token, first choices of all tokens before second "
      "ones, take slots of their experts while there are some; weights = g / max(Σ g of those that "
      "stay, eps); l_aux = E · Σ_e mean_T(g) · mean_T(first choice is e)";
  def.letters = {"T", "E", "k", "capacity"};
  def.reference = topk_gating_slots_reference;
  def.reference_is_whole = true;
  def.bound = [](const Problem& problem, int judged) {
    const DType type = problem.tensors[kGateAux + judged].dtype;
    if (judged != 0 && judged != 2) return Bound{};
    const FloatTraits out = float_traits(type);
    return Bound{.magnitude = kRounding,
                 .value = type == DType::kF32 ? 0 : out.eps / 2,
                 .absolute = out.tiny + 0x1p-100};
  };
  def.check = check;
  def.work_per_row = [](const Problem& problem) {
    return 24.0 * static_cast<double>(problem.dims[kGateT] * problem.dims[kGateE]);
  };
  Implementation cpu;
  cpu.flags = {.deterministic = true};
  cpu.estimate = [](const Query& q, const Config&) {
    const double units = std::max<double>(1, q.problem.threads);
    const double operations = 60.0 * static_cast<double>(q.problem.dims[kGateT]) *
                              static_cast<double>(q.problem.dims[kGateE]);
    return 1e3 * launch_s(q.device) +
           kernels::rates_of(q).roofline_ms(units, bytes_of(q.problem), operations, DType::kF32);
  };
  cpu.prepare = prepare_cpu;
  def.implementations = gate_levels(cpu);
  def.implementations.push_back(kernels::make_cuda<Form>(
      "cuda_sort", source_hash<"ops/moe/topk_gating_slots/topk_gating_slots.cpp">()));
  return def;
}

}  // namespace dlblas::moe
