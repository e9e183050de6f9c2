// How rows are cut into parts where a row program folds results over them: by sizes alone, so the
// bits are the same on any number of threads and any device. A part's terms are added in f32, in
// chains of at most kMaxFoldedRows, and the parts in f64. Included by kernels/rows*.cpp alone.
// Read next: device/row/fold.cuh, cpu/row/fold.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/row/call.hpp"

namespace dlblas::kernels {

/// On a CPU, a part belongs to one thread.
struct CpuParts {
  std::int64_t rows;   // of a part
  std::int64_t count;  // of parts
};
/// A part's f32 sums are written and read once: eight rows of inputs and results are several times
/// as many bytes; a row so wide that it is work enough is a part of its own.
inline CpuParts cpu_parts(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kMax = 64, kElements = 32768;  // parts of few rows: as many threads
  const std::int64_t least =
      std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(1, width), 1, 8);
  const std::int64_t part =
      std::clamp<std::int64_t>((rows + kMax - 1) / kMax, least, kMaxFoldedRows);
  return {part, (rows + part - 1) / part};
}
/// The most parts that any number of rows up to `rows` has.
inline std::int64_t most_cpu_parts(std::int64_t rows) {
  return std::min<std::int64_t>(rows, std::max<std::int64_t>(64, rows / kMaxFoldedRows + 1));
}

/// Blocks of row_fold: `tiles` of `threads` accesses times `parts` of the rows.
struct CudaParts {
  std::int32_t threads, rows_at_once;  // of a block
  std::int64_t tiles, rows, parts;     // rows of one thread
};
/// 1,024 blocks: eight per multiprocessor of an H200.
inline std::int64_t wanted_parts(std::int64_t tiles) {
  return std::max<std::int64_t>(1, 1024 / tiles);
}
inline CudaParts cuda_parts(std::int64_t rows, std::int64_t accesses) {
  constexpr std::int32_t kBlock = 256;
  CudaParts p = {};
  p.threads = kBlock;
  for (const std::int32_t threads : {128, 64, 32, 16, 8})
    if (threads >= accesses) p.threads = threads;
  p.rows_at_once = kBlock / p.threads;
  p.tiles = std::max<std::int64_t>(1, (accesses + p.threads - 1) / p.threads);
  const std::int64_t wanted = wanted_parts(p.tiles) * p.rows_at_once;
  constexpr std::int64_t kMin = 4;  // loads in flight
  p.rows = std::clamp<std::int64_t>((rows + wanted - 1) / wanted, kMin, kMaxFoldedRows);
  const std::int64_t share = p.rows * p.rows_at_once;
  p.parts = (rows + share - 1) / share;
  return p;
}
/// The most parts that any number of rows up to `rows` has.
inline std::int64_t most_cuda_parts(std::int64_t rows, std::int64_t accesses) {
  const CudaParts p = cuda_parts(rows, accesses);
  const std::int64_t most_rows = std::int64_t{kMaxFoldedRows} * p.rows_at_once;
  return std::max(wanted_parts(p.tiles), rows / most_rows + 1);
}

}  // namespace dlblas::kernels
