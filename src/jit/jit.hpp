// From a KernelSource to a function on a device: memory cache, disk cache, NVRTC.
// In: a header of the tree (embedded in the library, or read from DLBLAS_SOURCE_DIR) and a name
// expression. Out: a cubin, or a loaded function. Compiling needs no GPU. NVRTC is found at run
// time; the user's machine needs no CUDA header. Flow: call > validate > select > [compile] >
// launch.  Read next: jit/nvrtc.hpp, jit/disk_cache.hpp, jit/headers.hpp.
#pragma once

#include <string>
#include <vector>

#include "core/implementation.hpp"
#include "cuda/cuda.hpp"

namespace dlblas::jit {

/// Machine code of one entry, and what the compiler said of it.
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
/// Throws Error(kCompile) with the compiler's log; where NVRTC is missing, naming the package that
/// has it; where DLBLAS_JIT=0, naming warmup.
const Cubin& compile(const KernelSource& source, int arch);

/// A function on a device. As compile, then loads; once per device.
const cuda::Function& load(const KernelSource& source, const DeviceInfo& device);

/// What the compiler's front end has against it, as its log says; empty where it takes it, or where
/// nothing can be compiled here. No machine code, nothing is cached.
std::string front_end_errors(const KernelSource& source, int arch);

/// Compiles many on as many threads as the machine has; the first error is thrown after all ended.
void compile_all(const std::vector<KernelSource>& sources, int arch);

/// Why nothing can be compiled here, in words that name the remedy; empty when it can, and with
/// DLBLAS_JIT=0, where what is in the disk cache serves without a compiler.
std::string unavailable();
/// "13.0", or empty.
std::string compiler_version();
/// Digest of the live sources when DLBLAS_SOURCE_DIR is set, else "": part of an implementation's
/// identity (Implementation::version).
const char* source_version();
/// Registers source_version() with Implementation::identity(). Called when the registry starts.
void attach();

}  // namespace dlblas::jit
