// See machine_rates.hpp. A rate is kept as the milliseconds of 10⁹ bytes or operations, so that a
// record has the form of all others.
#include "store/machine_rates.hpp"

#include "core/error.hpp"
#include "core/log.hpp"

namespace dlblas {
namespace {

constexpr double kWork = 1e9;
constexpr const char *kCopy = "copy", *kPeak = "peak", *kSource = "machine-1",
                     *kConfig = "work=1e9";

Record::Candidate made(const char* what, double rate) {
  Record::Candidate c;
  c.implementation = what;
  c.source_hash = kSource;
  c.config = kConfig;
  c.samples_ms = {1e3 * kWork / rate};
  return c;
}

}  // namespace

namespace rates {
/// Called by register_all.
void attach();
void attach() {
  set_measured_source(
      [](const DeviceInfo& device) { return stored_rates(Store::process(), device); });
}
}  // namespace rates

Fields machine_key(const DeviceInfo& device) {
  Fields key{{"op", "dlblas/machine"}, {"device.model", device.model}};
  if (device.device.type == DeviceType::kCpu) {
    key.push_back({"device.isa", std::string(name_of(device.isa))});
    key.push_back({"device.threads", std::to_string(device.units)});
  } else {
    key.push_back({"device.arch", std::to_string(device.arch)});
    key.push_back({"device.units", std::to_string(device.units)});
  }
  sort_fields(key);
  return key;
}

bool publish_rates(Store& store, const DeviceInfo& device, const MeasuredRates& rates) {
  Record record;
  record.key = machine_key(device);
  record.env = {{"compiler", __VERSION__}};
  if (rates.copy_bytes_per_s > 0) record.candidates.push_back(made(kCopy, rates.copy_bytes_per_s));
  if (rates.peak_flops > 0) record.candidates.push_back(made(kPeak, rates.peak_flops));
  return !record.candidates.empty() && store.publish(std::move(record));
}

MeasuredRates stored_rates(Store& store, const DeviceInfo& device) {
  MeasuredRates found;
  const auto merged = store.load(machine_key(device));
  for (const Merged::Row& row : merged->rows) {
    const Record::Candidate& c = row.candidate;
    if (c.source_hash != kSource || c.config != kConfig) continue;
    if (!c.failure.empty() || c.samples_ms.size() != 1 || !(c.samples_ms[0] > 0)) {
      log_once(LogLevel::kWarn, text("rates/record", row.record),
               text("rates: record ", row.record, " of this machine is passed over; expected one ",
                    "time above 0 of ", c.implementation, "; run `dlblas bench machine` again"));
      continue;
    }
    const double rate = 1e3 * kWork / c.samples_ms[0];
    if (c.implementation == kCopy) found.copy_bytes_per_s = rate;
    if (c.implementation == kPeak) found.peak_flops = rate;
  }
  return found;
}

}  // namespace dlblas
