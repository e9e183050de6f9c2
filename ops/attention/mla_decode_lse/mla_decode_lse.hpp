// What the parts of mla_decode_lse share. Read next: mla_decode_lse.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/element.hpp"
#include "ops/attention/indices.hpp"
#include "registry/operator.hpp"

namespace dlblas::attention::mla {

enum Tensor : int {
  kQNope,
  kQPe,
  kCkv,
  kKpe,
  kPageTable,
  kSeqLens,
  kCkvScale,
  kKpeScale,
  kO,
  kLse
};
enum Letter : int { kT, kH, kR, kDr, kP, kPage, kW };
enum Scalar : int { kScale };

/// The factor of a score.
inline double scale_of(const Args& args) {
  const double scale = args.scalars[kScale].f;
  const auto columns = static_cast<double>(args.letters[kR] + args.letters[kDr]);
  return scale != 0 ? scale : 1 / std::sqrt(std::max(1.0, columns));
}
/// What the values in a cache stand for are its values times this.
inline double scale_of_cache(const Args& args, int cache) {
  const int tensor = cache == kCkv ? kCkvScale : kKpeScale;
  return args.has(tensor) ? load_element(args.tensors[tensor], 0) : 1;
}
/// Number of keys of a sequence, at most those of its row of the table.
inline std::int64_t length_of(const Args& args, std::int64_t t) {
  const TensorView& lengths = args.tensors[kSeqLens];
  const std::int64_t length = index_at(lengths, t * lengths.strides[0]);
  return std::clamp<std::int64_t>(length, 0, args.letters[kW] * args.letters[kPage]);
}
/// The page of key n.
inline std::int64_t page_of(const Args& args, std::int64_t t, std::int64_t n) {
  const TensorView& table = args.tensors[kPageTable];
  const std::int64_t row = table.shape[0] == 1 ? 0 : t;
  return index_at(table, row * table.strides[0] + n / args.letters[kPage] * table.strides[1]);
}

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out);
Bound bound(const Problem& problem, int result);
std::vector<Implementation> cpu();
Implementation cuda_rows();
Implementation cuda_wgmma();
Implementation cuda_decode();

}  // namespace dlblas::attention::mla
