// The family gemm enters the registry here; the build generates the call.
#include "ops/gemm/matmul.hpp"
#include "registry/registry.hpp"

namespace dlblas {

void register_gemm(Registry& registry) { registry.add(gemm::matmul_operator()); }

}  // namespace dlblas
