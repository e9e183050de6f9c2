// The host side of attention_wgmma that operators share: knobs, what fits, tensor maps, the launch.
// Read next: attention_cuda.cpp, paged_attention_lse/paged_wgmma_cuda.cpp.
#pragma once

#include "ops/attention/cuda/attention_cuda_host.hpp"

namespace dlblas::attention {

struct AttentionWgmma {
  static constexpr const char* kInclude = "ops/attention/cuda/attention_wgmma.cuh";
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
  static constexpr int kByElement = -1;
  /// What the size of a block depends on.
  struct Block {
    DType type, cache;   // of q; of k and v
    std::int64_t d, dv;  // of a head
    bool cap;            // on scores
    int bias;  // registers for it per 8 keys; 0: none; kByElement: loaded when it is added
  };
  /// Bytes of a row of a tile with `width` elements: whole panels (Panels in
  /// attention_wgmma_shared.cuh).
  static std::int64_t row_bytes(std::int64_t width, int size) {
    const std::int64_t row = size == 1 && width <= 64 ? 64 : 128;
    return (width * size + row - 1) / row * row;
  }
  /// Bytes of shared memory.
  static std::int64_t bytes(const Block& b, const AttentionWgmmaConfig& c) {
    const bool codes = is_f8(b.cache), wide_keys = codes && !is_f8(b.type);
    const std::int64_t q = row_bytes(b.d, size_of(b.type));
    std::int64_t key = q + row_bytes(b.dv, 2);
    if (codes) key += row_bytes(b.dv, 1);
    if (wide_keys) key += row_bytes(b.d, 1);
    return 1024 + c.queries * rows_of(c) * q + c.stages * c.keys * key + 640;
  }
  /// Whether registers and shared memory hold a block.
  static bool holds(const Block& b, const AttentionWgmmaConfig& c) {
    const bool codes = is_f8(b.cache);
    // With three warpgroups, the widening warps have 32 registers.
    if (codes && c.groups == 3 && (std::max(b.d, b.dv) > 64 || !is_f8(b.type))) return false;
    if (c.groups == 4 && (codes || c.turns)) return false;
    // A cap or a bias needs more registers.
    const bool by_element = b.bias == kByElement;
    const int registers = c.groups == 4   ? (b.cap || b.bias != 0 ? 0 : 80)
                          : c.groups == 3 ? (by_element ? 0
                                             : b.cap    ? 118
                                                        : 130)
                          : codes         ? 188
                          : by_element    ? (c.keys > 64 ? 160 : 176)
                                          : 208;
    const std::int64_t held = c.keys * 3 / 4 + b.dv / 2 + c.keys / 8 * std::max(0, b.bias);
    return bytes(b, c) <= 232448 && held <= (b.bias == 0 ? std::min(registers, 204) : registers) &&
           (c.persistent || !c.draws);
  }
  /// Time over that of the products alone at the rate of large matrices: a query and a key cost as
  /// much as `width` (D + Dv) + 60 + `bias` columns (H200, 29 November 2026;
  /// docs/notes/attention_gpu.md). f8 is no faster, since V is widened.
  static double slowdown(double width, double bias) {
    constexpr double kSoftmax = 60;
    return 1 + (kSoftmax + bias) / width;
  }
  static Support supports_heads(std::int64_t d, std::int64_t dv) {
    for (const std::int64_t width : {d, dv})
      if (width < 8 || width > 256) return Support::no("heads of {}; expected 8 to 256", width);
    return Support::yes();
  }
  /// Widths that the kernel works with: products advance by 16 columns of f16 and bf16 along a head
  /// of q, and by 64 of f8; o has exactly its columns.
  static void set_widths(AttentionTraits& s, std::int64_t d, std::int64_t dv) {
    s.d = rounded_up(d, is_f8(s.from) ? 64 : 16), s.dv = rounded_up(dv, 8);
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
    const std::int64_t size = size_of(x.t.dtype), columns = size == 1 && d <= 64 ? 64 : 128 / size;
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
