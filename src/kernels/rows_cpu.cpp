// Row programs on CPUs: one implementation per instruction-set level; knobs, what a level supports,
// its default and its estimate, and the call. Flow: call > validate > [select] > [compile] >
// [launch]. Read next: cpu/row/walk.hpp (the loops).
#include <algorithm>
#include <bit>

#include "core/element.hpp"
#include "kernels/cpu_level.hpp"
#include "kernels/row_copies.hpp"
#include "kernels/row_fold.hpp"
#include "kernels/row_heads.hpp"
#include "kernels/row_operator.hpp"
#include "kernels/row_pieces.hpp"
#include "kernels/row_turned.hpp"

namespace dlblas::kernels {
namespace {

enum class Store : std::int32_t { kCached, kStreamed };
enum class Prefetch : std::int32_t { kNone, kNextRow };

struct CpuRowConfig {
  Store store = Store::kCached;
  Prefetch prefetch = Prefetch::kNone;
  std::int32_t task_kib = 64;  // bytes of a task: below, threads cost more than they bring
};

const ConfigTable<CpuRowConfig>& table() {
  static const auto* knobs = new ConfigTable<CpuRowConfig>{
      field<&CpuRowConfig::store>("store", {0, 1}, {"cached", "streamed"}),
      field<&CpuRowConfig::prefetch>("prefetch", {0, 1}, {"none", "next_row"}),
      field<&CpuRowConfig::task_kib>("task_kib", {16, 64, 256}),
  };
  return *knobs;
}

/// Columns of one unit of work where rows are not reduced: a multiple of every access.
constexpr std::int32_t kTile = 16384;
/// Longer rows are evicted from the second-level cache before they are walked.
constexpr std::int64_t kMaxAheadBytes = 512 << 10;

/// A program's code at one level.
struct RowLevel {
  RowJobFn run;
};

Support supports(const Query& q) {
  const RowOperator& op = op_of<RowOperator>(q);
  if (op.op.serves)
    if (const Support served = op.op.serves(q.problem); !served) return served;
  if (columns_of(op, q.problem) > kMaxRowWidth)
    return Support::no("rows of more than {} columns", kMaxRowWidth);
  return Support::yes();
}

void constrain(const Query& q, Space& space) {
  const bool aliased = in_place(op_of<RowOperator>(q), q.problem);
  // The line to be written was just read: a streaming store would first have to evict it.
  space.require(table(), "a result shares an input's memory: nothing to stream", {"store"},
                [aliased](const CpuRowConfig& c) { return !aliased || c.store == Store::kCached; });
}

/// A few cores of an Intel processor do not saturate its memory, and each has few fill buffers,
/// which a streaming store occupies until memory has taken it. Programs that reduce a row first
/// then store in bursts (docs/notes/cpu_rows.md).
bool waits_for_stores(const RowOperator& op, const Query& q) {
  constexpr int kFewThreads = 4;
  return op.op.reduces && q.device.model.starts_with("Intel") && q.problem.threads <= kFewThreads;
}

Config heuristic(const Query& q) {
  const RowOperator& op = op_of<RowOperator>(q);
  CpuRowConfig config;
  const double bytes = bytes_of(op, q.problem);
  // Others share the last-level cache: data that takes more than half of it is evicted before it is
  // read.
  const bool large = bytes > static_cast<double>(q.device.l3_bytes) / 2;
  if (large && !in_place(op, q.problem) && !waits_for_stores(op, q))
    config.store = Store::kStreamed;
  // Heads are so short that prefetching costs more than it gains, except where memory is slow.
  if (op.op.heads == nullptr && bytes > static_cast<double>(q.device.l2_bytes) / 2)
    config.prefetch = Prefetch::kNextRow;
  return table().to_config(config);
}

/// What a call computes, as f32 operations at a core's peak rate. Programs count their operations
/// per row of the result; conversions and loads come with them, and taking one column after the
/// other costs ten times as much (Zen 5, docs/notes/cpu_rows.md).
double operations_of(const RowOperator& op, const Problem& problem) {
  if (op.op.heads) return 0;  // rotations: their bytes take longer
  const double rows = static_cast<double>(problem.dims[op.rows]);
  return rows * Registry::process().by_id(problem.op).def.work_per_row(problem) *
         (op.op.selects ? 20 : 2);
}

/// Are rows turned by blocks first?
bool turns(const RowOperator& op, const Problem& problem) {
  for (const RowOperandSpec& spec : op.operands) {
    const TensorTraits& t = problem.tensors[spec.tensor];
    if (spec.role == RowRole::kRow && t.dtype != DType::kAbsent && !has_unit_columns(t.layout))
      return true;
  }
  return false;
}

double estimate(const Query& q, const Config& config) {
  const RowOperator& op = op_of<RowOperator>(q);
  const Rates rates = rates_of(q);
  const double bytes = bytes_of(op, q.problem);
  const bool cached = bytes <= static_cast<double>(q.device.l3_bytes);
  const bool streamed = table().from_config(config).store == Store::kStreamed;
  // A store through the caches reads its line first: half as many bytes again.
  constexpr double kTurned = 4;
  const double moved = (streamed || in_place(op, q.problem) ? bytes : bytes * 1.5) *
                       (turns(op, q.problem) ? kTurned : 1);
  const int threads = std::max<int>(1, std::min<int>(q.problem.threads, q.device.units));
  const DType dtype = q.problem.tensors[op.operands[0].tensor].dtype;
  const double bytes_s = moved / rates.bytes_per_s(dtype, cached && !streamed);
  const double operations_s = operations_of(op, q.problem) / rates.f32_flops;
  return 1e3 * (rates.launch_s + std::max(bytes_s, operations_s) / threads);
}

/// May accesses read or write the operand by columns?
bool at_columns(RowRole role, bool heads) {
  return role == RowRole::kRow || role == RowRole::kColumns || role == RowRole::kLayers ||
         role == RowRole::kHeads || role == RowRole::kHeadColumns || role == RowRole::kGathered ||
         (heads && role == RowRole::kTable);
}

/// Values are split into even and odd elements if the first operand is bf16, or bytes that become
/// bf16.
bool pairs_pay(const RowJob& job) {
  if (size_of(job.types[0]) > 1) return job.types[0] == DType::kBF16;
  for (int i = 0; i < job.operands; ++i)
    if ((job.written >> i & 1u) && job.types[i] == DType::kBF16) return true;
  return false;
}

/// State that `prepare` leaves for the calls.
struct State {
  const RowOperator* op;
  RowJobFn run;
  CpuRowConfig config;
  std::int32_t options[kMaxRowOptions];
  RowShape shape;
  RowCopies copies;
  RowTurns turns;
};

constexpr std::int64_t kFoldColumns = 256;

/// Adds up the parts' sums of the folded results, first to last, in f64, for block `block` of the
/// columns of a phase's row.
void add_parts(const RowOperator& op, const Args& args, const RowJob& job, std::int64_t parts,
               std::int64_t phase, std::int64_t block) {
  const std::int64_t width = job.call.width, folds = std::popcount(op.folded);
  const std::int64_t each = op.folds_groups ? std::max(1, job.call.group) : 1;  // columns of a sum
  const std::int64_t begin = block * kFoldColumns,
                     count = std::min(kFoldColumns, fold_width(op, job.call) - begin);
  for (int i = 0, fold = 0; i < static_cast<int>(op.operands.size()); ++i) {
    if (!(op.folded >> i & 1u)) continue;
    double sums[kFoldColumns] = {};
    for (std::int64_t part = 0; part < parts; ++part) {
      const float* from = job.partials + ((part * job.period + phase) * folds + fold) * width;
      for (std::int64_t c = 0; c < count; ++c) {
        const std::int64_t first = (begin + c) * each, last = std::min(width, first + each);
        for (std::int64_t at = first; at < last; ++at) sums[c] += static_cast<double>(from[at]);
      }
    }
    const TensorView& result = args.tensors[op.operands[static_cast<std::size_t>(i)].tensor];
    const RowOperand& to = job.call.operands[i];
    for (std::int64_t c = 0; c < count; ++c)
      store_element(result, phase * to.head + (begin + c) * to.column, sums[c]);
    ++fold;
  }
}

/// Walks the rows part by part, each part with its own sums, and then adds these up.
void run_parts(const RowOperator& op, const Args& args, const Context& context, RowJobFn walk,
               RowJob& job, std::int64_t grain) {
  const std::int64_t period = job.period;
  const CpuParts parts = cpu_parts(job.call.rows, job.call.width, period);
  const std::int64_t sums = std::popcount(op.folded) * std::int64_t{job.call.width};
  context.run(0, parts.count * period, std::max<std::int64_t>(1, grain / parts.rows),
              [&](std::int64_t begin, std::int64_t end) {
                RowJob mine = job;
                for (std::int64_t part = begin; part < end; ++part) {
                  mine.partials = job.partials + part * sums;
                  mine.phase = static_cast<std::int32_t>(part % period);
                  std::fill_n(mine.partials, sums, 0.0f);
                  const std::int64_t first = part / period * parts.rows;
                  const std::int64_t all = (job.call.rows - mine.phase + period - 1) / period;
                  walk(mine, first, std::clamp(all, first, first + parts.rows));
                }
              });
  const std::int64_t blocks = (fold_width(op, job.call) + kFoldColumns - 1) / kFoldColumns;
  context.run(0, blocks * period, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      add_parts(op, args, job, parts.count, block / blocks, block % blocks);
  });
}

/// Joins all rows into one, where they are contiguous and no column is special: per-row work is
/// then done once. Groups stay as they are. Returns how many rows were joined.
std::int64_t join_rows(const RowOperator& op, const Args& args, NestedRowCall& call) {
  const std::int64_t rows = call.rows, width = call.width;
  if (op.op.reduces || op.op.heads || op.folded != 0 || !op.indices.empty()) return 1;
  if (rows <= 1 || width <= 0 || call.nest.rank != 1 || rows > kMaxRowWidth / width) return 1;
  if (call.group > 0 && width % call.group != 0) return 1;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const RowOperandSpec& spec = op.operands[i];
    if (!given(args, spec) || spec.role == RowRole::kScalar) continue;
    const bool groups = spec.role == RowRole::kGroup;
    if (spec.role != RowRole::kRow && !groups) return 1;
    const TensorView& t = args.tensors[spec.tensor];
    const std::int64_t mine = groups ? width / std::max(1, call.group) : width;
    if (t.shape[t.rank - 1] != mine || call.operands[i].column != 1 ||
        call.nest.strides[i][0] != mine)
      return 1;
  }
  call.rows = 1, call.nest.rank = 0;
  call.width = static_cast<std::int32_t>(rows * width);
  return rows;
}

