// Checking and timing candidates in this process; see measure.hpp.
#include "tuner/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/counters.hpp"
#include "core/error.hpp"

namespace dlblas {
namespace {

constexpr int kPatterns[] = {GuardedTensor::kGuardByte, 0x5c};
constexpr std::int64_t kSampleNs = 20'000;
// Above this many elements `check` compares chosen rows: a search has hundreds of candidates, and
// comparing each whole would take the budget. The winner is compared whole all the same.
constexpr std::int64_t kMaxCheckedElements = 1 << 22;
// Rotated sets of tensors stay below this.
constexpr std::size_t kMaxInputBytes = std::size_t{1} << 30;

int no_new_output(void*, int, TensorView*) { return 1; }  // results exist: none is ever asked for

}  // namespace

std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string_view name_of(Failure failure) {
  constexpr std::string_view kNames[] = {
      "", "compile_error", "launch_error", "out_of_bounds", "unwritten", "wrong_result"};
  return kNames[static_cast<int>(failure)];
}

Measurer::Measurer(const Operator& op, const Problem& problem, std::uint64_t seed,
                   const Args* caller, const Context& context, ClockFn clock)
    : op_(op), problem_(problem), context_(context), clock_(clock) {
  context_.new_output = no_new_output;
  sets_.emplace_back(op, problem, seed, caller, context);
  const Args& args = sets_.front().args();
  std::vector<std::int64_t> rows = choose_rows(op, problem, args, seed, kMaxCheckedElements);
  checks_whole_ = static_cast<std::int64_t>(rows.size()) == count_rows(args);
  const std::int64_t begin = clock_();
  oracle_ = std::make_unique<Oracle>(op, problem, args, std::move(rows), context);
  oracle_ms_ = static_cast<double>(clock_() - begin) * 1e-6;
  make_sets();
}

// Tensors that the last-level cache of one core holds (L2) are in it in real life too: they were
// just written by the call before. Larger ones are rotated, so that no run finds what the run
// before it left in a cache. Copies do: the values do not change the time.
void Measurer::make_sets() {
  const DeviceInfo& device = device_info(problem_.device());
  const std::size_t one = sets_.front().bytes();
  if (one <= static_cast<std::size_t>(device.l2_bytes)) return;
  rotates_ = true;
  const auto wanted = 3 * static_cast<std::size_t>(device.l3_bytes);
  while (sets_.size() * one < wanted && (sets_.size() + 1) * one <= kMaxInputBytes)
    sets_.emplace_back(sets_.front());
}

void* Measurer::workspace_for(const Kernel& kernel) {
  constexpr std::size_t kAlign = 64, kGuard = 256;
  workspace_bytes_ = kernel.workspace_bytes;
  if (workspace_.size() < workspace_bytes_ + 2 * kGuard + kAlign) {
    workspace_.resize(workspace_bytes_ + 2 * kGuard + kAlign);
    const auto base = reinterpret_cast<std::uintptr_t>(workspace_.data()) + kGuard;
    workspace_begin_ = workspace_.data() + kGuard + (kAlign - base % kAlign) % kAlign;
  }
  std::memset(workspace_begin_ - kGuard, GuardedTensor::kGuardByte, kGuard);
  std::memset(workspace_begin_ + workspace_bytes_, GuardedTensor::kGuardByte, kGuard);
  return workspace_bytes_ > 0 ? workspace_begin_ : nullptr;
}

bool Measurer::workspace_intact() const {
  constexpr std::ptrdiff_t kGuard = 256;
  const auto clean = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, to,
                       [](std::byte b) { return b == std::byte{GuardedTensor::kGuardByte}; });
  };
  const std::byte* end = workspace_begin_ + workspace_bytes_;
  return clean(workspace_begin_ - kGuard, workspace_begin_) && clean(end, end + kGuard);
}

int Measurer::run(const Kernel& kernel, const CallData& data) {
  return run_steps(kernel, data.args(), context_,
                   workspace_bytes_ > 0 ? workspace_begin_ : nullptr);
}

