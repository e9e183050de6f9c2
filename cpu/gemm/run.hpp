// Runs matrix products on CPUs: the loops over cache blocks and threads, around the code of one
// instruction set. In: a job, a level's code, a configuration. Out: what the epilogue stores.
//
//   split=columns   each thread: for j, for k: pack its b block; for i: pack a, multiply
//   split=rows      for j, for k: all threads pack one b block; then each multiplies its rows
//
// Flow: call > validate > select > [compile] > [launch].  Read next: cpu/gemm/mainloop.hpp,
// ops/gemm/matmul/cpu/matmul_cpu.cpp (an operator).
#pragma once

#include <cstddef>

#include "core/implementation.hpp"
#include "cpu/gemm/job.hpp"

namespace dlblas {

/// The blocked form, prepared: what `launch` and the workspace size agree on.
struct GemmBlocked {
  const GemmCode* code;
  CpuGemmConfig config;
  GemmSumOrder sums;
  int slots;     // parts that threads divide
  bool scratch;  // partial sums cannot stay in a result
  bool spans;    // K has more than one: scratch keeps their total and its error, too
  DType panels = DType::kAbsent;  // of b, where the job will have it in panels
  bool unpacks = false;           // their pairs, once per block, rather than in every tile
};

/// `holds_sums`: the job will have `partial`.
GemmBlocked gemm_blocked(const GemmCode& code, const CpuGemmConfig& config,
                         const GemmSumOrder& sums, int threads, std::int64_t k, bool holds_sums);
/// For products up to these sizes.
std::size_t workspace_bytes(const GemmBlocked& s, std::int64_t m, std::int64_t n, std::int64_t k);
/// `job.sums`, `job.epilogue` and `job.params` are set here. `params`: the epilogue's.
void run_blocked(const GemmBlocked& s, GemmJob job, const void* params, const Context& context,
                 void* workspace);

/// The few-row form, prepared.
struct GemmFewRows {
  const GemmCode* code;
  CpuGemmRowConfig config;
  GemmSumOrder sums;
  int slots;
};
std::size_t workspace_bytes(const GemmFewRows& s, std::int64_t m, std::int64_t k);
/// The best unmeasured choice for this type of b, but for block_n. `dots`: see CpuGemmRowConfig.
CpuGemmRowConfig few_rows_config(DType b, bool dots);
void run_few_rows(const GemmFewRows& s, GemmJob job, const void* params, const Context& context,
                  void* workspace);

}  // namespace dlblas
