// lora_shrink and lora_expand for SSE2 or NEON: 4 lanes. The suffix of the file name selects its
// build flags. Everything but the pointer below has internal linkage: see cpu/simd.hpp for why.
// Read next: lora_simd.hpp.
#include "ops/gemm/lora/lora_simd.hpp"

namespace dlblas::baseline {

constinit const gemm::LoraRow kLoraRow = lora_row;

}  // namespace dlblas::baseline
