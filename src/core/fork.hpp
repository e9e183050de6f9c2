// One fact about the process: is it the child of a fork? Threads do not survive one, neither the
// pool's nor those of a library's OpenMP runtime, and waiting for them never ends.
// In: nothing. Out: forked(). Flow: call asks for its number of threads, launch where they start.
// Read next: cpu/thread_pool.cpp, cpu/onednn.hpp.
#pragma once

#include <cstdint>

namespace dlblas {

/// True in a process that was forked after the first call of this function, and in what that
/// process forks. Registry::process() makes that call, so a fork that follows any use of the
/// library is seen.
bool forked();
/// How many such forks lead to this process: other than before, and it is a child by now.
std::uint64_t fork_generation();
/// How many children this process has forked so. What `system` or `posix_spawn` start is not one.
std::int64_t num_forks();

}  // namespace dlblas
