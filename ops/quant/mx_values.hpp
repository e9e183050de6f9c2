// Converts microscaling formats back to floats: what its operators share. Read next: mx_values.cpp,
// mx_values_cuda.cpp, dequantize_mxfp8/.
#pragma once

#include "ops/quant/mx_values_config.hpp"
#include "registry/operator.hpp"

namespace dlblas::quant {

/// An operator (q, scale[, global]) -> y, by positions in its schema.
struct MxValuesOp {
  std::int64_t group = 0;  // columns of y
  int per_code = 1;        // of them in an element of q
  int global = -1, y = 2;
};

enum MxValuesTensor : int { kValuesQ, kValuesScale, kValuesGlobal };
enum MxValuesLetter : int { kValuesT, kValuesK };

/// `op` must live as long as the process.
OperatorDef mx_values(std::string_view schema, std::string_view formula, const MxValuesOp& op);
Implementation mx_values_cuda(const MxValuesOp& op);

}  // namespace dlblas::quant
