// What the parts of selective_state_update agree on. Read next: selective_state_update.cpp.
#pragma once

#include <vector>

#include "registry/operator.hpp"

namespace dlblas::ssm::update {

enum Tensor : int { kState, kX, kDt, kA, kB, kC, kD, kZ, kDtBias, kY };
enum Letter : int { kBatch, kG, kR, kP, kN };
enum Scalar : int { kSoftplus };

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out);
std::vector<Implementation> cpu();
Implementation cuda();

}  // namespace dlblas::ssm::update
