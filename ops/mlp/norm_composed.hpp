// Operators that normalise rows before a product, composed of others: rms_norm's own choice of
// implementation writes to the workspace in x's dtype, then the product reads it. Read next:
// norm_linear/norm_linear.cpp, norm_composed.cpp.
#pragma once

#include <vector>

#include "core/nested.hpp"
#include "registry/operator.hpp"

namespace dlblas::mlp {

/// The first part: rms_norm of tensor 0 with the gain of tensor 1, into packed rows.
Part norm_part(const Query& q);
/// Bytes that the normalised rows of a problem take.
std::size_t normed_bytes(const Query& q);
/// Runs part 0 of a call; returns the normalised rows, in the workspace.
TensorView run_norm(const Args& args, double eps, const Context& context, const Kernel& kernel,
                    void* workspace);

/// Appends "composed" and "cuda_composed", which run `step`. `estimate`: the latter's.
void append_norm_composed(std::vector<Implementation>& to, const char* source_hash,
                          Support (*supports)(const Query&),
                          std::vector<Part> (*parts)(const Query&, const Config&), StepFn step,
                          double (*estimate)(const Query&, const Config&));

/// Allows half a step of the result's dtype, f32 roundings, and what is below f32's normal range.
Bound norm_bound(DType out);

}  // namespace dlblas::mlp
