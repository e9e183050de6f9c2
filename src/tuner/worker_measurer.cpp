// Asking a worker; see worker_measurer.hpp.
#include "tuner/worker_measurer.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "core/counters.hpp"
#include "core/digits.hpp"
#include "core/element.hpp"
#include "core/log.hpp"
#include "jit/jit.hpp"
#include "tuner/cuda_memory.hpp"
#include "tuner/inputs.hpp"

namespace dlblas {
namespace {

using worker::Ending;
using worker::Reply;
using worker::Request;

// A candidate that takes this many times longer than every one that was right, compiling and
// comparing included, cannot win any more.
constexpr double kTimesTheSlowest = 20;
constexpr double kTimesTheFirst = 3;
// The share of the remaining budget for one candidate, so that one that hangs leaves time for the
// next.
constexpr double kShareOfTheRest = 0.5;
// Enough for a whole compilation, whatever the others took: kernels that compile in 0.1 s and in
// several seconds are not far apart.
constexpr double kCompileSeconds = 5;
// Built-in kernels, while nothing else is known: a default is measured however slow it is.
constexpr double kFirstSeconds = 30;
// And after that: they are tested, so one that takes long compiles, or loads a library, and is not
// hanging.
constexpr double kTestedSeconds = 5;
constexpr double kConditionsSeconds = 5;
// Python's start and its imports. Within the budget, unless that is too short for any worker; a
// user's modules import torch or Triton, and have the time of a first call, all starts together.
constexpr double kMinStartSeconds = 5, kMaxStartSeconds = 60;
// Inputs and the oracle's rows, on any machine: no candidate runs yet.
constexpr double kOpenSeconds = 120;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// A tensor of the caller, in whatever memory and with whatever strides, as row-major bytes.
worker::IndexTensor copy_of(int tensor, const TensorView& from, void* stream) {
  std::vector<std::byte> kept;
  TensorView view = from;
  if (from.device.type == DeviceType::kCuda) {
    CudaMemory memory(from.device.index, stream);
    view = fetch(from, memory, kept);
  }
  const auto size = static_cast<std::size_t>(size_of(view.dtype));
  std::string bytes(static_cast<std::size_t>(view.numel()) * size, '\0');
  const Rows rows = rows_of(view, 0);
  for (std::int64_t i = 0; i < view.numel(); ++i)
    std::memcpy(
        bytes.data() + static_cast<std::size_t>(i) * size,
        static_cast<const std::byte*>(view.data) + rows.offset(i) * static_cast<std::int64_t>(size),
        size);
  view.data = nullptr;
  view.device = {};
  std::int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.strides[i] = stride;
    stride *= view.shape[i];
  }
  return {tensor, view, std::move(bytes)};
}

worker::Opening opening_of(const MeasureRequest& request) {
  const Schema& schema = request.op.schema;
  worker::Opening opening{schema.name, schema.hash, request.problem, request.seed, {}, {}};
  const Args* caller = request.caller;
  if (!caller) return opening;
  std::copy_n(caller->letters, schema.letters.size(), opening.sizes);
  for (std::size_t i = 0; i < schema.scalars.size(); ++i)
    opening.scalars.push_back(caller->scalars[i]);
  for (int i = 0; i < schema.num_inputs; ++i) {
    if (holds_indices(schema.tensors[i].fill.fill) && caller->has(i) && caller->tensors[i].data)
      opening.indices.push_back(copy_of(i, caller->tensors[i], request.context.stream));
  }
  return opening;
}

}  // namespace

WorkerMeasurer::WorkerMeasurer(const MeasureRequest& request, WorkerTerms terms)
    : request_(request), problem_(request.problem), terms_(std::move(terms)) {
  refuse_under_capture(request);
  opening_ = encode(opening_of(request));
  if (opening_.size() > worker::kMaxRequest)
    throw worker::Unusable(text("its copies of indices have ", opening_.size(), " bytes"));
  if (terms_.waiting) waiting_ = [this] { return stop_ = stop_ || terms_.waiting(); };
  try {
    begin();
  } catch (const worker::Unusable&) {
    if (!stop_) throw;
    interrupted_ = true;
  }
}

