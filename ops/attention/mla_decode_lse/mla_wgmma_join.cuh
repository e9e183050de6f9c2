// From the sums of a block, or of the two blocks of a cluster, to memory. Each block puts its sums
// into shared memory; two share the rows, and copy to each other what they need. In: Consumer's
// sums. Out: o and lse, or where there are several clusters, a part for mla_join. Numerics: f32, in
// a fixed order; NaN in a part makes the row NaN. This code runs once per block: short loops wait
// less for their instructions than unrolled ones.
// Read next: device/cluster.cuh, mla_decode.cuh (mla_join).
#pragma once

#include "ops/attention/mla_decode_lse/mla_wgmma_shared.cuh"

namespace dlblas::attention::mla_wgmma_detail {

/// A barrier of the two multiplying warpgroups.
__device__ __forceinline__ void sync_consumers() {
  asm volatile("barrier.cta.sync 2, 256;" ::: "memory");
}

/// Copies from shared memory to that of another block of the cluster, and counts the bytes at a
/// barrier of that block. Addresses as map_to_rank gives them, multiples of 16.
__device__ __forceinline__ void copy_to_block(uint32_t to, const void* from, uint32_t bytes,
                                              uint32_t full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(shared_address(from)), "r"(bytes), "r"(full)
      : "memory");
}

/// Rows [from, to), of which this block joins the parts.
struct Rows {
  int32_t from, to;
  __device__ __forceinline__ Rows(const Part& part, uint32_t rank) {
    const auto blocks = static_cast<int32_t>(part.blocks);
    const int32_t share = (part.count + blocks - 1) / blocks;
    from = static_cast<int32_t>(rank) * share, to = min(part.count, from + share);
  }
};

/// Puts a warpgroup's half of the sums into shared memory, where nothing reads keys any more;
/// behind a row's sums, its maximum and the sum of powers of each warpgroup's tiles.
template <MlaTraits S, class Consumer>
__device__ __forceinline__ void keep_sums(const Shared<S>& shared, const Part& part, Consumer& of) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    of.sum[r] += __shfl_xor_sync(0xffffffffu, of.sum[r], 1);
    of.sum[r] += __shfl_xor_sync(0xffffffffu, of.sum[r], 2);
    if (of.row + 8 * r >= part.count) continue;
    float* const to = shared.row(of.row + 8 * r);
    if (of.lane % 4 == 0) {
      to[S.latent + 1 + of.half] = of.sum[r];
      if (of.half == 0) to[S.latent] = of.most[r];
    }
#pragma unroll
    for (int i = 0; i < S.latent / 16; ++i)
      *reinterpret_cast<float2*>(to + of.half * (S.latent / 2) + of.lane % 4 * 2 + i * 8) = {
          of.o[4 * i + 2 * r], of.o[4 * i + 2 * r + 1]};
  }
}

/// One warp copies to the cluster's other block the rows that it joins.
template <MlaTraits S>
__device__ __forceinline__ void send_rows(const Shared<S>& shared, const Part& part, int32_t lane) {
  constexpr uint32_t kBytes = (S.latent + 4) * 4;
  const uint32_t other = part.rank ^ 1;
  const Rows own(part, part.rank), rows(part, other);
  if (lane == 0) shared.received->arrive_expect_tx(max(0, own.to - own.from) * kBytes);
  const uint32_t full = map_to_rank(shared.received, other);
#pragma unroll 1
  for (int32_t row = rows.from + lane; row < rows.to; row += 32)
    copy_to_block(map_to_rank(shared.row(kRows + row - rows.from), other), shared.row(row), kBytes,
                  full);
}

