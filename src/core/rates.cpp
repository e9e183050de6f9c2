// The tables behind core/rates.hpp, and the typical cards. One row per card or level, from
// measurements where the row says so; other cards of the same arch use its row. Where `dlblas bench
// machine` measured this machine, its copy scales the memory rates, and its peak scales a CPU's
// operations and caches (core/measured_rates.hpp).
#include "core/rates.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "core/absent_device.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/measured_rates.hpp"

namespace dlblas {
namespace {

constexpr double kGiga = 1e9, kTera = 1e12;

// Indexed by Isa. AMD Zen 4, 2 threads, November 2026. Bytes: rms_norm f32 16384×4096 (memory),
// 512×4096 (caches) and f16 512×4096, which the baseline converts one by one. Operations: matmul
// f32 512×4096×4096; f16 and bf16 are converted to f32 first.
constexpr Rates level(double memory, double cache, double f16, double flops) {
  return {.memory_bytes_per_s = memory * kGiga,
          .cache_bytes_per_s = cache * kGiga,
          .alone_bytes_per_s = memory * kGiga,
          .f16_bytes_per_s = f16 * kGiga,
          .f32_flops = flops * kGiga,
          .half_flops = flops * kGiga,
          .launch_s = 2e-7};
}
constexpr Rates kLevels[] = {level(10, 35, 1.7, 20), level(12, 48, 28, 90), level(13, 51, 28, 100)};
// What `dlblas bench machine` reports for one thread of that CPU (2 threads, 22 November 2026): the
// copy, and the peak by Isa. AVX-512's was measured; AVX2 processes as many lanes per cycle there,
// and the baseline, without fused operations, reaches 0.47 of AVX2's (seen on another Zen).
constexpr double kLevelCopy = 22.3 * kGiga;
constexpr double kLevelPeak[] = {55 * kGiga, 118 * kGiga, 118 * kGiga};

/// A card: the facts that the compiler and `supports` need (the programming guide's table of
/// compute capabilities), and its rates: memory and L2 of the whole card in TB/s, operations of one
/// multiprocessor in Tflop/s.
struct Card {
  int arch;
  const char* model;
  int units, shared_per_block, shared_per_unit;
  std::int64_t l2_mib, memory_gib;
  double memory, l2, f32_unit, half_unit;
};
// H200, 21 November 2026: a copy of 8 GB runs at 4.27 TB/s; cuBLAS sustains 743 to 797 TFLOP/s bf16
// and 48 f32. No other card was measured: the A100's copy is known (1.7 TB/s), L2 and launch
// figures are the H200's, the B200 is treated as an H200, and the rest are peaks, scaled as the
// H200's are.
constexpr Card kCards[] = {
    {80, "NVIDIA A100-SXM4-80GB", 108, 166912, 167936, 40, 80, 1.7, 6, 0.175, 2.4},
    {86, "NVIDIA RTX A6000", 84, 101376, 102400, 6, 48, 0.8, 6, 0.328, 1.2},
    {89, "NVIDIA L40S", 142, 101376, 102400, 96, 48, 0.8, 6, 0.328, 1.2},
    {90, "NVIDIA H200", 132, 232448, 233472, 60, 141, 4.2, 6, 0.4, 5.6},
    {100, "NVIDIA B200", 148, 232448, 233472, 126, 180, 4.2, 6, 0.4, 5.6},
};
constexpr double kAlone = 90 * kGiga;      // H200: through one multiprocessor's port, L2 or memory
constexpr double kLaunchSeconds = 2.5e-6;  // H200, fitted to the norms

/// The last card whose arch is at most `arch`; the first if all are above.
const Card& card_of(int arch) {
  const Card* found = &kCards[0];
  for (const Card& card : kCards)
    if (card.arch <= arch) found = &card;
  return *found;
}

constexpr double kCopyOfTable = 4.27 / 4.2;  // H200: a copy's rate over the table's memory

std::atomic<MeasuredRates (*)(const DeviceInfo&)> g_source{nullptr};

/// The source's answer for a device; kept for the process.
struct Measured {
  DeviceType type;
  std::string model;
  Isa isa;
  int arch, units;
  MeasuredRates rates;
  const Measured* next;

