// A scope with the floating-point environment of a new process: round to nearest, denormals kept,
// no traps. A thread may have set another one (torch.set_flush_denormal, fesetround), which the
// library's other threads do not share; and whatever a user's function sets ends with its call.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace dlblas {

class PlainFloats {
 public:
  PlainFloats() : before_(control()) {
    if (before_ != kPlain) set(kPlain);
  }
  ~PlainFloats() {
    if (control() != before_) set(before_);
  }
  PlainFloats(const PlainFloats&) = delete;
  PlainFloats& operator=(const PlainFloats&) = delete;

 private:
#if defined(__x86_64__)
  using Control = std::uint32_t;
  static constexpr Control kFlags = 0x3f, kPlain = 0x1f80;  // of MXCSR: what happened, no trap
  static Control control() { return _mm_getcsr() & ~kFlags; }
  static void set(Control c) { _mm_setcsr((_mm_getcsr() & kFlags) | c); }
#elif defined(__aarch64__)
  using Control = std::uint64_t;
  static constexpr Control kPlain = 0;
  static Control control() {
    Control c;
    asm volatile("mrs %0, fpcr" : "=r"(c));
    return c;
  }
  static void set(Control c) { asm volatile("msr fpcr, %0" : : "r"(c)); }
#else
  using Control = int;
  static constexpr Control kPlain = 0;
  static Control control() { return 0; }
  static void set(Control) {}
#endif

  Control before_;
};

}  // namespace dlblas
