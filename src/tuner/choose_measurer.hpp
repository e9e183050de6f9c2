// Chooses what measures a search: this process or a worker. In: the candidates, the budget, the
// options. Out: a Measurer. Flow: tune > [choose] > race > measure.  Read next:
// tuner/worker_measurer.hpp, docs/tuning.md ("In a worker").
#pragma once

#include "tuner/tune.hpp"

namespace dlblas {

/// Throws Error(kTuning) if a worker was requested and none is available; without such a request,
/// this process measures instead, and says so. `no_worker`: why this process measures. `limits`
/// begin later by the time that importing a user's modules took in a worker that did not start.
std::unique_ptr<Measurer> choose_measurer(const MeasureRequest& request, const SearchSpace& space,
                                          const TuneOptions& options, RaceLimits& limits,
                                          std::string& no_worker);

}  // namespace dlblas
