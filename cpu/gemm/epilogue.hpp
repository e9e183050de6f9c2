// What an epilogue of a matrix product on CPUs is, and how it loads and stores.
// In: finished f32 sums of one row's columns. Out: whatever the epilogue stores. The loops
// (cpu/gemm/mainloop.hpp, cpu/gemm/few_rows.hpp) are compiled once for all operators and call it
// through a table: another operator is another epilogue, and no loop is compiled again.
//
//   struct Scaled {                                   out = row_scale[i] · col_scale[j] · sum
//     using Params = …;                               plain values of one call; the host fills them
//     static constexpr int kParts = 1;                2: two products, combined (silu(a·b₀)·(a·b₁))
//     static void store(const Params&, int64_t i, int64_t j, int64_t n,
//                       const float* const (&sums)[kParts]);
//     static const GemmMatrix* plain(const Params&);  optional, see below
//     static void store_tile(const Params&, const GemmBlock& of, GemmTile, const float* sums);
//   };                                                replaces store: for blocks, one part
//
// `store` gets columns [j, j + n) of row i; sums[part][c] belongs to column j + c of a · b[part].
// `plain` returns the f32 result with contiguous rows that may receive whole tiles of sums
// directly; if it is null or missing, `store` is called for every element.
// Compiled once per instruction set, like cpu/simd.hpp. Read next: cpu/gemm/code.hpp,
// ops/gemm/matmul/cpu/matmul_epilogue_simd.hpp (one with an activation).
#pragma once

#include "cpu/gemm/pack.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Stores the first n values of v as elements that are `col` apart.
template <DType E>
DLBLAS_INLINE void store_strided(void* p, int64_t col, Vec v, int n) {
  if (col == 1) return n == kWidth ? store<E>(p, v) : store_partial<E>(p, v, n);
  char lanes[kWidth * kElementBytes<E>];
  store<E>(lanes, v);
  for (int i = 0; i < n; ++i) {
    __builtin_memcpy(at<E>(p, i * col), lanes + i * kElementBytes<E>, kElementBytes<E>);
  }
}

/// The first n elements, `col` apart; zeros above.
template <DType E>
DLBLAS_OUTLINE Vec load_apart(const char* p, int64_t col, int64_t n) {
  float lanes[kWidth] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = load_partial<E>(at<E>(p, i * col), 1)[0];
  return load<DType::kF32>(lanes);
}

/// Elements (i, j) … (i, j + n - 1) of an operand, n at most kWidth; zeros above.
DLBLAS_INLINE Vec load_columns(const GemmMatrix& m, int64_t i, int64_t j, int64_t n) {
  const char* p = address(m, i, j);
  if (m.col == 1) {
    if (m.type == DType::kF32) return load_first<DType::kF32>(p, n);
    if (m.type == DType::kF16) return load_first<DType::kF16>(p, n);
    return load_first<DType::kBF16>(p, n);
  }
  if (m.type == DType::kF32) return load_apart<DType::kF32>(p, m.col, n);
  if (m.type == DType::kF16) return load_apart<DType::kF16>(p, m.col, n);
  return load_apart<DType::kBF16>(p, m.col, n);
}

template <DType E, typename Value>
DLBLAS_INLINE void store_elements(const GemmMatrix& out, int64_t i, int64_t j, int64_t n,
                                  const Value& value) {
  for (int64_t c = 0; c < n; c += kWidth) {
    const int64_t lanes = smaller(kWidth, n - c);
    store_strided<E>(address(out, i, j + c), out.col, value(c, lanes), static_cast<int>(lanes));
  }
}

/// Rounds and stores columns [j, j + n) of row i: value(c, lanes) returns a vector from column j +
/// c on, of which `lanes` values count.
template <typename Value>
DLBLAS_INLINE void store_values(const GemmMatrix& out, int64_t i, int64_t j, int64_t n,
                                const Value& value) {
  if (out.type == DType::kF32) return store_elements<DType::kF32>(out, i, j, n, value);
  if (out.type == DType::kF16) return store_elements<DType::kF16>(out, i, j, n, value);
  store_elements<DType::kBF16>(out, i, j, n, value);
}

template <typename Epilogue>
void store_row(const void* params, int64_t i, int64_t j, int64_t n, const float* const* sums) {
  const float* of[Epilogue::kParts];
  for (int part = 0; part < Epilogue::kParts; ++part) of[part] = sums[part];
  Epilogue::store(*static_cast<const typename Epilogue::Params*>(params), i, j, n, of);
}

/// The table through which the loops call an epilogue.
template <typename Epilogue>
constexpr GemmEpilogue epilogue_code() {
  using Params = typename Epilogue::Params;
  static_assert(Epilogue::kParts <= kMaxParts);
  GemmEpilogue code{Epilogue::kParts, nullptr, nullptr, nullptr};
  if constexpr (requires { &Epilogue::store; }) code.store = store_row<Epilogue>;
  if constexpr (requires { &Epilogue::plain; }) {
    code.plain = [](const void* params) {
      return Epilogue::plain(*static_cast<const Params*>(params));
    };
  }
  if constexpr (requires { &Epilogue::store_tile; }) {
    code.store_tile = [](const void* params, const GemmBlock& of, GemmTile tile,
                         const float* sums) {
      Epilogue::store_tile(*static_cast<const Params*>(params), of, tile, sums);
    };
  }
  return code;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
