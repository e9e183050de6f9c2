// The i8 product with row and column scales on CPUs with AVX512_VNNI: sums in i32, four products
// per lane. Threads share packed rows of a, then divide columns or rows. In: a Problem, later the
// Args of a call. Out: a Kernel of one step. Same bits as the levels of scaled_cpu.cpp: all sums
// are exact.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: scaled_avx512vnni.cpp.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/scaled/scaled.hpp"
#include "ops/gemm/scaled/scaled_vnni_config.hpp"

namespace dlblas::gemm::scaled {

#if defined(DLBLAS_X86)
namespace {

/// Maximum rows of a packed at a time, in whole tiles: b is packed again for the next ones.
constexpr std::int64_t kMaxRows = 96 * kVnniRows;
constexpr std::int64_t kLine = 64;
/// The configuration that packs nothing.
constexpr VnniConfig kDots{1024, 256, true};

const ConfigTable<VnniConfig>& table() {
  using C = VnniConfig;
  static const auto* knobs =
      new ConfigTable<C>{field<&C::depth>("depth", {128, 256, 512, 1024}),
                         field<&C::columns>("columns", {64, 128, 256, 512, 1024, 2048}),
                         field<&C::dots>("dots", {0, 1})};
  return *knobs;
}

/// Columns of b are contiguous along K.
bool is_along_k(const Problem& p) { return p.tensors[kB].layout == Layout::kTransposed; }

Support supports(const Query& q) {
  if (!q.device.vnni)
    return Support::no("needs AVX512_VNNI, which this CPU lacks or DLBLAS_CPU_ISA rules out");
  if (q.problem.tensors[kA].dtype != DType::kI8)
    return Support::no("{} is f8e4m3: the integer unit multiplies i8", tensor(kA));
  return Support::yes();
}

/// Dots read columns in place and pack nothing: the other knobs have no effect.
void constrain(const Query& q, Space& space) {
  const bool along_k = is_along_k(q.problem);
  space.require(table(), "dots_lie_along_k", {"dots"},
                [along_k](const VnniConfig& c) { return along_k || !c.dots; });
  space.require(table(), "dots_pack_nothing", {"depth", "columns", "dots"},
                [](const VnniConfig& c) {
                  return !c.dots || (c.depth == kDots.depth && c.columns == kDots.columns);
                });
}

Config heuristic(const Query& q) {
  const Problem& p = q.problem;
  const bool along_k = is_along_k(p);
  // Cascade Lake at 2.5 GHz, one thread of a busy machine, K = N = 4096, November 2026, ms. 8 rows
  // and b along K: dots 2.38, 1024×64 3.11; 16: 3.84, 3.66. 16 rows and b along N: 128×2048 3.93,
  // 128×1024 4.33, 256×512 4.47. 512 rows: 1024×128 37.7, 1024×256 38.0.
  VnniConfig c{1024, 128, false};
  constexpr std::int64_t kDotRows = 8, kFewRows = 32;
  if (p.dims[kM] <= kDotRows && along_k)
    c = kDots;
  else if (p.dims[kM] <= kFewRows)
    c.depth = along_k ? 1024 : 128, c.columns = along_k ? 64 : 2048;
  return table().to_config(c);
}

double estimate(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const double threads = std::max<int>(1, p.threads);
  const auto m = static_cast<double>(p.dims[kM]), n = static_cast<double>(p.dims[kN]),
             k = static_cast<double>(p.dims[kK]);
  // With dots, 8 rows take twice as long as 4 (Cascade Lake, Granite Rapids).
  constexpr double kAsFloats = 4, kPack = 8;
  const bool dots = table().from_config(config).dots;
  const double kPart = dots ? 0.4 : 0.8, pack = dots ? 0 : kPack * n * k;
  const Rates rates = unit_rates(q.device, Isa::kAvx512);
  const double multiply = 2 * m * n * k / (kAsFloats * kPart);
  const double memory = n * k / rates.memory_bytes_per_s;
  return 1e3 * std::max((multiply + pack + kPack * m * k) / rates.f32_flops, memory) / threads +
         0.005;
}

struct State {
  VnniConfig config;
  int slots;
};

/// Upper bound on the padded rows of a batch: panels are balanced, so each pads by at most one.
std::int64_t padded_rows(std::int64_t m) {
  const std::int64_t rows = std::min(m, kMaxRows);
  return rows + ceil_div(rows, kVnniRows);
}
std::int64_t spans_of(std::int64_t k) { return std::max<std::int64_t>(1, ceil_div(k, kVnniSpan)); }

/// Bytes of the workspace's parts, for products up to these sizes.
struct Room {
  std::int64_t codes, starts, b, sums, totals;
  Room(const VnniConfig& config, std::int64_t m, std::int64_t k)
      : codes(padded_rows(m) * round_up(k, kLine)),
        starts(round_up(spans_of(k) * padded_rows(m) * 4, kLine)),
        b(config.dots ? 0 : std::int64_t{config.depth} * config.columns),
        sums(padded_rows(m) * config.columns * 4),
        totals(k > kVnniSpan ? 2 * sums : 0) {}
  std::int64_t shared() const { return codes + starts; }
  std::int64_t of_a_slot() const { return b + sums + totals; }
};

VnniPart room_of_slot(const Room& room, char* memory) {
  VnniPart part{};
  part.b = reinterpret_cast<std::uint8_t*>(memory);
  part.sums = reinterpret_cast<std::int32_t*>(memory + room.b);
  if (room.totals > 0) part.totals = reinterpret_cast<double*>(memory + room.b + room.sums);
  return part;
}

/// Packs some rows and multiplies them with all columns. Each thread takes whole strips of 64
/// columns, or rows where there are fewer strips than threads.
void multiply_rows(const ScaledJob& p, const State& s, const VnniRows& rows, const Room& room,
                   const Context& context, char* memory) {
  const VnniCode& code = avx512::kVnniCode;
  constexpr std::int64_t kBytesOfATask = 64 << 10;
  const std::int64_t grain =
      std::max<std::int64_t>(ceil_div(kBytesOfATask, std::max(kLine, rows.height * rows.pitch)),
                             ceil_div(rows.panels, s.slots));
  context.run(0, rows.panels, grain,
              [&](std::int64_t begin, std::int64_t end) { code.pack(p, rows, begin, end); });
  const std::int64_t strips = ceil_div(p.n, kVnniColumns);
  const bool by_rows = strips < s.slots && rows.panels >= s.slots;
  const std::int64_t share = ceil_div(by_rows ? rows.panels : strips, s.slots);
  context.run(0, s.slots, 1, [&](std::int64_t begin, std::int64_t end) {
    VnniPart part = room_of_slot(room, memory + begin * room.of_a_slot());
    part.p1 = rows.panels, part.j1 = p.n;
    if (by_rows)
      part.p0 = begin * share, part.p1 = std::min(rows.panels, end * share);
    else
      part.j0 = begin * share * kVnniColumns, part.j1 = std::min(p.n, end * share * kVnniColumns);
    if (part.p0 < part.p1 && part.j0 < part.j1) code.multiply(p, s.config, rows, part);
  });
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<State>();
  const ScaledJob p = job_of(args, Scales::kChannel);
  if (p.m == 0 || p.n == 0) return 0;
  const Room room(s.config, p.m, p.k);
  auto* const memory = static_cast<char*>(workspace);
  const std::int64_t share = round_up(ceil_div(p.m, ceil_div(p.m, kMaxRows)), kVnniRows);
  for (std::int64_t i = 0; i < p.m; i += share) {
    VnniRows rows{};
    rows.first = i, rows.count = std::min(share, p.m - i);
    rows.panels = s.config.dots ? rows.count : ceil_div(rows.count, kVnniRows);
    rows.height = ceil_div(rows.count, rows.panels);
    rows.pitch = round_up(p.k, kLine);
    rows.codes = reinterpret_cast<std::int8_t*>(memory);
    rows.starts = reinterpret_cast<std::int32_t*>(memory + room.codes);
    multiply_rows(p, s, rows, room, context, memory + room.shared());
  }
  return 0;
}

Kernel prepare(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const State s{table().from_config(config), std::max<int>(1, p.threads)};
  const Room room(s.config, p.dims[kM], p.dims[kK]);
  return make_kernel({step}, s,
                     static_cast<std::size_t>(room.shared() + s.slots * room.of_a_slot()));
}

}  // namespace

void append_vnni(std::vector<Implementation>& to) {
  Implementation i;
  i.name = "cpu_vnni";
  i.source_hash = source_hash<"ops/gemm/scaled/scaled_avx512vnni.cpp">();
  i.flags.deterministic = true;
  i.knobs = &table();
  i.supports = supports;
  i.constrain = constrain;
  i.heuristic = heuristic;
  i.estimate = estimate;
  i.prepare = prepare;
  to.push_back(i);
}
#else
void append_vnni(std::vector<Implementation>&) {}
#endif

}  // namespace dlblas::gemm::scaled
