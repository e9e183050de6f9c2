// What gated_linear's host files share: the parts that gated_linear.cpp assembles.
// Read next: gated_linear.cpp.
#pragma once

#include <vector>

#include "core/integers.hpp"
#include "ops/mlp/gated_linear/gated_linear_ref.hpp"
#include "registry/operator.hpp"

namespace dlblas::mlp {

/// Blocked and few-row forms on CPUs, widest instruction set first.
void append_cpu(std::vector<Implementation>& to);
/// matmul's own choice for each product, on CPUs and GPUs.
void append_composed(std::vector<Implementation>& to);
/// The time that the model predicts for it on a CPU.
double composed_ms(const Query& q);
/// oneDNN, the rival on CPUs.
void append_onednn(std::vector<Implementation>& to);
void append_gemv_cuda(std::vector<Implementation>& to);
void append_rows_cuda(std::vector<Implementation>& to);
void append_wgmma_cuda(std::vector<Implementation>& to);
void append_mma_cuda(std::vector<Implementation>& to);
void append_fma_cuda(std::vector<Implementation>& to);

/// Multiply-adds of both products; bytes of all operands and of the result, each once.
double multiply_adds(const Problem& p);
double bytes_of(const Problem& p);
double bytes_of_weights(const Problem& p);

}  // namespace dlblas::mlp
