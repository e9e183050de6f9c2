// The two yardsticks of every figure: how fast a device copies and multiplies, and what a warm
// call costs the host. Loops come as function pointers (the tuner knows no instruction set),
// threads from the context. Flow: dlblas_bench_machine, dlblas_bench_host.  Read next:
// cpu/peak.hpp.
#pragma once

#include <cstdint>

#include "dispatch/dispatch.hpp"
#include "tuner/measure.hpp"

namespace dlblas {

/// A copy of `bytes` bytes from one buffer to another on the context's threads: bytes read plus
/// bytes written per second, the best of memcpy and `stream_copy` over interleaved rounds.
double copy_rate(const Context& context, std::int64_t bytes,
                 void (*stream_copy)(void* to, const void* from, std::int64_t bytes),
                 ClockFn clock);

/// Floating-point operations per second of `multiply_adds` on all the context's threads at once.
double peak_rate(const Context& context, float (*multiply_adds)(std::int64_t iterations),
                 std::int64_t flops_per_iteration, ClockFn clock);

/// The same for a CUDA device: its copy rate by the device's own copies, rotated through three
/// times its L2 cache, and the peak of f32 multiply-adds. Throws Error(kDevice) if there is none.
double cuda_copy_rate(int device, std::int64_t bytes);
double cuda_peak_rate(int device);

/// Nanoseconds of one warm call from the C arguments to the first instruction of the kernel: all
/// five stages run, but the kernel's steps do nothing and memory comes from one static buffer.
/// The minimum over rounds.
double host_time_ns(const Form& form, const dlblas_args& call, int threads, ClockFn clock);

}  // namespace dlblas
