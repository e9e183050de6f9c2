// What the sampling operators share: (x, [temperature,] top_k, top_p, min_p, …) -> ids or rows.
// Read next: sampling.cpp, sampling_cuda.cpp, law.hpp, sample_rows/.
#pragma once

#include <string_view>

#include "ops/sampling/core.hpp"
#include "ops/sampling/sampling_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::sampling {

/// Positions in an operator's schema; -1: it has none.
struct SamplingOp {
  bool samples = false;
  int temperature = -1, top_k = 1, top_p = 2, min_p = 3, seeds = -1, offsets = -1, y = 4;
  int seed = -1, offset = -1, probs = 0, renorm = -1;  // scalars
  int key_probs = 0, key_renorm = -1;                  // scalars of the key

  Form form(bool renormalise) const {
    return samples ? Form::kSample : renormalise ? Form::kRenorm : Form::kMask;
  }
};
inline constexpr int kX = 0, kT = 0, kV = 1;

/// The settings of a row, and its 64 random bits.
RowRule rule_of(const SamplingOp& op, const Args& args, std::int64_t row);
std::uint64_t random_of(const SamplingOp& op, const Args& args, std::int64_t row);

void sampling_reference(const SamplingOp& op, const Args& args, const std::int64_t* rows,
                        std::int64_t num_rows, OracleOut* out);
void sampling_judge(const SamplingOp& op, const Judgement& judgement, Finding* found);

/// Defines everything but schema, letters, formula, bound, reference and judge. `op` must live as
/// long as the process.
void add_sampling(OperatorDef& def, const SamplingOp& op);
Implementation sampling_cuda(const SamplingOp& op);

}  // namespace dlblas::sampling
