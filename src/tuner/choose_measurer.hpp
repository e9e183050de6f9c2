// What measures a search: this process or a worker. In: what takes part, the budget, the options.
// Out: a Measurer. Flow: tune > [choose] > race > measure.  Read next: tuner/worker_measurer.hpp,
// docs/tuning.md ("In a worker").
#pragma once

#include "tuner/tune.hpp"

namespace dlblas {

/// Throws Error(kTuning) where a worker was asked for and none can be had; without such a request,
/// this process measures instead, and says so. `no_worker`: why it is this process, in words.
/// `limits` begin later by what imports of a user's modules took in a worker that did not come.
std::unique_ptr<Measurer> choose_measurer(const MeasureRequest& request, const SearchSpace& space,
                                          const TuneOptions& options, RaceLimits& limits,
                                          std::string& no_worker);

}  // namespace dlblas
