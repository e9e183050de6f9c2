// The handler behind forked(); see fork.hpp.
#include "core/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace dlblas {
namespace {

std::atomic<bool> g_forked{false};

}  // namespace

bool forked() {
  // A child that calls no fork handlers (vfork, a raw clone) may run no code of ours either.
  [[maybe_unused]] static const int installed =
      pthread_atfork(nullptr, nullptr, [] { g_forked.store(true, std::memory_order_relaxed); });
  return g_forked.load(std::memory_order_relaxed);
}

}  // namespace dlblas
