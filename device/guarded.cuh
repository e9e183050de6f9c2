// 16-byte accesses that a thread may have to skip at the end of a row, with a predicate instead of
// a branch. Each is one statement to the compiler; the branches would take 5 to 15 % of a norm
// kernel's compile time, for the same instructions. In: whether the thread holds the access, an
// address aligned to 16 bytes. Out: four words, 0 where it does not.
// Read next: ops/norm/cuda/norm_tile.cuh.
#pragma once

#include "device/shared.cuh"
#include "device/vec.cuh"

namespace dlblas {

// Keeps program order: results may overwrite what is read.
#define DLBLAS_LOAD_IF(load, space, from, before, policy)                                     \
  asm volatile(                                                                               \
      "{\n .reg .pred p;\n .reg .b" space " at;\n setp.ne.s32 p, %5, 0;\n mov.b" space        \
      " at, %4;\n mov.b32 %0, 0;\n mov.b32 %1, 0;\n mov.b32 %2, 0;\n mov.b32 %3, 0;\n" before \
      " @p " load ".v4.u32 {%0, %1, %2, %3}, [at]" policy ";\n}"                              \
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])                        \
      : from, "r"(static_cast<int>(holds))                                                    \
      : "memory")
#define DLBLAS_STORE_IF(store, to)                                         \
  asm volatile("{\n .reg .pred p;\n setp.ne.s32 p, %5, 0;\n @p " store     \
               ".v4.u32 [%0], {%1, %2, %3, %4};\n}" ::to,                  \
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), \
               "r"(static_cast<int>(holds))                                \
               : "memory")

template <Cache kCache>
__device__ inline void load_if(bool holds, uint32_t* words, const void* from) {
  const size_t at = __cvta_generic_to_global(from);
  if constexpr (kCache == Cache::kStream)
    DLBLAS_LOAD_IF("ld.global.cs", "64", "l"(at), "", "");
  else if constexpr (kCache == Cache::kEarly)
    DLBLAS_LOAD_IF("ld.global.nc", "64", "l"(at), "", "");
  else if constexpr (kCache == Cache::kLast)
    DLBLAS_LOAD_IF("ld.global.L2::cache_hint", "64", "l"(at),
                   " .reg .b64 policy;\n createpolicy.fractional.L2::evict_last.b64 policy, 1.0;\n",
                   ", policy");
  else
    DLBLAS_LOAD_IF("ld.global", "64", "l"(at), "", "");
}
template <Cache kCache>
__device__ inline void store_if(bool holds, void* to, const uint32_t* words) {
  const size_t at = __cvta_generic_to_global(to);
  if constexpr (kCache == Cache::kStream)
    DLBLAS_STORE_IF("st.global.cs", "l"(at));
  else
    DLBLAS_STORE_IF("st.global", "l"(at));
}

/// The same in this block's shared memory.
__device__ inline void load_shared_if(bool holds, uint32_t* words, const void* from) {
  DLBLAS_LOAD_IF("ld.shared", "32", "r"(shared_address(from)), "", "");
}
__device__ inline void store_shared_if(bool holds, void* to, const uint32_t* words) {
  DLBLAS_STORE_IF("st.shared", "r"(shared_address(to)));
}

}  // namespace dlblas
