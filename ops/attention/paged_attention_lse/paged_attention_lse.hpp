// What the parts of paged_attention_lse share.
// Read next: paged_attention_lse.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "registry/operator.hpp"

namespace dlblas::attention::paged {

enum Tensor : int {
  kQ,
  kKCache,
  kVCache,
  kPageTable,
  kSeqLens,
  kCuSeqlensQ,
  kIndptr,
  kSinks,
  kKScale,
  kVScale,
  kO,
  kLse
};
enum Letter : int { kT, kHkv, kG, kD, kP, kPage, kDv, kB, kW };
enum Scalar : int { kScale, kCausal, kWindow, kSoftcap };
enum KeyScalar : int { kKeyCausal, kKeyWindow, kKeySoftcap };

/// The factor of a score, apart from k_scale.
inline double scale_of(const Args& args) {
  const double scale = args.scalars[kScale].f;
  return scale != 0 ? scale : 1 / std::sqrt(std::max(1.0, static_cast<double>(args.letters[kD])));
}

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out);
Bound bound(const Problem& problem, int result);
std::vector<Implementation> cpu();
std::vector<Implementation> cpu_tiles();  // cpu_amx
Support serves_tiles(const Query& q);     // whether cpu_amx takes it, where there is AMX
Implementation cuda_rows();
Implementation cuda_decode();
Implementation cuda_wgmma();

}  // namespace dlblas::attention::paged
