// cuda_registers and cuda_cluster: a row in the registers of a block's threads, or of a cluster's.
// In: Problem, Config. Out: Kernel and its one source; then the launch. Flow: call > validate >
// [select] > [compile] > [launch].  Read next: ops/norm/cuda/norm_registers.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "generated/source_hashes.hpp"
#include "ops/norm/cuda/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

constexpr std::int64_t kMaxGrid = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMinShared = 2048;  // accesses of a row over a cluster

using Table = ConfigTable<NormRegistersConfig>;
// The order is the aggregate's; what a table leaves out keeps the aggregate's default.
const Table& registers_table() {
  static const auto* table = new Table{
      field<&NormRegistersConfig::threads>("threads", {4, 8, 16, 32, 64, 128, 256, 512, 1024}),
      field<&NormRegistersConfig::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
      field<&NormRegistersConfig::rows>("rows", {1, 2, 4, 8, 16, 32}),
      field<&NormRegistersConfig::last>("last", {0, 1}),
  };
  return *table;
}
const Table& cluster_table() {
  static const auto* table = new Table{
      field<&NormRegistersConfig::threads>("threads", {128, 256, 512, 1024}),
      field<&NormRegistersConfig::vectors>("vectors", {1, 2, 3, 4, 6, 8, 12, 16}),
      field<&NormRegistersConfig::rows>("rows", {1}),
      field<&NormRegistersConfig::cluster>("cluster", {2, 4, 8, 16}),
      field<&NormRegistersConfig::early_weight>("early_weight", {0, 1}),
      field<&NormRegistersConfig::last>("last", {0, 1}),
  };
  return *table;
}

constexpr std::int32_t kFewestThreads = 4;

/// In the registers of a block, or of a cluster.
template <bool kCluster>
struct Registers : NormForm<NormRegistersConfig> {
  static constexpr std::int32_t kMinArch = kCluster ? 90 : 80;
  static constexpr const char* kInclude = "ops/norm/cuda/norm_registers.cuh";
  static constexpr const char* kEntry = "dlblas::norm_registers";
  static constexpr const char* kConfigName = "dlblas::NormRegistersConfig";
  static const Table& table() { return kCluster ? cluster_table() : registers_table(); }

  static NormCudaTraits traits(const Query& q, const NormRegistersConfig& c) {
    NormCudaTraits traits = traits_of(q);
    traits.full = std::int64_t{c.threads} * c.vectors * c.cluster * norm_elements(traits) ==
                  q.problem.dims[kC];
    return traits;
  }

  static bool fits(const Query& q, const NormRegistersConfig& c) {
    const std::int64_t row = accesses(q), threads = std::int64_t{c.threads} * c.cluster;
    return c.vectors == vectors_for(row, threads) &&
           (c.threads == kFewestThreads || threads < 2 * row) && (!c.last || may_be_last(q)) &&
           valid(traits(q, c), c, q.device.arch);
  }

  /// `c` with the vectors that hold the row, no more than `most`; does it fit?
  static bool complete(const Query& q, int most, NormRegistersConfig& c) {
    c.vectors = vectors_for(accesses(q), std::int64_t{c.threads} * c.cluster);
    return c.vectors > 0 && c.vectors <= most && fits(q, c);
  }

