// Row programs on CUDA devices, the contract of an implementation: which problems a kernel takes,
// its estimate, sources and launch. Flow: call > validate > [select] > [compile] > [launch].  Read
// next: rows_cuda_config.hpp (configurations), device/row/registers.cuh, passes.cuh (the kernels).
#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "core/rates.hpp"
#include "cuda/cuda.hpp"
#include "kernels/row_fold.hpp"
#include "kernels/row_pieces.hpp"
#include "kernels/rows_cuda_config.hpp"

namespace dlblas::kernels {
namespace {

using Kind = RowKernelKind;
constexpr const char* kNames[] = {"cuda_registers", "cuda_cluster", "cuda_grid",  "cuda_shared",
                                  "cuda_rows",      "cuda_strided", "cuda_folded"};

constexpr std::int64_t kMaxGrid = (std::int64_t{1} << 31) - 1;
/// The most rows of one launch: a row has at most 64 tiles, or 16 blocks of a cluster.
constexpr std::int64_t kMaxRows = kMaxGrid / 64;
/// A row with fewer accesses is not worth a cluster's reduction.
constexpr std::int64_t kMinClusterAccesses = 2048;
/// A row with fewer accesses per multiprocessor is not worth the whole device.
constexpr std::int64_t kMinGridAccesses = 1024;

RowConfig config_of(const RowKernel& k, const Problem& problem, const Config& config) {
  return k.table ? k.table->from_config(config) : strided_config(k, problem);
}

Support supports(const Query& q) {
  const RowKernel& k = q.user<RowKernel>();
  const Problem& problem = q.problem;
  if (k.op->op.serves)
    if (const Support served = k.op->op.serves(problem); !served) return served;
  const std::int64_t rows = problem.dims[k.op->rows], width = columns_of(*k.op, problem);
  if (width > kMaxRowWidth) return Support::no("rows of more than {} columns", kMaxRowWidth);
  const std::int64_t most = kMaxGrid / (is_tiled(k) ? 64 : 16);  // tiles, or blocks of a cluster
  if (rows > most && !k.op->parts) return Support::no("more than {} rows", most);
  const RowShape shape = shape_of(*k.op, problem);
  const std::int64_t head = shape.whole ? shape.head_width : 0;
  if (k.kind == Kind::kStrided) {
    if (head <= strided_columns(k)) return Support::yes();
    return Support::no("in place, a head of {} columns is read before it is written; at most {}",
                       head, strided_columns(k));
  }
  for (const RowOperandSpec& spec : k.op->operands) {
    const TensorTraits& t = problem.tensors[spec.tensor];
    if (t.dtype == DType::kAbsent || !(has_columns(spec.role) || has_rows(spec.role))) continue;
    if (spec.role == RowRole::kIndex || spec.role == RowRole::kValue) continue;
    if (t.layout == Layout::kTransposed || t.layout == Layout::kMatricesTransposed ||
        t.layout == Layout::kOther)
      return Support::no_in_words(spec.not_contiguous);
    if (spec.role == RowRole::kColumns ? t.layout != Layout::kContiguous
                                       : !has_unit_columns(t.layout))
      return Support::no_in_words(spec.mixed_strides);
  }
  if (k.kind == Kind::kFolded && !reads_in_ring(k, problem))
    return Support::no("rows are not read in accesses of 16 bytes");
  const std::int64_t row = accesses(k, problem);
  if (k.kind == Kind::kCluster && row < kMinClusterAccesses)
    return Support::no("a row has {} accesses; fewer than {} are not worth a cluster", row,
                       kMinClusterAccesses);
  if (k.kind == Kind::kGrid && row < kMinGridAccesses * q.device.units)
    return Support::no("a row has {} accesses; fewer than {} are not worth the whole device", row,
                       kMinGridAccesses * q.device.units);
  if (default_config(k, problem, q.device).threads > 0) return Support::yes();
  const RowTraits traits = traits_of(k, problem);
  if (k.op->op.reduces_groups && traits.group / traits.n > 32 &&
      (k.kind != Kind::kRegisters || k.op->op.heads))
    return Support::no("a group has {} accesses; more than the lanes of a warp",
                       traits.group / traits.n);
  if (k.kind == Kind::kShared)
    return Support::no("a row has {} accesses; more than shared memory holds", row);
  if (head > 0 && !k.op->op.reduces_groups)
    return Support::no("in place, a head of {} columns lies in one block; none holds whole ones",
                       head);
  return Support::no("a row has {} accesses; more than the threads' registers hold", row);
}

/// For calls that request the same bits in any batch (kDeterministic), one kernel and one
/// configuration serve a width: those selected for this problem, which has a fixed number of rows.
Problem typical(const RowKernel& k, const Problem& problem) {
  Problem p = problem;
  p.dims[k.op->rows] = 1024;
  p.flags &= static_cast<std::uint8_t>(~kDeterministic);
  return p;
}

/// Yes for the first of the kernels that takes the typical problem.
Support same_bits(const Query& q) {
  const Problem p = typical(q.user<RowKernel>(), q.problem);
  for (const Implementation* other : Registry::process().by_id(q.problem.op).candidates()) {
    if (other->supports != supports || q.device.arch < other->min_arch) continue;
    if (!supports({p, q.device, *other})) continue;
    if (other == &q.self) return Support::yes();
    break;
  }
  return Support::no("has other bits than the kernel that serves this width in any batch");
}

RowConfig pick_for(const RowKernel& k, const Problem& problem, const DeviceInfo& device) {
  if (problem.flags & kDeterministic) {
    const RowConfig one = default_config(k, typical(k, problem), device);
    if (one.threads > 0) return one;
  }
  return default_config(k, problem, device);
}

void constrain(const Query& q, Space& space) {
  const RowKernel& k = q.user<RowKernel>();
  if (q.problem.flags & kDeterministic) {
    space.require_only("the same bits: one configuration a width",
                       k.table->to_config(pick_for(k, q.problem, q.device)));
    return;
  }
  space.require(*k.table,
                "the accesses hold the row, no fewer would, and the block has room for them",
                [&k, q = QueryCopy(q)](const RowConfig& c) {
                  const Query asked = q;
                  return fits(k, asked.problem, c, asked.device);
                });
}

Config heuristic(const Query& q) {
  const RowKernel& k = q.user<RowKernel>();
  return k.table->to_config(pick_for(k, q.problem, q.device));
}

RowCost cost_of(const RowKernel& k, const Query& q, const RowConfig& c) {
  const bool alone = kept_bytes(k, q.problem, c) > shared_room(q.device) / 2;
  if (k.op->op.tuning && k.op->op.tuning->cost) {
    const RowTraits traits = traits_of(k, q.problem);
    return k.op->op.tuning->cost(
        {k.kind, q.problem.dims[k.op->rows], accesses(k, q.problem), traits, q.device}, c, alone);
  }
  double share = 1;
  if (k.kind == Kind::kCluster) share = 1.05;
  // As the ring's (ops/norm/cuda/), whose blocks synchronise in the same way.
  if (k.kind == Kind::kGrid) return {1.15, 5e-3};
  if (k.kind == Kind::kShared) share = alone ? 1.2 : 1.08;
  if (k.kind == Kind::kRows) share = reads_once(k, q.problem, q.device) ? 1.01 : 1.5;
  if (k.kind == Kind::kStrided) share = 10;
  if (k.kind != Kind::kRegisters && c.cluster > 1) share += 0.02;
  return {share, 0};
}

/// Bytes at the rate of a copy: the one model of a memory-bound kernel. H200: 0.975 of what memory
/// sustains over 132 multiprocessors; one alone reaches about three times its share.
double estimate(const Query& q, const Config& config) {
  constexpr double kCopy = 0.975;
  const RowKernel& k = q.user<RowKernel>();
  const DeviceInfo& device = q.device;
  const RowConfig c = config_of(k, q.problem, config);
  RowCost cost = cost_of(k, q, c);
  const double rows = std::max<double>(1, static_cast<double>(q.problem.dims[k.op->rows]));
  const bool all = is_tiled(k) || k.kind == Kind::kGrid;
  const double blocks = all ? static_cast<double>(device.units) : rows * c.cluster;
  const double busy = std::min<double>(blocks, device.units);
  // Separate kernels that fold read the rows once more.
  const bool once = k.op->folded == 0 || k.kind == Kind::kFolded || k.op->folds_groups;
  const int kernels = k.op->folded == 0 ? 1 : once ? 2 : 3;  // launches
  const double launches = kernels * launch_s(device);
  if (!once) cost.share += 0.7;
  const double rate = std::min(kCopy * memory_bytes_per_s(device),
                               std::max(1.0, busy) * unit_rates(device).alone_bytes_per_s);
  return cost.ms + 1e3 * (launches + cost.share * bytes_of(*k.op, q.problem) / rate);
}

/// State that `prepare` leaves for the calls.
struct State {
  const RowKernel* kernel;
  RowConfig config;
  std::int32_t n, group, fold_lanes;  // of the traits; see lane_group
  std::int32_t options[kMaxRowOptions];
  std::int32_t shared_bytes;
  std::int64_t stats_bytes;  // of the workspace's first, where results are folded
  std::int64_t grid;         // blocks of the kGrid kernel
  bool nested, dependent;
  RowShape shape;
  std::int32_t units;
};

CudaParts parts_of(const State& state, const RowCall& call) {
  return cuda_parts(call.rows, (std::int64_t{call.width} + state.n - 1) / state.n,
                    call.folds.period);
}

/// Slots of a row that is folded over groups of columns.
std::int64_t fold_slots(std::int64_t width, std::int64_t n, std::int64_t lanes) {
  return ((width + n - 1) / n + lanes - 1) / lanes;
}

/// The arguments of a call's kernels.
NestedRowCall call_of(const State& state, const Args& args, void* workspace) {
  NestedRowCall call;
  fill_call(*state.kernel->op, state.shape, args, call, state.nested ? &call.nest : nullptr);
  std::copy_n(state.options, kMaxRowOptions, call.options);
  call.folds = {};
  if (state.grid > 0) call.folds.partials = static_cast<float*>(workspace);
  const RowOperator& op = *state.kernel->op;
  if (op.folded == 0) return call;
  const std::int64_t period = period_of(op, args.letters);
  call.folds.partials = static_cast<float*>(workspace);
  call.folds.period = static_cast<std::int32_t>(period);
  if (op.folds_groups) {
    call.folds.slots = static_cast<std::int32_t>(fold_slots(call.width, state.n, state.fold_lanes));
    return call;
  }
  if (state.kernel->kind == Kind::kFolded) {
    call.folds.parts =
        static_cast<std::int32_t>(folded_blocks(state.config, state.units, call.rows, period));
    return call;
  }
  const CudaParts parts = parts_of(state, call);
  call.folds.stats = workspace;
  call.folds.partials = reinterpret_cast<float*>(static_cast<char*>(workspace) + state.stats_bytes);
  call.folds.rows = static_cast<std::int32_t>(parts.rows);
  call.folds.parts = static_cast<std::int32_t>(parts.parts);
  return call;
}

int run_piece(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  const RowConfig& c = state.config;
  NestedRowCall call = call_of(state, args, workspace);
  if (call.rows == 0 || (state.kernel->op->folded && call.width == 0)) return 0;
  cuda::Launch how;
  std::int64_t blocks = (call.rows + c.rows - 1) / c.rows * c.cluster;
  if (state.kernel->kind == Kind::kRegisters && is_tiled(*state.kernel)) {
    call.tiles =
        static_cast<std::uint32_t>(tiles_of(accesses_of(call.width, state.n, state.group), c));
    blocks *= call.tiles;
  }
  if (state.kernel->kind == Kind::kFolded) blocks = call.folds.parts;
  how.grid.x = static_cast<unsigned>(blocks);
  how.block.x = static_cast<unsigned>(c.threads * c.rows);
  how.shared_bytes = static_cast<unsigned>(state.shared_bytes);
  how.cluster = static_cast<unsigned>(c.cluster);
  how.dependent = state.dependent;
  if (state.grid > 0) {
    how.grid.x = static_cast<unsigned>(state.grid);
    how.block.x = static_cast<unsigned>(c.threads + 32);  // and the warp that meets
    how.cooperative = true, how.dependent = false;
  }
  return cuda::launch(*kernel.entries[0], how, &call, sizeof call, context.stream);
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const RowOperator& op = *kernel.load<State>().kernel->op;
  return for_pieces(op, args, [&](const Args& piece) {
    return for_rows(op, piece, kMaxRows,
                    [&](const Args& part) { return run_piece(part, context, kernel, workspace); });
  });
}

/// Launches the kernel that computes partial sums of the folded results.
int run_fold(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  NestedRowCall call = call_of(state, args, workspace);
  if (call.rows == 0 || call.width == 0) return 0;
  const CudaParts parts = parts_of(state, call);
  call.tiles = static_cast<std::uint32_t>(parts.tiles);
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>(parts.tiles * parts.parts);
  how.block.x = static_cast<unsigned>(parts.threads * parts.rows_at_once);
  how.dependent = state.dependent;
  return cuda::launch(*kernel.entries[1], how, &call, sizeof call, context.stream);
}

/// Launches the kernel that adds up the parts. Without rows the results are zeros.
int run_fold_parts(const Args& args, const Context& context, const Kernel& kernel,
                   void* workspace) {
  constexpr int kColumns = 32, kThreads = 1024;  // device/row/fold.cuh
  const State& state = kernel.load<State>();
  const NestedRowCall call = call_of(state, args, workspace);
  if (call.width == 0) return 0;
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>((call.width + kColumns - 1) / kColumns * call.folds.period);
  how.grid.y = static_cast<unsigned>(std::popcount(state.kernel->op->folded));
  how.block.x = kThreads;
  how.dependent = state.dependent;
  const int entry = state.kernel->kind == Kind::kFolded ? 1 : 2;  // the last
  return cuda::launch(*kernel.entries[entry], how, &call, sizeof call, context.stream);
}

/// Launches the kernel that adds up the slots of rows. Without rows the results are zeros.
int run_fold_groups(const Args& args, const Context& context, const Kernel& kernel,
                    void* workspace) {
  constexpr int kWarps = 8;  // row_fold_groups: one for each column of a result
  const State& state = kernel.load<State>();
  const RowOperator& op = *state.kernel->op;
  const NestedRowCall call = call_of(state, args, workspace);
  const std::int64_t columns = fold_width(op, call) * call.folds.period;
  if (columns == 0) return 0;
  cuda::Launch how;
  how.grid.x = static_cast<unsigned>((columns + kWarps - 1) / kWarps);
  how.grid.y = static_cast<unsigned>(std::popcount(op.folded));
  how.block.x = 32 * kWarps;
  how.dependent = state.dependent;
  return cuda::launch(*kernel.entries[1], how, &call, sizeof call, context.stream);
}

Kernel prepare(const Query& q, const Config& config) {
  const RowKernel& k = q.user<RowKernel>();
  const RowTraits traits = traits_of(k, q.problem);
  const RowConfig c = config_of(k, q.problem, config);
  State state{&k,
              c,
              traits.n,
              lane_group(k, traits),
              k.op->folds_groups ? fold_lanes(traits, c.threads) : 0,
              {},
              0,
              0,
              0,
              traits.nested,
              q.device.arch >= 90,
              traits.shape,
              q.device.units};
  std::copy_n(traits.options, kMaxRowOptions, state.options);
  state.shared_bytes = static_cast<std::int32_t>(kept_bytes(k, q.problem, state.config));
  if (k.kind == Kind::kGrid) {
    state.grid = grid_blocks(state.config, q.device);
    constexpr std::size_t kPart = 2 * sizeof(double);  // RowGridPart
    return make_kernel({run}, state, 2 * static_cast<std::size_t>(state.grid) * kPart);
  }
  if (k.op->folded == 0) return make_kernel({run}, state);
  const std::int64_t rows = q.problem.dims[k.op->rows], width = columns_of(*k.op, q.problem);
  const std::int64_t period = period_of(*k.op, q.problem.dims), folds = std::popcount(k.op->folded);
  if (k.op->folds_groups) {
    const std::int64_t sums = rows * folds * fold_slots(width, traits.n, state.fold_lanes);
    return make_kernel({run, run_fold_groups}, state,
                       static_cast<std::size_t>(sums) * sizeof(float));
  }
  if (k.kind == Kind::kFolded) {
    const std::int64_t sums =
        folded_blocks(state.config, q.device.units, rows, period) * folds * width;
    return make_kernel({run, run_fold_parts}, state,
                       static_cast<std::size_t>(sums) * sizeof(float));
  }
  state.stats_bytes = (rows * kMaxRowStats + 255) / 256 * 256;
  const std::int64_t sums = most_cuda_parts(rows, accesses(k, q.problem), period) * folds * width;
  return make_kernel(
      {run, run_fold, run_fold_parts}, state,
      static_cast<std::size_t>(state.stats_bytes) + static_cast<std::size_t>(sums) * sizeof(float));
}

template <std::size_t kCount>
std::string literal(const std::int8_t (&numbers)[kCount]) {
  std::string all;
  for (const std::int8_t i : numbers) all += text(static_cast<int>(i), ", ");
  return text("{", all, "}");
}

std::string literal(const RowShape& shape) {
  return text(
      "{.head_width = ", shape.head_width, ", .heads = {", shape.heads[0], ", ", shape.heads[1],
      "}, .split = ", shape.split, ", .span = ", shape.span, shape.whole ? ", .whole = true" : "",
      ", .headed = ", shape.headed, ", .gathered = ", shape.gathered, ", .paged = ", shape.paged,
      ", .second_only = ", shape.second_only, ", .leaves_out = ", shape.leaves_out,
      ", .indices = ", shape.indices, ", .index = ", literal(shape.index),
      ", .index_bytes = ", literal(shape.index_bytes), ", .page = ", shape.page,
      ", .second = ", literal(shape.second), ", .gathered_by = ", literal(shape.gathered_by), "}");
}

std::string literal(const RowTraits& traits) {
  const auto word = [](bool value) { return value ? "true" : "false"; };
  const bool shaped = traits.shape.head_width > 0 || traits.shape.indices > 0;
  std::string types, options;
  for (const DType type : traits.types)
    types += text("dlblas::DType(", static_cast<int>(type), "), ");
  for (const std::int32_t option : traits.options) options += text(option, ", ");
  return text("dlblas::RowTraits{.types = {", types, "}, .n = ", traits.n,
              ", .full = ", word(traits.full), ", .nested = ", word(traits.nested),
              ", .strided = ", word(traits.strided), ", .aligned = ", word(traits.aligned),
              ", .kept = ", traits.kept, shaped ? ", .shape = " : "",
              shaped ? literal(traits.shape) : "", ", .group = ", traits.group,
              traits.folded ? text(", .folded = ", traits.folded) : "",
              traits.fold_lanes ? text(", .fold_lanes = ", traits.fold_lanes) : "",
              traits.periodic ? text(", .periodic = ", traits.periodic) : "",
              traits.streamed ? text(", .streamed = ", traits.streamed) : "",
              ", .operands = ", traits.operands, ", .options = {", options, "}}");
}

std::vector<KernelSource> sources(const Query& q, const Config& config) {
  const RowKernel& k = q.user<RowKernel>();
  const RowConfig c = config_of(k, q.problem, config);
  const bool registers = k.kind == Kind::kRegisters || k.kind == Kind::kCluster;
  const std::string how =
      k.table ? k.table->literal(config, "dlblas::RowConfig")
              : text("dlblas::RowConfig{.threads = ", c.threads, ", .vectors = ", c.vectors,
                     ", .keep = false, .early = false, .variant = ", c.variant, "}");
  const RowProgramEntry& program = *k.op->program;
  std::vector<KernelSource> all = {
      {program.header,
       text(k.kind == Kind::kGrid     ? "dlblas::row_grid<"
            : registers               ? "dlblas::row_registers<"
            : k.kind == Kind::kFolded ? "dlblas::row_folded<"
                                      : "dlblas::row_passes<",
            program.type, ", ", literal(traits_with(k, q.problem, c)), ", ", how, ">"),
       static_cast<std::int32_t>(kept_bytes(k, q.problem, c))}};
  if (k.op->folded == 0) return all;
  if (k.op->folds_groups) {
    all.push_back({program.header,
                   text("dlblas::row_fold_groups<", literal(traits_with(k, q.problem, c)), ">"),
                   0});
    return all;
  }
  const std::string traits = literal(traits_of(k, q.problem));
  const KernelSource last = {program.header, text("dlblas::row_fold_parts<", traits, ">"), 0};
  if (k.kind == Kind::kFolded) {
    all.push_back(last);
    return all;
  }
  const CudaParts parts = cuda_parts(1, accesses(k, q.problem), 1);
  all.push_back({program.header,
                 text("dlblas::row_fold<", program.type, ", ", traits,
                      ", dlblas::RowConfig{.threads = ", parts.threads,
                      ", .vectors = 1, .rows = ", parts.rows_at_once,
                      ", .keep = false, .early = false, .variant = ", c.variant, "}>"),
                 0});
  all.push_back(last);
  return all;
}

Implementation implementation(const RowOperator& op, Kind kind) {
  Implementation impl;
  impl.name = kNames[static_cast<int>(kind)];
  impl.backend = DeviceType::kCuda;
  const bool newer = kind == Kind::kCluster || kind == Kind::kGrid;
  impl.min_arch = std::max(op.op.min_arch, newer ? 90 : 80);
  impl.source_hash = op.program->cuda_hash;
  impl.flags = {.deterministic = true, .capturable = true};
  impl.knobs = make_row_table(op, kind);
  impl.user = new RowKernel{&op, kind, static_cast<const RowTable*>(impl.knobs)};
  impl.supports = supports;
  impl.same_bits = same_bits;
  impl.estimate = estimate;
  impl.prepare = prepare;
  impl.sources = sources;
  if (impl.knobs) impl.constrain = constrain, impl.heuristic = heuristic;
  return impl;
}

}  // namespace

std::vector<Implementation> row_cuda_implementations(const RowOperator& op) {
  std::vector<Implementation> all;
  if (op.folded != 0 && !op.folds_groups) all.push_back(implementation(op, Kind::kFolded));
  all.push_back(implementation(op, Kind::kRegisters));
  if (op.op.reduces) {
    if (!op.op.selects) all.push_back(implementation(op, Kind::kCluster));
    if (has_grid(op)) all.push_back(implementation(op, Kind::kGrid));
    if (!op.op.heads) all.push_back(implementation(op, Kind::kShared));
    all.push_back(implementation(op, Kind::kRows));
  }
  all.push_back(implementation(op, Kind::kStrided));
  return all;
}

}  // namespace dlblas::kernels
