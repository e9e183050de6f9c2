// The operators of the norm family and the oracles behind them.
// Out: OperatorDef values for register_norm. Read next: ops/norm/rms_norm.cpp.
#pragma once

#include <array>
#include <cstdint>

#include "registry/operator.hpp"

namespace dlblas::norm {

/// Letters and scalars, the same in all schemas; the operators assert the letters at registration.
enum Letter : int { kT, kC };
enum Scalar : int { kEps, kWeightOffset, kCastBeforeWeight };
enum KeyScalar : int { kKeyCastBeforeWeight };

/// Where a forward operator's tensors stand in its schema; -1 where it has none.
struct NormTensors {
  int x, weight, residual, y, residual_out;
  constexpr bool adds() const { return residual >= 0; }
  /// The tensors that have rows, x first; -1 where there is none.
  constexpr std::array<int, 4> rows() const { return {x, y, residual, residual_out}; }
};
inline constexpr NormTensors kRmsNorm = {
    .x = 0, .weight = 1, .residual = -1, .y = 2, .residual_out = -1};
inline constexpr NormTensors kAddRmsNorm = {
    .x = 0, .weight = 1, .residual = 2, .y = 3, .residual_out = 4};

OperatorDef rms_norm();
OperatorDef add_rms_norm();
OperatorDef rms_norm_backward();

/// <op>_ref.cpp: see ReferenceFn and BoundFn.
void rms_norm_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                        OracleOut* out);
Bound rms_norm_bound(const Problem& problem, int result);
void add_rms_norm_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                            OracleOut* out);
Bound add_rms_norm_bound(const Problem& problem, int result);
void rms_norm_backward_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                                 OracleOut* out);
Bound rms_norm_backward_bound(const Problem& problem, int result);

}  // namespace dlblas::norm
