// cuBLASLt through dlopen, with prototypes of our own: the calls that one matrix product needs. In:
// the library that core/library.hpp found (torch's, if torch loaded one). Out: a table of
// functions, or why there is none. Neither building nor importing needs cuBLASLt.
// tests/cpp/test_cublaslt_prototypes.cpp compares all of this with the real header where there is
// one. Read next: ops/gemm/matmul/cuda/matmul_cublaslt.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/implementation.hpp"

namespace dlblas::cuda {

/// Statuses are 0 on success. Descriptors live in the caller's memory.
struct CublasLt {
  using Handle = void*;
  struct Layout {
    std::uint64_t opaque[8];
  };
  struct Description {
    std::uint64_t opaque[32];
  };
  struct Preference {
    std::uint64_t opaque[8];
  };
  struct Algorithm {
    std::uint64_t opaque[8];
  };
  struct Choice {
    Algorithm algorithm;
    std::size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
  };
  // The enumeration values used here, the same in 12 and 13.
  enum DataType { kF32 = 0, kF16 = 2, kBF16 = 14, kF8E4M3 = 28 };
  enum Compute { kCompute32F = 68, kCompute32FFastTf32 = 77 };
  enum DescriptionAttribute {
    kTransA = 3,
    kTransB = 4,
    kEpilogue = 7,
    kBiasPointer = 8,
    kAScalePointer = 17,
    kBScalePointer = 18,
    kBiasType = 26,
    kAScaleMode = 31,  // from 12.8 on
    kBScaleMode = 32
  };
  /// f32: one for the whole matrix (the default), one per row of A or column of B, one per 128 of
  /// K of these, one per 128×128. The last two from 12.9 on, for Hopper.
  enum ScaleMode { kScaleOfAll = 0, kScaleOfEach = 3, kScaleOfGroup = 4, kScaleOfBlock = 5 };
  enum LayoutAttribute { kBatchCount = 5, kApart = 6 };
  enum Transpose { kPlain = 0, kTransposed = 1 };
  enum Epilogue { kDefault = 1, kBias = 4 };
  enum PreferenceAttribute {
    kMaxWorkspace = 1,
    kReductionSchemes = 3,
    kMinAlignmentA = 5,
    kMinAlignmentB = 6,
    kMinAlignmentC = 7,
    kMinAlignmentD = 8
  };
  enum Status { kNotSupported = 15 };
  enum Reduction { kReduceInPlace = 1, kReduceInComputeType = 2 };

  std::size_t (*version)();
  int (*create)(Handle* handle);
  int (*layout_init)(Layout*, std::size_t bytes, int type, std::uint64_t rows, std::uint64_t cols,
                     std::int64_t pitch);
  int (*layout_set)(Layout*, int attribute, const void* value, std::size_t bytes);
  int (*description_init)(Description*, std::size_t bytes, int compute, int scale_type);
  int (*description_set)(Description*, int attribute, const void* value, std::size_t bytes);
  int (*preference_init)(Preference*, std::size_t bytes);
  int (*preference_set)(Preference*, int attribute, const void* value, std::size_t bytes);
  int (*choose)(Handle, const Description*, const Layout* a, const Layout* b, const Layout* c,
                const Layout* d, const Preference*, int wanted, Choice* choices, int* found);
  int (*check)(Handle, const Description*, const Layout* a, const Layout* b, const Layout* c,
               const Layout* d, const Algorithm*, Choice* result);
  int (*multiply)(Handle, const Description*, const void* alpha, const void* a, const Layout* la,
                  const void* b, const Layout* lb, const void* beta, const void* c,
                  const Layout* lc, void* d, const Layout* ld, const Algorithm*, void* workspace,
                  std::size_t workspace_bytes, void* stream);

  Support support = Support::yes();  // or why it cannot be used
};

/// Opened and checked once per process. Needs no device.
const CublasLt& cublaslt();
/// "13.1.0"; "" where none was found.
const char* cublaslt_version();
/// "cuBLASLt status 7 (invalid value)".
std::string cublaslt_text(int status);
/// The device's handle, created once; its context must be current. Null if it could not be created.
CublasLt::Handle cublaslt_handle(int device);

}  // namespace dlblas::cuda
