// Timing by graph replay; see cuda_measurer.hpp.
#include "tuner/cuda_measurer.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

#include "core/error.hpp"
#include "jit/jit.hpp"
#include "tuner/cuda_verifier.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kMaxGraphs = 16;  // the finalists', and some
// The share of memory for the rotated sets of tensors and the buffer that flushes the cache.
constexpr double kMaxShareOfMemory = 0.5;

std::string reasons_of(std::uint64_t throttle) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(throttle));
  return digits;
}

}  // namespace

bool under_capture(const Problem& problem, const Context& context) {
  if (problem.device_type != DeviceType::kCuda) return false;
  const cuda::CurrentDevice current(problem.device_index);
  return cuda::capturing(context.stream);
}

void refuse_under_capture(const MeasureRequest& request) {
  if (!under_capture(request.problem, request.context)) return;
  const std::string& op = request.op.schema.name;
  throw Error(ErrorKind::kTuning,
              text(op,
                   ": stream is being captured into a graph; expected one outside capture, got one "
                   "inside; tune, or call get_op, before the capture begins"),
              {op, "stream", "a stream outside capture", "one inside"});
}

std::unique_ptr<Measurer> make_cuda_measurer(const MeasureRequest& request) {
  refuse_under_capture(request);
  return std::make_unique<CudaMeasurer>(
      request, std::make_unique<CudaMemory>(request.problem.device_index, request.context.stream));
}

CudaMeasurer::CudaMeasurer(const MeasureRequest& request, std::unique_ptr<CudaMemory> memory)
    : InProcessMeasurer(request, std::move(memory)) {
  context_.stream = this->memory().stream();
  open(request);
  make_sets(request);
  for (int i = 0; i < kMaxReplays; ++i) timers_.push_back(std::make_unique<cuda::Timer>());
}

CudaMeasurer::~CudaMeasurer() { (void)alive(); }  // nothing may run when graphs and tensors go

std::unique_ptr<Verifier> CudaMeasurer::make_verifier(const Problem& problem, const Args& args,
                                                      std::vector<std::int64_t> rows,
                                                      ClockFn clock) {
  if (op_.def.judge)
    return std::make_unique<FetchingVerifier>(op_, problem, args, std::move(rows), context_, clock,
                                              memory());
  return std::make_unique<CudaVerifier>(op_, problem, args, std::move(rows), context_, clock,
                                        memory());
}

// Between two launches on a set, three times the L2 cache's size of other memory is touched: by the
// launches on the other sets, or by a flush. Sets may be copies: the values do not change the time.
// Every other set has the caller's own number of tokens, where it is not the end of its bucket:
// what is fastest for 256 rows took 165 µs for 200, something else 143 (matmul, 28672 × 8192,
// H200).
void CudaMeasurer::make_sets(const MeasureRequest& request) {
  const std::size_t one = sets_.front().bytes();
  const auto wanted = 3 * static_cast<std::size_t>(memory().device().l2_bytes);
  const double room = kMaxShareOfMemory * memory().capacity();
  const auto fit = [&](std::size_t more) {
    return static_cast<double>((sets_.size() + more) * one) + static_cast<double>(wanted) < room;
  };
  const Problem own = request.caller ? own_call(op_, problem_, request.caller->letters) : problem_;
  const std::size_t sizes = !(own == problem_) && fit(1) ? 2 : 1;
  if (sizes == 2) sets_.emplace_back(op_, own, request.seed, request.caller, *memory_);
  rotation_ = {sizes, one, wanted, sizes};
  if (one >= wanted) return;  // it fills the cache alone
  const std::size_t count =
      std::clamp<std::size_t>((wanted + one - 1) / one, 1, Rotation::kMaxSets);
  while (sets_.size() < count && fit(sizes))
    for (std::size_t i = 0; i < sizes; ++i) sets_.emplace_back(sets_[i]);
  rotation_.sets = sets_.size();
  flushed_ = std::make_unique<CudaArray<std::byte>>(memory(), wanted);
}

// Flushes the cache before a replay whose first sets the last replay has just used; returns the
// bytes written.
std::size_t CudaMeasurer::flush(const Unrolled& unrolled, int value) {
  if (!flushed_ || rotation_.bytes_apart(unrolled.count, 0) >= rotation_.wanted) return 0;
  cuda::fill_bytes(flushed_->get(), value, rotation_.wanted, context_.stream);
  return rotation_.wanted;
}

int CudaMeasurer::compiles_at_once() const {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
}

void CudaMeasurer::compile_ahead(std::vector<const Plan*>& plans) {
  std::vector<KernelSource> sources;
  for (const Plan* plan : plans)
    if (const Implementation& impl = *plan->implementation; impl.sources)
      for (KernelSource& source : impl.sources({problem_, memory().device(), impl}, plan->config))
        sources.push_back(std::move(source));
  try {
    jit::compile_all(sources, memory().device().arch);
  } catch (const Error&) {  // `check` meets it again, and says whose it is
  }
  std::stable_partition(plans.begin(), plans.end(), [](const Plan* plan) {
    try {
      const Kernel& kernel = compile(*plan);
      return std::none_of(std::begin(kernel.entries), std::end(kernel.entries),
                          [](const cuda::Function* f) { return f && f->spill_bytes > 0; });
    } catch (const std::exception&) {
      return true;
    }
  });
}