  /// The fewest threads that hold the row in few vectors, else in many; vectors = 0: none does. As
  /// measured with bf16 on H200, 2026-11-21: 1×4096 and 128×4096 256 threads × 2 vectors;
  /// 4096×4096, 16384×4096 128 × 4 × 4 rows; 16384×8192 256 × 4 × 2; with `add` 256 × 2 × 2 and
  /// 512 × 2; 262144×64 … 65536×256 4, 8, 16 × 2 in blocks of 128, with `add` 8, 16, 32 × 1: all
  /// within 2 % of the best found.
  static NormRegistersConfig pick_block(const Query& q) {
    const bool few = q.problem.dims[kT] <= 2 * q.device.units;
    const bool brief = accesses(q) <= 64;
    const int wanted = few ? 2 : (brief ? 2 : 4) / (q.user<NormTensors>().adds() ? 2 : 1);
    NormRegistersConfig c;
    for (const int most : {wanted, 4, 16}) {
      for (const std::int64_t threads : table().values("threads")) {
        c.threads = static_cast<std::int32_t>(threads);
        c.rows = std::clamp((few ? 32 : brief ? 128 : 512) / c.threads, 1, 32);
        if (!complete(q, most, c)) continue;
        c.last = may_be_last(q);
        // Rows that end within an access take more registers: only small blocks fill them all.
        if (!traits(q, c).full) c.rows = std::min(c.rows, std::clamp(128 / c.threads, 1, 32));
        return c;
      }
    }
    c.vectors = 0;
    return c;
  }
  /// Small blocks of many vectors, in µs with bf16 on H200, 2026-11-22: 1024×65536 with 128 threads
  /// × 8 vectors × 8 blocks 66.3, with 256 × 4 × 8 74; 256×262144 with 128 × 16 × 16 70.5, with 256
  /// × 8 × 16 86. With `add`, twice the registers: 256 × 8 × 16 129.7, 512 × 4 × 16 129.
  static NormRegistersConfig pick_cluster(const Query& q) {
    NormRegistersConfig c;
    c.rows = 1;
    c.last = may_be_last(q);
    const auto found = [&](std::int64_t threads, int most) {
      c.threads = static_cast<std::int32_t>(threads);
      for (c.cluster = 2; c.cluster <= 16; c.cluster *= 2)
        if (complete(q, most, c)) return true;
      return false;
    };
    const std::vector<std::int64_t>& all = table().values("threads");
    if (!q.user<NormTensors>().adds() && (found(all[0], 8) || found(all[0], 16))) return c;
    for (const int most : {8, 16})
      for (const std::int64_t threads : all)
        if (found(threads, most)) return c;
    c.vectors = 0;
    return c;
  }
  static NormRegistersConfig preset(const Query& q) {
    return kCluster ? pick_cluster(q) : pick_block(q);
  }

  static Support supports(const Query& q) {
    if (const Support rows = supports_rows(q); !rows) return rows;
    if (q.problem.dims[kT] > kMaxGrid / 16) return Support::no("more than {} rows", kMaxGrid / 16);
    if (kCluster && accesses(q) < kMinShared)
      return Support::no("a row has {} accesses; fewer than {} are not worth sharing", accesses(q),
                         kMinShared);
    if (preset(q).vectors == 0)
      return Support::no("a row has {} accesses; more than the threads' registers hold",
                         accesses(q));
    return Support::yes();
  }

  static void constrain(const Query& q, Space& space) {
    space.require(table(),
                  "the vectors hold the row, no fewer would, and the block has room for them",
                  [q = QueryCopy(q)](const NormRegistersConfig& c) { return fits(q, c); });
  }

  static double milliseconds(const Query& q, const NormRegistersConfig& c) {
    // bf16 on H200, 2026-11-22: 1024×65536 takes 66.3 µs, where a copy takes 65. With few blocks a
    // multiprocessor, reads and writes take turns: 256×262144 takes 70.5 with three and 86 with
    // two; less so where two tensors are read and two written (129, as a copy).
    const bool adds = q.user<NormTensors>().adds();
    const int blocks = norm_blocks(traits(q, c), c);
    const double turns = adds || blocks > 3 ? 1.03 : blocks == 3 ? 1.09 : 1.28;
    const double share = kCluster ? turns : 1.0, meeting = kCluster ? 1e-3 : 0;
    const double last = !c.last ? 1.0 : adds ? 0.96 : 0.985;
    return meeting +
           model_ms(q, share * last * bytes_of(q), static_cast<double>(q.device.units) / c.cluster);
  }

  static NormCudaParams launch(const State& state, const Args& args, void*, cuda::Launch& how) {
    const NormRegistersConfig& c = state.config;
    const NormCudaParams params = params_of(tensors_of(state), args);
    const std::int64_t blocks = (params.rows + c.rows - 1) / c.rows;
    how.grid.x = static_cast<unsigned>(blocks * c.cluster);
    how.block.x = static_cast<unsigned>(c.threads * c.rows);
    how.cluster = static_cast<unsigned>(c.cluster);
    return params;
  }
};

}  // namespace

Implementation cuda_registers(const NormTensors& tensors) {
  return kernels::make_cuda<Registers<false>>(
      "cuda_registers", source_hash("ops/norm/cuda/norm_registers_cuda.cpp"), &tensors);
}
Implementation cuda_cluster(const NormTensors& tensors) {
  return kernels::make_cuda<Registers<true>>(
      "cuda_cluster", source_hash("ops/norm/cuda/norm_registers_cuda.cpp"), &tensors);
}

}  // namespace dlblas::norm
