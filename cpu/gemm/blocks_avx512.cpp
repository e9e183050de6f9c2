// Blocked products, and packing, compiled for AVX-512 (F, BW, VL, DQ): 16 lanes, 32 registers.
// Everything but what loops.hpp declares has internal linkage: see cpu/simd.hpp for why.
// Read next: cpu/gemm/mainloop.hpp, cpu/gemm/panels.hpp.
#include "cpu/gemm/panels.hpp"

namespace dlblas::avx512 {

void pack_panels(DType type, const PackSource& s, int64_t lanes, int64_t depth, int width,
                 float* to) {
  pack(type, s, lanes, depth, width, to);
}
constinit const GemmBlocks kBlocks = blocks_of_core<FloatCore>();
constinit const GemmBlocks kPanelBlocks = blocks_of_core<PanelFloatCore>();

}  // namespace dlblas::avx512
