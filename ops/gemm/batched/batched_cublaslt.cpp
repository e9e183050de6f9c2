// cuBLASLt's batched products as a rival: matmul's code, with strides between matrices.
// In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next:
// ops/gemm/matmul/cuda/matmul_cublaslt.cpp.
#include "core/source_hash.hpp"
#include "cuda/cublaslt.hpp"
#include "ops/gemm/batched/batched.hpp"
#include "ops/gemm/matmul/cuda/matmul_cublaslt.hpp"

namespace dlblas::gemm {
namespace {

Problem matrix(const Query& q) { return matrix_problem(q.user<BatchedOp>(), q.problem); }
std::int64_t count(const Query& q) { return q.problem.dims[kBatch]; }

template <LtCompute kCompute>
Support supports(const Query& q) {
  constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
  if (count(q) == 0) return Support::no("a dimension is zero");
  if (count(q) > kMax) return Support::no("more than {} matrices", kMax);
  return cublaslt_supports(matrix(q), count(q), kCompute);
}

template <bool kByRows>
int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto apart = [&](int tensor) { return batch_stride(args.tensors[tensor]); };
  return cublaslt_multiply(kernel, matmul_gpu_params(matrix_args({kByRows}, args, 0)),
                           {args.letters[kBatch], apart(kA), apart(kB), apart(kOut)}, context,
                           workspace);
}
template <LtCompute kCompute>
Kernel prepare(const Query& q, const Config& config) {
  const bool by_rows = q.user<BatchedOp>().by_rows;
  return cublaslt_kernel(by_rows ? "batched_matmul_nt" : "batched_matmul", matrix(q), count(q),
                         kCompute, config, by_rows ? step<true> : step<false>);
}

template <LtCompute kCompute>
Implementation implementation(const BatchedOp& op, const char* name) {
  Implementation i;
  i.name = name;
  i.backend = DeviceType::kCuda;
  i.source_hash = source_hash<"ops/gemm/batched/batched_cublaslt.cpp">();
  i.version = cuda::cublaslt_version;
  i.flags.capturable = true;  // which algorithm serves differs by M: not deterministic
  i.knobs = &cublaslt_table();
  i.user = &op;
  i.supports = supports<kCompute>;
  i.constrain = [](const Query& q, Space& space) {
    cublaslt_constrain(matrix(q), count(q), kCompute, space);
  };
  i.heuristic = [](const Query&) { return cublaslt_table().to_config({0}); };
  i.estimate = [](const Query& q, const Config& config) {
    constexpr double kBatches = 1.1;  // of one product's time: ten of them on an H200, bf16
    return kBatches * cublaslt_ms(matrix(q), count(q), kCompute, q.device, config);
  };
  i.prepare = prepare<kCompute>;
  return i;
}

}  // namespace

Implementation batched_cublaslt(const BatchedOp& op) {
  return implementation<LtCompute::kIeee>(op, "cublaslt");
}
Implementation batched_cublaslt_tf32(const BatchedOp& op) {
  return implementation<LtCompute::kTf32>(op, "cublaslt_tf32");
}

}  // namespace dlblas::gemm
