// Quantises rows with one scale per group of columns, for CPUs with AVX2. The build gives this file
// its flags by its suffix. Read next: ops/common/quant_groups/quant_groups_simd.hpp.
#include "ops/common/quant_groups/quant_groups_simd.hpp"
