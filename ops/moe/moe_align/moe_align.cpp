// moe_align: items of a batch sorted by expert, in blocks of one expert each. Schema, oracle, and a
// stable counting sort on CPUs and NVIDIA GPUs.
// Read next: moe_align_ref.hpp (what it computes), ops/moe/sort/sort.cuh (how).
#include "core/error.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/moe/moe_align/moe_align_config.hpp"
#include "ops/moe/moe_align/moe_align_ref.hpp"
#include "ops/moe/sort/sort_cpu.hpp"
#include "ops/moe/sort/sort_cuda.hpp"

namespace dlblas::moe {
namespace {

std::int64_t items_of(const Problem& problem) {
  return problem.dims[kAlignT] * problem.dims[kAlignK];
}

// ---- CPUs ----

struct CpuState {
  std::int64_t threads;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const std::int64_t items = args.letters[kAlignT] * args.letters[kAlignK];
  const std::int64_t experts = args.letters[kAlignE], block = args.letters[kAlignBlock];
  const TensorView &sorted = args.tensors[kAlignSorted], &owners = args.tensors[kAlignExperts];
  const auto write = [](const TensorView& to, std::int64_t at, std::int64_t value) {
    const auto word = static_cast<std::int32_t>(value);
    std::memcpy(static_cast<char*>(to.data) + at * to.strides[0] * 4, &word, 4);
  };
  const ExpertIds expert_of(args.tensors[kAlignIds], experts);
  CpuSort sort(items, experts, block, kernel.load<CpuState>().threads, workspace);
  sort.count(context, expert_of);
  sort.place(context, expert_of, [&](std::int64_t item, std::int64_t, std::int64_t position) {
    if (position >= 0) write(sorted, position, item);
  });
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t at = sort.end_of(e); at < sort.base(e + 1); ++at) write(sorted, at, items);
    for (std::int64_t b = sort.base(e) / block; b < sort.base(e + 1) / block; ++b)
      write(owners, b, e);
  }
  const std::int64_t padded = sort.base(experts);
  for (std::int64_t at = padded; at < sorted.shape[0]; ++at) write(sorted, at, items);
  for (std::int64_t b = padded / block; b < owners.shape[0]; ++b) write(owners, b, -1);
  write(args.tensors[kAlignPadded], 0, padded);
  return 0;
}

Implementation cpu() {
  Implementation impl;
  impl.flags = {.deterministic = true};
  impl.estimate = [](const Query& q, const Config&) {
    const double items = static_cast<double>(items_of(q.problem));
    return 1e3 * launch_s(q.device) +
           kernels::rates_of(q).roofline_ms(1, 0, 16 * items, DType::kF32);
  };
  impl.prepare = [](const Query& q, const Config&) {
    const std::int64_t threads = std::max<std::int64_t>(1, q.problem.threads);
    return make_kernel({run}, CpuState{threads}, CpuSort::bytes(q.problem.dims[kAlignE], threads));
  };
  return kernels::per_level(
      impl, "cpu_",
      {{Isa::kBaseline, source_hash<"ops/moe/moe_align/moe_align.cpp">(), nullptr}})[0];
}

// ---- NVIDIA GPUs ----

struct NoKnobs {};

struct Form : kernels::CudaForm<MoeSortTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  static Traits traits(const Query& q, const Config&) {
    Traits s{q.problem.tensors[kAlignIds].dtype, true};
    for (int i = kAlignIds; i <= kAlignPadded; ++i)
      s.aligned = s.aligned && is_aligned(q.problem.tensors[i], 4);
    return s;
  }
  static double milliseconds(const Query& q, const Config&) {
    const double words = static_cast<double>(4 * items_of(q.problem));
    return 1e3 * (4 * launch_s(q.device) + 4 * words / memory_bytes_per_s(q.device));
  }
  static std::size_t workspace_bytes(const Query& q, const State&) {
    return sort_bytes(chunks_of(items_of(q.problem)), q.problem.dims[kAlignE]);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    const std::int64_t experts = q.problem.dims[kAlignE];
    std::vector<KernelSource> all = sort_sources(s.traits, experts);
    all.push_back({"ops/moe/moe_align/moe_align.cuh",
                   "dlblas::moe::moe_align_place<" + sort_traits_table().literal(s.traits) + ">",
                   static_cast<std::int32_t>(walk_bytes(experts))});
    return all;
  }
  static std::vector<StepFn> steps(const State&) {
    return {launch_count<Form>, launch_scan<Form>, launch_bases<Form>, place};
  }

  static MoeSortParams sort(const Args& args, void* workspace) {
    const TensorView& ids = args.tensors[kAlignIds];
    return sort_params(ids.data, stride_of(ids, 0), stride_of(ids, 1),
                       args.letters[kAlignT] * args.letters[kAlignK], args.letters[kAlignK],
                       args.letters[kAlignE], args.letters[kAlignBlock], workspace);
  }
  static int place(const Args& args, const Context& context, const Kernel& kernel,
                   void* workspace) {
    MoeAlignParams p{};
    p.sort = sort(args, workspace);
    p.sorted_ids = column_of(args.tensors[kAlignSorted]);
    p.expert_ids = column_of(args.tensors[kAlignExperts]);
    p.num_padded = column_of(args.tensors[kAlignPadded]);
    p.extent = args.tensors[kAlignSorted].shape[0];
    p.blocks = args.tensors[kAlignExperts].shape[0];
    const std::int64_t warps = p.sort.chunks + std::max<std::int64_t>(1, p.blocks);
    return launch_warps(*kernel.entries[3], p, warps, walk_bytes(p.sort.experts), context);
  }
};

void check(const Args& args) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const std::int64_t places = args.tensors[kAlignSorted].shape[0];
  if (places <= kMax) return;
  const std::string expected = text("at most ", kMax, " places, which are i32");
  throw Error(ErrorKind::kArgument,
              text("moe_align: topk_ids is too large; expected ", expected, ", got ", places),
              {"moe_align", "topk_ids", expected, text(places)});
}

}  // namespace

OperatorDef moe_align();
OperatorDef moe_align() {
  OperatorDef def;
  def.family = "moe";
  def.schema =
      "moe_align(topk_ids: index[T, topk] ~ distinct_rows<num_experts|-1, num_experts: dim, "
      "block: dim) -> (sorted_ids: i32[T*topk+num_experts*block], "
      "expert_ids: i32[(T*topk+num_experts*block)/block], num_padded: i32[1]) "
      "where T: bucket(tokens)";
  def.formula =
      "sorted_ids = items t·topk + j by topk_ids[t, j], in their order, each expert's padded to a "
      "multiple of block with T·topk; expert_ids = the expert of each block";
  def.letters = {"T", "topk", "num_experts", "block"};
  def.reference = moe_align_reference;
  def.reference_is_whole = true;
  def.bound = [](const Problem&, int) { return Bound{}; };
  def.check = check;
  def.work_per_row = [](const Problem& problem) {
    return static_cast<double>(items_of(problem)) +
           static_cast<double>(problem.dims[kAlignE] * problem.dims[kAlignBlock]);
  };
  def.implementations = {cpu(), kernels::make_cuda<Form>(
                                    "cuda_sort", source_hash<"ops/moe/moe_align/moe_align.cpp">())};
  return def;
}

}  // namespace dlblas::moe
