// The host side of every operator that multiplies rows by a weight and applies a program
// (device/gemm/product.hpp). One descriptor gives support and the reasons against it, knobs,
// default configurations, estimates, kernel sources and launches, on CUDA devices and CPUs.
//   y = program(x[t, k] · weight[n, k]ᵀ, operands)
// In: ProductOp. Out: Implementations in OperatorDef.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: product_wgmma.cpp,
// product_cpu.cpp, ops/gemm/linear_residual/linear_residual.cpp (an operator).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/gemm/product.hpp"
#include "cuda/cuda.hpp"
#include "device/gemm/product_config.hpp"
#include "kernels/blocked_product.hpp"
#include "kernels/gemm_fma.hpp"
#include "registry/operator.hpp"

namespace dlblas::kernels {

/// A level's code for a program. With a `unit`, `of_unit` multiplies bf16 alone.
struct ProductCpuLevel {
  Isa isa;
  const char* hash;
  const ProductCode* code = nullptr;
  const GemmCode* of_unit = nullptr;
  CpuUnit unit = CpuUnit::kNone;
};

/// An operator's description of its program. It lives as long as the process.
struct ProductOp {
  const char* include;  // "ops/gemm/linear_residual/linear_residual.cuh"
  const char* program;  // its C++ name there
  const char* hash;     // source_hash of the file that names `include`
  // Positions in the schema: tensors, and letters.
  int x, weights[2], y;
  int rows, depth, columns;
  /// The columns of the result, computed from the letters, where they are not a letter themselves.
  std::int64_t (*columns_of)(const std::int64_t* letters) = nullptr;
  std::int64_t width(const std::int64_t* letters) const {
    return columns_of ? columns_of(letters) : letters[columns];
  }
  int parts = 1;
  /// The operator (a, b, out_dtype) that computes an f32 product for composed forms: a form's name.
  const char* product = nullptr;
  /// Tensors in the order of the program's ProductOperands, and what each has one value for.
  struct Operand {
    int tensor;
    Per per;
  };
  std::vector<Operand> operands = {};
  /// Sets ProductTraits::options from the problem. May be null.
  void (*choose)(const Problem& problem, std::int32_t* options) = nullptr;
  /// For a program with kPairs: which columns form a pair. Null: columns are independent.
  ProductPairs (*pairs)(const Problem& problem) = nullptr;
  /// For a program with kGroup: a group's columns, and the tensor that receives the scales [*T,
  /// N/group].
  int group = 0, scale = -1;
  /// Sets a call's numbers. May be null.
  void (*fill)(const Args& args, std::int64_t (&numbers)[kProductNumbers]) = nullptr;
  /// One per level, widest first.
  std::vector<ProductCpuLevel> levels = {};
};

/// Adds the implementations to `def`: `cuda_wgmma`, `cuda_mma`, and, where columns are independent,
/// `cpu_row_*`, `cpu_*`, `cuda_gemv`, `cuda_rows` and `cuda_fma`; `composed` and `cuda_composed`
/// take every problem.
void add_product_implementations(OperatorDef& def, const ProductOp& op);

// ---- what the forms share; `cpu_*` use only what takes no Query ----

/// M, N (of one part) and K.
GemmSize product_size(const Query& q);
/// Bytes of all operands and the result, each once; bytes of the weights.
double product_bytes(const Query& q);
double product_weight_bytes(const Query& q);

/// Leading dimensions as rows at one stride; a dimension of size 1 gets the stride 1 along a row.
TensorView flat_rows(const TensorView& t);
/// Throws if the leading dimensions of one of these do not flatten to one stride.
void check_flat_rows(const Args& args, std::initializer_list<int> tensors);

/// The program and its traits as C++ text: `name<program, traits>`.
std::string product_text(const Query& q, std::string_view name, bool plain_result = false);
GemmTraits product_gemm_traits(const Query& q, std::int32_t rows, std::int32_t span);
/// The strides of `b` are those of part 0's weight.
struct ProductGpuParams {
  GemmCall gemm;
  ProductParams epilogue;
};
ProductGpuParams product_params(const ProductOp& op, const Args& args);
/// What a CPU's kernel keeps of a problem.
struct ProductCpuTraits {
  const ProductOp* op;
  std::int32_t options[kProductOptions];
  ProductPairs pairs;
};
ProductCpuTraits product_cpu_traits(const ProductOp& op, const Problem& problem);
ProductCpuParams product_cpu_params(const ProductCpuTraits& traits, const Args& args);
Support product_sizes_fit(const Query& q);
/// f16 or bf16, x and weights contiguous along K, rows 16-byte aligned.
Support product_fits_tensor_cores(const Query& q);
/// The problem's pairs of columns; 0 channels: none.
ProductPairs product_pairs(const Query& q);
/// Columns that a warp of cuda_mma must hold together; 0: none. Whether tiles that wide exist.
std::int32_t columns_together(const Query& q);
Support mma_has_columns(const Query& q);
/// Does cuda_wgmma take heads folded, 64 columns at a time (device/gemm/wgmma_config.hpp)?
bool folds_heads(const Query& q);
/// Under kDeterministic: does cuda_mma take every batch of rows with this layout?
bool tensor_cores_take_any_batch(const Query& q);

inline constexpr int kNoMemory = 2;  // a step's code: CUDA_ERROR_OUT_OF_MEMORY
/// Copies a matrix with contiguous rows, on the stream, to one with the smallest pitch that is a
/// multiple of 16 bytes: for views that a form cannot read. Null data if there is no memory.
TensorView packed_copy(const TensorView& matrix, const Context& context);
/// Copies row by row, on the stream.
void copy_rows(const TensorView& from, const TensorView& to, void* stream);

// ---- the forms ----

void append_product_cpu(std::vector<Implementation>& to, const ProductOp& op);
void append_product_composed(std::vector<Implementation>& to, const ProductOp& op);
void append_product_gemv(std::vector<Implementation>& to, const ProductOp& op);
void append_product_rows(std::vector<Implementation>& to, const ProductOp& op);
void append_product_wgmma(std::vector<Implementation>& to, const ProductOp& op);
void append_product_mma(std::vector<Implementation>& to, const ProductOp& op);
void append_product_fma(std::vector<Implementation>& to, const ProductOp& op);

}  // namespace dlblas::kernels
