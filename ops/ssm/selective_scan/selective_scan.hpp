// What the parts of selective_scan share. Read next: selective_scan.cpp.
#pragma once

#include <vector>

#include "registry/operator.hpp"

namespace dlblas::ssm::scan {

enum Tensor : int { kU, kDelta, kA, kB, kC, kD, kInitial, kZ, kDeltaBias, kY, kState };
enum Letter : int { kBatch, kG, kR, kL, kN };
enum Scalar : int { kSoftplus };

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out);
std::vector<Implementation> cpu();
Implementation cuda();

}  // namespace dlblas::ssm::scan
