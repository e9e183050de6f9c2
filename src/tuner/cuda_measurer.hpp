// Measuring on a CUDA device: replays of a graph of unrolled launches over inputs that are cold in
// the cache at every launch. In-process: a kernel that breaks the context ends the run, and the
// process's use of the device. Flow: tune > inputs > [measure].  Read next: tuner/in_process.hpp,
// docs/tuning.md.
#pragma once

#include <list>

#include "tuner/cuda_memory.hpp"
#include "tuner/in_process.hpp"

namespace dlblas {

class CudaMeasurer final : public InProcessMeasurer {
 public:
  CudaMeasurer(const MeasureRequest& request, std::unique_ptr<CudaMemory> memory);
  ~CudaMeasurer() override;

  double sample(const Plan& plan, double ms) override;
  SampleCost sample_cost() const override { return {true, 0, rotation_, flushed_ != nullptr}; }
  int compiles_at_once() const override;
  void compile_ahead(std::vector<const Plan*>& plans) override;
  Fields conditions() const override;

 private:
  /// `count` runs of a plan, unrolled: as a graph where it may be captured.
  struct Unrolled {
    const Plan* plan = nullptr;
    const Kernel* kernel = nullptr;
    int count = 1;
    double replay_ms = 0;
    std::unique_ptr<cuda::Graph> graph;  // null: launched one by one
  };

  std::unique_ptr<Verifier> make_verifier(const Problem& problem, const Args& args,
                                          std::vector<std::int64_t> rows, ClockFn clock) override;
  int run_once(const Kernel& kernel, const CallData& data, double& ms) override;
  std::string refusal_of(const Plan& plan, const Kernel& kernel) const override;
  bool alive() override;
  void workspace_moves() override { unrolled_.clear(); }  // graphs hold its address

  CudaMemory& memory() const { return static_cast<CudaMemory&>(*memory_); }
  void make_sets(const MeasureRequest& request);
  std::size_t flush(const Unrolled& unrolled, int value);
  /// The plan's launches, sized so that a replay takes long enough; kept for the next sample.
  Unrolled& unroll(const Plan& plan, double ms);
  void record(Unrolled& unrolled);
  int run_all(const Unrolled& unrolled);
  void replay(const Unrolled& unrolled);
  double timed_replay(const Unrolled& unrolled);

  std::list<Unrolled> unrolled_;  // the last used first
  cuda::Timer timer_;
  std::vector<std::unique_ptr<cuda::Timer>> timers_;
  Rotation rotation_{1, 0, 0};
  std::unique_ptr<CudaArray<std::byte>> flushed_;       // written to empty it; null: one set does
  bool graphs_ = false, eager_ = false, warm_ = false;  // what samples were made of
};

/// Throws Error(kTuning) while the caller's stream is being captured into a graph.
std::unique_ptr<Measurer> make_cuda_measurer(const MeasureRequest& request);

}  // namespace dlblas
