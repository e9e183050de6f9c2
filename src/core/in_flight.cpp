// See in_flight.hpp. Epochs: a retired object is stamped with the epoch in which it was unlinked,
// which then ends; a thread that entered in a later epoch cannot have found it.
#include "core/in_flight.hpp"

#include <pthread.h>
#include <sys/syscall.h>

#include <unistd.h>

#include <limits>
#include <mutex>
#include <vector>

#include "core/per_thread.hpp"

namespace dlblas {
namespace {

using detail::FlightSlot;

// From <linux/membarrier.h>, which old systems lack.
enum : int { kExpedited = 1 << 3, kRegisterExpedited = 1 << 4 };

long membarrier(int command) {
#ifdef SYS_membarrier
  return ::syscall(SYS_membarrier, command, 0, 0);
#else
  return command, -1;
#endif
}

struct Retired {
  std::uint64_t epoch;
  void* object;
  void (*free)(void*);
};

std::atomic<FlightSlot*> g_slots{nullptr};  // never freed, only taken again
std::mutex g_mutex;
std::vector<Retired>& waiting() {
  static auto* const list = new std::vector<Retired>;
  return *list;
}

// Only the calling thread survives in the child of a fork: clears the slots of all others.
void leave_parents_threads() {
  for (FlightSlot* slot = g_slots.load(std::memory_order_acquire); slot; slot = slot->next) {
    if (slot == detail::t_flight_slot) continue;
    slot->entered.store(0, std::memory_order_relaxed);
    slot->depth = 0;
  }
}

bool fences_are_light() {
  static const bool light = [] {
    pthread_atfork(nullptr, nullptr, leave_parents_threads);
    return membarrier(kRegisterExpedited) == 0;
  }();
  return light;
}

// Releases the slot when the thread ends.
struct Lease {
  FlightSlot* slot = nullptr;
  ~Lease() {
    if (!slot) return;
    detail::t_flight_slot = nullptr;
    if (slot->depth == 0) slot->taken.store(false, std::memory_order_release);
  }
};

// After this, all earlier stores of threads in flight are visible here, and their later reads see
// the current state. False: nothing may be freed.
bool fence_everyone() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return !fences_are_light() || membarrier(kExpedited) == 0;
}

}  // namespace

FlightSlot& detail::take_slot() {
  FlightSlot* slot = g_slots.load(std::memory_order_acquire);
  while (slot && (slot->taken.load(std::memory_order_relaxed) ||
                  slot->taken.exchange(true, std::memory_order_acquire)))
    slot = slot->next;
  if (!slot) {
    slot = new FlightSlot;
    slot->light = fences_are_light();
    slot->next = g_slots.load(std::memory_order_relaxed);
    while (!g_slots.compare_exchange_weak(slot->next, slot, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }
  per_thread<Lease>().slot = slot;
  t_flight_slot = slot;
  return *slot;
}

void detail::reclaim_after(FlightSlot& slot) {
  slot.retired = false;
  reclaim();
}

void retire(void* object, void (*free)(void*)) {
  const std::uint64_t epoch = detail::g_flight_epoch.fetch_add(1);
  {
    const std::lock_guard lock(g_mutex);
    waiting().push_back({epoch, object, free});
  }
  FlightSlot* slot = detail::t_flight_slot;
  if (slot && slot->depth > 0)
    slot->retired = true;
  else
    reclaim();
}

std::size_t reclaim() {
  std::vector<Retired> done;
  std::size_t left = 0;
  {
    const std::unique_lock lock(g_mutex, std::try_to_lock);
    if (!lock.owns_lock()) return 1;  // another thread is at it
    std::vector<Retired>& list = waiting();
    if (list.empty() || !fence_everyone()) return list.size();
    std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
    for (FlightSlot* slot = g_slots.load(std::memory_order_acquire); slot; slot = slot->next)
      if (const std::uint64_t entered = slot->entered.load(std::memory_order_acquire))
        oldest = std::min(oldest, entered);
    for (const Retired& r : list)
      if (r.epoch < oldest)
        done.push_back(r);
      else
        list[left++] = r;
    list.resize(left);
  }
  for (const Retired& r : done) r.free(r.object);
  return left;
}

}  // namespace dlblas
