// What the host sides of mla_decode_lse's CUDA kernels share.
// Read next: mla_rows_cuda.cpp, mla_decode_cuda.cpp.
#pragma once

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/attention/cuda/cache_cuda.hpp"
#include "ops/attention/mla_decode_lse/mla_config.hpp"
#include "ops/attention/mla_decode_lse/mla_decode_lse.hpp"

namespace dlblas::attention::mla {

inline const TraitsTable<MlaTraits>& traits_table() {
  using T = MlaTraits;
  static const auto* members = new TraitsTable<T>{
      "dlblas::attention::MlaTraits",
      {member<&T::type>("type"), member<&T::cache>("cache"), member<&T::latent>("latent"),
       member<&T::rotary>("rotary"), member<&T::page>("page"), member<&T::access>("access"),
       member<&T::scaled>("scaled")}};
  return *members;
}

inline MlaTraits traits_of(const Problem& p) {
  MlaTraits s{};
  s.type = p.tensors[kQNope].dtype, s.cache = p.tensors[kCkv].dtype;
  s.latent = static_cast<std::int32_t>(p.dims[kR]);
  s.rotary = static_cast<std::int32_t>(p.dims[kDr]);
  s.page = static_cast<std::int32_t>(p.dims[kPage]);
  s.access = 8;
  s.scaled =
      p.tensors[kCkvScale].dtype != DType::kAbsent || p.tensors[kKpeScale].dtype != DType::kAbsent;
  return s;
}

inline MlaParams params_of(const Args& args) {
  MlaParams p{};
  point(args, kQNope, p.q_nope, p.q_nope_at);
  point(args, kQPe, p.q_pe, p.q_pe_at);
  point(args, kCkv, p.ckv, p.ckv_at);
  point(args, kKpe, p.kpe, p.kpe_at);
  point(args, kO, p.o, p.o_at);
  point(args, kLse, p.lse, p.lse_at);
  point_words(args, kPageTable, p.table, p.table_at);
  if (args.tensors[kPageTable].shape[0] == 1) p.table_at[0] = 0;
  point_words(args, kSeqLens, p.lengths, p.lengths_at);
  if (args.has(kCkvScale)) p.ckv_scale = static_cast<const float*>(args.tensors[kCkvScale].data);
  if (args.has(kKpeScale)) p.kpe_scale = static_cast<const float*>(args.tensors[kKpeScale].data);
  p.scale = static_cast<float>(scale_of(args) * 1.4426950408889634);
  p.tokens = static_cast<std::int32_t>(args.letters[kT]);
  p.heads = static_cast<std::int32_t>(args.letters[kH]);
  p.entries = static_cast<std::int32_t>(args.letters[kW]);
  p.parts = 1;
  return p;
}

/// Checks the sizes that kernels count in 32 bits.
inline Support supports_sizes(const Query& q) {
  constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
  const auto& d = q.problem.dims;
  for (const Letter letter : {kH, kR, kDr, kPage, kW})
    if (d[letter] > kMax / 2) return Support::no("a size is {}; at most {}", d[letter], kMax / 2);
  if (d[kT] * d[kH] > kMax)
    return Support::no("{} heads of tokens; at most {}", d[kT] * d[kH], kMax);
  return Support::yes();
}

/// Bytes of the keys that a call may read.
inline double bytes_of(const Problem& p) {
  const auto& d = p.dims;
  return static_cast<double>(d[kT] * d[kW] * d[kPage]) * static_cast<double>(d[kR] + d[kDr]) *
         size_of(p.tensors[kCkv].dtype);
}

}  // namespace dlblas::attention::mla
