// Product programs in IEEE f32 multiply-adds on GPUs: any strides, any alignment, one part. In: any
// Problem. Out: a Kernel of one step. Flow: call > validate > [select] > [compile] > [launch].
// Read next: device/gemm/fma_mainloop.cuh, device/gemm/product.cuh.
#include "core/integers.hpp"
#include "core/rates.hpp"
#include "kernels/cuda_form.hpp"
#include "kernels/gemm_cuda.hpp"
#include "kernels/product.hpp"

namespace dlblas::kernels {
namespace {

struct Fma : CudaForm<GemmTraits, GemmFmaConfig> {
  static constexpr bool kDependent = true;
  static const ConfigTable<GemmFmaConfig>& table() {
    using C = GemmFmaConfig;
    static const auto* t = new ConfigTable<C>{
        field<&C::block_m>("block_m", {32, 64, 128}), field<&C::block_n>("block_n", {32, 64, 128}),
        field<&C::block_k>("block_k", {16}),          field<&C::thread_m>("thread_m", {4, 8}),
        field<&C::thread_n>("thread_n", {4, 8}),
    };
    return *t;
  }
  /// gemm_fma_span takes the dtype of x from tensor 0.
  static std::int32_t span(const Query& q) { return gemm_fma_span(q.problem, product_size(q)); }
  static GemmTraits traits(const Query& q, const GemmFmaConfig&) {
    return product_gemm_traits(q, 0, span(q));
  }
  static Support supports(const Query& q) { return product_sizes_fit(q); }
  static Support same_bits(const Query& q) {
    if (!tensor_cores_take_any_batch(q)) return Support::yes();
    return Support::no(
        "adds up in another order than cuda_mma, which takes any batch of such rows");
  }
  static void constrain(const Query& q, Space& space) {
    constrain_gemm_fma(q, product_size(q), table(), space);
  }
  static double milliseconds(const Query& q, const GemmFmaConfig& c) {
    const double product = gemm_fma_seconds(q.device, product_size(q), c);
    return 1e3 * (product + product_bytes(q) / memory_bytes_per_s(q.device) + 4e-6);
  }
  static GemmFmaConfig preset(const Query& q) {
    return gemm_fma_preset(q, product_size(q), table(), milliseconds);
  }
  static std::int32_t shared_bytes(const Query&, const State& s) {
    return s.config.shared_bytes(s.traits.span);
  }
  static std::vector<KernelSource> sources(const Query& q, const State& s) {
    return {{q.user<ProductOp>().include,
             gemm_entry("dlblas::gemm_fma", s.traits,
                        table().literal(table().to_config(s.config), "dlblas::GemmFmaConfig"),
                        product_text(q, "ProductEpilogue")),
             s.shared_bytes}};
  }
  static ProductGpuParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const ProductGpuParams p = product_params(*static_cast<const ProductOp*>(s.user), args);
    how.grid.x = static_cast<unsigned>(ceil_div(p.gemm.m, s.config.block_m) *
                                       ceil_div(p.gemm.n, s.config.block_n));
    how.block.x = static_cast<unsigned>(s.config.threads());
    return p;
  }
};

}  // namespace

void append_product_fma(std::vector<Implementation>& to, const ProductOp& op) {
  if (op.parts == 1 && !op.pairs) to.push_back(make_cuda<Fma>("cuda_fma", op.hash, &op));
}

}  // namespace dlblas::kernels