/// Computes what the sums of this block and of the other are multiplied by, for one of this block's
/// rows, and stores its lse.
template <MlaTraits S>
__device__ __forceinline__ void weigh(const MlaParams& p, const Shared<S>& shared, const Part& part,
                                      const Rows& rows, int32_t row, float factor) {
  constexpr float kRaise = S.type == DType::kBF16 ? 0.0f : 10.0f;
  const float nothing = -DeviceMath::infinity();
  const bool two = part.blocks > 1;
  const float* const own = shared.row(row) + S.latent;
  const float* const other = two ? shared.row(kRows + row - rows.from) + S.latent : own;
  const float most[2] = {own[0], two ? other[0] : nothing};
  const float peak = fmaxf(most[0], most[1]), base = peak == nothing ? 0 : peak;
  const float a = DeviceMath::exp2(most[0] - base), b = DeviceMath::exp2(most[1] - base);
  const float total = a * (own[1] + own[2]) + (two ? b * (other[1] + other[2]) : 0);
  const float inverse = total == 0 ? 0 : factor / total;
  shared.weights[row] = a * inverse, shared.weights[kRows + row] = b * inverse;
  const float lse = total == 0 ? nothing : peak + ::log2f(total * DeviceMath::exp2(-kRaise));
  const int64_t t = part.token, h = part.head + row;
  if (p.parts > 1)
    p.part_lse[(t * p.heads + h) * p.parts + part.index / static_cast<int32_t>(part.blocks)] = lse;
  else
    static_cast<float*>(p.lse)[t * p.lse_at[0] + h * p.lse_at[1]] = lse * 0.69314718f;
}

/// Joins this block's rows, and stores them.
template <MlaTraits S>
__device__ __forceinline__ void store_rows(const MlaParams& p, const Shared<S>& shared,
                                           const Part& part, const Rows& rows) {
  // Rows at a time of all threads, and of one.
  constexpr int kQuads = S.latent / 4, kTogether = 256 / kQuads, kBatch = 4;
  const int32_t thread = static_cast<int32_t>(threadIdx.x) - 128, d = thread % kQuads * 4;
  const bool whole = p.parts == 1, two = part.blocks > 1;
  const int64_t t = part.token, h = part.head;
  const int64_t place =
      (t * p.heads + h) * p.parts + part.index / static_cast<int32_t>(part.blocks);
  char* const out = whole ? static_cast<char*>(p.o) + 2 * (t * p.o_at[0] + h * p.o_at[1] + d)
                          : reinterpret_cast<char*>(p.part_o + place * S.latent + d);
  const int64_t step = whole ? 2 * p.o_at[1] : int64_t{p.parts} * S.latent * 4;
#pragma unroll 1
  for (int32_t first = rows.from + thread / kQuads; first < rows.to; first += kTogether * kBatch) {
    float4 v[kBatch], w[kBatch] = {};
    float a[kBatch], b[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int32_t row = min(first + i * kTogether, rows.to - 1);
      v[i] = *reinterpret_cast<const float4*>(shared.row(row) + d);
      if (two) w[i] = *reinterpret_cast<const float4*>(shared.row(kRows + row - rows.from) + d);
      a[i] = shared.weights[row], b[i] = two ? shared.weights[kRows + row] : 0;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int32_t row = first + i * kTogether;
      if (row >= rows.to) break;
      const float o[4] = {fmaf(w[i].x, b[i], v[i].x * a[i]), fmaf(w[i].y, b[i], v[i].y * a[i]),
                          fmaf(w[i].z, b[i], v[i].z * a[i]), fmaf(w[i].w, b[i], v[i].w * a[i])};
      if (whole)
        *reinterpret_cast<uint2*>(out + row * step) = {pack_pair<S.type>(o[0], o[1]),
                                                       pack_pair<S.type>(o[2], o[3])};
      else
        *reinterpret_cast<float4*>(out + row * step) = {o[0], o[1], o[2], o[3]};
    }
  }
}

/// Both multiplying warpgroups of all blocks of a cluster call it.
template <MlaTraits S, class Consumer>
__device__ __forceinline__ void join_blocks(const MlaParams& p, const Shared<S>& shared,
                                            const Part& part, Consumer& of) {
  const bool two = part.blocks > 1;
  const Rows rows(part, part.rank);
  const int32_t thread = static_cast<int32_t>(threadIdx.x) - 128;
  sync_consumers();
  if (two) cluster_arrive_relaxed();  // this block's memory may be written
  keep_sums<S>(shared, part, of);
  if (two) fence_async_shared();
  sync_consumers();
  if (two) {
    cluster_wait();
    if (thread < 32) send_rows<S>(shared, part, thread);
    shared.received->wait(0);
  }
  if (rows.from + thread < rows.to)
    weigh<S>(p, shared, part, rows, rows.from + thread, of.latent_scale);
  sync_consumers();
  store_rows<S>(p, shared, part, rows);
  if (!two) return;
  cluster_arrive_relaxed();  // copies from this block's memory have arrived at the other
  cluster_wait();
}

}  // namespace dlblas::attention::mla_wgmma_detail
