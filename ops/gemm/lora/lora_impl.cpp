// lora_shrink and lora_expand: the host side of the CUDA kernel, and of the CPU's levels.
// In: a Problem, later the Args of a call. Out: a Kernel of one step.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: lora.cuh, lora_simd.hpp.
#include <algorithm>

#include "core/element.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "kernels/cuda_form.hpp"
#include "ops/gemm/lora/lora.hpp"
#include "ops/gemm/lora/lora_config.hpp"
#include "ops/gemm/lora/lora_cpu_config.hpp"
#include "ops/gemm/lora/lora_ref.hpp"

namespace dlblas::gemm {
namespace {

double products(const Problem& p) {
  return static_cast<double>(p.dims[kLoraT]) * static_cast<double>(p.dims[kLoraN]) *
         static_cast<double>(p.dims[kLoraK]);
}
/// Tokens of one adapter share its weights: each adapter counts at most once.
double bytes_of(const Problem& p) {
  const auto t = static_cast<double>(p.dims[kLoraT]), n = static_cast<double>(p.dims[kLoraN]),
             k = static_cast<double>(p.dims[kLoraK]);
  const double adapters = std::min(t, static_cast<double>(p.dims[kLoraL]));
  return t * k * size_of(p.tensors[kLoraX].dtype) + 2 * t * n * size_of(p.tensors[kLoraY].dtype) +
         adapters * n * k * size_of(p.tensors[kLoraWeight].dtype);
}

LoraParams params_of(const Args& args) {
  const TensorView &x = args.tensors[kLoraX], &weight = args.tensors[kLoraWeight];
  const TensorView &adapter = args.tensors[kLoraAdapter], &y = args.tensors[kLoraY];
  LoraParams p{};
  p.x = x.data, p.weight = weight.data, p.adapter = adapter.data, p.y = y.data;
  p.x_row = x.strides[0], p.x_col = x.strides[1];
  p.weight_adapter = weight.strides[0], p.weight_row = weight.strides[1];
  p.weight_col = weight.strides[2];
  p.adapter_stride = adapter.strides[0];
  p.y_row = y.strides[0], p.y_col = y.strides[1];
  p.width = args.letters[kLoraN], p.depth = args.letters[kLoraK];
  p.adapters = static_cast<std::int32_t>(args.letters[kLoraL]);
  p.scale = static_cast<float>(args.scalars[0].f);
  return p;
}

// ---- CPUs ----

struct CpuState {
  LoraRow row;
  std::int64_t threads;
};

/// Floats of a task.
std::int64_t scratch_of(std::int64_t depth) { return 2 * depth + kLoraSlack; }

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<CpuState>();
  const LoraParams p = params_of(args);
  const auto matrix = [&](int tensor, std::int64_t at, std::int64_t row, std::int64_t col) {
    const TensorView& t = args.tensors[tensor];
    return GemmMatrix{static_cast<char*>(t.data) + at * size_of(t.dtype), row, col, t.dtype};
  };
  const TensorView& adapters = args.tensors[kLoraAdapter];
  const std::int64_t tokens = args.letters[kLoraT];
  const std::int64_t slots = std::min(s.threads, std::max<std::int64_t>(1, tokens));
  context.run(0, slots, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      for (std::int64_t t = slot; t < tokens; t += slots) {
        const double adapter = load_element(adapters, t * p.adapter_stride);
        if (!(adapter >= 0 && adapter < p.adapters)) continue;
        const std::int64_t of_adapter = static_cast<std::int64_t>(adapter) * p.weight_adapter;
        const LoraToken token = {matrix(kLoraX, t * p.x_row, 0, p.x_col),
                                 matrix(kLoraWeight, of_adapter, p.weight_row, p.weight_col),
                                 matrix(kLoraY, t * p.y_row, 0, p.y_col),
                                 p.width,
                                 p.depth,
                                 p.scale};
        s.row(token, static_cast<float*>(workspace) + slot * scratch_of(p.depth));
      }
    }
  });
  return 0;
}

std::vector<Implementation> cpu() {
  Implementation impl;
  impl.flags = {.deterministic = true};
  impl.estimate = [](const Query& q, const Config&) {
    const double units = std::max<double>(1, q.problem.threads);
    return 1e3 * launch_s(q.device) + kernels::rates_of(q).roofline_ms(units, bytes_of(q.problem),
                                                                       4 * products(q.problem),
                                                                       DType::kF32);
  };
  impl.prepare = [](const Query& q, const Config&) {
    const std::int64_t threads = std::max<std::int64_t>(1, q.problem.threads);
    const std::int64_t floats = threads * scratch_of(q.problem.dims[kLoraK]);
    return make_kernel({run}, CpuState{kernels::code_of<LoraRow>(q), threads},
                       static_cast<std::size_t>(floats) * sizeof(float));
  };
  return kernels::per_level(impl, "cpu_", {
#if defined(DLBLAS_X86)
    {Isa::kAvx512, source_hash<"ops/gemm/lora/lora_avx512.cpp">(), &avx512::kLoraRow},
        {Isa::kAvx2, source_hash<"ops/gemm/lora/lora_avx2.cpp">(), &avx2::kLoraRow},
#endif
        {Isa::kBaseline, source_hash<"ops/gemm/lora/lora_baseline.cpp">(), &baseline::kLoraRow},
  });
}

