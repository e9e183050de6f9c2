// moe_permute: rows of tokens, grouped by expert, and how to find them again. Schema, oracle, and a
// stable counting sort on CPUs and NVIDIA GPUs.
// Read next: moe_permute_ref.hpp (what it computes), moe_permute.cuh (how).
#include "core/error.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/moe/moe_permute/moe_permute_config.hpp"
#include "ops/moe/moe_permute/moe_permute_ref.hpp"
#include "ops/moe/sort/sort_cpu.hpp"
#include "ops/moe/sort/sort_cuda.hpp"

namespace dlblas::moe {
namespace {

std::int64_t items_of(const Problem& problem) {
  return problem.dims[kPermuteT] * problem.dims[kPermuteK];
}
double bytes_of(const Problem& problem) {
  const double row =
      static_cast<double>(problem.dims[kPermuteC]) * size_of(problem.tensors[kPermuteX].dtype);
  return row * static_cast<double>(problem.dims[kPermuteT] + items_of(problem));
}

// ---- CPUs ----

struct CpuState {
  std::int64_t threads;
};

void copy_row(const TensorView& from, std::int64_t row, const TensorView& to, std::int64_t at) {
  const std::int64_t width = from.shape[1], size = size_of(from.dtype);
  const char* source = static_cast<const char*>(from.data) + row * from.strides[0] * size;
  char* target = static_cast<char*>(to.data) + at * to.strides[0] * size;
  if (width <= 1 || (from.strides[1] == 1 && to.strides[1] == 1)) {
    std::memcpy(target, source, static_cast<std::size_t>(width * size));
    return;
  }
  for (std::int64_t c = 0; c < width; ++c)
    std::memcpy(target + c * to.strides[1] * size, source + c * from.strides[1] * size,
                static_cast<std::size_t>(size));
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const std::int64_t choices = args.letters[kPermuteK], experts = args.letters[kPermuteE];
  const TensorView &x = args.tensors[kPermuteX], &rows = args.tensors[kPermuteRows];
  const TensorView &offsets = args.tensors[kPermuteOffsets],
                   &inverse = args.tensors[kPermuteInverse];
  const auto write = [](const TensorView& to, std::int64_t at, std::int64_t value) {
    const auto word = static_cast<std::int32_t>(value);
    std::memcpy(static_cast<char*>(to.data) + at * 4, &word, 4);
  };
  const ExpertIds expert_of(args.tensors[kPermuteIds], experts);
  CpuSort sort(args.letters[kPermuteT] * choices, experts, 1, kernel.load<CpuState>().threads,
               workspace);
  sort.count(context, expert_of);
  sort.place(context, expert_of, [&](std::int64_t item, std::int64_t, std::int64_t position) {
    const std::int64_t t = item / choices, j = item % choices;
    write(inverse, t * inverse.strides[0] + j * inverse.strides[1], position);
    if (position >= 0) copy_row(x, t, rows, position);
  });
  for (std::int64_t e = 0; e <= experts; ++e) write(offsets, e * offsets.strides[0], sort.base(e));
  return 0;
}

Implementation cpu() {
  Implementation impl;
  impl.flags = {.deterministic = true};
  impl.estimate = [](const Query& q, const Config&) {
    const double units = std::max<double>(1, q.problem.threads);
    return 1e3 * launch_s(q.device) +
           kernels::rates_of(q).roofline_ms(units, bytes_of(q.problem), 0, DType::kF32);
  };
  impl.prepare = [](const Query& q, const Config&) {
    const std::int64_t threads = std::max<std::int64_t>(1, q.problem.threads);
    return make_kernel({run}, CpuState{threads},
                       CpuSort::bytes(q.problem.dims[kPermuteE], threads));
  };
  return kernels::per_level(
      impl, "cpu_",
      {{Isa::kBaseline, source_hash<"ops/moe/moe_permute/moe_permute.cpp">(), nullptr}})[0];
}

// ---- NVIDIA GPUs ----

struct NoKnobs {};
struct PermuteTraits {
  MoeSortTraits sort;
  MoeCopyTraits copy;
};

struct Form : kernels::CudaForm<PermuteTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  static const TraitsTable<MoeCopyTraits>& copy_table() {
    static const auto* members = new TraitsTable<MoeCopyTraits>{
        "dlblas::moe::MoeCopyTraits",
        {member<&MoeCopyTraits::type>("type"), member<&MoeCopyTraits::access>("access"),
         member<&MoeCopyTraits::aligned>("aligned"),
         member<&MoeCopyTraits::aligned_inverse>("aligned_inverse")}};
    return *members;
  }
  static Traits traits(const Query& q, const Config&) {
    const TensorTraits* const t = q.problem.tensors;
    const TensorTraits &x = t[kPermuteX], &rows = t[kPermuteRows];
    Traits s{};
    s.sort = {t[kPermuteIds].dtype, is_aligned(t[kPermuteIds], 4) &&
                                        is_aligned(t[kPermuteOffsets], 4) &&
                                        is_aligned(t[kPermuteInverse], 4)};
    const int size = size_of(x.dtype);
    s.copy = {x.dtype, 1, is_aligned(x, size) && is_aligned(rows, size),
              is_aligned(t[kPermuteInverse], 4)};
    if (!has_rows(x) || !has_rows(rows) || !s.copy.aligned) return s;
    const int most = (1 << std::min(x.align_log2, rows.align_log2)) / size;
    for (int n = 2; n <= most && q.problem.dims[kPermuteC] % n == 0; n *= 2) s.copy.access = n;
    return s;
  }
  static double milliseconds(const Query& q, const Config&) {
    return 1e3 * (5 * launch_s(q.device) + bytes_of(q.problem) / memory_bytes_per_s(q.device));
  }
  static std::size_t workspace_bytes(const Query& q, const State&) {
    return sort_bytes(chunks_of(items_of(q.problem)), q.problem.dims[kPermuteE]);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    const char* const include = "ops/moe/moe_permute/moe_permute.cuh";
    const std::int64_t experts = q.problem.dims[kPermuteE];
    std::vector<KernelSource> all = sort_sources(s.traits.sort, experts);
    all.push_back(
        {include,
         "dlblas::moe::moe_permute_place<" + sort_traits_table().literal(s.traits.sort) + ">",
         static_cast<std::int32_t>(walk_bytes(experts))});
    all.push_back(
        {include, "dlblas::moe::moe_permute_copy<" + copy_table().literal(s.traits.copy) + ">"});
    return all;
  }
  static std::vector<StepFn> steps(const State&) {
    return {launch_count<Form>, launch_scan<Form>, launch_bases<Form>, place, copy};
  }