void WorkerMeasurer::begin() {
  stop_ = stop_ || (terms_.starting && terms_.starting());
  if (stop_) throw worker::Unusable("it was stopped");
  const std::int64_t begin_ns = request_.clock();
  const double limit_s = std::max(left_s(), free_start_s());
  link_ = terms_.start(waiting_, std::clamp(limit_s, kMinStartSeconds, kMaxStartSeconds));
  greet_s_ = seconds_since(begin_ns);
  const double own_s = std::min(greet_s_, free_start_s());
  imports_s_ += own_s;
  beside_s_ += own_s;
  open();
  open_s_ = seconds_since(begin_ns) - greet_s_;
}

void WorkerMeasurer::open() {
  const worker::Exchange got = link_->exchange(opening_, kOpenSeconds);
  if (got.ending != Ending::kReplied) link_.reset();
  if (got.ending == Ending::kStopped) throw worker::Unusable("it was stopped");
  if (got.ending != Ending::kReplied) {  // here it would be this process
    const std::string& op = request_.op.schema.name;
    const std::string how = got.ending == Ending::kTimedOut ? "took longer" : got.how;
    throw Error(ErrorKind::kTuning,
                text(op, ": worker made no inputs and no reference; expected both within ",
                     static_cast<int>(kOpenSeconds), " s, got: it ", how,
                     "; is there memory for a second copy?"),
                {op, "worker", "inputs and a reference", how});
  }
  opened_ = read_opened(got.reply);
  if (opened_.key != store_key(request_.op, problem_))
    throw worker::Unusable("it sees another device, or other settings, than this process");
  conditions_ = opened_.conditions;
  for (const Record::Field& field : conditions_)
    if (field.name == "nvrtc" && field.value != jit::compiler_version())
      throw worker::Unusable(text("it compiles with NVRTC ", field.value, ", this process with ",
                                  jit::compiler_version()));
  met_.clear();
  met_batch_ = false;
}

worker::Opened WorkerMeasurer::read_opened(const std::string& reply) const {
  worker::Reader from(reply);
  std::optional<Error> told;
  try {
    switch (worker::decode_reply(from)) {
      case Reply::kDone:
        return worker::decode_opened(from);
      case Reply::kNoMemory:
        break;
      case Reply::kUnknown:
        throw worker::Unusable(text("it does not know ", request_.op.schema.name));
      case Reply::kError:
        told = worker::decode_error(from);
    }
  } catch (const Error& malformed) {
    throw worker::Unusable(malformed.what());
  }
  if (!told) throw_no_memory(request_.op, problem_);
  // A device that admits one process, say: this process may be the one.
  if (told->kind() == ErrorKind::kDevice) throw worker::Unusable(told->what());
  throw *told;
}

bool WorkerMeasurer::ready() {
  if (interrupted_) return false;
  if (link_) return true;
  try {
    begin();
  } catch (const std::exception& e) {  // it worked before: the machine's doing, or somebody's
    if (!stop_) ended_because_ = e.what();
    interrupted_ = true;
    link_.reset();
  }
  return !interrupted_;
}

// The delay that other load on the machine may cause.
double WorkerMeasurer::patience_s() const { return std::clamp(0.05 * terms_.budget_s, 0.05, 1.0); }
double WorkerMeasurer::left_s() const {
  return terms_.budget_s + beside_s() - seconds_since(terms_.begin_ns);
}
// Seconds of a start that do not count against the budget.
double WorkerMeasurer::free_start_s() const {
  return terms_.imports ? std::max(0.0, first_call_seconds() - imports_s_) : 0;
}
// A candidate may end the worker that is started for it, and the final needs another one.
double WorkerMeasurer::least_s() const {
  const double starts_s = terms_.imports ? 2 * greet_s_ - free_start_s() : greet_s_;
  const double restart_s = open_s_ + std::max(0.0, starts_s);
  return patience_s() + (link_ ? 0 : restart_s);
}

