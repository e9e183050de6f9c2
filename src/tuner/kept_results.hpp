// A copy of one candidate's results and written inputs, for comparison with others: where the
// oracle can afford only chosen rows, two implementations that agree in every element are the
// evidence that the other rows are right as well. In: a call's tensors after a run. Out: Args over
// memory of its own. Flow: tune > [measure].  Read next: tuner/in_process.cpp, `beside`.
#pragma once

#include <memory>

#include "tuner/inputs.hpp"

namespace dlblas {

class KeptResults {
 public:
  /// Throws std::bad_alloc.
  explicit KeptResults(const CallData& data) : args_(data.args()) {
    for (int j = 0; j < args_.schema->num_judged(); ++j) {
      const GuardedTensor* const from = data.judged(j);
      if (!from) continue;
      copies_[j] = std::make_unique<GuardedTensor>(*from);
      args_.tensors[args_.schema->judged[static_cast<std::size_t>(j)]].data =
          copies_[j]->view().data;
    }
  }
  /// The results are the copies; the inputs are still the call's.
  const Args& args() const { return args_; }

 private:
  Args args_;
  std::unique_ptr<GuardedTensor> copies_[kMaxJudged];
};

}  // namespace dlblas
