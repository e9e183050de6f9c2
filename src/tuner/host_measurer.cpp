// Measuring on the CPU: a steady clock around batches; see in_process.hpp.
#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "tuner/in_process.hpp"

namespace dlblas {
namespace {

constexpr double kSampleMs = 0.02;  // a few hundred times the clock's resolution
// Rotated sets of tensors stay below this.
constexpr std::size_t kMaxInputBytes = std::size_t{1} << 30;

int batch_for(double ms) {
  return static_cast<int>(std::clamp(std::ceil(kSampleMs / std::max(1e-6, ms)), 1.0, 10'000.0));
}

class HostMeasurer final : public InProcessMeasurer {
 public:
  explicit HostMeasurer(const MeasureRequest& request)
      : InProcessMeasurer(request, std::make_unique<HostMemory>(request.context)) {
    open(request);
    make_sets();
  }

  // The first call of a function that no worker has is tried in a forked child
  // (python/dlblas/_probe.py). Pages that the child shares would cost everyone's next samples a
  // fault per page: twice the time at 1 MiB of results. The child needs only set 0, which the check
  // writes anyway.
  Check check(const Plan& plan) override {
    if (!plan.implementation->flags.local || sets_.size() < 2)
      return InProcessMeasurer::check(plan);
    const Kept kept(sets_);
    return InProcessMeasurer::check(plan);
  }
  double sample(const Plan& plan, double ms) override {
    const int batch = batch_for(ms);
    const Kernel& kernel = compile(plan);
    reserve_workspace(kernel);
    if (sets_.front().has_written_inputs())  // before the batch: a copy would be timed as well
      for (CallData& set : sets_) set.restore();
    const std::int64_t begin = clock_();
    for (int i = 0; i < batch; ++i)
      if (const int code = run(kernel, sets_[next_set_++ % sets_.size()]))
        throw Error(ErrorKind::kLaunch, words_of(code));
    return static_cast<double>(clock_() - begin) * 1e-6 / batch;
  }
  SampleCost sample_cost() const override { return {.least_ms = kSampleMs}; }
  Fields conditions() const override { return {{"cache", rotates_ ? "rotated" : "warm"}}; }

 private:
  // Keeps the copies of set 0 from children.
  struct Kept {
    explicit Kept(std::deque<CallData>& all) : sets(all) { lend(false); }
    ~Kept() { lend(true); }
    void lend(bool lent) {
      for (std::size_t i = 1; i < sets.size(); ++i) sets[i].lend_to_children(lent);
    }
    std::deque<CallData>& sets;
  };
  std::unique_ptr<Verifier> make_verifier(const Problem& problem, const Args& args,
                                          std::vector<std::int64_t> rows, ClockFn clock) override {
    return std::make_unique<HostVerifier>(op_, problem, args, std::move(rows), context_, clock);
  }
  int run_once(const Kernel& kernel, const CallData& data, double& ms) override {
    const std::int64_t begin = clock_();
    const int code = run(kernel, data);
    ms = static_cast<double>(clock_() - begin) * 1e-6;
    return code;
  }

  // Tensors that fit in the last cache of one core (L2) are in it in real life too: the previous
  // call has just written them. Larger ones are rotated, so that no run finds in a cache what the
  // previous run left there. Sets may be copies: the values do not change the time.
  void make_sets() {
    const DeviceInfo& device = device_info(problem_.device());
    const std::size_t one = sets_.front().bytes();
    if (one <= static_cast<std::size_t>(device.l2_bytes)) return;
    rotates_ = true;
    const auto wanted = 3 * static_cast<std::size_t>(device.l3_bytes);
    while (sets_.size() * one < wanted && (sets_.size() + 1) * one <= kMaxInputBytes)
      sets_.emplace_back(sets_.front());
  }

  std::size_t next_set_ = 0;
  bool rotates_ = false;
};

}  // namespace

std::unique_ptr<Measurer> make_host_measurer(const MeasureRequest& request) {
  return std::make_unique<HostMeasurer>(request);
}

}  // namespace dlblas