  bool is(const DeviceInfo& d) const {
    return type == d.device.type && arch == d.arch && units == d.units && isa == d.isa &&
           model == d.model;
  }
};
std::atomic<const Measured*> g_measured{nullptr};  // the newest; read without the lock
std::mutex g_measuring;

const Measured* find_measured(const DeviceInfo& device) {
  const Measured* at = g_measured.load(std::memory_order_acquire);
  while (at && !at->is(device)) at = at->next;
  return at;
}

// The measured rate over the table's; 1 where nothing was measured, or the ratio is implausible: no
// CPU or card of an arch is 16 times another.
double scale_of(double measured, double table, const DeviceInfo& device, const char* what) {
  constexpr double kMax = 16;
  if (!(measured > 0)) return 1;
  const double scale = measured / table;
  if (scale >= 1 / kMax && scale <= kMax) return scale;
  log_once(LogLevel::kWarn, text("rates/", what, device.model),
           text("rates: the measured ", what, " of ", device.model, " is passed over; expected ",
                table / kMax, " to ", table * kMax, " a second, got ", measured,
                "; run `dlblas bench machine` again"));
  return 1;
}

}  // namespace

void set_measured_source(MeasuredRates (*source)(const DeviceInfo&)) { g_source.store(source); }

MeasuredRates measured_rates(const DeviceInfo& device) {
  const auto source = g_source.load(std::memory_order_acquire);
  if (!source || is_absent(device.device)) return {};
  if (const Measured* known = find_measured(device)) return known->rates;
  const std::lock_guard lock(g_measuring);
  if (const Measured* known = find_measured(device)) return known->rates;
  const auto* made = new Measured{device.device.type, device.model,   device.isa,       device.arch,
                                  device.units,       source(device), g_measured.load()};
  g_measured.store(made, std::memory_order_release);
  return made->rates;
}

double Rates::bytes_per_s(DType dtype, bool cached) const {
  const double rate = cached ? cache_bytes_per_s : memory_bytes_per_s;
  return dtype == DType::kF16 && f16_bytes_per_s > 0 ? std::min(rate, f16_bytes_per_s) : rate;
}

double Rates::roofline_ms(double units, double bytes, double operations, DType dtype) const {
  return 1e3 * std::max(bytes / (units * memory_bytes_per_s), operations / (units * flops(dtype)));
}

Rates unit_rates(const DeviceInfo& device, Isa level) {
  const MeasuredRates measured = measured_rates(device);
  const double units = std::max(1, device.units);
  if (device.device.type == DeviceType::kCpu) {
    Rates rates = kLevels[static_cast<int>(level)];
    const double peak = units * kLevelPeak[static_cast<int>(device.isa)];
    const double memory = scale_of(measured.copy_bytes_per_s, units * kLevelCopy, device, "copy");
    const double core = scale_of(measured.peak_flops, peak, device, "peak");
    rates.memory_bytes_per_s *= memory, rates.alone_bytes_per_s *= memory;
    rates.cache_bytes_per_s *= core, rates.f16_bytes_per_s *= core;
    rates.f32_flops *= core, rates.half_flops *= core;
    rates.cache_bytes_per_s = std::max(rates.cache_bytes_per_s, rates.memory_bytes_per_s);
    return rates;
  }
  const Card& card = card_of(device.arch);
  const double memory =
      card.memory * kTera *
      scale_of(measured.copy_bytes_per_s, card.memory * kTera * kCopyOfTable, device, "copy");
  return {.memory_bytes_per_s = memory / units,
          .cache_bytes_per_s = card.l2 * kTera / units,
          .alone_bytes_per_s = kAlone,
          .f16_bytes_per_s = 0,
          .f32_flops = card.f32_unit * kTera,
          .half_flops = card.half_unit * kTera,
          .launch_s = kLaunchSeconds};
}

double memory_bytes_per_s(const DeviceInfo& device) {
  return device.units * unit_rates(device).memory_bytes_per_s;
}

double cache_bytes_per_s(const DeviceInfo& device) {
  return device.units * unit_rates(device).cache_bytes_per_s;
}

double flops(const DeviceInfo& device, DType dtype) {
  return device.units * unit_rates(device).flops(dtype);
}

double launch_s(const DeviceInfo& device) { return unit_rates(device).launch_s; }

double roofline_ms(const DeviceInfo& device, double bytes, double operations, DType dtype) {
  return unit_rates(device).roofline_ms(device.units, bytes, operations, dtype);
}

DeviceInfo typical_cuda_device(int arch) {
  const Card& card = card_of(arch);
  DeviceInfo info;
  info.device = {DeviceType::kCuda, 0};
  info.model = card.model;
  info.arch = arch;
  info.units = card.units;
  info.l1_bytes = card.shared_per_unit;
  info.l2_bytes = card.l2_mib << 20;
  info.l3_bytes = 0;
  info.shared_bytes_per_block = card.shared_per_block;
  info.shared_bytes_per_unit = card.shared_per_unit;
  info.memory_bytes = card.memory_gib << 30;
  return info;
}

}  // namespace dlblas