// At most a share of the time left, so that a search of hanging candidates ends in time.
double WorkerMeasurer::room_s(double wanted_s) const {
  const double least = patience_s();
  return std::clamp(wanted_s, least, std::max(least, kShareOfTheRest * left_s()));
}

// An implementation's first run may include imports, a compiler, a library's start. So may its
// first run in a fresh worker, for about as long.
WorkerMeasurer::Limits WorkerMeasurer::limits_of(const Plan& plan) const {
  const Implementation& impl = *plan.implementation;
  Limits limits{room_s(kUnlimited), room_s(kUnlimited)};
  if (const auto first = first_check_s_.find(&impl); first != first_check_s_.end()) {
    limits.compile_s = room_s(std::max(kCompileSeconds, kTimesTheSlowest * slowest_compile_s_));
    limits.run_s =
        room_s(std::max(kTimesTheSlowest * slowest_check_s_, kTimesTheFirst * first->second));
  }
  if (is_first_call(impl)) {
    const double own = first_call_seconds() - hung_s_;
    limits = {std::max(limits.compile_s, own), std::max(limits.run_s, own)};
  } else if (!impl.flags.user) {
    const double least = any_right_ ? kTestedSeconds : kFirstSeconds;
    limits = {std::max(limits.compile_s, least), std::max(limits.run_s, least)};
  }
  return limits;
}

worker::Candidate WorkerMeasurer::candidate_of(const Plan& plan) const {
  const Implementation& impl = *plan.implementation;
  const std::string config = impl.table().print(plan.config);
  std::string& identity = identities_[{&impl, impl.parts ? config : std::string()}];
  if (identity.empty())
    identity = Identity({problem_, device_info(problem_.device()), impl}).of(plan.config);
  return {impl.name, identity, config};
}

std::optional<worker::Outcome> WorkerMeasurer::ask(Request what, const Plan& plan, double limit_s,
                                                   double ms) {
  const worker::Candidate candidate = candidate_of(plan);
  worker::Writer request;
  request.put(what);
  encode(request, candidate);
  if (what == Request::kSample) request.put(ms);
  const std::string bytes = request.take();
  const std::string name = candidate.implementation + " " + candidate.config;
  for (bool again = false;;) {
    if (!ready()) return worker::Outcome{{Failure::kCrash, ended_because_}};
    const bool only_it = met_.size() == met_.count(name);  // has run in this worker, or nothing has
    met_.insert(name);
    const worker::Exchange got = link_->exchange(bytes, limit_s);
    if (got.ending == Ending::kReplied) return read(got.reply);
    link_.reset();
    if (got.ending == Ending::kGone && (!only_it || met_batch_)) continue;
    const bool died = got.ending == Ending::kDied || got.ending == Ending::kGone;
    const bool has_time = !any_right_ || least_s() < left_s();
    if (died && !again && (got.outside || (!only_it && has_time))) {
      again = true;
      continue;
    }
    worker::Outcome outcome = ended(what, got, limit_s);
    outcome.check.unsure = died && !only_it;
    return outcome;
  }
}

worker::Outcome WorkerMeasurer::ended(Request what, const worker::Exchange& exchange,
                                      double limit_s) {
  if (exchange.ending == Ending::kStopped) {
    interrupted_ = true;
    return {{Failure::kTimeout, "stopped"}};
  }
  if (exchange.ending != Ending::kTimedOut)
    return {{Failure::kCrash, "the worker " + exchange.how}};
  const std::string seconds = digits(limit_s, 2) + " s";
  const bool compiling = what == Request::kPrepare;
  worker::Outcome outcome{
      {compiling ? Failure::kCompileTimeout : Failure::kTimeout,
       text(compiling ? "not compiled within " : "did not come back within ", seconds)}};
  outcome.check.limit_s = limit_s;
  return outcome;
}

