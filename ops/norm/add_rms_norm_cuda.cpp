// add_rms_norm on NVIDIA GPUs: every norm kernel as a candidate. In: the tensor positions of the
// schema in add_rms_norm.cpp. Out: implementations, best guess first. Flow: call > validate >
// [select] > [compile] > [launch].  Read next: ops/norm/norm_cuda.hpp,
// ops/norm/norm_registers_cuda.cpp.
#include "ops/norm/norm_cuda.hpp"

namespace dlblas::norm {

std::vector<Implementation> add_rms_norm_cuda() { return cuda_implementations<kAddRmsNorm>(); }

}  // namespace dlblas::norm
