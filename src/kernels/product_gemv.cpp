// A product program of one to four rows on GPUs (decoding one sequence): the weight streams from
// memory once, each warp reading whole lines. In: a Problem of f16 or bf16. Out: a Kernel of one
// step.
// Flow: call > validate > [select] > [compile] > [launch].
// Read next: product.hpp, gemm_gemv.hpp, device/gemm/gemv_mainloop.cuh.
#include "core/integers.hpp"
#include "kernels/cuda_form.hpp"
#include "kernels/gemm_cuda.hpp"
#include "kernels/gemm_gemv.hpp"
#include "kernels/product.hpp"

namespace dlblas::kernels {
namespace {

GemvSizes sizes_of(const Query& q) {
  const GemmSize s = product_size(q);
  return {s.m, s.n, s.k, 1};
}

struct Gemv : CudaForm<GemmTraits, GemvConfig> {
  static constexpr bool kDependent = true;
  static constexpr bool kIsDeterministic = false;  // the order of sums depends on the configuration
  static const ConfigTable<GemvConfig>& table() { return gemv_table(); }

  static GemmTraits traits(const Query& q, const GemvConfig&) {
    return product_gemm_traits(q, gemv_rows(product_size(q).m), 0);
  }
  static void constrain(const Query& q, Space& space) { constrain_gemv(sizes_of(q), space); }
  static GemvConfig preset(const Query& q) { return gemv_preset(sizes_of(q)); }
  static double milliseconds(const Query& q, const GemvConfig& c) {
    return gemv_ms(sizes_of(q), c, product_bytes(q), q.device);
  }

  static Support supports(const Query& q) {
    const GemmSize s = product_size(q);
    if (s.m > kGemvRows)
      return Support::no("{} has more than {} rows (bucket {})", tensor(q.user<ProductOp>().x),
                         kGemvRows, s.m);
    if (s.k % 8 != 0) return Support::no("K = {} is not a multiple of 8", s.k);
    return product_fits_tensor_cores(q);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    return {{q.user<ProductOp>().include,
             gemm_entry("dlblas::gemm_gemv", s.traits,
                        table().literal(table().to_config(s.config), "dlblas::GemvConfig"),
                        product_text(q, "ProductEpilogue")),
             0}};
  }
  static ProductGpuParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const ProductGpuParams p = product_params(*static_cast<const ProductOp*>(s.user), args);
    how.grid.x = static_cast<unsigned>(ceil_div(p.gemm.n, s.config.block_columns()));
    how.block.x = static_cast<unsigned>(s.config.threads());
    return p;
  }
};

}  // namespace

void append_product_gemv(std::vector<Implementation>& to, const ProductOp& op) {
  if (op.parts == 1 && !op.pairs) to.push_back(make_cuda<Gemv>("cuda_gemv", op.hash, &op));
}

}  // namespace dlblas::kernels
