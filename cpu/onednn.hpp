// oneDNN 3.x through dlopen, with our own prototypes: the calls that a matmul primitive needs.
// In: what core/library.hpp found. Out: a table of functions, or the reason why there is none.
// Neither building nor importing needs oneDNN. Read next: ops/gemm/matmul/cpu/matmul_onednn.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/implementation.hpp"

namespace dlblas {

/// Handles are opaque; statuses are 0 on success.
struct OneDnn {
  using Handle = void*;
  struct ExecArg {
    int arg;
    Handle memory;
  };
  struct Version {
    int major, minor, patch;
    const char* hash;
    unsigned cpu_runtime, gpu_runtime;
  };
  // The values in use of oneDNN's enumerations, unchanged throughout 3.x.
  enum DataType { kF16 = 1, kBF16 = 2, kF32 = 3, kS32 = 4, kS8 = 5 };
  enum Arg { kSrc = 1, kSrc1 = 2, kDst = 17, kWeights = 33, kBias = 41, kScratchpad = 80 };
  /// The argument of post-operation i is kSrc1 | (i + 1) · kPostOp.
  static constexpr int kPostOp = 32768;
  enum Eltwise { kRelu = 0x20, kSwish = 0x2c, kGeluErf = 0x31 };
  enum Binary { kAdd = 0x1fff0, kMultiply = 0x1fff1 };
  enum Query { kImplInfo = 8, kScratchpadMd = 136 };
  enum Runtime : unsigned { kSequential = 1, kOpenMp = 2 };
  static constexpr int kScratchpadUser = 1;
  static constexpr int kUnimplemented = 3;
  static constexpr int kVnni = 0x40;  // of effective_cpu_isa: AVX512_VNNI

  const Version* (*version)();
  int (*get_effective_cpu_isa)();
  int (*engine_create)(Handle* engine, int kind, std::size_t index);
  int (*stream_create)(Handle* stream, Handle engine, unsigned flags);
  int (*stream_destroy)(Handle stream);
  int (*stream_wait)(Handle stream);
  int (*memory_desc_create_with_strides)(Handle* md, int ndims, const std::int64_t* dims, int type,
                                         const std::int64_t* strides);
  int (*memory_desc_destroy)(Handle md);
  std::size_t (*memory_desc_get_size)(Handle md);
  int (*memory_create)(Handle* memory, Handle md, Handle engine, void* data);
  int (*memory_destroy)(Handle memory);
  int (*primitive_attr_create)(Handle* attr);
  int (*primitive_attr_destroy)(Handle attr);
  int (*primitive_attr_set_scratchpad_mode)(Handle attr, int mode);
  int (*primitive_attr_set_post_ops)(Handle attr, Handle ops);
  int (*post_ops_create)(Handle* ops);
  int (*post_ops_destroy)(Handle ops);
  int (*post_ops_append_eltwise)(Handle ops, int algorithm, float alpha, float beta);
  int (*post_ops_append_binary)(Handle ops, int algorithm, Handle src1);
  int (*post_ops_append_sum)(Handle ops, float scale, std::int32_t zero_point, int type);
  int (*matmul_primitive_desc_create)(Handle* pd, Handle engine, Handle src, Handle weights,
                                      Handle bias, Handle dst, Handle attr);
  int (*primitive_desc_destroy)(Handle pd);
  int (*primitive_desc_query)(Handle pd, int what, int index, void* result);
  Handle (*primitive_desc_query_md)(Handle pd, int what, int index);
  int (*primitive_create)(Handle* primitive, Handle pd);
  int (*primitive_destroy)(Handle primitive);
  int (*primitive_execute)(Handle primitive, Handle stream, int num_args, const ExecArg* args);
  // From the OpenMP runtime that oneDNN itself loaded; null in a sequential build.
  int (*omp_get_max_threads)();
  void (*omp_set_num_threads)(int);

  Handle engine = nullptr;
  Support support = Support::yes();  // or why it cannot be used
};

/// Opened and checked once per process.
const OneDnn& onednn();

/// "3.2.0"; "" if none was found.
const char* onednn_version();

/// Sets the calling thread's number of OpenMP threads for a scope: primitives fix it when they are
/// created and need the same when they run; the application's own setting is restored afterwards.
/// In a forked child it is 1: GNU's OpenMP would wait for the parent's threads (a hang, seen with
/// oneDNN 3.x), and with 1 oneDNN runs its loops on the caller, outside any parallel region.
class OneDnnThreads {
 public:
  explicit OneDnnThreads(int threads);
  ~OneDnnThreads();
  OneDnnThreads(const OneDnnThreads&) = delete;
  OneDnnThreads& operator=(const OneDnnThreads&) = delete;

  /// The number of threads in force.
  int count() const { return threads_; }

 private:
  const int threads_;
  int before_ = 0;
};

}  // namespace dlblas
