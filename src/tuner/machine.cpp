// Copy and multiply-add rates of this machine; see machine.hpp. A shared machine reaches its own
// speed only now and then, so each figure is the best of interleaved rounds within about a second.
#include "tuner/machine.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/error.hpp"

namespace dlblas {
namespace {

constexpr int kMinRounds = 5, kMaxRounds = 400;
constexpr double kSeconds = 1.0;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::byte, Free>;

Buffer make_buffer(std::int64_t bytes) {
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(bytes))));
  if (!buffer)
    throw Error(
        ErrorKind::kArgument,
        text("bench: bytes is too large; expected memory for two buffers of ", bytes, ", got none"),
        {"bench", "bytes", "", ""});
  return buffer;
}

// Seconds of the fastest of several rounds of body().
template <typename F>
double fastest_round(ClockFn clock, F&& body) {
  double best = 1e300, spent = 0;
  for (int round = 0; round < kMinRounds || (round < kMaxRounds && spent < kSeconds); ++round) {
    const std::int64_t begin = clock();
    body();
    const double seconds = static_cast<double>(clock() - begin) * 1e-9;
    best = std::min(best, seconds);
    spent += seconds;
  }
  return std::max(best, 1e-12);
}

}  // namespace

double copy_rate(const Context& context, std::int64_t bytes,
                 void (*stream_copy)(void*, const void*, std::int64_t), ClockFn clock) {
  constexpr std::int64_t kLine = 64, kPartLines = 4096;  // parts of 256 KiB
  const std::int64_t lines = std::max<std::int64_t>(1, (bytes + kLine - 1) / kLine);
  // As the tuner measures (host_measurer.cpp): a copy that fits in one core's L2 runs warm, a
  // larger one rotates through three times the last-level cache, so that no round finds there what
  // the previous round left.
  const std::int64_t one = lines * kLine;
  const bool warm = 2 * one <= device_info(context.device).l2_bytes;
  const std::int64_t sets =
      warm ? 1
           : std::max<std::int64_t>(
                 1, (3 * device_info(context.device).l3_bytes + 2 * one - 1) / (2 * one));
  const Buffer from = make_buffer(sets * one), to = make_buffer(sets * one);
  std::memset(from.get(), 1, static_cast<std::size_t>(sets * one));
  std::memset(to.get(), 2, static_cast<std::size_t>(sets * one));
  std::int64_t next = 0;
  const auto copy_with = [&](void (*copy)(void*, const void*, std::int64_t)) {
    return fastest_round(clock, [&] {
      std::byte *t = to.get() + next % sets * one, *f = from.get() + next % sets * one;
      ++next;
      context.run(0, lines, kPartLines, [&](std::int64_t begin, std::int64_t end) {
        copy(t + begin * kLine, f + begin * kLine, (end - begin) * kLine);
      });
    });
  };
  const double plain = copy_with([](void* t, const void* f, std::int64_t n) {
    std::memcpy(t, f, static_cast<std::size_t>(n));
  });
  const double streamed = copy_with(stream_copy);
  return 2.0 * static_cast<double>(lines * kLine) / std::min(plain, streamed);
}

double peak_rate(const Context& context, float (*multiply_adds)(std::int64_t),
                 std::int64_t flops_per_iteration, ClockFn clock) {
  constexpr std::int64_t kIterations = 400'000;  // one millisecond or so per thread
  const std::int64_t threads = std::max(1, context.num_threads);
  std::atomic<float> kept{0};
  const double seconds = fastest_round(clock, [&] {
    context.run(0, threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        kept.store(multiply_adds(kIterations), std::memory_order_relaxed);
    });
  });
  return static_cast<double>(threads * kIterations * flops_per_iteration) / seconds;
}

}  // namespace dlblas
