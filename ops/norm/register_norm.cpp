// Hands the norm family to the registry; the build generates the call of register_norm.
// Read next: ops/norm/rms_norm.cpp, ops/norm/add_rms_norm.cpp, ops/norm/rms_norm_backward.cpp.
#include "ops/norm/norm_ops.hpp"
#include "registry/registry.hpp"

namespace dlblas {

void register_norm(Registry& registry) {
  registry.add(norm::rms_norm());
  registry.add(norm::add_rms_norm());
  registry.add(norm::rms_norm_backward());
}

}  // namespace dlblas
