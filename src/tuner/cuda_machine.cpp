// Copy and multiply-add rates of a CUDA device; see machine.hpp. The best of interleaved rounds, as
// on the host: clocks rise and fall.
#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "cuda/cuda.hpp"
#include "device/tuner_params.hpp"
#include "jit/jit.hpp"
#include "tuner/machine.hpp"

namespace dlblas {
namespace {

constexpr int kRounds = 20;
constexpr double kRoundMs = 2.0;  // launches are hidden behind each other

// Milliseconds per body in the fastest round of `count` bodies.
template <typename F>
double fastest_round(void* stream, int count, F&& body) {
  cuda::Timer timer;
  double best = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    timer.begin(stream);
    for (int i = 0; i < count; ++i) body();
    timer.end(stream);
    best = std::min(best, timer.milliseconds() / count);
  }
  return best;
}

}  // namespace

double cuda_copy_rate(int device, std::int64_t bytes) {
  const DeviceInfo& info = cuda::info(device);
  const cuda::CurrentDevice current(device);
  const cuda::Stream stream;
  const auto one = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256));
  const std::size_t wanted = 3 * static_cast<std::size_t>(info.l2_bytes);
  const std::size_t sets = std::max<std::size_t>(1, (wanted + 2 * one - 1) / (2 * one));
  const cuda::Buffer from(sets * one), to(sets * one);
  cuda::fill_bytes(from.data(), 1, sets * one, stream.get());
  std::size_t next = 0;
  const auto copy = [&] {
    const std::size_t at = next++ % sets * one;
    cuda::copy_on_device(static_cast<char*>(to.data()) + at,
                         static_cast<const char*>(from.data()) + at, one, stream.get());
  };
  const double guess = fastest_round(stream.get(), 1, copy);
  const int count = static_cast<int>(std::clamp(kRoundMs / guess, 1.0, 200.0));
  return 2e3 * static_cast<double>(one) / fastest_round(stream.get(), count, copy);
}

double cuda_peak_rate(int device) {
  const DeviceInfo& info = cuda::info(device);
  const cuda::CurrentDevice current(device);
  const cuda::Stream stream;
  const cuda::Function& function =
      jit::load({"device/tuner_peak.cuh", "dlblas::tuner_peak", 0}, info);
  const cuda::Buffer out(sizeof(float));
  constexpr std::int64_t kIterations = 4096;
  const PeakParams params{kIterations, 0.999f, 0.5f, -1.0f, static_cast<float*>(out.data())};
  const auto blocks = static_cast<unsigned>(
      info.units * std::max(1, function.blocks_per_unit(PeakParams::kThreads, 0)));
  const double ms = fastest_round(stream.get(), 4, [&] {
    cuda::check(cuda::launch(function, {.grid = {blocks}, .block = {PeakParams::kThreads}}, params,
                             stream.get()),
                "measuring the peak");
  });
  return 2e3 * static_cast<double>(kIterations) * PeakParams::kChains * PeakParams::kThreads *
         blocks / ms;
}

}  // namespace dlblas
