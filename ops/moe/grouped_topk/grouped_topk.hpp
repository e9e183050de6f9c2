// Shared by the parts of grouped_topk. Read next: ops/moe/grouped_topk/grouped_topk.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/moe/grouped_topk/grouped_topk_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::moe::grouped {

enum Tensor : int { kLogits, kBias, kWeights, kIds };
enum Letter : int { kT, kE, kTopk, kShared };
enum Scalar : int {
  kTopkScalar,
  kNumGroups,
  kTopkGroups,
  kRenormalize,
  kScale,
  kScoring,
  kSharedScalar
};
enum Scoring : int { kSigmoid, kSoftmax };

/// Experts of a token that a warp's lanes hold, two each.
inline constexpr std::int64_t kHeldTopk = 64;

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out);
void judge(const Judgement& judgement, Finding* found);
std::vector<Implementation> cpu();
std::vector<Implementation> cuda();

}  // namespace dlblas::moe::grouped
