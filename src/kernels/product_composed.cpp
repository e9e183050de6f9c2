// Product programs composed of a product operator, which selects an implementation for each product
// and returns f32, and a pass of the program over the sums: used where a single pass is slower, and
// for whatever the other forms do not take. Rows are processed in pieces, so that the sums never
// take more than kMaxBytes. In: a Problem, later the Args of a call. Out: a Kernel of one step with
// one part per weight; the sums are in the workspace. Flow: call > validate > [select] > [compile]
// > [launch].  Read next: core/nested.hpp, device/gemm/product.cuh, cpu/gemm/product_simd.hpp.
#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/integers.hpp"
#include "core/nested.hpp"
#include "core/rates.hpp"
#include "kernels/cuda_form.hpp"
#include "kernels/product.hpp"

namespace dlblas::kernels {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;  // of a piece's sums

/// Bytes of a product's sums, rounded up to the alignment that libraries require of a workspace
/// behind them.
std::int64_t sum_bytes(std::int64_t rows, std::int64_t columns) {
  return round_up(rows * columns * std::int64_t{sizeof(float)}, 256);
}
/// Rows per piece in a call of at most `rows` rows.
std::int64_t piece_of(const ProductOp& op, std::int64_t rows, std::int64_t columns) {
  const std::int64_t row = std::max<std::int64_t>(1, columns) * op.parts * 4;
  return std::min(rows, std::max<std::int64_t>(1, kMaxBytes / row));
}

/// A weight [N, K] as the b [K, N] of a product.
TensorTraits exchanged(TensorTraits t) {
  if (t.layout == Layout::kTransposed)
    t.layout = Layout::kContiguous;
  else if (t.layout == Layout::kContiguous || t.layout == Layout::kRowStrided)
    t.layout = Layout::kTransposed;
  return t;
}
TensorView exchanged(TensorView t) {
  std::swap(t.shape[0], t.shape[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

std::vector<Part> parts(const Query& q, const Config&) {
  const ProductOp& op = q.user<ProductOp>();
  const Problem& p = q.problem;
  const auto [m, n, k] = product_size(q);
  const std::int64_t rows = piece_of(op, m, n);
  std::vector<Part> products;
  for (int part = 0; part < op.parts; ++part)
    products.push_back({op.product,
                        {{p.tensors[op.x], {rows, k}},
                         {exchanged(p.tensors[op.weights[part]]), {k, n}},
                         {"out_dtype", "f32"}},
                        {{DType::kF32, {rows, n}}}});
  return products;
}

std::size_t workspace_of(const Query& q) {
  const ProductOp& op = q.user<ProductOp>();
  const auto [m, n, k] = product_size(q);
  return static_cast<std::size_t>(op.parts * sum_bytes(piece_of(op, m, n), n));
}

/// For each piece of x's rows, runs `finish(first, count, sums)` after the products.
template <typename Finish>
int multiply(const ProductOp& op, const Args& args, const Context& context, const Kernel& kernel,
             void* workspace, const Finish& finish) {
  const TensorView x = flat_rows(args.tensors[op.x]);
  const std::int64_t rows = args.letters[op.rows], columns = op.width(args.letters);
  const std::int64_t piece = piece_of(op, rows, columns);
  for (std::int64_t first = 0; first < rows; first += piece) {
    const std::int64_t count = std::min(piece, rows - first);
    TensorView some = x;
    some.shape[0] = count;
    some.data = static_cast<char*>(x.data) + first * x.strides[0] * size_of(x.dtype);
    const float* sums[2] = {};
    for (int part = 0; part < op.parts; ++part) {
      TensorView out = some;
      out.dtype = DType::kF32;
      out.shape[1] = columns;
      out.strides[0] = columns, out.strides[1] = 1;
      out.data = static_cast<char*>(workspace) + part * sum_bytes(piece, columns);
      sums[part] = static_cast<const float*>(out.data);
      const TensorView weight = exchanged(args.tensors[op.weights[part]]);
      kernel.part(part)({some, weight, {"out_dtype", "f32"}}, {out}, context, workspace);
    }
    if (const int code = finish(first, count, sums)) return code;
  }
  return 0;
}

/// The matrix from row `first` on.
template <typename Matrix>
Matrix from_row(Matrix m, std::int64_t first, DType type) {
  m.data = static_cast<char*>(m.data) + first * m.row * size_of(type);
  return m;
}

// ---- CPU ----

struct CpuState {
  ProductCpuTraits traits;
  const ProductCode* code;
};

int run_cpu(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& s = kernel.load<CpuState>();
  const ProductOp& op = *s.traits.op;
  const ProductCpuParams whole = product_cpu_params(s.traits, args);
  const std::int64_t columns = op.width(args.letters);
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, columns));
  return multiply(op, args, context, kernel, workspace,
                  [&](std::int64_t first, std::int64_t count, const float* const(&sums)[2]) {
                    ProductCpuFinish f = {whole, {sums[0], sums[1]}, columns};
                    f.epilogue.numbers[kFirstRow] = first;
                    f.epilogue.out = from_row(whole.out, first, whole.out.type);
                    for (std::size_t i = 0; i < op.operands.size(); ++i) {
                      GemmMatrix& o = f.epilogue.operands[i];
                      if (o.data && op.operands[i].per != Per::kPair)
                        o = from_row(o, first, o.type);
                    }
                    context.run(0, count, grain, [&](std::int64_t begin, std::int64_t end) {
                      s.code->finish(f, begin, end);
                    });
                    return 0;
                  });
}
Kernel prepare_cpu(const Query& q, const Config&) {
  const ProductOp& op = q.user<ProductOp>();
  CpuState s = {product_cpu_traits(op, q.problem), nullptr};
  for (const ProductCpuLevel& level : op.levels)
    if (level.code && level.isa <= q.device.isa && !s.code) s.code = level.code;
  return make_kernel({run_cpu}, s, workspace_of(q));
}
/// The products at the rate of f32, or of the unit for bf16; or the weights from memory; then one
/// more pass over the sums.
double estimate_cpu(const Query& q, const Config&) {
  const GemmSize s = product_size(q);
  const double threads = std::max<int>(1, q.problem.threads);
  const Rates rates = unit_rates(q.device);
  const double elements =
      q.user<ProductOp>().parts * static_cast<double>(s.m) * static_cast<double>(s.n);
  const bool pairs = multiplies_pairs(q.device, q.problem.tensors[q.user<ProductOp>().x].dtype);
  const double speed = pairs ? speed_of(Multiplier::kPairs) : 1;
  const double products =
      std::max(2 * elements * static_cast<double>(s.k) / (speed * rates.f32_flops),
               1.3 * product_weight_bytes(q) / rates.memory_bytes_per_s);
  return 1e3 * (products + 8 * elements / rates.cache_bytes_per_s) / threads + 0.02;
}

// ---- GPU ----

struct None {};

struct Finish : CudaForm<None, None> {
  static constexpr bool kDependent = true;
  static constexpr bool kSearched = false;
  static constexpr bool kIsDeterministic = false;  // other bits than one pass

  static None traits(const Query&, const Config&) { return {}; }
  static std::size_t workspace_bytes(const Query& q, const State&) { return workspace_of(q); }
  static std::vector<KernelSource> sources(const Query& q, const State&) {
    return {{q.user<ProductOp>().include, product_text(q, "product_finish"), 0}};
  }
  /// As cuBLASLt's estimate, plus writing and reading the f32 sums.
  static double milliseconds(const Query& q, const None&) {
    const ProductOp& op = q.user<ProductOp>();
    const GemmSize s = product_size(q);
    constexpr double kProducts = 0.93, kMemory = 0.8;
    const double memory = kMemory * memory_bytes_per_s(q.device);
    const double elements = op.parts * static_cast<double>(s.m) * static_cast<double>(s.n);
    const double products =
        std::max(2 * elements * static_cast<double>(s.k) /
                     (kProducts * flops(q.device, q.problem.tensors[op.x].dtype)),
                 product_weight_bytes(q) / memory);
    return 1e3 * (products + 8 * elements / memory + (op.parts + 1) * launch_s(q.device) + 3e-6);
  }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
    const State& s = kernel.load<State>();
    const auto& op = *static_cast<const ProductOp*>(s.user);
    const ProductParams whole = product_params(op, args).epilogue;
    const std::int64_t columns = op.width(args.letters);
    return multiply(op, args, context, kernel, workspace,
                    [&](std::int64_t first, std::int64_t count, const float* const(&sums)[2]) {
                      ProductFinishParams p = {whole, {sums[0], sums[1]}, count, columns};
                      p.epilogue.numbers[kFirstRow] = first;
                      p.epilogue.out = from_row(whole.out, first, args.tensors[op.y].dtype);
                      for (std::size_t i = 0; i < op.operands.size(); ++i)
                        if (whole.operands[i].data && op.operands[i].per != Per::kPair)
                          p.epilogue.operands[i] = from_row(
                              whole.operands[i], first, args.tensors[op.operands[i].tensor].dtype);
                      cuda::Launch how;
                      how.grid.x = static_cast<unsigned>(ceil_div(
                          count * ceil_div(columns, kProductFinishColumns), kProductFinishThreads));
                      how.block.x = kProductFinishThreads;
                      how.dependent = s.dependent;
                      return cuda::launch(*kernel.entries[0], how, p, context.stream);
                    });
  }
  static std::vector<StepFn> steps(const State&) { return {run}; }
};

}  // namespace

void append_product_composed(std::vector<Implementation>& to, const ProductOp& op) {
  Implementation cpu;
  cpu.name = "composed";
  cpu.source_hash = op.hash;
  cpu.user = &op;
  cpu.parts = parts;
  cpu.supports = [](const Query&) { return Support::yes(); };
  // With pairs, its products are selected for any batch; where columns are independent, a single
  // pass serves.
  cpu.flags.deterministic = op.pairs != nullptr;
  cpu.estimate = estimate_cpu;
  cpu.prepare = prepare_cpu;
  to.push_back(cpu);
  Implementation gpu = make_cuda<Finish>("cuda_composed", op.hash, &op);
  gpu.parts = parts;
  gpu.flags.deterministic = op.pairs != nullptr;
  gpu.same_bits = [](const Query& q) {
    if (!tensor_cores_take_any_batch(q)) return Support::yes();
    return Support::no("has other bits than cuda_mma, which takes any batch of such rows");
  };
  to.push_back(gpu);
}

}  // namespace dlblas::kernels