  static MoeSortParams sort(const Args& args, void* workspace) {
    const TensorView& ids = args.tensors[kPermuteIds];
    return sort_params(ids.data, stride_of(ids, 0), stride_of(ids, 1),
                       args.letters[kPermuteT] * args.letters[kPermuteK], args.letters[kPermuteK],
                       args.letters[kPermuteE], 1, workspace);
  }
  static int place(const Args& args, const Context& context, const Kernel& kernel,
                   void* workspace) {
    const TensorView& inverse = args.tensors[kPermuteInverse];
    MoePermuteParams p{};
    p.sort = sort(args, workspace);
    p.offsets = column_of(args.tensors[kPermuteOffsets]);
    p.inverse = inverse.data;
    p.inverse_outer = stride_of(inverse, 0);
    p.inverse_inner = stride_of(inverse, 1);
    const std::int64_t warps = std::max(1, p.sort.chunks);
    return launch_warps(*kernel.entries[3], p, warps, walk_bytes(p.sort.experts), context);
  }
  static int copy(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    const TensorView &x = args.tensors[kPermuteX], &rows = args.tensors[kPermuteRows];
    const TensorView& inverse = args.tensors[kPermuteInverse];
    MoeCopyParams p{};
    p.x = x.data, p.rows = rows.data, p.inverse = inverse.data;
    p.x_row = stride_of(x, 0), p.x_column = stride_of(x, 1);
    p.rows_row = stride_of(rows, 0), p.rows_column = stride_of(rows, 1);
    p.inverse_outer = stride_of(inverse, 0), p.inverse_inner = stride_of(inverse, 1);
    p.width = args.letters[kPermuteC];
    p.choices = static_cast<std::int32_t>(args.letters[kPermuteK]);
    if (p.width == 0 || p.choices == 0) return 0;
    return launch_blocks(*kernel.entries[4], &p, sizeof p, args.letters[kPermuteT],
                         threads_for(p.width, s.traits.copy.access), 0, context);
  }
};

void check(const Args& args) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const std::int64_t items = args.letters[kPermuteT] * args.letters[kPermuteK];
  if (items <= kMax) return;
  const std::string expected = text("at most ", kMax, " choices, whose positions are i32");
  throw Error(ErrorKind::kArgument,
              text("moe_permute: topk_ids is too large; expected ", expected, ", got ", items),
              {"moe_permute", "topk_ids", expected, text(items)});
}

}  // namespace

OperatorDef moe_permute();
OperatorDef moe_permute() {
  OperatorDef def;
  def.family = "moe";
  def.schema =
      "moe_permute(x: f|f8|i8[T, C], topk_ids: index[T, topk] ~ distinct_rows<num_experts, "
      "num_experts: dim) -> (rows: like(x)[T*topk, C], offsets: i32[num_experts+1], "
      "inverse: i32[T, topk]) where T: bucket(tokens)";
  def.formula =
      "rows[inverse[t, j]] = x[t], grouped by expert topk_ids[t, j] in the order of t, j; "
      "offsets = where the groups begin, and the end";
  def.letters = {"T", "C", "topk", "num_experts"};
  def.reference = moe_permute_reference;
  def.reference_is_whole = true;
  def.bound = [](const Problem&, int) { return Bound{}; };
  def.check = check;
  def.work_per_row = [](const Problem& problem) {
    return static_cast<double>(problem.dims[kPermuteC] + problem.dims[kPermuteK]);
  };
  def.implementations = {
      cpu(),
      kernels::make_cuda<Form>("cuda_sort", source_hash<"ops/moe/moe_permute/moe_permute.cpp">())};
  return def;
}

}  // namespace dlblas::moe
