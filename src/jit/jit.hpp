// From a KernelSource to a function on a device: memory cache, disk cache, NVRTC.
// In: a header of the tree (embedded in the library, or read from DLBLAS_SOURCE_DIR) and a name
// expression. Out: a cubin, or a loaded function. Compiling needs no GPU. NVRTC is loaded at run
// time; the user's machine needs no CUDA header. Flow: call > validate > select > [compile] >
// launch.  Read next: jit/nvrtc.hpp, jit/disk_cache.hpp, jit/headers.hpp.
#pragma once

#include <string>
#include <vector>

#include "core/implementation.hpp"
#include "cuda/cuda.hpp"

namespace dlblas::jit {

/// Machine code of one entry, and what the compiler reported about it.
struct Cubin {
  std::string image;
  std::string symbol;  // the entry's mangled name
  int registers = 0;
  int spill_bytes = 0;
  int stack_bytes = 0;
  int shared_bytes = 0;               // static
  std::vector<std::string> warnings;  // the front end's, ptxas' and C75xx ("wgmma serialized")
  double compile_ms = 0;              // 0: came from a cache
};

/// The cubin for an architecture (80, 86, 89, 90, 100 …; from 90 on the exact one, as in sm_90a).
/// Throws Error(kCompile) with the compiler's log; if NVRTC is missing, with the package that
/// provides it; under DLBLAS_JIT=0, naming warmup.
const Cubin& compile(const KernelSource& source, int arch);

/// A function on a device: compiles as above, then loads; once per device.
const cuda::Function& load(const KernelSource& source, const DeviceInfo& device);

/// The errors that the compiler's front end logs; empty if it accepts the source, or if nothing can
/// be compiled here. Produces no machine code and caches nothing.
std::string front_end_errors(const KernelSource& source, int arch);

/// Compiles on as many threads as the machine has; throws the first error after all have ended.
void compile_all(const std::vector<KernelSource>& sources, int arch);

/// Why nothing can be compiled here, with the remedy; empty if it can, and under DLBLAS_JIT=0,
/// where the disk cache serves without a compiler.
std::string unavailable();
/// "13.0", or empty.
std::string compiler_version();
/// Digest of the live sources when DLBLAS_SOURCE_DIR is set, else "": part of
/// Implementation::identity.
const char* source_version();
/// Registers source_version() with Implementation::identity(). Called when the registry starts.
void attach();

}  // namespace dlblas::jit
