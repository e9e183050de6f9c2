// What a run of the tuner leaves behind: its record in the store, and the error when all failed.
// In: TuneReport. Flow: tune > race > [publish].  Read next: store/record.hpp.
#pragma once

#include "tuner/tune.hpp"

namespace dlblas {

/// Writes one record: the 32 fastest, every default, the best of each implementation, and up to 32
/// failures. Samples of one run share `measured_at`. Nothing measured: nothing written. A run
/// without a final leaves stored finals as they are: its few samples must not override more of
/// them. Finals of another driver or compiler are written again as this one's.
void publish(const TuneReport& report, Store& store);

/// The identity of a stored row: implementation, source and configuration.
std::string identity_of(const Record::Candidate& c);

/// Throws Error(kTuning): how many were tried, and how the last one failed.
[[noreturn]] void throw_all_failed(const TuneReport& report);

/// Throws Error(kTuning): a candidate, which it names, broke the device's context.
[[noreturn]] void throw_lost(const TuneReport& report);

/// Throws Error(kTuning): no worker could be started any more; what was measured is in the store.
[[noreturn]] void throw_ended(const TuneReport& report, const std::string& why);

}  // namespace dlblas
