// The few-row matmul on CPUs (decoding: one token, or a handful): no packing, b streams through
// once, threads divide the columns.
// In: a Problem with M ≤ 8. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: matmul_row_simd.hpp.
#include <algorithm>
#include <bit>

#include "generated/source_hashes.hpp"
#include "ops/gemm/matmul.hpp"

namespace dlblas::gemm {
namespace {

struct RowState {
  const MatmulLevel* level;
  MatmulRowConfig config;
  MatmulSums sums;
  int slots;
};

const ConfigTable<MatmulRowConfig>& table() {
  using C = MatmulRowConfig;
  static const auto* t = new ConfigTable<C>{
      field<&C::unroll_k>("unroll_k", {2, 4, 8}),
      field<&C::block_n>("block_n", {256, 512, 1024, 2048}),
      field<&C::prefetch>("prefetch", {0, 256, 512, 1024}),
  };
  return *t;
}

bool b_is_row_major(const Problem& p) {
  const Layout layout = p.tensors[kB].layout;
  return layout == Layout::kContiguous || layout == Layout::kRowStrided;
}

/// A single column is contiguous along K, too; streamed it would fill one lane of a vector.
bool takes_dots(const Problem& p) {
  const bool column = p.dims[kN] == 1 && p.tensors[kB].layout == Layout::kContiguous;
  return !b_is_row_major(p) || (column && !(p.flags & kDeterministic));
}

template <typename Level>
Support supports(const Problem& p, const DeviceInfo& device, const Implementation&) {
  if (p.dims[kM] > kMaxRowGroup) {
    return Support::no("a has more than {} rows (bucket {}): b would stream from memory again",
                       kMaxRowGroup, p.dims[kM]);
  }
  if (!b_is_row_major(p) && p.tensors[kB].layout != Layout::kTransposed) {
    return Support::no("b is contiguous in neither dimension: it is read in place");
  }
  return supports_isa<Level>(device);
}

void constrain(const Problem& p, const DeviceInfo&, Space& space) {
  const std::int64_t n = p.dims[kN];
  space.require("block_n_distinct", {"block_n"}, [n](const Config& c) {
    const std::int64_t block = table().restore(c).block_n;
    return block == 256 || block / 2 < n;
  });
}

Config heuristic(const Problem& p, const DeviceInfo&) {
  // 1×4096×4096 on one core of AMD Zen 4, November 2026, GB/s of b: 8 streams 23, 4 streams 18;
  // row-major b 23 with 2048 columns, 21 with 1024; fetching ahead gains only where streams are
  // columns.
  const std::int64_t rows = std::max<std::int64_t>(1, p.dims[kM]);
  MatmulRowConfig c{8, static_cast<std::int32_t>(std::clamp<std::int64_t>(4096 / rows, 512, 2048)),
                    b_is_row_major(p) ? 0 : 256, false};
  c.block_n = 1 << (31 - std::countl_zero(static_cast<std::uint32_t>(c.block_n)));
  while (c.block_n > 256 && c.block_n / 2 >= p.dims[kN]) c.block_n /= 2;
  return table().erase(c);
}

template <typename Level>
double estimate(const Problem& p, const Config&, const DeviceInfo&, const Implementation&) {
  const auto threads = static_cast<double>(std::max<int>(1, p.threads));
  const bool f16 = p.tensors[kB].dtype == DType::kF16;
  const double rate = f16 ? Level::kF16Rate : Level::kStreamRate;
  const double memory = bytes_of_b(p) / (std::min(threads, 4.0) * rate);
  return 1e3 * std::max(memory, multiply_adds(p) / (Level::kRate * threads)) + 0.005;
}

std::int64_t row_floats(std::int64_t m, std::int64_t k) {
  const auto rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(m)));
  return round_up(rows * k + kPackSlack, kPackSlack);
}
std::int64_t sum_floats(const MatmulRowConfig& c) {
  return std::int64_t{kRowPlanes} * kMaxRowGroup * c.block_n;
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const RowState& s = kernel.load<RowState>();
  const MatmulParams p = matmul_params(args, s.sums);
  if (p.m == 0 || p.n == 0) return 0;
  auto* rows = static_cast<float*>(workspace);
  s.level->pack_rows(p, rows);
  float* sums = rows + row_floats(p.m, p.k);
  // Whole cache lines of f32 columns to a thread, also where elements are half as wide.
  const std::int64_t share = round_up(ceil_div(p.n, s.slots), 32);
  context.run(0, s.slots, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t j0 = std::min(p.n, begin * share), j1 = std::min(p.n, end * share);
    if (j0 < j1) {
      s.level->row(p, s.config, j0, j1, rows, sums + begin * sum_floats(s.config));
    }
  });
  return 0;
}

template <typename Level>
Kernel prepare(const Problem& p, const Config& config, const DeviceInfo&,
               const Implementation& implementation) {
  RowState s{&Level::code(), table().restore(config), sums_of(p), std::max<int>(1, p.threads)};
  s.config.dots = takes_dots(p);
  Kernel kernel;
  kernel.implementation = &implementation;
  kernel.steps[0] = step;
  kernel.num_steps = 1;
  const std::int64_t floats =
      row_floats(p.dims[kM], p.dims[kK]) + std::int64_t{s.slots} * sum_floats(s.config);
  kernel.workspace_bytes = static_cast<std::size_t>(floats) * sizeof(float);
  kernel.store(s);
  return kernel;
}

template <typename Level>
Implementation few_rows(const char* name, const char* hash) {
  Implementation i;
  i.name = name;
  i.source_hash = hash;
  i.flags.deterministic = true;
  i.knobs = &table();
  i.supports = supports<Level>;
  i.constrain = constrain;
  i.heuristic = heuristic;
  i.estimate = estimate<Level>;
  i.prepare = prepare<Level>;
  return i;
}

}  // namespace

void append_rows(std::vector<Implementation>& to) {
#if defined(DLBLAS_X86)
  to.push_back(few_rows<Avx512Level>("cpu_row_avx512", source_hash("ops/gemm/matmul_avx512.cpp")));
  to.push_back(few_rows<Avx2Level>("cpu_row_avx2", source_hash("ops/gemm/matmul_avx2.cpp")));
#endif
  to.push_back(
      few_rows<BaselineLevel>("cpu_row_baseline", source_hash("ops/gemm/matmul_baseline.cpp")));
}

}  // namespace dlblas::gemm
