// What the GPU forms of matmul share on the host: traits and parameters from Problem and Args, and
// the reasons why they refuse a Problem.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: matmul_mma_cuda.cpp.
#pragma once

#include <vector>

#include "kernels/cuda_form.hpp"
#include "kernels/gemm_cuda.hpp"
#include "ops/gemm/matmul/cuda/matmul_gpu_config.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {

/// What the Problem fixes of the product and of act(sum + bias).
struct MatmulTraits {
  GemmTraits gemm;
  MatmulEpilogueTraits epilogue;
};
/// The call parameters of the kernels with matmul's epilogue.
struct MatmulGpuParams {
  GemmCall gemm;
  MatmulEpilogueParams epilogue;
};

/// `rows`, `span`: see GemmTraits.
MatmulTraits matmul_traits(const Problem& problem, std::int32_t rows = 0, std::int32_t span = 0);
/// GemmTraits::span of the tensor-core forms. Tensor cores truncate when they add: for f16 values
/// in [0, 1), one chain has an error of 0.09 roundings per term (H200; so do cuBLAS's chains).
/// `chain`: terms of one f32 sum without spans.
std::int32_t tensor_core_span(const Problem& problem, std::int64_t chain, bool is_cheap);
MatmulGpuParams matmul_gpu_params(const Args& args);

/// A matrix for forms that take a single pitch: `cols` columns of `rows` contiguous elements, a
/// pitch apart.
struct Columns {
  const void* data;
  std::int64_t rows, cols, pitch;
  bool fits() const { return cols <= 1 || (pitch >= rows && pitch < std::int64_t{1} << 31); }
};
struct Operands {
  Columns b, a, out;
};
Operands operands_of(const MatmulGpuParams& params, const GemmTraits& s);
/// A reversed or overlapping view has the layout class of a plain one: a plain matrix, whose pitch
/// is a multiple of `unit`, stands in for it, which is slow but correct. Null data: out of memory.
Columns stand_in(const Columns& c, DType type, const Context& context, std::int64_t unit = 1);
/// Allocates a plain matrix of these sizes, whether `c` fits or not.
Columns packed(const Columns& c, DType type, const Context& context, std::int64_t unit = 1);
/// Copies column by column, on the stream.
void copy_columns(const Columns& from, const Columns& to, DType type, void* stream);
inline constexpr int kNoMemory = 2;  // a step's code: CUDA_ERROR_OUT_OF_MEMORY

/// For the JIT: the members of MatmulEpilogueTraits, and `kernel` of device/gemm/ with matmul's
/// epilogue, both in `include`; `config`: C++ text.
const TraitsTable<MatmulEpilogueTraits>& epilogue_table();
KernelSource matmul_source(std::string_view include, std::string_view kernel,
                           const MatmulTraits& traits, std::string_view config,
                           std::int32_t shared_bytes);

/// What the GPU forms share. A form defines kKernel, its kernel, and kInclude, the header with it.
template <typename Form, typename Config>
struct MatmulForm : kernels::CudaForm<MatmulTraits, Config> {
  static constexpr bool kDependent = true;
  using State = typename kernels::CudaForm<MatmulTraits, Config>::State;
  static KernelSource source(const char* kernel, const State& s, std::int32_t shared_bytes) {
    const auto& table = Form::table();
    return matmul_source(Form::kInclude, kernel, s.traits,
                         table.literal(table.to_config(s.config), Form::kConfigName), shared_bytes);
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {source(Form::kKernel, s, s.shared_bytes)};
  }
};

/// f16 or bf16, each operand contiguous in one dimension with 16-byte aligned rows: what the
/// tensor-core forms read.
Support supports_tensor_cores(const Problem& problem);
/// Every element is aligned to its size.
Support supports_alignment(const Problem& problem);
/// Under kDeterministic: whether tensor cores take any number of rows in this layout. A single row
/// may be aligned where several are not.
bool tensor_cores_take_any_batch(const Problem& p);
/// 32-bit counts can hold the sizes.
Support supports_sizes(const Problem& problem);
/// A grid has enough blocks for the tiles.
Support supports_grid(const Problem& problem);

/// Bytes of all operands and of the result, each once.
double matmul_bytes(const Problem& problem);

/// GPU forms, best guess first.
void append_gemv_cuda(std::vector<Implementation>& to);
void append_rows_cuda(std::vector<Implementation>& to);
void append_wgmma_cuda(std::vector<Implementation>& to);
void append_mma_cuda(std::vector<Implementation>& to);
void append_fma_cuda(std::vector<Implementation>& to);
void append_cublaslt(std::vector<Implementation>& to);

}  // namespace dlblas::gemm
