// The handlers behind forked(); see fork.hpp.
#include "core/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace dlblas {
namespace {

std::atomic<std::uint64_t> g_generation{0};
std::atomic<std::int64_t> g_forks{0};

// A child that runs no fork handlers (vfork, a raw clone) must not run code of ours either.
void install() {
  [[maybe_unused]] static const int installed = pthread_atfork(
      nullptr, [] { g_forks.fetch_add(1, std::memory_order_relaxed); },
      [] { g_generation.fetch_add(1, std::memory_order_relaxed); });
}

}  // namespace

bool forked() { return fork_generation() > 0; }

std::uint64_t fork_generation() {
  install();
  return g_generation.load(std::memory_order_relaxed);
}

std::int64_t num_forks() {
  install();
  return g_forks.load(std::memory_order_relaxed);
}

}  // namespace dlblas