int run_piece(const Args& args, const Context& context, const State& state, void* workspace) {
  const RowOperator& op = *state.op;
  RowJob job;
  job.shape = state.shape;
  fill_call(op, job.shape, args, job.call, &job.call.nest);
  const std::int64_t width = job.call.width, joined = join_rows(op, args, job.call);
  std::copy_n(state.options, kMaxRowOptions, job.call.options);
  job.operands = static_cast<std::int32_t>(op.operands.size());
  job.short_nans = true;
  std::int64_t row_bytes = 0;
  bool stores_pairs = false;  // where a column lies is then not where streaming looks for it
  for (int i = 0; i < job.operands; ++i) {
    const RowOperandSpec& spec = op.operands[static_cast<std::size_t>(i)];
    const TensorView& t = args.tensors[spec.tensor];
    const bool values = given(args, spec) && t.dtype <= DType::kI8;
    job.types[i] = values ? t.dtype : DType::kF32;
    if (!given(args, spec)) continue;
    if (!spec.written && values && job.types[i] == DType::kF32) job.short_nans = false;
    if (op.folded >> i & 1u) continue;  // no access of a row writes it
    if (spec.written) job.written |= 1u << i;
    if (values && at_columns(spec.role, op.op.heads != nullptr)) job.at_columns |= 1u << i;
    if (has_rows(spec.role)) job.rows_of |= 1u << i;
    if (spec.role == RowRole::kRow && t.shape[t.rank - 1] != width) job.shifted |= 1u << i;
    stores_pairs |= (job.shifted & job.written) >> i & 1u && job.shape.span > 1;
    if ((has_rows(spec.role) && !spec.periodic) || spec.role == RowRole::kGathered)
      row_bytes +=
          t.shape[t.rank - 1] * size_of(t.dtype) * (spec.has_inner() ? t.shape[t.rank - 2] : 1);
  }
  row_bytes *= joined;
  // Rows without columns still have their per-row values.
  const bool row_values = std::any_of(
      op.operands.begin(), op.operands.end(),
      [](const RowOperandSpec& spec) { return spec.written && spec.role == RowRole::kValue; });
  if (job.call.rows == 0 && op.folded == 0) return 0;
  if (job.call.width == 0 && !row_values) return 0;
  job.partials = static_cast<float*>(workspace);
  if (op.folded != 0) job.period = static_cast<std::int32_t>(period_of(op, args.letters));
  job.paired = pairs_pay(job);
  job.stream = state.config.store == Store::kStreamed && !stores_pairs;
  job.prefetch = state.config.prefetch == Prefetch::kNextRow &&
                 (!op.op.reduces || row_bytes <= kMaxAheadBytes);
  // A tile holds whole groups.
  const bool whole = op.op.reduces || op.op.heads || op.folded != 0;
  const std::int32_t group = std::max(1, job.call.group);
  job.tile = whole ? job.call.width : std::min(job.call.width, std::max(1, kTile / group) * group);
  // A row without columns is one empty tile.
  job.tile = std::max(1, job.tile);
  job.call.tiles =
      static_cast<std::uint32_t>(std::max(1, (job.call.width + job.tile - 1) / job.tile));
  const std::int64_t unit = std::max<std::int64_t>(1, row_bytes / job.call.tiles);
  const std::int64_t grain = std::max<std::int64_t>(1, state.config.task_kib * 1024 / unit);
  if (op.folded != 0) return run_parts(op, args, context, state.run, job, grain), 0;
  if (turns_pay(op, args, job, state.turns))
    return run_turned(op, args, context, state.run, job, state.turns), 0;
  if (job.shape.whole) return run_copied(op, args, context, state.run, job, state.copies), 0;
  const bool by_heads = walks_by_heads(op, job);
  context.run(0, job.call.rows * job.call.tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    by_heads ? walk_by_heads(op, state.run, job, begin, end) : state.run(job, begin, end);
  });
  return 0;
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  return for_pieces(*state.op, args,
                    [&](const Args& piece) { return run_piece(piece, context, state, workspace); });
}

