// What the host sides of paged_attention_lse's CUDA kernels share.
// Read next: paged_rows_cuda.cpp, paged_decode_cuda.cpp.
#pragma once

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/attention/cache_cuda.hpp"
#include "ops/attention/indices.hpp"
#include "ops/attention/paged_attention_lse/paged_attention_lse.hpp"
#include "ops/attention/paged_attention_lse/paged_config.hpp"

namespace dlblas::attention::paged {

inline const TraitsTable<PagedTraits>& traits_table() {
  using T = PagedTraits;
  static const auto* members = new TraitsTable<T>{
      "dlblas::attention::PagedTraits",
      {member<&T::q>("q"), member<&T::cache>("cache"), member<&T::depth>("depth"),
       member<&T::width>("width"), member<&T::group>("group"), member<&T::page>("page"),
       member<&T::access>("access"), member<&T::causal>("causal"), member<&T::window>("window"),
       member<&T::softcap>("softcap"), member<&T::ragged>("ragged")}};
  return *members;
}

inline PagedTraits traits_of(const Problem& p) {
  PagedTraits s{};
  s.q = p.tensors[kQ].dtype, s.cache = p.tensors[kKCache].dtype;
  s.depth = static_cast<std::int32_t>(p.dims[kD]);
  s.width = static_cast<std::int32_t>(p.dims[kDv]);
  s.group = static_cast<std::int32_t>(p.dims[kG]);
  s.page = static_cast<std::int32_t>(p.dims[kPage]);
  s.causal = p.scalars[kKeyCausal] != 0;
  s.window = p.scalars[kKeyWindow] != 0;
  s.softcap = p.scalars[kKeySoftcap] != 0;
  s.ragged = p.tensors[kCuSeqlensQ].dtype != DType::kAbsent;
  return s;
}

using attention::point;
template <typename Data>
void point(const Args& args, int tensor, const Data*& data, std::int64_t& stride) {
  if (!args.has(tensor)) return;
  data = static_cast<const Data*>(args.tensors[tensor].data);
  stride = args.tensors[tensor].rank > 0 ? args.tensors[tensor].strides[0] : 0;
}

inline PagedParams params_of(const Args& args, const PagedTraits& s) {
  PagedParams p{};
  std::int64_t none = 0;
  point(args, kQ, p.q, p.q_at);
  point(args, kKCache, p.k, p.k_at);
  point(args, kVCache, p.v, p.v_at);
  point(args, kO, p.o, p.o_at);
  point(args, kLse, p.lse, p.lse_at);
  point_words(args, kPageTable, p.table, p.table_at);
  if (args.tensors[kPageTable].shape[0] == 1) p.table_at[0] = 0;
  point_words(args, kSeqLens, p.lengths, p.lengths_at);
  point_words(args, kCuSeqlensQ, p.starts, p.starts_at);
  point_words(args, kIndptr, p.indptr, p.indptr_at);
  point(args, kSinks, p.sinks, p.sinks_at);
  point(args, kKScale, p.k_scale, none);
  point(args, kVScale, p.v_scale, none);
  constexpr double kLog2E = 1.4426950408889634;
  p.scale = static_cast<float>(scale_of(args) * (s.softcap ? 1 : kLog2E));
  p.softcap = static_cast<float>(args.scalars[kSoftcap].f);
  p.window =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(args.scalars[kWindow].i, 0, 0x7fffffff));
  p.queries = static_cast<std::int32_t>(args.letters[kT]);
  p.sequences = static_cast<std::int32_t>(args.letters[kB]);
  p.entries = static_cast<std::int32_t>(args.letters[kW]);
  p.heads = static_cast<std::int32_t>(args.letters[kHkv]);
  p.parts = 1;
  return p;
}

/// The kernel for any case: paged_rows.cuh.
struct PagedRows {
  static constexpr const char* kInclude = "ops/attention/paged_attention_lse/paged_rows.cuh";
  static constexpr const char* kEntry = "dlblas::attention::paged_rows";
  static constexpr const char* kConfigName = "dlblas::attention::PagedRowsConfig";

  static const ConfigTable<PagedRowsConfig>& table() {
    static const auto* knobs = new ConfigTable<PagedRowsConfig>{
        field<&PagedRowsConfig::threads>("threads", {64, 128, 256})};
    return *knobs;
  }
  static PagedTraits rows_traits(const Problem& p) {
    PagedTraits s = traits_of(p);
    // As many columns per access as all tensors allow; one if the columns of some are not
    // contiguous.
    s.access = 8;
    const auto takes = [&](int tensor) {
      return reads_wide(p.tensors[tensor], s.access * size_of(p.tensors[tensor].dtype));
    };
    while (s.access > 1 && (s.depth % s.access != 0 || s.width % s.access != 0 || !takes(kQ) ||
                            !takes(kKCache) || !takes(kVCache)))
      s.access /= 2;
    return s;
  }
  static int launch_rows(const Args& args, const PagedTraits& s, const PagedRowsConfig& config,
                         const cuda::Function& entry, const Context& context) {
    const std::int64_t rows = args.letters[kT] * args.letters[kHkv] * s.group;
    if (rows == 0) return 0;
    const PagedParams p = params_of(args, s);
    const cuda::Launch how = chunks_launch(rows, s.width, s.access, config.threads);
    return cuda::launch(entry, how, p, context.stream);
  }
};

/// Checks the sizes that kernels count in 32 bits.
inline Support supports_sizes(const Query& q) {
  constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
  const auto& d = q.problem.dims;
  for (const Letter letter : {kT, kHkv, kG, kD, kPage, kDv, kB, kW})
    if (d[letter] > kMax / 2) return Support::no("a size is {}; at most {}", d[letter], kMax / 2);
  if (d[kT] * d[kHkv] * d[kG] > kMax)
    return Support::no("{} heads of queries; at most {}", d[kT] * d[kHkv] * d[kG], kMax);
  return Support::yes();
}

/// Bytes of the keys and values that a call may read.
inline double bytes_of(const Problem& p) {
  const auto& d = p.dims;
  return static_cast<double>(d[kB] * d[kW] * d[kPage]) *
         static_cast<double>(d[kHkv] * (d[kD] + d[kDv])) * size_of(p.tensors[kKCache].dtype);
}

}  // namespace dlblas::attention::paged
