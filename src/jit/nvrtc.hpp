// The compiler: NVRTC, loaded at run time, with our own prototypes. In: headers, a name expression,
// an architecture. Out: machine code and ptxas's report. Needs no GPU and no CUDA header.
// Read next: jit/jit.hpp.
#pragma once

#include <string>
#include <vector>

#include "jit/headers.hpp"
#include "jit/jit.hpp"

namespace dlblas::jit {

/// Why there is no compiler, with the remedy; empty when there is one.
const std::string& compiler_missing();

/// "sm_80", "sm_90a": from 9.0 on the exact architecture, whose instructions kernels use.
std::string arch_name(int arch);

/// The options that affect the generated code, also part of the cache's key: the same for every
/// compiler.
std::vector<std::string> options_for(int arch);

/// Throws Error(kCompile): without a compiler, or with its log.
Cubin run_nvrtc(const KernelSource& source, const std::vector<Header>& headers, int arch);

/// Runs its front end alone; returns the error lines of its log, or "".
std::string run_front_end(const KernelSource& source, const std::vector<Header>& headers, int arch);

namespace detail {
/// Reads registers, spills, stack and shared memory of the one entry, and every warning, out of a
/// log of `--ptxas-options=-v`.
void read_log(const std::string& log, Cubin& cubin);
}  // namespace detail

}  // namespace dlblas::jit
