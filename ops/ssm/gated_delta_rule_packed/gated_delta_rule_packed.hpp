// What the parts of gated_delta_rule_packed share. Read next: gated_delta_rule_packed.cpp.
#pragma once

#include "ops/ssm/gated_delta_rule_packed/gated_delta_rule_packed_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::ssm::delta {

enum Tensor : int { kQ, kKey, kValue, kG, kBeta, kState, kOffsets, kO };
enum Letter : int { kT, kH, kK, kR, kV, kS };
enum Scalar : int { kScale, kL2Norm };

DeltaParams params_of(const Args& args);
void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out);
Implementation cpu();
Implementation cuda();

}  // namespace dlblas::ssm::delta
