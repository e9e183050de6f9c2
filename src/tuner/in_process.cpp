// Checking candidates in this process, on any device; see in_process.hpp.
#include "tuner/in_process.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "core/counters.hpp"
#include "core/env_seconds.hpp"
#include "core/error.hpp"
#include "tuner/cuda_measurer.hpp"

namespace dlblas {
namespace {

// A built-in winner is also checked on other values if their oracle takes no longer than this.
constexpr double kCheapOthersMs = 75;
// With room for the workspace's other place in Look::kElsewhere.
constexpr std::size_t kWorkspaceGuard = GuardedTensor::kGuardBytes, kWorkspaceMove = 4096;

constexpr std::string_view kUnjudgedWords =
    "what the reference says of the inputs that were drawn is constant, mostly NaN or not defined, "
    "so that nothing tells a right result from a wrong one; say in the schema what inputs hold (~ "
    "positive, index<N, ...)";

int no_new_output(void*, int, TensorView*) { return 1; }  // results exist: none is ever asked for

}  // namespace

double first_call_seconds() { return env_seconds(EnvVar::kFirstCallSeconds, 30); }

std::int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string_view name_of(Failure failure) {
  constexpr std::string_view kNames[] = {"",
                                         "compile_error",
                                         "compile_timeout",
                                         "launch_error",
                                         "illegal_access",
                                         "out_of_memory",
                                         "timeout",
                                         "crash",
                                         "out_of_bounds",
                                         "unwritten",
                                         "wrong_result",
                                         "unjudged"};
  static_assert(std::size(kNames) == kNumFailures);
  return kNames[static_cast<int>(failure)];
}

std::unique_ptr<Measurer> make_measurer(const MeasureRequest& request) {
  return request.problem.device_type == DeviceType::kCuda ? make_cuda_measurer(request)
                                                          : make_host_measurer(request);
}

InProcessMeasurer::InProcessMeasurer(const MeasureRequest& request, std::unique_ptr<Memory> memory)
    : op_(request.op),
      problem_(request.problem),
      context_(request.context),
      memory_(std::move(memory)),
      clock_(request.clock),
      seed_(request.seed),
      workspace_(nullptr, Release{memory_.get()}) {
  context_.new_output = no_new_output;
  if (op_.def.inputs_related) variety_.large = 0;
}

void InProcessMeasurer::open(const MeasureRequest& request) {
  sets_.emplace_back(op_, problem_, request.seed, request.caller, *memory_);
  const Args& args = sets_.front().args();
  std::vector<std::int64_t> rows =
      choose_rows(op_, problem_, args, request.seed, kMaxCheckedElements);
  checks_whole_ = static_cast<std::int64_t>(rows.size()) == count_rows(args);
  verifier_ = first_verifier(rows);
  rows_ = std::move(rows);
}

// A user's reference may use integers without a role as places, and raise if they are out of range.
std::unique_ptr<Verifier> InProcessMeasurer::first_verifier(const std::vector<std::int64_t>& rows) {
  CallData& data = sets_.front();
  if (op_.def.user && data.has_plain_integers()) {
    try {
      make_verifier(some_of(rows, 0));
      for (const Look look : {Look::kPart, Look::kScalars, Look::kElsewhere}) {
        data.vary(problem_, seed_, look, nothing_else());
        make_verifier(some_of(rows, 0));
      }
      data.remake(problem_, seed_);
      data.restore();
    } catch (const Error&) {
      data.remake(problem_, seed_);
      data.use_small_integers(problem_, seed_);
    }
  }
  return make_verifier(rows);
}

void InProcessMeasurer::reserve_workspace(const Kernel& kernel) {
  workspace_bytes_ = kernel.workspace_bytes;
  if (workspace_bytes_ == 0) return;
  const std::size_t room = workspace_bytes_ + 2 * kWorkspaceGuard + kWorkspaceMove;
  if (workspace_room_ < room) {
    workspace_moves();
    workspace_.reset();
    workspace_.reset(memory_->allocate(room));
    workspace_room_ = room;
  }
}

std::byte* InProcessMeasurer::workspace() const {
  const std::size_t moved = look_ == Look::kElsewhere ? kWorkspaceMove : 0;
  return workspace_bytes_ > 0 ? workspace_.get() + kWorkspaceGuard + moved : nullptr;
}

void InProcessMeasurer::guard_workspace() {
  if (workspace_bytes_ == 0) return;
  std::byte *const begin = workspace_.get(), *const end = workspace() + workspace_bytes_;
  memory_->set(begin, GuardedTensor::kGuardByte, static_cast<std::size_t>(workspace() - begin));
  memory_->set(end, GuardedTensor::kGuardByte, kWorkspaceGuard);
  // A caller's workspace holds what others left there, or this kernel's last run: in the looks
  // between, it is left as it is.
  constexpr int kDirt = 0xff, kOtherDirt = 0x01;
  const bool elsewhere = look_ == Look::kElsewhere;
  if (std::exchange(new_check_, false) || elsewhere)
    memory_->set(workspace(), elsewhere ? kOtherDirt : kDirt, workspace_bytes_);
}

bool InProcessMeasurer::workspace_intact() const {
  if (workspace_bytes_ == 0) return true;
  std::byte *const begin = workspace_.get(), *const end = workspace() + workspace_bytes_;
  return memory_->all_equal(begin, GuardedTensor::kGuardByte,
                            static_cast<std::size_t>(workspace() - begin)) &&
         memory_->all_equal(end, GuardedTensor::kGuardByte, kWorkspaceGuard);
}

int InProcessMeasurer::run(const Kernel& kernel, const CallData& data) {
  const ForkWatch::Run watched(forks_, &kernel);
  const LentMemory lent(*memory_);
  return run_steps(kernel, data.args(), context_, workspace());
}

std::string InProcessMeasurer::words_of(int code) const {
  return problem_.device_type == DeviceType::kCuda ? cuda::error_text(code)
                                                   : text("a step returned code ", code);
}

// As in a worker, the time of a user's first call does not count against the budget.
Check InProcessMeasurer::check(const Plan& plan) {
  const bool is_first =
      plan.implementation->flags.user && called_.insert(plan.implementation).second;
  const std::int64_t begin = clock_();
  Check check;
  {
    const FirstAgain after(*this);
    check = check_here(plan);
  }
  if (is_first)
    beside_s_ += std::min(1e-9 * static_cast<double>(clock_() - begin), first_call_seconds());
  return check;
}

Check InProcessMeasurer::check_here(const Plan& plan) {
  Check result;
  const Kernel* kernel = nullptr;
  try {
    {
      const ForkWatch::Run watched(forks_, &plan);
      kernel = &compile(plan);
    }
    if (forks_.came_back(&plan)) return {Failure::kCompileError, ForkWatch::kWords};
  } catch (const std::bad_alloc&) {
    return {Failure::kOutOfMemory, "more memory than there is, while it was prepared"};
  } catch (const std::exception& e) {
    return {Failure::kCompileError, e.what()};
  }
  if (std::string no = refusal_of(plan, *kernel); !no.empty())
    return {Failure::kCompileError, std::move(no)};
  renew_inputs(plan);
  // A user's candidate may remember by address: a packed copy, a descriptor, a static graph. So may
  // a built-in one, which is looked at when it has won and is checked again; if its oracle is slow,
  // only the whole check looks (`check_whole`, whose cost the race knows).
  const bool varies = plan.implementation->flags.user ||
                      (right_.count(kernel) > 0 && others_ms() <= kCheapOthersMs);
  // A candidate that keeps the sizes of its first call may keep the smaller ones or the larger: it
  // gets the smaller call before and after. A failure of the one before is reported if nothing else
  // is wrong, or if it wrote out of bounds: a captured call may not do again what its first one did
  // outside.
  Check smaller;
  if (plan.implementation->flags.user) smaller = check_smaller(*kernel);
  if (lost_) return smaller;
  new_check_ = true;
  Suspects suspects;
  Check wrong;
  std::unique_ptr<KeptResults> kept;
  for (const int pattern : kPatterns) {
    if (varies && pattern != kPatterns[0]) show(plan, Look::kPart);
    if (!check_run(plan, *kernel, pattern, suspects, result)) return result;
    if (look_ != Look::kFirst) {
      std::string why = wrong_for_others(result.error);
      if (!why.empty() && wrong.failure == Failure::kNone)
        wrong = {Failure::kWrongResult, std::move(why)};
      continue;
    }
    const Verdict verdict = verifier_->compare(sets_.front().args());
    mistrusted_ |= verdict.mistrusted;
    telling_ |= verdict.telling;
    if (verdict.wrong > 0 && wrong.failure == Failure::kNone)
      wrong = {Failure::kWrongResult,
               text(verdict.wrong, " of ", verdict.checked, " elements are wrong, ",
                    first_place(op_.schema, verdict))};
    result.error = std::max(result.error, verdict.worst);
    if (pattern != kPatterns[0] || checks_whole_ || wrong.failure != Failure::kNone) continue;
    try {
      if (keeps(*kernel)) kept = std::make_unique<KeptResults>(sets_.front());
      compare_with_others(*kernel, wrong);
    } catch (const std::bad_alloc&) {  // no room for copies: the chosen rows were right
    }
    result.beside = wrong.beside;
  }
  for (const Look look : {Look::kScalars, Look::kElsewhere})
    if (varies && wrong.failure == Failure::kNone)
      wrong = check_look(plan, *kernel, look, result.error);
  if (wrong.failure == Failure::kNone || smaller.failure == Failure::kOutOfBounds)
    wrong = std::move(smaller);
  if (plan.implementation->flags.user && wrong.failure == Failure::kNone)
    wrong = check_smaller(*kernel);
  if (plan.implementation->flags.user && wrong.failure == Failure::kNone && !telling_)
    wrong = {Failure::kUnjudged, std::string(kUnjudgedWords)};
  if (kept && wrong.failure == Failure::kNone) others_.push_back({kernel, std::move(kept)});
  result.failure = wrong.failure;  // told last: an unwritten element is also a wrong one
  result.note = wrong.note;
  if (wrong.failure == Failure::kNone && right_.insert(kernel).second) count(g_counters.measured);
  return result;
}

// True for the device driver's out-of-memory code.
bool InProcessMeasurer::is_out_of_memory(int code) const {
  constexpr int kCudaOutOfMemory = 2;
  return problem_.device_type == DeviceType::kCuda && code == kCudaOutOfMemory;
}

Check InProcessMeasurer::try_run(const Kernel& kernel, const CallData& data) {
  Check result;
  try {
    reserve_workspace(kernel);
    guard_workspace();
    const int code = run_once(kernel, data, result.ms);
    if (forks_.came_back(&kernel)) return {Failure::kLaunchError, ForkWatch::kWords};
    if (code == 0) return result;
    result.failure = is_out_of_memory(code) ? Failure::kOutOfMemory : Failure::kLaunchError;
    result.note = words_of(code);
  } catch (const std::bad_alloc&) {
    result.failure = Failure::kOutOfMemory;
    result.note =
        text("more memory than there is; its workspace has ", kernel.workspace_bytes, " bytes");
  } catch (const std::exception& e) {
    result.failure = Failure::kLaunchError;
    result.note = e.what();
  }
  look_after_failure();
  if (lost_) result.failure = Failure::kIllegalAccess;
  return result;
}

Check InProcessMeasurer::run_guarded(const Plan& plan, const Kernel& kernel, int pattern) {
  CallData& data = sets_.front();
  if (look_ == Look::kFirst) data.restore();  // others are fresh, those of written inputs too
  data.poison_results(pattern);
  Check ran = try_run(kernel);
  if (ran.failure != Failure::kNone) return ran;
  if (!data.guards_intact() || !workspace_intact())
    ran = {Failure::kOutOfBounds, "bytes outside the results were written", 0, ran.ms};
  else if (std::string written = written_input(plan); !written.empty())
    ran = {Failure::kOutOfBounds, std::move(written), 0, ran.ms};
  return ran;
}

// One run on poisoned results; false: `result` says how it failed.
bool InProcessMeasurer::check_run(const Plan& plan, const Kernel& kernel, int pattern,
                                  Suspects& suspects, Check& result) {
  Check ran = run_guarded(plan, kernel, pattern);
  result.ms = ran.ms;
  result.failure = ran.failure;
  result.note = std::move(ran.note);
  return ran.failure == Failure::kNone && check_written(kernel, pattern, suspects, result);
}

bool InProcessMeasurer::check_written(const Kernel& kernel, int pattern, Suspects& suspects,
                                      Check& result) {
  const CallData& data = sets_.front();
  result.failure = Failure::kNone;
  for (int r = 0; r < op_.schema.num_results; ++r) {
    const GuardedTensor* tensor = data.own_result(r);
    std::vector<std::int64_t> kept;
    if (tensor) kept = tensor->elements_equal_to(pattern);
    if (pattern == kPatterns[0]) {
      suspects.kept.push_back(std::move(kept));
      continue;
    }
    const std::vector<std::int64_t>& first = suspects.kept[static_cast<std::size_t>(r)];
    std::vector<std::int64_t> unwritten;
    std::set_intersection(kept.begin(), kept.end(), first.begin(), first.end(),
                          std::back_inserter(unwritten));
    if (!unwritten.empty()) unwritten = defined_of_result(r, unwritten);
    if (!unwritten.empty() && look_ != Look::kFirst) unwritten = still_kept(kernel, r, unwritten);
    if (unwritten.empty()) continue;
    result.failure = Failure::kUnwritten;
    result.note = text(unwritten.size(), " elements of result ", r,
                       " were not written, the first at ", unwritten.front());
    return false;
  }
  return true;
}

// The first pattern was kept with other values: a result of one byte may well equal the first
// pattern for those and the second for these. For the same values it cannot equal both.
std::vector<std::int64_t> InProcessMeasurer::still_kept(const Kernel& kernel, int r,
                                                        const std::vector<std::int64_t>& elements) {
  CallData& data = sets_.front();
  if (data.has_written_inputs()) return elements;  // a second run would start from what it wrote
  data.poison_results(kPatterns[0]);
  if (try_run(kernel).failure != Failure::kNone) return elements;
  const std::vector<std::int64_t> kept = data.own_result(r)->elements_equal_to(kPatterns[0]);
  std::vector<std::int64_t> both;
  std::set_intersection(kept.begin(), kept.end(), elements.begin(), elements.end(),
                        std::back_inserter(both));
  if (both.empty()) {  // what is looked at next holds the second pattern where it was not written
    data.poison_results(kPatterns[1]);
    if (try_run(kernel).failure != Failure::kNone) return elements;
  }
  return both;
}

std::vector<std::int64_t> InProcessMeasurer::defined_of_result(
    int r, const std::vector<std::int64_t>& elements) {
  const CallData& data = sets_.front();
  if (!data.has_written_inputs()) return verifier_->defined(data.args(), r, elements);
  CallData before(data);
  before.restore();
  return verifier_->defined(before.args(), r, elements);
}

bool InProcessMeasurer::keeps(const Kernel& kernel) const {
  constexpr std::size_t kOthers = 2;  // one of them is another implementation than any candidate's
  return others_.size() < kOthers &&
         std::none_of(others_.begin(), others_.end(), [&](const Other& o) {
           return o.kernel->implementation == kernel.implementation;
         });
}

void InProcessMeasurer::compare_with_others(const Kernel& kernel, Check& found) {
  for (std::size_t i = 0; i < others_.size() && found.failure == Failure::kNone;) {
    const Other& other = others_[i];
    const bool itself = other.kernel == &kernel;
    if (!itself && !compare_with(*other.results, found)) {
      others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    found.beside |= other.kernel->implementation != kernel.implementation;
    ++i;
  }
}

// If the two differ by too much, the oracle decides which is wrong, in some of these rows.
bool InProcessMeasurer::compare_with(const KeptResults& other, Check& found) {
  CallData& data = sets_.front();
  const std::vector<std::int64_t> rows =
      some_of(verifier_->disputed(data.args(), other.args()), verifier_->row_ms());
  if (rows.empty()) return true;
  const KeptResults mine(data);
  data.restore();
  const std::unique_ptr<Verifier> verifier = make_verifier(rows);
  if (const Verdict verdict = verifier->compare(mine.args()); verdict.wrong > 0)
    found = {Failure::kWrongResult,
             text(verdict.wrong, " of ", verdict.checked,
                  " elements are wrong where another implementation disagrees, ",
                  first_place(op_.schema, verdict))};
  return verifier->compare(other.args()).wrong == 0;
}

Check InProcessMeasurer::check_whole(const Plan& plan) {
  const FirstAgain after(*this);
  renew_inputs(plan);
  CallData& data = sets_.front();
  data.restore();
  data.poison_results(kPatterns[0]);
  const Kernel& kernel = compile(plan);
  reserve_workspace(kernel);
  guard_workspace();
  Check result;
  if (const int code = run_once(kernel, data, result.ms)) {
    look_after_failure();
    result.failure = Failure::kLaunchError;
    result.note = words_of(code);
    return result;
  }
  if (forks_.came_back(&kernel)) return {Failure::kLaunchError, ForkWatch::kWords};
  if (std::string written = written_input(plan); !written.empty())
    return {Failure::kOutOfBounds, std::move(written)};
  const Verdict verdict = compare_whole();
  result.error = verdict.worst;
  if (verdict.wrong > 0) {
    result.failure = Failure::kWrongResult;
    result.note = text(verdict.wrong, " of ", verdict.checked, " elements are wrong");
    return result;
  }
  for (const Look look : {Look::kPart, Look::kScalars, Look::kElsewhere})
    if (Check found = check_look(plan, kernel, look, result.error); found.failure != Failure::kNone)
      return found;
  return result;
}

Verdict InProcessMeasurer::compare_whole() {
  const CallData& data = sets_.front();
  if (!data.has_written_inputs()) return verifier_->compare_whole(data.args(), data.args());
  // The call has overwritten what the oracle reads: it gets the inputs of a fresh copy.
  CallData before(data);
  before.restore();
  return verifier_->compare_whole(before.args(), data.args());
}

double InProcessMeasurer::whole_cost_ms() const {
  return verifier_->row_ms() * static_cast<double>(count_rows(sets_.front().args())) + others_ms();
}

}  // namespace dlblas
