// Our prototypes of cuBLASLt against the real header, if the machine has one: sizes, offsets,
// enumerators, and every function's arguments, one by one. Without the header there is nothing to
// compare with, and the test says so.  Read next: src/cuda/cublaslt.hpp.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "cuda/cublaslt.hpp"
#include "cuda/cuda.hpp"

#if defined(DLBLAS_CUBLASLT_HEADER)
#include DLBLAS_CUBLASLT_HEADER

namespace dlblas::test {
namespace {

using cuda::CublasLt;

static_assert(sizeof(CublasLt::Handle) == sizeof(cublasLtHandle_t));
static_assert(sizeof(CublasLt::Layout) == sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(CublasLt::Preference) == sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(CublasLt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
// Some versions of 12 have a smaller one; the library refuses memory that is too small.
static_assert(sizeof(CublasLt::Description) >= sizeof(cublasLtMatmulDescOpaque_t));

using RealChoice = cublasLtMatmulHeuristicResult_t;
static_assert(sizeof(CublasLt::Choice) == sizeof(RealChoice));
static_assert(offsetof(CublasLt::Choice, algorithm) == offsetof(RealChoice, algo));
static_assert(offsetof(CublasLt::Choice, workspace_bytes) == offsetof(RealChoice, workspaceSize));
static_assert(offsetof(CublasLt::Choice, status) == offsetof(RealChoice, state));
static_assert(offsetof(CublasLt::Choice, waves) == offsetof(RealChoice, wavesCount));

static_assert(int{CublasLt::kF32} == int{CUDA_R_32F});
static_assert(int{CublasLt::kF16} == int{CUDA_R_16F});
static_assert(int{CublasLt::kBF16} == int{CUDA_R_16BF});
static_assert(int{CublasLt::kCompute32F} == int{CUBLAS_COMPUTE_32F});
static_assert(int{CublasLt::kTransA} == int{CUBLASLT_MATMUL_DESC_TRANSA});
static_assert(int{CublasLt::kTransB} == int{CUBLASLT_MATMUL_DESC_TRANSB});
static_assert(int{CublasLt::kEpilogue} == int{CUBLASLT_MATMUL_DESC_EPILOGUE});
static_assert(int{CublasLt::kBiasPointer} == int{CUBLASLT_MATMUL_DESC_BIAS_POINTER});
static_assert(int{CublasLt::kF8E4M3} == int{CUDA_R_8F_E4M3});
static_assert(int{CublasLt::kAScalePointer} == int{CUBLASLT_MATMUL_DESC_A_SCALE_POINTER});
static_assert(int{CublasLt::kBScalePointer} == int{CUBLASLT_MATMUL_DESC_B_SCALE_POINTER});
#if CUBLAS_VERSION >= 120900
static_assert(int{CublasLt::kAScaleMode} == int{CUBLASLT_MATMUL_DESC_A_SCALE_MODE});
static_assert(int{CublasLt::kBScaleMode} == int{CUBLASLT_MATMUL_DESC_B_SCALE_MODE});
static_assert(int{CublasLt::kScaleOfAll} == int{CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F});
static_assert(int{CublasLt::kScaleOfEach} == int{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
static_assert(int{CublasLt::kScaleOfGroup} == int{CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F});
static_assert(int{CublasLt::kScaleOfBlock} == int{CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F});
#endif
static_assert(int{CublasLt::kBatchCount} == int{CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT});
static_assert(int{CublasLt::kApart} == int{CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET});
static_assert(int{CublasLt::kBiasType} == int{CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE});
static_assert(int{CublasLt::kPlain} == int{CUBLAS_OP_N});
static_assert(int{CublasLt::kTransposed} == int{CUBLAS_OP_T});
static_assert(int{CublasLt::kDefault} == int{CUBLASLT_EPILOGUE_DEFAULT});
static_assert(int{CublasLt::kBias} == int{CUBLASLT_EPILOGUE_BIAS});
static_assert(int{CublasLt::kMaxWorkspace} == int{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES});
static_assert(int{CublasLt::kReductionSchemes} == int{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK});
static_assert(int{CublasLt::kMinAlignmentA} == int{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES});
static_assert(int{CublasLt::kMinAlignmentB} == int{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES});
static_assert(int{CublasLt::kMinAlignmentC} == int{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES});
static_assert(int{CublasLt::kMinAlignmentD} == int{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES});
static_assert(int{CublasLt::kNotSupported} == int{CUBLAS_STATUS_NOT_SUPPORTED});
static_assert(int{CublasLt::kReduceInPlace} == int{CUBLASLT_REDUCTION_SCHEME_INPLACE});
static_assert(int{CublasLt::kReduceInComputeType} == int{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});

/// True if both are passed the same way: both pointers, or both integers of one size (an
/// enumeration is an int here).
template <typename Ours, typename Real>
constexpr bool passed_alike() {
  constexpr bool kIntegers = (std::is_integral_v<Ours> || std::is_enum_v<Ours>)&&(
      std::is_integral_v<Real> || std::is_enum_v<Real>);
  return (kIntegers || (std::is_pointer_v<Ours> && std::is_pointer_v<Real>)) &&
         sizeof(Ours) == sizeof(Real);
}
template <typename Ours, typename Real>
struct SameCall : std::false_type {};
template <typename R1, typename... A1, typename R2, typename... A2>
struct SameCall<R1 (*)(A1...), R2 (*)(A2...)> {
  static constexpr bool all() {
    if constexpr (sizeof...(A1) != sizeof...(A2))
      return false;
    else
      return passed_alike<R1, R2>() && (true && ... && passed_alike<A1, A2>());
  }
  static constexpr bool value = all();
};
template <auto Ours, auto* Real>
constexpr bool same_call() {
  return SameCall<std::remove_reference_t<decltype(CublasLt{}.*Ours)>, decltype(Real)>::value;
}

TEST(CublasLtPrototypes, TakeTheRealArguments) {
  EXPECT_TRUE((same_call<&CublasLt::version, &cublasLtGetVersion>()));
  EXPECT_TRUE((same_call<&CublasLt::create, &cublasLtCreate>()));
  EXPECT_TRUE((same_call<&CublasLt::layout_init, &cublasLtMatrixLayoutInit_internal>()));
  EXPECT_TRUE((same_call<&CublasLt::layout_set, &cublasLtMatrixLayoutSetAttribute>()));
  EXPECT_TRUE((same_call<&CublasLt::description_init, &cublasLtMatmulDescInit_internal>()));
  EXPECT_TRUE((same_call<&CublasLt::description_set, &cublasLtMatmulDescSetAttribute>()));
  EXPECT_TRUE((same_call<&CublasLt::preference_init, &cublasLtMatmulPreferenceInit_internal>()));
  EXPECT_TRUE((same_call<&CublasLt::preference_set, &cublasLtMatmulPreferenceSetAttribute>()));
  EXPECT_TRUE((same_call<&CublasLt::choose, &cublasLtMatmulAlgoGetHeuristic>()));
  EXPECT_TRUE((same_call<&CublasLt::check, &cublasLtMatmulAlgoCheck>()));
  EXPECT_TRUE((same_call<&CublasLt::multiply, &cublasLtMatmul>()));
}

}  // namespace
}  // namespace dlblas::test

#else

TEST(CublasLtPrototypes, TakeTheRealArguments) { GTEST_SKIP() << "no cublasLt.h on this machine"; }

#endif

namespace dlblas::test {
namespace {

TEST(CublasLt, AStatusIsNotTakenForTheDriversCode) {
  EXPECT_EQ(cuda::error_text(cuda::kCublasStatus + 7), "cuBLASLt status 7 (invalid value)");
  EXPECT_EQ(cuda::error_text(cuda::kCublasStatus + cuda::CublasLt::kNotSupported),
            "cuBLASLt status 15 (not supported)");
  EXPECT_EQ(cuda::error_text(cuda::kCublasStatus + 99), "cuBLASLt status 99 (unknown)");
  EXPECT_EQ(cuda::error_text(7).find("cuBLASLt"), std::string::npos);
}

// Needs no GPU: either the library found is one that is supported, or the reason says what to do.
TEST(CublasLt, IsUnderstoodOrSaysWhyNot) {
  const cuda::CublasLt& lt = cuda::cublaslt();
  if (!lt.support) {
    EXPECT_NE(lt.support.text().find("cuBLASLt"), std::string::npos) << lt.support.text();
    return;
  }
  const std::string version = cuda::cublaslt_version();
  EXPECT_EQ(std::to_string(lt.version() / 10000), version.substr(0, version.find('.')));
  cuda::CublasLt::Layout layout;
  EXPECT_EQ(lt.layout_init(&layout, sizeof layout, cuda::CublasLt::kBF16, 64, 32, 64), 0);
  const std::int64_t apart = 64 * 32;
  EXPECT_EQ(lt.layout_set(&layout, cuda::CublasLt::kApart, &apart, sizeof apart), 0);
  cuda::CublasLt::Description description;
  EXPECT_EQ(lt.description_init(&description, sizeof description, cuda::CublasLt::kCompute32F,
                                cuda::CublasLt::kF32),
            0);
  const std::int32_t transposed = cuda::CublasLt::kTransposed;
  EXPECT_EQ(
      lt.description_set(&description, cuda::CublasLt::kTransA, &transposed, sizeof transposed), 0);
  EXPECT_NE(lt.description_set(&description, cuda::CublasLt::kTransA, &transposed, 1), 0)
      << "a value of the wrong size is refused";
  cuda::CublasLt::Preference preference;
  EXPECT_EQ(lt.preference_init(&preference, sizeof preference), 0);
}

}  // namespace
}  // namespace dlblas::test
