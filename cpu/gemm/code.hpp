// A level's code for matrix products with one epilogue: what the instruction sets' files define.
// In: an epilogue. Out: the table that host code calls.
// Read next: cpu/gemm/epilogue.hpp, ops/gemm/matmul/cpu/matmul_avx512.cpp.
#pragma once

#include "cpu/gemm/few_rows.hpp"
#include "cpu/gemm/mainloop.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Operands of any type; blocks and few rows.
template <typename Epilogue>
constexpr GemmCode gemm_code() {
  GemmCode code = code_of_core<FloatCore, Epilogue>();
  code.row = row<Epilogue>, code.pack_rows = pack_rows;
  return code;
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
