// lora_shrink and lora_expand for AVX-512: 16 lanes. The suffix of the file name selects its build
// flags. Everything but the pointer below has internal linkage: see cpu/simd.hpp for why.
// Read next: lora_simd.hpp.
#include "ops/gemm/lora/lora_simd.hpp"

namespace dlblas::avx512 {

constinit const gemm::LoraRow kLoraRow = lora_row;

}  // namespace dlblas::avx512
