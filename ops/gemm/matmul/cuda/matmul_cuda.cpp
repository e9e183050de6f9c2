// Traits and parameters of the GPU forms of matmul; see matmul_cuda.hpp.
#include "ops/gemm/matmul/cuda/matmul_cuda.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "kernels/gemm_wgmma.hpp"

namespace dlblas::gemm {
namespace {

constexpr int kOperands = 4;

bool is_aligned(const TensorTraits& t) {
  return t.dtype == DType::kAbsent || (1 << t.align_log2) >= size_of(t.dtype);
}

/// True if 16-byte stores can write rows of the result. A result that is not allocated yet has no
/// pitch; its pitch will be N.
bool has_vector_rows(const Problem& p) {
  const TensorTraits& out = p.tensors[kOut];
  if (out.align_log2 < kAlignCap) return false;
  if (out.layout == Layout::kRowStrided) return true;
  return out.layout == Layout::kContiguous && p.dims[kN] * size_of(out.dtype) % 16 == 0;
}

}  // namespace

MatmulTraits matmul_traits(const Problem& p, std::int32_t rows, std::int32_t span) {
  MatmulTraits s{};
  GemmTraits& g = s.gemm;
  g.type = p.tensors[kA].dtype;
  g.a_by_depth = p.tensors[kA].layout != Layout::kTransposed;
  g.b_by_depth = p.tensors[kB].layout == Layout::kTransposed;
  // A Problem holds M's bucket: rows along M of a call's a may end anywhere in it.
  g.a_whole = g.a_by_depth && p.dims[kK] % 8 == 0;
  g.b_whole = p.dims[g.b_by_depth ? kK : kN] % 8 == 0;
  g.aligned = std::all_of(p.tensors, p.tensors + kOperands, is_aligned);
  g.rows = rows;
  g.span = span;
  MatmulEpilogueTraits& e = s.epilogue;
  e.out = p.tensors[kOut].dtype;
  e.out_vector = has_vector_rows(p);
  e.aligned = g.aligned;
  e.has_bias = p.tensors[kBias].dtype != DType::kAbsent;
  e.bias = e.has_bias ? p.tensors[kBias].dtype : DType::kF32;
  e.activation = static_cast<Activation>(p.scalars[kActivation]);
  return s;
}

// Where much of the device is idle, cuBLAS splits K: spans of 1,024 terms are as exact. Elsewhere
// cuBLAS keeps one chain as well; no chain here grows beyond 16,384 terms. Under kDeterministic the
// number of rows decides nothing: chains are those of many rows (WGMMA, 4096³: 178 µs; in spans of
// 1,024 terms 457).
std::int32_t tensor_core_span(const Problem& p, std::int64_t chain, bool is_cheap) {
  constexpr std::int32_t kShort = 1024, kLong = 2048;
  constexpr std::int64_t kLongestChain = 16384;
  const bool same_bits = p.flags & kDeterministic;
  if (is_cheap && !same_bits) return chain > kShort ? kShort : 0;
  return chain > kLongestChain ? kLong : 0;
}

MatmulGpuParams matmul_gpu_params(const Args& args) {
  const MatmulParams c = matmul_params(args);
  MatmulGpuParams params{};
  params.epilogue = {{c.out.data, c.out.row, c.out.col}, c.bias.data, c.bias.col};
  GemmCall& p = params.gemm;
  p.a = c.a.data, p.b[0] = c.b.data;
  p.a_row = c.a.row, p.a_col = c.a.col;
  p.b_row = c.b.row, p.b_col = c.b.col;
  p.m = c.m, p.n = c.n, p.k = c.k;
  // The stride of a dimension of size 1 leads nowhere, but a 0-byte copy needs an aligned address.
  if (p.m == 1) p.a_row = 0;
  if (p.k == 1) p.a_col = p.b_row = 0;
  if (p.n == 1) p.b_col = 0;
  return params;
}

Operands operands_of(const MatmulGpuParams& params, const GemmTraits& s) {
  const GemmCall& p = params.gemm;
  const GemmOut& out = params.epilogue.out;
  const auto columns = [](const void* data, std::int64_t rows, std::int64_t cols,
                          std::int64_t pitch) {
    return Columns{data, rows, cols, cols <= 1 ? rows : pitch};
  };
  return {s.b_by_depth ? columns(p.b[0], p.k, p.n, p.b_col) : columns(p.b[0], p.n, p.k, p.b_row),
          s.a_by_depth ? columns(p.a, p.k, p.m, p.a_row) : columns(p.a, p.m, p.k, p.a_col),
          columns(out.data, p.n, p.m, out.row)};
}

Columns stand_in(const Columns& c, DType type, const Context& context, std::int64_t unit) {
  return c.fits() ? c : packed(c, type, context, unit);
}

Columns packed(const Columns& c, DType type, const Context& context, std::int64_t unit) {
  const std::int64_t pitch = round_up(c.rows, unit);
  const auto bytes = static_cast<std::size_t>(pitch * c.cols * size_of(type));
  return {context.alloc(context.self, bytes, 64), c.rows, c.cols, pitch};
}

void copy_columns(const Columns& from, const Columns& to, DType type, void* stream) {
  const std::int64_t size = size_of(type);
  for (std::int64_t j = 0; j < from.cols; ++j) {
    cuda::copy_on_device(static_cast<char*>(const_cast<void*>(to.data)) + j * to.pitch * size,
                         static_cast<const char*>(from.data) + j * from.pitch * size,
                         static_cast<std::size_t>(from.rows * size), stream);
  }
}

const TraitsTable<MatmulEpilogueTraits>& epilogue_table() {
  using T = MatmulEpilogueTraits;
  static const auto* table =
      new TraitsTable<T>{"dlblas::gemm::MatmulEpilogueTraits",
                         {member<&T::out>("out"), member<&T::out_vector>("out_vector"),
                          member<&T::aligned>("aligned"), member<&T::has_bias>("has_bias"),
                          member<&T::bias>("bias"), member<&T::activation>("activation")}};
  return *table;
}

KernelSource matmul_source(std::string_view include, std::string_view kernel,
                           const MatmulTraits& traits, std::string_view config,
                           std::int32_t shared_bytes) {
  return {std::string(include),
          kernels::gemm_entry(kernel, traits.gemm, config,
                              text("dlblas::gemm::MatmulEpilogue<",
                                   epilogue_table().literal(traits.epilogue), ">")),
          shared_bytes};
}

Support supports_sizes(const Problem& p) {
  // Bytes along K are counted in 31 bits.
  constexpr std::int64_t kMax = (std::int64_t{1} << 30) - 1;
  for (const int letter : {kM, kN, kK}) {
    if (p.dims[letter] > kMax) {
      return Support::no("a dimension is {}: at most {}", p.dims[letter], kMax);
    }
  }
  return supports_grid(p);
}

Support supports_grid(const Problem& p) {
  // Blocks of at least 16 × 32 are counted in 31 bits.
  const std::int64_t blocks = ceil_div(p.dims[kM], 16) * ceil_div(p.dims[kN], 32);
  if (blocks >= std::int64_t{1} << 31) {
    return Support::no("the result has {} tiles: more than a grid has blocks", blocks);
  }
  return Support::yes();
}

Support supports_tensor_cores(const Problem& p) {
  if (p.tensors[kA].dtype == DType::kF32) {
    return Support::no("f32 stays IEEE here: tensor cores would round it to TF32");
  }
  for (const int i : {kA, kB}) {
    const TensorTraits& t = p.tensors[i];
    if (is_broadcast(t.layout) || t.layout == Layout::kOther) {
      return Support::no("{} is contiguous in neither dimension", tensor(i));
    }
    if (t.align_log2 < kAlignCap) {
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(i),
                         std::int64_t{1} << t.align_log2);
    }
  }
  if (const Support aligned = supports_alignment(p); !aligned) return aligned;
  return supports_sizes(p);
}

Support supports_alignment(const Problem& p) {
  for (int i = 0; i < kOperands; ++i) {
    if (!is_aligned(p.tensors[i])) {
      return Support::no("{} is not aligned to its elements", tensor(i));
    }
  }
  return Support::yes();
}

bool tensor_cores_take_any_batch(const Problem& p) {
  return p.tensors[kA].layout != Layout::kTransposed && p.dims[kK] % 8 == 0 &&
         supports_tensor_cores(p);
}

double matmul_bytes(const Problem& p) {
  const auto m = static_cast<double>(p.dims[kM]), n = static_cast<double>(p.dims[kN]),
             k = static_cast<double>(p.dims[kK]);
  return (m * k + k * n) * size_of(p.tensors[kA].dtype) + m * n * size_of(p.tensors[kOut].dtype);
}

}  // namespace dlblas::gemm
