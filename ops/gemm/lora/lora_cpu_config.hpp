// What the host code and the instruction-set objects of lora_shrink and lora_expand share. No
// inline functions here: the linker could keep an instruction-set object's copy for everyone. Read
// next: lora_simd.hpp.
#pragma once

#include "cpu/gemm/job.hpp"

namespace dlblas::gemm {

/// One token: y += scale · x · weightᵀ, x and y of one row, weight [width, depth].
struct LoraToken {
  GemmMatrix x, weight, y;
  int64_t width, depth;
  float scale;
};
/// `scratch` holds 2 · depth floats and kLoraSlack more.
using LoraRow = void (*)(const LoraToken&, float* scratch);
inline constexpr int64_t kLoraSlack = 64;

}  // namespace dlblas::gemm

namespace dlblas::baseline {
extern const gemm::LoraRow kLoraRow;
}
namespace dlblas::avx2 {
extern const gemm::LoraRow kLoraRow;
}
namespace dlblas::avx512 {
extern const gemm::LoraRow kLoraRow;
}
