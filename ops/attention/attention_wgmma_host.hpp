// The host side of attention_wgmma that operators share: knobs, what fits, tensor maps, the launch.
// Read next: attention_cuda.cpp, paged_attention_lse/paged_wgmma_cuda.cpp.
#pragma once

#include "ops/attention/attention_cuda_host.hpp"

namespace dlblas::attention {

struct AttentionWgmma {
  static constexpr const char* kInclude = "ops/attention/attention_wgmma.cuh";
  static constexpr const char* kEntry = "dlblas::attention::attention_wgmma";
  static constexpr const char* kConfigName = "dlblas::attention::AttentionWgmmaConfig";
  /// CUDA_ERROR_INVALID_VALUE. Contiguous tensors always have a map.
  static constexpr int kNotWalked = 1;

  static const ConfigTable<AttentionWgmmaConfig>& table() {
    using C = AttentionWgmmaConfig;
    static const auto* knobs =
        new ConfigTable<C>{field<&C::groups>("groups", {2, 3, 4}),
                           field<&C::keys>("keys", {64, 80, 96, 112, 128, 144, 160, 176, 192}),
                           field<&C::stages>("stages", {2, 3, 4}),
                           field<&C::queries>("queries", {1, 2}),
                           field<&C::turns>("turns", {0, 1}),
                           field<&C::persistent>("persistent", {0, 1}),
                           field<&C::draws>("draws", {0, 1})};
    return *knobs;
  }
  /// Whether to draw tiles: sequences of many lengths, and enough work to pay for the counter's
  /// memset. In a fixed order, 16 sequences of 100 to 8,192 keys left the busiest block 10 % more
  /// than the average.
  static bool many_lengths(std::int64_t sequences, double milliseconds) {
    return sequences > 1 && milliseconds > 0.1;
  }
  static std::size_t counter_bytes(const AttentionWgmmaConfig& c) { return c.draws ? 4 : 0; }
  static int rows_of(const AttentionWgmmaConfig& c) { return c.groups * 64; }
  /// Bytes of shared memory. `type`: that of q; `cache`: that of k and v.
  static std::int64_t bytes(DType type, DType cache, std::int64_t d,
                            const AttentionWgmmaConfig& c) {
    // Bytes per element of a block: K and V; for f8, K, V's codes and V in 16 bits; where K is
    // widened too, both and their codes.
    const std::int64_t each = is_f8(cache) && !is_f8(type) ? 6 : 4;
    return 1024 + std::int64_t{size_of(type)} * c.queries * rows_of(c) * d +
           each * c.stages * c.keys * d + 640;
  }
  /// Whether registers and shared memory hold a block with heads of `d`.
  static bool holds(DType type, DType cache, std::int64_t d, bool cap,
                    const AttentionWgmmaConfig& c) {
    const bool codes = is_f8(cache);
    // With three warpgroups, the widening warps have 32 registers.
    if (codes && c.groups == 3 && (d > 64 || !is_f8(type))) return false;
    if (c.groups == 4 && (codes || c.turns)) return false;
    // A cap needs more registers.
    const int registers = c.groups == 4   ? (cap ? 0 : 80)
                          : c.groups == 3 ? (cap ? 118 : 130)
                          : codes         ? 188
                                          : 204;
    return bytes(type, cache, d, c) <= 232448 && c.keys * 3 / 4 + d / 2 <= registers &&
           (c.persistent || !c.draws);
  }
  static Support supports_heads(std::int64_t d, std::int64_t dv) {
    if ((d == 64 || d == 128 || d == 256) && dv == d) return Support::yes();
    return Support::no("heads of {} and {}; expected 64, 128 or 256", d, dv);
  }
  static Support supports_rows(const Query& q, int i, std::int64_t d) {
    const TensorTraits& t = q.problem.tensors[i];
    if (reach_of(t, d) != Reach::kWide)
      return Support::no("rows of {} are not at multiples of 16 bytes", tensor(i));
    if (is_broadcast(t.layout)) return Support::no("{} is broadcast", tensor(i));
    return Support::yes();
  }
  /// False if the copy engine cannot walk the strides.
  static bool encode(TensorMap& map, const Heads& x, std::int64_t rows, std::int64_t heads,
                     std::int64_t batches, std::int64_t d, int box_rows) {
    cuda::TensorMapSpec spec;
    // With a size of 0 nothing is read, and any address that is not null will do.
    spec.dtype = x.t.dtype, spec.rank = 4;
    spec.data = rows * heads * batches > 0 ? x.t.data : &map;
    const std::int64_t size = size_of(x.t.dtype), columns = std::min(d, 128 / size);
    spec.swizzle = columns * size == 64 ? cuda::Swizzle::k64 : cuda::Swizzle::k128;
    const std::int64_t sizes[4] = {d, rows, heads, batches};
    const std::int64_t steps[4] = {1, x.at[1], x.at[2], x.at[0]};
    for (int i = 0; i < 4; ++i) {
      spec.sizes[i] = static_cast<std::uint64_t>(std::max<std::int64_t>(1, sizes[i]));
      spec.box[i] = static_cast<std::uint32_t>(i == 0 ? columns : i == 1 ? box_rows : 1);
      if (i == 0) continue;
      const std::int64_t step = sizes[i] <= 1 ? d : steps[i];
      if (step <= 0 || step * size % 16 != 0 || step >= std::int64_t{1} << 38) return false;
      spec.strides_bytes[i - 1] = static_cast<std::uint64_t>(step * size);
    }
    return cuda::encode_tensor_map(map, spec) == 0;
  }
  /// Launches g.p.grid tiles.
  template <typename State>
  static int start(const AttentionWgmmaParams& g, const State& s, const Kernel& kernel,
                   const Context& context) {
    cuda::Launch how;
    how.grid.x =
        static_cast<unsigned>(s.config.persistent ? std::min(g.p.grid, s.units) : g.p.grid);
    how.block.x = static_cast<unsigned>((s.config.groups + 1) * 128);
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.dependent = g.p.cos != nullptr;  // the launch before it rotates keys
    return cuda::launch(*kernel.entries[0], how, g, context.stream);
  }
};

}  // namespace dlblas::attention
