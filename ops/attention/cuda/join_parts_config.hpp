// Number of threads that join the parts of a row of attention; for hosts, too. Read next:
// join_parts.cuh.
#pragma once

namespace dlblas::attention {

/// Each thread holds four columns of one share of the parts. `width`: of the row, a multiple of 16.
constexpr int join_threads(int width) { return width / 4 * (width > 128 ? 4 : 8); }

}  // namespace dlblas::attention
