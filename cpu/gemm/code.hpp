// A level's code for matrix products with one epilogue: what the instruction sets' files define.
// In: an epilogue. Out: the table that host code calls. The loops are in other objects, those of
// cpu/gemm/, which all operators share; an object for a unit (flags) takes the unit's loops.
// Read next: cpu/gemm/epilogue.hpp, cpu/gemm/loops.hpp, ops/gemm/matmul/cpu/matmul_avx512.cpp.
#pragma once

#include "cpu/gemm/epilogue.hpp"
#include "cpu/gemm/loops.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Operands of any type, or for a unit bf16; blocks and few rows.
template <typename Epilogue>
constexpr GemmCode gemm_code() {
#if defined(__AMX_BF16__)
  return {&kAmxBlocks, &kAmxRows, epilogue_code<Epilogue>()};
#elif defined(__AVX512BF16__)
  return {&kBf16Blocks, &kBf16Rows, epilogue_code<Epilogue>()};
#else
  return {&kBlocks, &kRows, epilogue_code<Epilogue>()};
#endif
}

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
