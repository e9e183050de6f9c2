// Scales over tiles on NVIDIA GPUs: one launch, or two where a tensor has one scale; any strides.
// In: Problem; Args. Out: Kernel and its sources; launches. Flow: call > validate > [select] >
// [compile] > [launch].  Read next: ops/quant/tiles.cuh.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/common/quant_ref.hpp"
#include "ops/quant/tiles.hpp"

namespace dlblas::quant::tiles {
namespace {

struct NoKnobs {};

struct Form : kernels::CudaForm<QuantTilesTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  static const TraitsTable<Traits>& traits_table() { return cuda_traits_table(); }
  static Traits traits(const Query& q, const Config&) {
    return cuda_traits(q.problem, q.user<QuantTile>());
  }

  static double milliseconds(const Query& q, const Config&) {
    // 7168×18432 of bf16 on an H200, 2026-11-24: 209 µs for a tensor, 294 for channels, 157 for
    // blocks; copies of as many bytes: 157, 157 and 95.
    constexpr double kShares[] = {0.75, 0.53, 0.6};  // of what memory sustains
    const QuantTile tile = q.user<QuantTile>();
    const double elements =
        static_cast<double>(q.problem.dims[kT]) * static_cast<double>(q.problem.dims[kK]);
    const int reads = tile == QuantTile::kBlock ? 1 : 2;
    const double bytes = elements * (size_of(q.problem.tensors[kX].dtype) * reads + 1);
    const double share = kShares[static_cast<int>(tile)];
    const int launches = tile == QuantTile::kTensor ? 2 : 1;
    return 1e3 * (launches * launch_s(q.device) + bytes / (share * memory_bytes_per_s(q.device)));
  }

  static std::size_t workspace_bytes(const Query&, const State& s) {
    return s.traits.tile == QuantTile::kTensor ? kQuantParts * sizeof(std::uint32_t) : 0;
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    const char* const include = "ops/quant/tiles.cuh";
    const std::string traits = "<" + traits_table().literal(s.traits) + ">";
    if (s.traits.tile != QuantTile::kTensor)
      return {{include, "dlblas::quant::quantize_tiles" + traits}};
    return {{include, "dlblas::quant::quantize_tensor_parts" + traits},
            {include, "dlblas::quant::quantize_tensor_codes" + traits}};
  }

  static bool packed(const TensorView& t) { return merged(t).rank <= 1; }
  static QuantTilesParams params(const State& s, const Args& args, void* workspace) {
    const auto inner = [](const TensorView& t) { return t.rank > 0 ? t.strides[t.rank - 1] : 1; };
    QuantTilesParams p{};
    p.x = merged(args.tensors[kX]);
    p.q = merged(args.tensors[kQ]);
    p.scale = merged(args.tensors[kScale]);
    p.x_stride = inner(args.tensors[kX]);
    p.q_stride = inner(args.tensors[kQ]);
    p.scale_stride = inner(args.tensors[kScale]);
    p.rows = args.letters[kT];
    p.width = args.letters[kK];
    p.total = p.rows * p.width;
    p.parts = static_cast<std::uint32_t*>(workspace);
    p.largest = static_cast<float>(largest_of(args.tensors[kQ].dtype));
    p.powers = args.scalars[kScaleDtype].i;
    if (s.traits.tile != QuantTile::kTensor) return p;
    if (packed(args.tensors[kX]) && packed(args.tensors[kQ])) {
      p.width = std::int64_t{quant_lanes(s.traits)} * s.traits.access;
      p.rows = (p.total + p.width - 1) / p.width;
    }
    p.num_parts = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(tiles(s, p), 1, std::min(kQuantParts, 8 * s.units)));
    return p;
  }
  /// Tiles of a tensor, as each_access counts them.
  static std::int64_t tiles(const State& s, const QuantTilesParams& p) {
    const std::int64_t lanes = quant_lanes(s.traits), columns = lanes * s.traits.access;
    const std::int64_t rows = kQuantThreads / lanes * kQuantRows;
    return (p.rows + rows - 1) / rows * ((p.width + columns - 1) / columns);
  }

  static int launch_one(const Args& args, const Context& context, const Kernel& kernel,
                        void* workspace) {
    const State& s = kernel.load<State>();
    const QuantTilesParams p = params(s, args, workspace);
    const std::int64_t columns = std::int64_t{quant_lanes(s.traits)} * s.traits.access;
    std::int64_t blocks = (p.width + columns - 1) / columns;
    if (s.traits.tile == QuantTile::kBlock) blocks *= (p.rows + kQuantBlock - 1) / kQuantBlock;
    if (blocks == 0) return 0;
    return launch(s, *kernel.entries[0], p, blocks, context);
  }
  static int launch_parts(const Args& args, const Context& context, const Kernel& kernel,
                          void* workspace) {
    const State& s = kernel.load<State>();
    const QuantTilesParams p = params(s, args, workspace);
    return launch(s, *kernel.entries[0], p, p.num_parts, context);
  }
  static int launch_codes(const Args& args, const Context& context, const Kernel& kernel,
                          void* workspace) {
    const State& s = kernel.load<State>();
    const QuantTilesParams p = params(s, args, workspace);
    return launch(s, *kernel.entries[1], p, p.num_parts, context);
  }
  static int launch(const State&, const cuda::Function& entry, const QuantTilesParams& p,
                    std::int64_t blocks, const Context& context) {
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(blocks);
    how.block.x = kQuantThreads;
    return cuda::launch(entry, how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State& s) {
    if (s.traits.tile != QuantTile::kTensor) return {launch_one};
    return {launch_parts, launch_codes};
  }
};

}  // namespace

const TraitsTable<QuantTilesTraits>& cuda_traits_table() {
  using Traits = QuantTilesTraits;
  static const auto* members =
      new TraitsTable<Traits>{"dlblas::quant::QuantTilesTraits",
                              {member<&Traits::tile>("tile"), member<&Traits::type>("type"),
                               member<&Traits::q_type>("q_type"), member<&Traits::access>("access"),
                               member<&Traits::aligned>("aligned")}};
  return *members;
}

QuantTilesTraits cuda_traits(const Problem& problem, QuantTile tile) {
  const TensorTraits &x = problem.tensors[kX], &codes = problem.tensors[kQ];
  QuantTilesTraits s{};
  s.tile = tile;
  s.type = x.dtype;
  s.q_type = codes.dtype;
  s.aligned = (1 << x.align_log2) >= size_of(x.dtype) &&
              (1 << problem.tensors[kScale].align_log2) >= size_of(DType::kF32);
  const auto has_rows = [](const TensorTraits& t) {
    return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
           t.layout == Layout::kRowsOuter;
  };
  s.access = 1;
  if (!has_rows(x) || !has_rows(codes) || !s.aligned) return s;
  const int most = std::min((1 << x.align_log2) / size_of(x.dtype), 1 << codes.align_log2);
  for (int n = 2; n <= most && problem.dims[kK] % n == 0; n *= 2) s.access = n;
  return s;
}

std::vector<Implementation> cuda(QuantTile tile) {
  static constexpr QuantTile kTiles[] = {QuantTile::kTensor, QuantTile::kChannel,
                                         QuantTile::kBlock};
  return {cuda_held(tile),
          kernels::make_cuda<Form>("cuda_tiles", source_hash<"ops/quant/tiles_cuda.cpp">(),
                                   &kTiles[static_cast<int>(tile)])};
}

}  // namespace dlblas::quant::tiles
