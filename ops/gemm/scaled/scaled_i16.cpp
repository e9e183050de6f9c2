// The i8 product with row and column scales on CPUs with AVX2 that lack AVX512_VNNI: codes become
// i16, sums are i32. Threads share packed rows of a, then divide columns or rows. In: a Problem,
// later the Args of a call. Out: a Kernel of one step. Same bits as the levels of scaled_cpu.cpp:
// all sums are exact.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: scaled_i16_avx2.cpp.
#include <algorithm>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/scaled/scaled.hpp"
#include "ops/gemm/scaled/scaled_i16_config.hpp"

namespace dlblas::gemm::scaled {

#if defined(DLBLAS_X86)
namespace {

/// Maximum rows of a packed at a time, in whole tiles: b is packed again for the next ones.
constexpr std::int64_t kMaxRows = 96 * kI16Rows;
constexpr std::int64_t kLine = 64, kVector = 16;
/// The configuration that packs nothing.
constexpr I16Config kDots{512, 256, true};

const ConfigTable<I16Config>& table() {
  using C = I16Config;
  static const auto* knobs = new ConfigTable<C>{
      field<&C::depth>("depth", {256, 512, 1024}),
      field<&C::columns>("columns", {64, 128, 256, 512, 1024}), field<&C::dots>("dots", {0, 1})};
  return *knobs;
}

/// Columns of b are contiguous along K.
bool is_along_k(const Problem& p) { return p.tensors[kB].layout == Layout::kTransposed; }

Support supports(const Query& q) {
  if (q.problem.tensors[kA].dtype != DType::kI8)
    return Support::no("{} is f8e4m3: the integer unit multiplies i8", tensor(kA));
  return Support::yes();
}

/// Dots read columns in place and pack nothing: the other knobs have no effect.
void constrain(const Query& q, Space& space) {
  const bool along_k = is_along_k(q.problem);
  space.require(table(), "dots_lie_along_k", {"dots"},
                [along_k](const I16Config& c) { return along_k || !c.dots; });
  space.require(table(), "dots_pack_nothing", {"depth", "columns", "dots"}, [](const I16Config& c) {
    return !c.dots || (c.depth == kDots.depth && c.columns == kDots.columns);
  });
}

Config heuristic(const Query& q) {
  const Problem& p = q.problem;
  // AMD Zen 3, two threads, K = N = 4096, November 2026, ms. b along K, dots and 512×128: 1 row
  // 0.43 and 2.2, 4 1.3 and 2.8, 8 2.5 and 3.7, 16 5 to 7 and 5.4 to 6.2. 512 rows: 512×128 83.9,
  // 256×128 87, 1024×128 83.4; b along N 91, 91 and 104.
  constexpr std::int64_t kDotRows = 8;
  I16Config c{512, 128, false};
  if (p.dims[kM] <= kDotRows && is_along_k(p)) c = kDots;
  return table().to_config(c);
}

double estimate(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const double threads = std::max<int>(1, p.threads);
  const auto m = static_cast<double>(p.dims[kM]), n = static_cast<double>(p.dims[kN]),
             k = static_cast<double>(p.dims[kK]);
  const bool dots = table().from_config(config).dots;
  constexpr double kAsFloats = 2, kPackA = 8, kAlongK = 24, kAlongN = 36;
  const double kPart = dots ? 0.3 : 0.6;
  const double pack = dots ? 0 : (is_along_k(p) ? kAlongK : kAlongN) * n * k;
  const Rates rates = unit_rates(q.device, Isa::kAvx2);
  const double multiply = 2 * m * n * k / (kAsFloats * kPart);
  const double memory = n * k / rates.memory_bytes_per_s;
  return 1e3 * std::max((multiply + pack + kPackA * m * k) / rates.f32_flops, memory) / threads +
         0.005;
}

struct State {
  I16Config config;
  int slots;
};

/// Upper bound on the padded rows of a batch: panels are balanced, so each pads by at most one.
std::int64_t padded_rows(std::int64_t m) {
  const std::int64_t rows = std::min(m, kMaxRows);
  return rows + ceil_div(rows, kI16Rows);
}

/// Bytes of the workspace's parts, for products up to these sizes.
struct Room {
  std::int64_t codes, b, sums, totals;
  Room(const I16Config& config, std::int64_t m, std::int64_t k)
      : codes(round_up(padded_rows(m) * round_up(k, kVector) * 2, kLine)),
        b(config.dots ? 0 : std::int64_t{config.depth} * config.columns * 2),
        sums(padded_rows(m) * config.columns * 4),
        totals(k > kI16Span ? 2 * sums : 0) {}
  std::int64_t of_a_slot() const { return round_up(b + sums + totals, kLine); }
};

I16Part room_of_slot(const Room& room, char* memory) {
  I16Part part{};
  part.b = reinterpret_cast<std::int16_t*>(memory);
  part.sums = reinterpret_cast<std::int32_t*>(memory + room.b);
  if (room.totals > 0) part.totals = reinterpret_cast<double*>(memory + room.b + room.sums);
  return part;
}

/// Packs some rows and multiplies them with all columns. Each thread takes whole strips of 64
/// columns, or rows where there are fewer strips than threads.
void multiply_rows(const ScaledJob& p, const State& s, const I16Rows& rows, const Room& room,
                   const Context& context, char* memory) {
  const I16Code& code = avx2::kI16Code;
  constexpr std::int64_t kCodesOfATask = 32 << 10, kStripColumns = 4 * kI16Columns;
  const std::int64_t grain =
      std::max<std::int64_t>(ceil_div(kCodesOfATask, std::max(kLine, rows.height * rows.pitch)),
                             ceil_div(rows.panels, s.slots));
  context.run(0, rows.panels, grain,
              [&](std::int64_t begin, std::int64_t end) { code.pack(p, rows, begin, end); });
  const std::int64_t strips = ceil_div(p.n, kStripColumns);
  const bool by_rows = strips < s.slots && rows.panels >= s.slots;
  const std::int64_t share = ceil_div(by_rows ? rows.panels : strips, s.slots);
  context.run(0, s.slots, 1, [&](std::int64_t begin, std::int64_t end) {
    I16Part part = room_of_slot(room, memory + begin * room.of_a_slot());
    part.p1 = rows.panels, part.j1 = p.n;
    if (by_rows)
      part.p0 = begin * share, part.p1 = std::min(rows.panels, end * share);
    else
      part.j0 = begin * share * kStripColumns, part.j1 = std::min(p.n, end * share * kStripColumns);
    if (part.p0 < part.p1 && part.j0 < part.j1) code.multiply(p, s.config, rows, part);
  });
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<State>();
  const ScaledJob p = job_of(args, Scales::kChannel);
  if (p.m == 0 || p.n == 0) return 0;
  const Room room(s.config, p.m, p.k);
  auto* const memory = static_cast<char*>(workspace);
  const std::int64_t share = round_up(ceil_div(p.m, ceil_div(p.m, kMaxRows)), kI16Rows);
  for (std::int64_t i = 0; i < p.m; i += share) {
    I16Rows rows{};
    rows.first = i, rows.count = std::min(share, p.m - i);
    rows.panels = s.config.dots ? rows.count : ceil_div(rows.count, kI16Rows);
    rows.height = ceil_div(rows.count, rows.panels);
    rows.pitch = round_up(p.k, kVector);
    rows.codes = reinterpret_cast<std::int16_t*>(memory);
    multiply_rows(p, s, rows, room, context, memory + room.codes);
  }
  return 0;
}

Kernel prepare(const Query& q, const Config& config) {
  const Problem& p = q.problem;
  const State s{table().from_config(config), std::max<int>(1, p.threads)};
  const Room room(s.config, p.dims[kM], p.dims[kK]);
  return make_kernel({step}, s, static_cast<std::size_t>(room.codes + s.slots * room.of_a_slot()));
}

}  // namespace

void append_i16(std::vector<Implementation>& to) {
  static constexpr Scales kChannel = Scales::kChannel;
  Implementation base;
  base.flags.deterministic = true;
  base.knobs = &table();
  base.supports = supports;
  base.constrain = constrain;
  base.heuristic = heuristic;
  base.estimate = estimate;
  base.prepare = prepare;
  Implementation i = kernels::per_level(
      base, "cpu_i16_",
      {{Isa::kAvx2, source_hash<"ops/gemm/scaled/scaled_i16_avx2.cpp">(), nullptr}}, &kChannel)[0];
  i.same_bits = nullptr;  // those of every level
  to.push_back(i);
}
#else
void append_i16(std::vector<Implementation>&) {}
#endif

}  // namespace dlblas::gemm::scaled
