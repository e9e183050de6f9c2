// Reclaims memory that calls read without a lock, once no call can hold it any more. Every function
// of the C ABI is in flight while it runs; whatever is replaced meanwhile (plans, tables, users'
// implementations) is retired, and freed once all calls then in flight have returned. Being in
// flight costs a call two stores to its thread's own cache line: the fence is on the reclaiming
// side, where the kernel supports it (membarrier). Flow: [call] > validate > select.  Read next:
// dispatch/select.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace dlblas {

namespace detail {
/// One thread's slot; `entered` is 0 while the thread holds nothing.
struct alignas(64) FlightSlot {
  std::atomic<std::uint64_t> entered{0};
  std::uint32_t depth = 0;
  bool light = false;    // the other side's fence is enough
  bool retired = false;  // it has retired something: look when it leaves
  std::atomic<bool> taken{true};
  FlightSlot* next = nullptr;
};
inline std::atomic<std::uint64_t> g_flight_epoch{1};
inline thread_local constinit FlightSlot* t_flight_slot = nullptr;
FlightSlot& take_slot();
void reclaim_after(FlightSlot& slot);
}  // namespace detail

/// While one is alive, nothing that this thread has read since it began is freed. May be nested.
class InFlight {
 public:
  InFlight() : slot_(detail::t_flight_slot ? *detail::t_flight_slot : detail::take_slot()) {
    if (slot_.depth++ > 0) return;
    slot_.entered.store(detail::g_flight_epoch.load(std::memory_order_acquire),
                        std::memory_order_relaxed);
    if (slot_.light)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  ~InFlight() {
    if (--slot_.depth > 0) return;
    slot_.entered.store(0, std::memory_order_release);
    if (slot_.retired) detail::reclaim_after(slot_);
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  detail::FlightSlot& slot_;
};

/// Calls `free(object)` once every call now in flight has ended; on some thread, with no lock held.
/// Unlink the object first, so that no new call can find it.
void retire(void* object, void (*free)(void* object));
template <typename T>
void retire(T* object) {
  retire(const_cast<std::remove_const_t<T>*>(object),
         [](void* p) { delete static_cast<std::remove_const_t<T>*>(p); });
}
/// Frees what can be freed now; returns how many objects still wait.
std::size_t reclaim();

}  // namespace dlblas
