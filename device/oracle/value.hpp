// One element of an oracle's result, for oracles whose text is that of an element. Read next:
// registry/operator.hpp (OracleOut), ops/gemm/matmul/matmul_ref.hpp.
#pragma once

namespace dlblas {

/// The value in f64, and what Bound::magnitude multiplies.
struct OracleValue {
  double value = 0, magnitude = 0;
};

}  // namespace dlblas