// A kernel is compiled for at most max_threads per block; one such block must fit on a
// multiprocessor.
std::string CudaMeasurer::refusal_of(const Plan& plan, const Kernel& kernel) const {
  const Implementation& impl = *plan.implementation;
  if (!impl.sources) return {};
  const std::vector<KernelSource> sources =
      impl.sources({problem_, memory().device(), impl}, plan.config);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const cuda::Function& f = *kernel.entries[i];
    const int shared = sources[i].dynamic_shared_bytes;
    if (f.blocks_per_unit(f.max_threads, shared) == 0)
      return text("no block fits on a multiprocessor: ", f.max_threads, " threads of ", f.registers,
                  " registers with ", f.static_shared_bytes + shared, " bytes of shared memory");
  }
  return {};
}

int CudaMeasurer::run_once(const Kernel& kernel, const CallData& data, double& ms) {
  timer_.begin(context_.stream);
  const int code = run(kernel, data);
  timer_.end(context_.stream);
  ms = timer_.milliseconds();  // waits, and throws what the kernel did
  cuda::synchronize(context_.stream);
  return code;
}

bool CudaMeasurer::alive() {
  try {
    cuda::synchronize(context_.stream);
    return true;
  } catch (const Error&) {
    return false;
  }
}

int CudaMeasurer::run_all(const Unrolled& unrolled) {
  for (int i = 0; i < unrolled.count; ++i)
    if (const int code = run(*unrolled.kernel, sets_[static_cast<std::size_t>(i) % sets_.size()]))
      return code;
  return 0;
}

void CudaMeasurer::record(Unrolled& unrolled) {
  unrolled.graph.reset();
  if (!unrolled.plan->implementation->flags.capturable) {
    eager_ = true;
    return;
  }
  struct Self {
    CudaMeasurer* measurer;
    Unrolled* unrolled;
  } self{this, &unrolled};
  unrolled.graph = std::make_unique<cuda::Graph>(
      context_.stream,
      [](void* s) {
        const Self& of = *static_cast<Self*>(s);
        return of.measurer->run_all(*of.unrolled);
      },
      &self);
  graphs_ = true;
}

void CudaMeasurer::replay(const Unrolled& unrolled) {
  if (unrolled.graph)
    unrolled.graph->replay(context_.stream);
  else
    cuda::check(run_all(unrolled), "launching");
}

double CudaMeasurer::timed_replay(const Unrolled& unrolled) {
  timer_.begin(context_.stream);
  replay(unrolled);
  timer_.end(context_.stream);
  return timer_.milliseconds();
}

CudaMeasurer::Unrolled& CudaMeasurer::unroll(const Plan& plan, double ms) {
  const Kernel& kernel = compile(plan);
  reserve_workspace(kernel);
  for (auto it = unrolled_.begin(); it != unrolled_.end(); ++it)
    if (it->plan == &plan) {
      unrolled_.splice(unrolled_.begin(), unrolled_, it);
      return unrolled_.front();
    }
  Unrolled made{&plan, &kernel, rotation_.launches(ms), 0, nullptr};
  // cuBLASLt's algorithm for another size is chosen outside captures; set 0 was checked.
  for (std::size_t i = 1; i < rotation_.sizes; ++i) cuda::check(run(kernel, sets_[i]), "launching");
  record(made);
  replay(made);  // uploads the graph
  // For a short kernel, `ms` includes the host's part of a launch: the graph's own time decides.
  made.replay_ms = timed_replay(made);
  if (const int count = rotation_.launches(made.replay_ms / made.count); count > made.count) {
    made.count = count;
    record(made);
    replay(made);
    made.replay_ms = timed_replay(made);
  }
  unrolled_.push_front(std::move(made));
  if (unrolled_.size() > kMaxGraphs) unrolled_.pop_back();
  return unrolled_.front();
}

// The first replay is discarded: it warms clocks and instruction cache, and hides the host's
// launches of the timed replays. Inputs that the kernel writes are restored before the replays, not
// between them: a copy would be timed as well, and values change no time here.
double CudaMeasurer::sample(const Plan& plan, double ms) {
  Unrolled& unrolled = unroll(plan, ms);
  if (sets_.front().has_written_inputs())
    for (CallData& set : sets_) set.restore();
  const int replays = replays_for(unrolled.replay_ms);
  replay(unrolled);
  for (int i = 0; i < replays; ++i) {
    warm_ |= rotation_.bytes_apart(unrolled.count, flush(unrolled, i)) < rotation_.wanted;
    cuda::Timer& timer = *timers_[static_cast<std::size_t>(i)];
    timer.begin(context_.stream);
    replay(unrolled);
    timer.end(context_.stream);
  }
  std::vector<double> times;
  for (int i = 0; i < replays; ++i)
    times.push_back(timers_[static_cast<std::size_t>(i)]->milliseconds() / unrolled.count);
  std::nth_element(times.begin(), times.begin() + replays / 2, times.end());
  return times[static_cast<std::size_t>(replays / 2)];
}

Fields CudaMeasurer::conditions() const {
  const cuda::Clocks clocks = cuda::clocks(problem_.device_index);
  return {{"cache", warm_ ? "warm" : "cold"},
          {"method", graphs_ ? (eager_ ? "graph, eager" : "graph") : "eager"},
          {"driver", cuda::driver_version()},
          {"nvrtc", jit::compiler_version()},
          {"sm_mhz", std::to_string(clocks.sm_mhz)},
          {"memory_mhz", std::to_string(clocks.memory_mhz)},
          {"temperature_c", std::to_string(clocks.temperature_c)},
          {"throttle", reasons_of(clocks.throttle_reasons)}};
}

}  // namespace dlblas