Kernel prepare(const Query& q, const Config& config) {
  const RowOperator& op = op_of<RowOperator>(q);
  State state{&op, code_of<RowLevel>(q).run, table().from_config(config),
              {},  shape_of(op, q.problem),  {},
              {}};
  if (op.op.choose) op.op.choose(q.problem, state.options);
  if (state.shape.whole) {
    state.copies = row_copies(op, q.problem);
    return make_kernel({run}, state, state.copies.bytes());
  }
  std::size_t turned_bytes = 0;
  state.turns = row_turns(op, q.problem, turned_bytes);
  if (state.turns.parts > 0) return make_kernel({run}, state, turned_bytes);
  const std::int64_t parts = most_cpu_parts(q.problem.dims[op.rows], period_of(op, q.problem.dims));
  const std::int64_t sums = parts * std::popcount(op.folded) * columns_of(op, q.problem);
  return make_kernel({run}, state, static_cast<std::size_t>(sums) * sizeof(float));
}

}  // namespace

std::vector<Implementation> row_cpu_implementations(const RowOperator& op) {
  Implementation base;
  base.flags = {.deterministic = true};
  base.knobs = &table();
  base.supports = supports;
  base.constrain = constrain;
  base.heuristic = heuristic;
  base.estimate = estimate;
  base.prepare = prepare;
  std::vector<CpuLevel> levels;
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kBaseline})
    if (const RowJobFn fn = op.program->levels[static_cast<int>(isa)])
      levels.push_back({isa, op.program->hash, new RowLevel{fn}});
  return per_level(base, "cpu_", levels, &op);
}

}  // namespace dlblas::kernels