// ---- NVIDIA GPUs ----

struct NoKnobs {};

struct Form : kernels::CudaForm<LoraTraits, NoKnobs> {
  static constexpr bool kSearched = false;

  static bool is_aligned(const TensorTraits& t, int bytes) { return (1 << t.align_log2) >= bytes; }
  static bool has_rows(const TensorTraits& t) {
    return t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided ||
           t.layout == Layout::kRowsOuter || t.layout == Layout::kRowsBroadcast;
  }
  static Support supports(const Query& q) {
    constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
    for (const int letter : {kLoraT, kLoraL})
      if (q.problem.dims[letter] > kMax)
        return Support::no("a dimension is {}: at most {}", q.problem.dims[letter], kMax);
    return Support::yes();
  }
  static const TraitsTable<Traits>& table_of_traits() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::gemm::LoraTraits",
        {member<&Traits::x>("x"), member<&Traits::weight>("weight"), member<&Traits::y>("y"),
         member<&Traits::adapter>("adapter"), member<&Traits::access>("access"),
         member<&Traits::lanes>("lanes"), member<&Traits::aligned>("aligned"),
         member<&Traits::aligned_adapter>("aligned_adapter")}};
    return *members;
  }
  static Traits traits(const Query& q, const Config&) {
    const TensorTraits* const t = q.problem.tensors;
    const TensorTraits &x = t[kLoraX], &weight = t[kLoraWeight], &y = t[kLoraY];
    Traits s{x.dtype, weight.dtype, y.dtype, t[kLoraAdapter].dtype, 1, 1, false, false};
    s.aligned = is_aligned(x, size_of(x.dtype)) && is_aligned(weight, size_of(weight.dtype)) &&
                is_aligned(y, size_of(y.dtype));
    s.aligned_adapter = is_aligned(t[kLoraAdapter], 4);
    const std::int64_t depth = q.problem.dims[kLoraK];
    const bool wide =
        has_rows(x) && has_rows(weight) && is_aligned(x, 16) && is_aligned(weight, 16);
    if (s.aligned && wide && depth % 8 == 0) s.access = 8;
    while (s.lanes < 32 && s.lanes * s.access < depth) s.lanes *= 2;
    return s;
  }
  static double milliseconds(const Query& q, const Config&) {
    constexpr double kReached = 0.5;  // of memory's rate; not measured yet
    return 1e3 *
           (launch_s(q.device) + bytes_of(q.problem) / (kReached * memory_bytes_per_s(q.device)));
  }
  static std::vector<KernelSource> sources(const Query&, const State& s) {
    return {{"ops/gemm/lora/lora.cuh",
             "dlblas::gemm::lora<" + table_of_traits().literal(s.traits) + ">"}};
  }
  static LoraParams launch(const State& s, const Args& args, void*, cuda::Launch& how) {
    const LoraParams p = params_of(args);
    const std::int64_t outputs = kLoraThreads / s.traits.lanes;
    how.grid.x = static_cast<unsigned>(args.letters[kLoraT]);
    how.grid.y =
        static_cast<unsigned>(std::clamp<std::int64_t>((p.width + outputs - 1) / outputs, 1, 1024));
    how.block.x = kLoraThreads;
    return p;
  }
};

}  // namespace

/// Allows for products that vanish below f32's normal range, and for the store's rounding.
Bound lora_bound(const Problem& p, int) {
  const FloatTraits out = float_traits(p.tensors[kLoraY].dtype);
  const double count = static_cast<double>(p.dims[kLoraK]) + 4;
  return {.magnitude = kRounding,
          .value = out.eps / 2 * (1 + kRounding),
          .absolute = out.tiny + count * float_traits(DType::kF32).tiny};
}

double lora_work_per_row(const Problem& p) {
  return static_cast<double>(p.dims[kLoraN]) * static_cast<double>(p.dims[kLoraK]);
}

std::vector<Implementation> lora_implementations() {
  std::vector<Implementation> all = cpu();
  all.push_back(
      kernels::make_cuda<Form>("cuda_lanes", source_hash<"ops/gemm/lora/lora_impl.cpp">()));
  return all;
}

}  // namespace dlblas::gemm
