// The peak loops for AVX2: the build sets this file's flags by its suffix.
// Read next: cpu/peak_simd.hpp.
#include "cpu/peak_simd.hpp"
