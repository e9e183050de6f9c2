// What the GPU forms of products with packed weights share on the host: which operands they can
// read, their parameters, and the steps: products, then the sum over parts of K.
// Read next: product_wgmma_cuda.cpp, product_ring_cuda.cpp, product_rows_cuda.cpp.
#pragma once

#include <vector>

#include "kernels/cuda_form.hpp"
#include "ops/w4/dequantize.hpp"
#include "ops/w4/product.hpp"

namespace dlblas::w4 {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Requires plain layouts of x, words and scales, and sums that are short enough.
Support supports_packed(const Query& q);
/// Requires, in addition, what stages in shared memory need: groups of whole 64 rows, 16-byte
/// chunks.
Support supports_streamed(const Query& q);
/// The parameters of one call.
ProductParams product_params(const ProductOp& op, const Args& args, void* workspace);

/// A form defines kInclude, kKernel, kConfigName, and grid(state, params): blocks along N, parts of
/// K and blocks along M.
template <typename Form, typename TraitsType, typename ConfigType>
struct ProductForm : kernels::CudaForm<TraitsType, ConfigType> {
  using State = typename kernels::CudaForm<TraitsType, ConfigType>::State;
  // The order of sums depends on the configuration.
  static constexpr bool kIsDeterministic = false;
  static constexpr bool kDependent = true;

  static std::size_t workspace_bytes(const Query& q, const State& s) {
    if (s.config.split == 1) return 0;
    return static_cast<std::size_t>(s.config.split * q.problem.dims[product::kM] *
                                    q.user<ProductOp>().columns(q.problem.dims)) *
           sizeof(float);
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    std::vector<KernelSource> all = {
        {Form::kInclude, kernels::cuda_entry<Form>(Form::kKernel, s), s.shared_bytes}};
    if (s.config.split > 1)
      all.push_back(
          {Form::kInclude, kernels::cuda_entry<Form>("dlblas::w4::product_finish", s), 0});
    return all;
  }
  static int multiply(const Args& args, const Context& context, const Kernel& kernel,
                      void* workspace) {
    const State& s = kernel.load<State>();
    const ProductParams p = product_params(*static_cast<const ProductOp*>(s.user), args, workspace);
    cuda::Launch how = Form::grid(s, p);
    how.block.x = static_cast<unsigned>(s.config.threads());
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    how.dependent = s.dependent;
    if (how.grid.x == 0 || how.grid.z == 0) return 0;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
  static int finish(const Args& args, const Context& context, const Kernel& kernel,
                    void* workspace) {
    const State& s = kernel.load<State>();
    const ProductParams p = product_params(*static_cast<const ProductOp*>(s.user), args, workspace);
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(ceil_div(p.m * p.w.columns, kProductFinishThreads));
    how.block.x = kProductFinishThreads;
    how.dependent = s.dependent;
    return how.grid.x == 0 ? 0 : cuda::launch(*kernel.entries[1], how, p, context.stream);
  }
  static std::vector<StepFn> steps(const State& s) {
    if (s.config.split > 1) return {multiply, finish};
    return {multiply};
  }
};

}  // namespace dlblas::w4
