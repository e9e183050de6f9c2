// Quantises rows with one scale per group of columns, for every CPU: no instruction-set flags. The
// build gives this file its flags by its suffix. Read next:
// ops/common/quant_groups/quant_groups_simd.hpp.
#include "ops/common/quant_groups/quant_groups_simd.hpp"
