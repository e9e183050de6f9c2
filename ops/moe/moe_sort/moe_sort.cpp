// moe_sort: the tokens of each expert as a list, for a product that gathers them. Schema, oracle,
// and a stable counting sort on CPUs and NVIDIA GPUs.
// Read next: moe_sort_ref.hpp (what it computes), moe_sort.cuh (how),
// ops/gemm/grouped_gemm_gathered/ (which reads the list).
#include "core/error.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/moe/moe_sort/moe_sort_config.hpp"
#include "ops/moe/moe_sort/moe_sort_ref.hpp"
#include "ops/moe/sort/sort_cpu.hpp"
#include "ops/moe/sort/sort_cuda.hpp"

namespace dlblas::moe {
namespace {

std::int64_t items_of(const Problem& problem) {
  return problem.dims[kSortT] * problem.dims[kSortK];
}

// ---- CPUs ----

struct CpuState {
  std::int64_t threads;
};

void write(const TensorView& to, std::int64_t at, std::int64_t value) {
  const auto word = static_cast<std::int32_t>(value);
  std::memcpy(static_cast<char*>(to.data) + at * 4, &word, 4);
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const std::int64_t choices = args.letters[kSortK], experts = args.letters[kSortE];
  const std::int64_t items = args.letters[kSortT] * choices;
  const TensorView &rows = args.tensors[kSortRows], &offsets = args.tensors[kSortOffsets],
                   &inverse = args.tensors[kSortInverse];
  const ExpertIds expert_of(args.tensors[kSortIds], experts);
  CpuSort sort(items, experts, 1, kernel.load<CpuState>().threads, workspace);
  sort.count(context, expert_of);
  sort.place(context, expert_of, [&](std::int64_t item, std::int64_t, std::int64_t position) {
    const std::int64_t t = item / choices, j = item % choices;
    write(inverse, t * inverse.strides[0] + j * inverse.strides[1], position);
    if (position >= 0) write(rows, position * rows.strides[0], t);
  });
  for (std::int64_t r = sort.base(experts); r < items; ++r) write(rows, r * rows.strides[0], -1);
  for (std::int64_t e = 0; e <= experts; ++e) write(offsets, e * offsets.strides[0], sort.base(e));
  return 0;
}

Implementation cpu() {
  Implementation impl;
  impl.flags = {.deterministic = true};
  impl.estimate = [](const Query& q, const Config&) {
    const double units = std::max<double>(1, q.problem.threads);
    const double bytes = 16.0 * static_cast<double>(items_of(q.problem));
    return 1e3 * launch_s(q.device) +
           kernels::rates_of(q).roofline_ms(units, bytes, 0, DType::kF32);
  };
  impl.prepare = [](const Query& q, const Config&) {
    const std::int64_t threads = std::max<std::int64_t>(1, q.problem.threads);
    return make_kernel({run}, CpuState{threads}, CpuSort::bytes(q.problem.dims[kSortE], threads));
  };
  return kernels::per_level(
      impl, "cpu_", {{Isa::kBaseline, source_hash<"ops/moe/moe_sort/moe_sort.cpp">(), nullptr}})[0];
}

// ---- NVIDIA GPUs ----

struct NoKnobs {};

struct Form : kernels::CudaForm<MoeSortTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  static Traits traits(const Query& q, const Config&) {
    Traits s{q.problem.tensors[kSortIds].dtype, true};
    for (int i = kSortIds; i <= kSortInverse; ++i)
      s.aligned = s.aligned && is_aligned(q.problem.tensors[i], 4);
    return s;
  }
  static double milliseconds(const Query& q, const Config&) {
    const double words = static_cast<double>(4 * items_of(q.problem));
    return 1e3 * (4 * launch_s(q.device) + 4 * words / memory_bytes_per_s(q.device));
  }
  static std::size_t workspace_bytes(const Query& q, const State&) {
    return sort_bytes(chunks_of(items_of(q.problem)), q.problem.dims[kSortE]);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    const std::int64_t experts = q.problem.dims[kSortE];
    std::vector<KernelSource> all = sort_sources(s.traits, experts);
    all.push_back({"ops/moe/moe_sort/moe_sort.cuh",
                   "dlblas::moe::moe_sort_place<" + sort_traits_table().literal(s.traits) + ">",
                   static_cast<std::int32_t>(walk_bytes(experts))});
    return all;
  }
  static std::vector<StepFn> steps(const State&) {
    return {launch_count<Form>, launch_scan<Form>, launch_bases<Form>, place};
  }

  static MoeSortParams sort(const Args& args, void* workspace) {
    const TensorView& ids = args.tensors[kSortIds];
    return sort_params(ids.data, stride_of(ids, 0), stride_of(ids, 1),
                       args.letters[kSortT] * args.letters[kSortK], args.letters[kSortK],
                       args.letters[kSortE], 1, workspace);
  }
  static int place(const Args& args, const Context& context, const Kernel& kernel,
                   void* workspace) {
    const TensorView& inverse = args.tensors[kSortInverse];
    MoeListParams p{};
    p.sort = sort(args, workspace);
    p.rows = column_of(args.tensors[kSortRows]);
    p.offsets = column_of(args.tensors[kSortOffsets]);
    p.inverse = inverse.data;
    p.inverse_outer = stride_of(inverse, 0), p.inverse_inner = stride_of(inverse, 1);
    const std::int64_t warps = std::max(1, p.sort.chunks);
    return launch_warps(*kernel.entries[3], p, warps, walk_bytes(p.sort.experts), context);
  }
};

void check(const Args& args) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const std::int64_t items = args.letters[kSortT] * args.letters[kSortK];
  if (items <= kMax) return;
  const std::string expected = text("at most ", kMax, " choices, whose positions are i32");
  throw Error(ErrorKind::kArgument,
              text("moe_sort: topk_ids is too large; expected ", expected, ", got ", items),
              {"moe_sort", "topk_ids", expected, text(items)});
}

}  // namespace

OperatorDef moe_sort();
OperatorDef moe_sort() {
  OperatorDef def;
  def.family = "moe";
  def.schema =
      "moe_sort(topk_ids: index[T, topk] ~ distinct_rows<num_experts|-1, num_experts: dim) -> "
      "(rows: i32[T*topk], offsets: i32[num_experts+1], inverse: i32[T, topk]) where T: "
      "bucket(tokens)";
  def.formula =
      "rows[inverse[t, j]] = t, grouped by expert topk_ids[t, j] in the order of t, j; offsets = "
      "where the groups begin, and the end";
  def.letters = {"T", "topk", "num_experts"};
  def.reference = moe_sort_reference;
  def.reference_is_whole = true;
  def.bound = [](const Problem&, int) { return Bound{}; };
  def.check = check;
  def.work_per_row = [](const Problem& problem) { return static_cast<double>(items_of(problem)); };
  def.implementations = {
      cpu(), kernels::make_cuda<Form>("cuda_sort", source_hash<"ops/moe/moe_sort/moe_sort.cpp">())};
  return def;
}

}  // namespace dlblas::moe
