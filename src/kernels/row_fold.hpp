// How rows are cut into parts where a row program folds results over them: by sizes alone, so the
// bits are the same on any number of threads and any device. A part's terms are added in f32, in
// chains of at most kMaxFoldedRows, and the parts in f64. Rows r of one phase, r % period, make one
// row of a result: part p has rows of phase p % period. Included by kernels/rows*.cpp alone.
// Read next: device/row/fold.cuh, cpu/row/fold.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/row/call.hpp"

namespace dlblas::kernels {

/// The most rows of any phase.
inline std::int64_t rows_of_phase(std::int64_t rows, std::int64_t period) {
  return (rows + period - 1) / period;
}

/// On a CPU, a part belongs to one thread.
struct CpuParts {
  std::int64_t rows;   // of a part
  std::int64_t count;  // of parts of a phase
};
/// Parts of a phase that give every thread some.
inline std::int64_t wanted_cpu_parts(std::int64_t period) {
  return std::max<std::int64_t>(1, 64 / period);
}
/// A part's f32 sums are written and read once: eight rows of inputs and results are several times
/// as many bytes; a row so wide that it is work enough is a part of its own.
inline CpuParts cpu_parts(std::int64_t rows, std::int64_t width, std::int64_t period) {
  constexpr std::int64_t kElements = 32768;  // parts of few rows: as many threads
  const std::int64_t least =
      std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(1, width), 1, 8);
  const std::int64_t all = rows_of_phase(rows, period), most = wanted_cpu_parts(period);
  const std::int64_t part =
      std::clamp<std::int64_t>((all + most - 1) / most, least, kMaxFoldedRows);
  return {part, (all + part - 1) / part};
}
/// The most parts, of all phases, that any number of rows up to `rows` has.
inline std::int64_t most_cpu_parts(std::int64_t rows, std::int64_t period) {
  const std::int64_t all = rows_of_phase(rows, period);
  return period * std::min<std::int64_t>(all, std::max<std::int64_t>(wanted_cpu_parts(period),
                                                                     all / kMaxFoldedRows + 1));
}

/// Blocks of row_fold: `tiles` of `threads` accesses times `parts` of the rows.
struct CudaParts {
  std::int32_t threads, rows_at_once;  // of a block
  std::int64_t tiles, rows, parts;     // rows of one thread
};
/// 1,024 blocks: eight per multiprocessor of an H200.
inline std::int64_t wanted_parts(std::int64_t tiles, std::int64_t period) {
  return std::max<std::int64_t>(1, 1024 / tiles / period);
}
inline CudaParts cuda_parts(std::int64_t rows, std::int64_t accesses, std::int64_t period) {
  constexpr std::int32_t kBlock = 256;
  CudaParts p = {};
  p.threads = kBlock;
  for (const std::int32_t threads : {128, 64, 32, 16, 8})
    if (threads >= accesses) p.threads = threads;
  p.rows_at_once = kBlock / p.threads;
  p.tiles = std::max<std::int64_t>(1, (accesses + p.threads - 1) / p.threads);
  const std::int64_t wanted = wanted_parts(p.tiles, period) * p.rows_at_once;
  constexpr std::int64_t kMin = 4;  // loads in flight
  const std::int64_t all = rows_of_phase(rows, period);
  p.rows = std::clamp<std::int64_t>((all + wanted - 1) / wanted, kMin, kMaxFoldedRows);
  const std::int64_t share = p.rows * p.rows_at_once;
  p.parts = period * ((all + share - 1) / share);
  return p;
}
/// The most parts that any number of rows up to `rows` has.
inline std::int64_t most_cuda_parts(std::int64_t rows, std::int64_t accesses, std::int64_t period) {
  const CudaParts p = cuda_parts(rows, accesses, period);
  const std::int64_t most_rows = std::int64_t{kMaxFoldedRows} * p.rows_at_once;
  return period *
         std::max(wanted_parts(p.tiles, period), rows_of_phase(rows, period) / most_rows + 1);
}

}  // namespace dlblas::kernels