Check Measurer::check(const Plan& plan) {
  const Kernel* kernel = nullptr;
  try {
    kernel = &compile(plan);
  } catch (const std::exception& e) {
    return {Failure::kCompileError, e.what()};
  }
  Check result;
  CallData& data = sets_.front();
  std::vector<std::vector<std::int64_t>>
      suspects;  // per result: elements that kept the first pattern
  Failure wrong = Failure::kNone;
  for (const int pattern : kPatterns) {
    data.restore();
    data.poison_results(pattern);
    workspace_for(*kernel);
    const std::int64_t begin = clock_();
    try {
      if (const int code = run(*kernel, data))
        return {Failure::kLaunchError, text("a step returned code ", code)};
    } catch (const std::exception& e) {
      return {Failure::kLaunchError, e.what()};
    }
    result.ms = static_cast<double>(clock_() - begin) * 1e-6;
    if (!data.guards_intact() || !workspace_intact())
      return {Failure::kOutOfBounds, "bytes outside the results were written"};
    const std::vector<GuardedTensor*> results = data.own_results();
    for (std::size_t r = 0; r < results.size(); ++r) {
      std::vector<std::int64_t> kept = results[r]->elements_equal_to(pattern);
      if (pattern == kPatterns[0]) {
        suspects.push_back(std::move(kept));
        continue;
      }
      std::vector<std::int64_t> unwritten;
      std::set_intersection(kept.begin(), kept.end(), suspects[r].begin(), suspects[r].end(),
                            std::back_inserter(unwritten));
      if (!unwritten.empty())
        return {Failure::kUnwritten, text(unwritten.size(), " elements of result ", r,
                                          " were not written, the first at ", unwritten.front())};
    }
    const Verdict verdict = oracle_->compare(data.args());
    mistrusted_ |= verdict.mistrusted;
    if (verdict.wrong > 0 && wrong == Failure::kNone) {
      wrong = Failure::kWrongResult;
      result.note =
          text(verdict.wrong, " of ", verdict.checked, " elements are wrong, the first at ",
               verdict.first_wrong, " of result ", verdict.result);
    }
    result.error = std::max(result.error, verdict.worst);
  }
  result.failure = wrong;  // told last: an unwritten element is also a wrong one
  if (wrong == Failure::kNone) count(g_counters.measured);
  return result;
}

Verdict Measurer::check_whole(const Plan& plan) {
  CallData& data = sets_.front();
  data.restore();
  data.poison_results(kPatterns[0]);
  const Kernel& kernel = compile(plan);
  workspace_for(kernel);
  run(kernel, data);
  if (!data.has_written_inputs()) return verify(op_, problem_, data.args(), {}, context_);
  // Results in place have overwritten what the oracle reads: it gets the inputs of a fresh copy.
  CallData before(data);
  before.restore();
  Args args = data.args();
  for (int i = 0; i < op_.schema.num_inputs; ++i) args.tensors[i] = before.args().tensors[i];
  return verify(op_, problem_, args, {}, context_);
}

double Measurer::whole_cost_ms() const {
  const double done = static_cast<double>(std::max<std::size_t>(1, oracle_->rows().size()));
  return oracle_ms_ * static_cast<double>(count_rows(sets_.front().args())) / done;
}

int Measurer::batch_for(double ms) const {
  const double ns = std::max(1.0, ms * 1e6);
  return static_cast<int>(std::clamp(std::ceil(kSampleNs / ns), 1.0, 10'000.0));
}

double Measurer::sample(const Plan& plan, int batch) {
  const Kernel& kernel = compile(plan);
  workspace_for(kernel);
  CallData& first = sets_[next_set_ % sets_.size()];
  if (first.has_written_inputs())  // before the batch, not in it: a copy would be timed as well
    for (CallData& set : sets_) set.restore();
  const std::int64_t begin = clock_();
  for (int i = 0; i < batch; ++i) run(kernel, sets_[next_set_++ % sets_.size()]);
  return static_cast<double>(clock_() - begin) * 1e-6 / batch;
}

}  // namespace dlblas
