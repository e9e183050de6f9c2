// One fact about the process: is it the child of a fork? Threads do not survive a fork, neither the
// pool's nor those of a library's OpenMP runtime, and waiting for them would never end.
// In: nothing. Out: forked(). Flow: call asks for its number of threads, launch where they start.
// Read next: cpu/thread_pool.cpp, cpu/onednn.hpp.
#pragma once

#include <cstdint>

namespace dlblas {

/// True in a process forked after the first call of this function, and in its own descendants.
/// Registry::process() makes that first call, so any fork after the library's first use is
/// detected.
bool forked();
/// The number of such forks that led to this process: a changed value means that it is now a child.
std::uint64_t fork_generation();
/// The number of children this process has forked so; `system` and `posix_spawn` do not count.
std::int64_t num_forks();

}  // namespace dlblas
