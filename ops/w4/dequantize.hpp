// Definitions of the dequantisers of 4-bit weights, except schema, formula and oracle: (qweight,
// scales, zeros) -> y. Read next: dequantize.cpp, dequantize_cuda.cpp, awq_dequantize/.
#pragma once

#include "ops/w4/dequantize_config.hpp"
#include "ops/w4/weights_ref.hpp"
#include "registry/operator.hpp"

namespace dlblas::w4 {

struct W4Op {
  bool along_k = false;  // words hold rows: GPTQ
  int plus = -1;         // the scalar that says whether zeros lack one; -1: there is none
};

enum W4Tensor : int { kQ, kScales, kZeros, kY };

inline W4Matrix matrix_of(const TensorView& t) { return {t.data, t.strides[0], t.strides[1]}; }
/// A call's parameters for the kernels.
W4Params w4_params(const W4Op& op, const Args& args);

/// `op` must live as long as the process.
OperatorDef w4_dequantize(std::string_view schema, std::string_view formula, const W4Op& op);
std::vector<Implementation> w4_dequantize_cpu(const W4Op& op);
Implementation w4_dequantize_cuda(const W4Op& op);

}  // namespace dlblas::w4