std::optional<worker::Outcome> WorkerMeasurer::read(const std::string& reply) {
  try {
    worker::Reader from(reply);
    const Reply answer = worker::decode_reply(from);
    if (answer == Reply::kUnknown) return std::nullopt;
    if (answer == Reply::kNoMemory)
      return worker::Outcome{{Failure::kOutOfMemory, "more memory than there is"}};
    if (answer == Reply::kError)
      return worker::Outcome{{Failure::kLaunchError, worker::decode_error(from).what()}};
    worker::Outcome outcome = worker::decode_outcome(from);
    mistrusted_ |= outcome.mistrusted;
    g_counters.measured += outcome.measured;
    g_counters.compiled += outcome.compiled;
    g_counters.prepared += outcome.prepared;
    // A candidate that wrote outside its results may have written elsewhere too; one that broke the
    // context broke it for all. The others get a fresh worker.
    if (outcome.lost || outcome.check.failure == Failure::kOutOfBounds) link_.reset();
    return outcome;
  } catch (const Error& e) {
    link_.reset();
    return worker::Outcome{{Failure::kCrash, e.what()}};
  }
}

Measurer* WorkerMeasurer::here(const Plan& plan) {
  const Implementation* impl = plan.implementation;
  if (impl->flags.local) keep_here(plan);
  return kept_here_.count(impl) ? local_.get() : nullptr;
}

void WorkerMeasurer::keep_here(const Plan& plan) {
  const Implementation* impl = plan.implementation;
  // Logged as a warning: a hang or a crash here takes the caller with it.
  log_once(
      LogLevel::kWarn, text("worker-lacks-", request_.op.schema.name, impl->name),
      text(
          request_.op.schema.name, ": ", impl->name,
          impl->flags.local ? " was registered in a script or a function" : " is not in the worker",
          " and is measured in this process; register it from a module that can be imported"));
  if (!local_) local_ = make_measurer(request_);
  kept_here_.insert(impl);
}

// If the first call of a user's implementation times out, that says nothing about the next one, and
// is not remembered. Its time does not count against the budget; the start of a worker meanwhile,
// or a call in this process, is accounted for elsewhere.
Check WorkerMeasurer::check(const Plan& plan) {
  if (Measurer* local = here(plan)) return local->check(plan);
  const bool is_first = is_first_call(*plan.implementation);
  const std::int64_t begin = request_.clock();
  const double beside_before_s = beside_s();
  Check check = check_there(plan);
  called_.insert(plan.implementation);
  if (!is_first || kept_here_.count(plan.implementation)) return check;
  const bool hung = check.failure == Failure::kTimeout || check.failure == Failure::kCompileTimeout;
  const double took_s = seconds_since(begin) - (beside_s() - beside_before_s);
  const double own_s =
      std::min(took_s, hung ? std::max(0.0, first_call_seconds() - hung_s_) : took_s);
  beside_s_ += own_s;
  if (hung) hung_s_ += own_s;
  check.unsure |= hung;
  return check;
}

Check WorkerMeasurer::check_there(const Plan& plan) {
  const Limits limits = limits_of(plan);
  const std::int64_t begin = request_.clock();
  const auto prepared = ask(Request::kPrepare, plan, limits.compile_s);
  if (!prepared) {
    keep_here(plan);
    return local_->check(plan);
  }
  if (prepared->check.failure != Failure::kNone || interrupted_) return prepared->check;
  const double compile_s = seconds_since(begin);
  const auto checked = ask(Request::kCheck, plan, limits_of(plan).run_s);
  if (!checked) return {Failure::kCrash, "the worker has forgotten it"};
  if (checked->check.failure == Failure::kNone) {
    any_right_ = true;
    const double check_s = seconds_since(begin) - compile_s;
    slowest_compile_s_ = std::max(slowest_compile_s_, compile_s);
    if (!first_check_s_.emplace(plan.implementation, check_s).second)
      slowest_check_s_ = std::max(slowest_check_s_, check_s);
  }
  return checked->check;
}

