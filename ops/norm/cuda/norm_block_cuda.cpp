// cuda_shared and cuda_rows: a row a block (or a cluster) in two passes, h kept in shared memory
// between them, or read again. In: Problem, Config. Out: Kernel and its one source; then the
// launch. Flow: call > validate > [select] > [compile] > [launch]. Read next:
// ops/norm/cuda/norm_block.cuh (the kernel).
#include <algorithm>

#include "core/error.hpp"
#include "generated/source_hashes.hpp"
#include "ops/norm/cuda/norm_cuda.hpp"

namespace dlblas::norm {
namespace {

/// Beside h: the slots of the sums.
constexpr std::int64_t kStaticShared = 1024;
constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 31) - 1;

using Table = ConfigTable<NormBlockConfig>;
const Table& shared_table() {
  static const auto* table = new Table{
      field<&NormBlockConfig::threads>("threads", {128, 256, 512, 1024}),
      field<&NormBlockConfig::vectors>("vectors", {2, 4}),
      field<&NormBlockConfig::cluster>("cluster", {1, 2, 4, 8}),
      field<&NormBlockConfig::keep>("keep", {1}),
  };
  return *table;
}
const Table& rows_table() {
  static const auto* table = new Table{
      field<&NormBlockConfig::threads>("threads", {128, 256, 512, 1024}),
      field<&NormBlockConfig::vectors>("vectors", {2, 4}),
      field<&NormBlockConfig::cluster>("cluster", {1}),
      field<&NormBlockConfig::keep>("keep", {0}),
  };
  return *table;
}

/// Bytes of h that a block keeps.
std::int64_t kept_bytes(const Query& q, const NormBlockConfig& c) {
  if (!c.keep) return 0;
  const NormCudaTraits traits = traits_of(q);
  const std::int64_t share = (accesses(q) + c.cluster - 1) / c.cluster;
  return share * std::max(4, norm_elements(traits) * size_of(traits.type));
}

std::int64_t room(const DeviceInfo& device) {
  return device.shared_bytes_per_block - kStaticShared;
}

template <bool kKeep>
struct Blocks : NormForm<NormBlockConfig> {
  static constexpr const char* kInclude = "ops/norm/cuda/norm_block.cuh";
  static constexpr const char* kEntry = "dlblas::norm_block";
  static constexpr const char* kConfigName = "dlblas::NormBlockConfig";
  static const Table& table() { return kKeep ? shared_table() : rows_table(); }

  static bool fits(const Query& q, const NormBlockConfig& c) {
    return kept_bytes(q, c) <= room(q.device) && valid(traits_of(q), c, q.device.arch);
  }

  /// The smallest cluster that leaves two blocks room on a multiprocessor, else that fits at all.
  static NormBlockConfig preset(const Query& q) {
    NormBlockConfig c;
    c.keep = kKeep;
    const std::int64_t row = accesses(q);
    for (const std::int64_t share : {room(q.device) / 2, room(q.device)}) {
      for (c.cluster = 1; c.cluster <= (kKeep ? 8 : 1); c.cluster *= 2) {
        const std::int64_t part = row / c.cluster;
        c.threads = part >= 4096 ? 1024 : part >= 2048 ? 512 : part >= 1024 ? 256 : 128;
        for (c.vectors = 4; c.vectors >= 2; c.vectors /= 2)
          if (kept_bytes(q, c) <= share && fits(q, c)) return c;
      }
    }
    c.threads = 0;
    return c;
  }

  static Support supports(const Query& q) {
    if (const Support rows = supports_rows(q); !rows) return rows;
    if (q.problem.dims[kT] > kMaxBlocks / 8)
      return Support::no("more than {} rows", kMaxBlocks / 8);
    if (preset(q).threads == 0)
      return Support::no("a row has {} accesses; more than shared memory holds", accesses(q));
    return Support::yes();
  }

  static void constrain(const Query& q, Space& space) {
    space.require(table(),
                  "what a block keeps and has in flight fits its shared memory and registers",
                  [q = QueryCopy(q)](const NormBlockConfig& c) { return fits(q, c); });
  }

  static double milliseconds(const Query& q, const NormBlockConfig& c) {
    const std::int64_t kept = kept_bytes(q, c);
    // One block on a multiprocessor reads and writes in turn; a second read comes from L2. bf16 on
    // H200, 2026-11-22: over a cluster, 1024×65536 and 256×262144 take 1.43 and 1.58 times a copy,
    // with `add` 1.07 and 1.13.
    const double clustered = q.user<NormTensors>().adds() ? 1.13 : 1.5;
    const double kept_share = kept > room(q.device) / 2 ? 1.2 : 1.08;
    const double share = !kKeep          ? 1.3
                         : c.cluster > 1 ? std::max(clustered, kept_share)
                                         : kept_share;
    return model_ms(q, share * bytes_of(q), static_cast<double>(q.device.units) / c.cluster);
  }

  static std::int32_t shared_bytes(const Query& q, const State& state) {
    return static_cast<std::int32_t>(kept_bytes(q, state.config));
  }
  static NormCudaParams launch(const State& state, const Args& args, void*, cuda::Launch& how) {
    const NormCudaParams params = params_of(tensors_of(state), args);
    how.grid.x = static_cast<unsigned>(params.rows * state.config.cluster);
    how.block.x = static_cast<unsigned>(state.config.threads);
    how.cluster = static_cast<unsigned>(state.config.cluster);
    return params;
  }
};

}  // namespace

Implementation cuda_shared(const NormTensors& tensors) {
  return kernels::make_cuda<Blocks<true>>(
      "cuda_shared", source_hash("ops/norm/cuda/norm_block_cuda.cpp"), &tensors);
}
Implementation cuda_rows(const NormTensors& tensors) {
  return kernels::make_cuda<Blocks<false>>(
      "cuda_rows", source_hash("ops/norm/cuda/norm_block_cuda.cpp"), &tensors);
}

}  // namespace dlblas::norm
