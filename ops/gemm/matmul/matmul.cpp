// The operator matmul: schema, cost of its oracle, and the implementations in order of preference.
// Flow: registered once; call > validate > [select] looks it up.  Read next: cpu/matmul_cpu.cpp,
// ops/gemm/README.md.
#include "ops/gemm/matmul/matmul.hpp"

#include "core/error.hpp"
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"
#include "ops/gemm/matmul/matmul_oracle.hpp"

namespace dlblas::gemm {

double multiply_adds(const Problem& p) {
  return static_cast<double>(p.dims[kM]) * static_cast<double>(p.dims[kN]) *
         static_cast<double>(p.dims[kK]);
}

double bytes_of_b(const Problem& p) {
  return static_cast<double>(p.dims[kN]) * static_cast<double>(p.dims[kK]) *
         size_of(p.tensors[kB].dtype);
}

namespace {

// Tensors of three and more dimensions are supported where their rows have a single stride.
void check_rows(const Args& args) {
  for (const int i : {int{kA}, int{kOut}}) {
    const TensorView& t = args.tensors[i];
    if (rows_of(t).rank == 1 || t.numel() == 0) continue;
    const std::string name = args.schema->tensors[static_cast<std::size_t>(i)].name;
    const char* expected = "rows at one stride";
    throw Error(ErrorKind::kArgument,
                text("matmul: ", name, " has leading dimensions that do not flatten; expected ",
                     expected, ", got several strides; pass a contiguous copy"),
                {"matmul", name, expected, "several strides"});
  }
}

}  // namespace

TensorView flat(const TensorView& t) {
  const Rows rows = rows_of(t);
  TensorView matrix = t;
  matrix.rank = 2;
  matrix.shape[0] = rows.count, matrix.shape[1] = t.shape[t.rank - 1];
  matrix.strides[0] = rows.stride, matrix.strides[1] = t.strides[t.rank - 1];
  return matrix;
}

OperatorDef matmul();
OperatorDef matmul() {
  OperatorDef def;
  def.family = "gemm";
  def.schema =
      "matmul(a: f[*M, K], b: like(a)[K, N], "
      "activation: \"\"|\"relu\"|\"leaky_relu\"|\"gelu\"|\"silu\" = \"\", *, "
      "bias: like(a)|f32[N]?, out_dtype: dtype(f) = none) "
      "-> out: out_dtype|like(a)[*M, N] where M: bucket(tokens)";
  def.formula = "out = act(a · b + bias)";
  def.letters = {"M", "K", "N"};
  def.reference = matmul_reference;
  def.bound = matmul_bound;
  def.device_oracle = matmul_device_oracle();
  def.check = check_rows;
  def.work_per_row = [](const Problem& p) {
    return static_cast<double>(p.dims[kK]) * static_cast<double>(p.dims[kN]);
  };
  append_rows(def.implementations);
  append_blocked(def.implementations);
  append_onednn(def.implementations);
  append_cublaslt(def.implementations);
  append_gemv_cuda(def.implementations);
  append_rows_cuda(def.implementations);
  append_wgmma_cuda(def.implementations);
  append_mma_cuda(def.implementations);
  append_fma_cuda(def.implementations);
  return def;
}

}  // namespace dlblas::gemm