double WorkerMeasurer::sample(const Plan& plan, double ms) {
  if (Measurer* local = here(plan)) return local->sample(plan, ms);
  const double expected_s = 1e-3 * sample_cost_ms(ms);
  const double wanted_s = kTimesTheSlowest * std::max(expected_s, slowest_check_s_);
  // It has run before: it may take as long again, however little is left.
  const double limit_s = std::max(room_s(wanted_s), kTimesTheFirst * expected_s);
  const auto sampled = ask(Request::kSample, plan, limit_s, ms);
  const Check none{Failure::kCrash, "the worker has forgotten it"};
  const Check& check = sampled ? sampled->check : none;
  if (check.failure != Failure::kNone)
    throw CandidateError(check.failure, check.note, check.unsure);
  return check.ms;
}

// Results are compared in the process that has them: if one of the two cannot run in the worker,
// both run here.
Check WorkerMeasurer::check_beside(const Plan& plan, const Plan& rival) {
  Measurer* local = here(plan);
  if (!local) local = here(rival);
  return local ? local->check_beside(plan, rival) : Measurer::check_beside(plan, rival);
}

// Allows for the oracle's rows on top of an ordinary check.
Check WorkerMeasurer::check_whole(const Plan& plan) {
  if (Measurer* local = here(plan)) return local->check_whole(plan);
  const double expected_s = slowest_check_s_ + 1e-3 * opened_.whole_ms;
  const double limit_s = std::max(room_s(kTimesTheSlowest * expected_s), 2 * expected_s);
  const auto checked = ask(Request::kWhole, plan, limit_s);
  return checked ? checked->check : Check{Failure::kCrash, "the worker has forgotten it"};
}

// A batch that does not end in time says nothing about any of its candidates: `check` then compiles
// each alone.
void WorkerMeasurer::compile_ahead(std::vector<const Plan*>& plans) {
  if (opened_.compiles_at_once <= 1) return;
  std::vector<const Plan*> sent, rest;
  for (const Plan* plan : plans) (here(*plan) ? rest : sent).push_back(plan);
  if (rest.size() > 0) local_->compile_ahead(rest);
  if (sent.empty() || !ready()) return;
  worker::Writer request;
  request.put(Request::kAhead).put(static_cast<std::uint32_t>(sent.size()));
  for (const Plan* plan : sent) encode(request, candidate_of(*plan));
  met_batch_ = true;
  const worker::Exchange got = link_->exchange(request.take(), room_s(kUnlimited));
  interrupted_ |= got.ending == Ending::kStopped;
  if (got.ending != Ending::kReplied) return link_.reset();
  std::vector<const Plan*> order;
  try {
    worker::Reader from(got.reply);
    if (worker::decode_reply(from) != Reply::kDone) return;
    const worker::Ahead ahead = worker::decode_ahead(from, sent.size());
    g_counters.compiled += ahead.compiled;
    g_counters.prepared += ahead.prepared;
    for (const std::uint32_t i : ahead.order) order.push_back(sent[i]);
  } catch (const Error&) {  // malformed: as if it had ended
    return link_.reset();
  }
  for (const std::vector<const Plan*>* left : {&sent, &rest})
    for (const Plan* plan : *left)
      if (std::find(order.begin(), order.end(), plan) == order.end()) order.push_back(plan);
  plans = std::move(order);
}

void WorkerMeasurer::look_after_failure() {
  if (local_) local_->look_after_failure();
}

Fields WorkerMeasurer::conditions() const {
  if (!link_) return conditions_;
  const worker::Exchange got = link_->exchange(worker::Writer().put(Request::kConditions).take(),
                                               room_s(kConditionsSeconds));
  if (got.ending != Ending::kReplied) return conditions_;
  try {
    worker::Reader from(got.reply);
    if (worker::decode_reply(from) == Reply::kDone) conditions_ = worker::decode_fields(from);
  } catch (const Error&) {  // a candidate wrote over its memory; what was measured is still good
  }
  return conditions_;
}

}  // namespace dlblas
