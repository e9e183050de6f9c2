// A unit's code for bf16 products with one epilogue: blocks and few rows.
// In: an epilogue. Out: the table that host code calls. Compiled with AVX512_BF16.
// Read next: cpu/gemm/pairs.hpp, cpu/gemm/tile_rows.hpp, cpu/gemm/pair_rows.hpp,
// ops/gemm/matmul/cpu/matmul_amx.cpp.
#pragma once

#include "cpu/gemm/pairs.hpp"
#if defined(__AMX_BF16__)
#include "cpu/gemm/tile_rows.hpp"
#else
#include "cpu/gemm/pair_rows.hpp"
#endif

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

template <typename Epilogue>
constexpr GemmCode pair_code() {
  GemmCode code = code_of_core<PairCore<Bf16Terms>, Epilogue>();
#if defined(__AMX_BF16__)
  code.row = row_of_tiles<Epilogue>, code.pack_rows = pack_tile_rows;
#else
  code.row = row_of_pairs<Epilogue>, code.pack_rows = pack_pair_rows;
#endif
  return code;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
