// rms_norm on CPUs: one implementation an instruction-set level, all over the passes of
// norm_simd.hpp. In: the tensor positions of the schema in rms_norm.cpp. Out: implementations,
// fastest level first. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// ops/norm/norm_cpu.cpp.
#include "ops/norm/norm_cpu.hpp"

namespace dlblas::norm {

std::vector<Implementation> rms_norm_cpu() { return implementations<kRmsNorm>(); }

}  // namespace dlblas::norm
