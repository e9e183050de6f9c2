// The ceilings' loops, baseline: the build gives this file its flags by its suffix.
// Read next: cpu/peak_simd.hpp.
#include "cpu/peak_simd.hpp"
