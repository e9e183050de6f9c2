// Measuring: tune searches and remembers, get_op searches only what the store does not know.
// In: an operator, arguments that describe the problem (their data is not read), options. Out: a
// report, a winner. Operator calls never measure; these two do, and publish the winner for every
// later call and process. Read next: operator.hpp (the call), info.hpp (counters).
#ifndef DLBLAS_TUNE_HPP_
#define DLBLAS_TUNE_HPP_

#include <dlblas/dlblas.h>
#include <dlblas/cpp20.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dlblas/operator.hpp>

namespace dlblas {
inline namespace v1 {

/// One step of a search. Its texts live only until the callback returns.
struct TuneEvent {
  /// kWaiting: asks whether to continue while a candidate runs in a worker; only the times are set.
  /// kFirstCall: a user's implementation is about to be called for the first time, which may take
  /// seconds.
  enum class Kind {
    kStart = 0,
    kMeasured = 1,
    kFailed = 2,
    kFinal = 3,
    kDone = 4,
    kWaiting = 5,
    kFirstCall = 6
  };
  Kind kind;
  int done, planned, failed;  // configurations
  std::string_view implementation, config, note;
  double milliseconds;    // of this configuration
  double best_ms;         // best so far
  std::string_view best;  // "implementation config" of the best so far
  double elapsed_s, budget_s;
};

/// Restricts a knob to these values.
struct Narrow {
  std::string implementation;  // empty: of every implementation that has the knob
  std::string knob;
  std::string values;  // "64,128"
};

/// Where candidates run: in a worker process, which may hang or crash, or in this process. kAuto:
/// in a worker where the budget is worth its start, and always for users' own implementations that
/// a worker can load.
enum class MeasureIn { kAuto = 0, kWorker = 1, kProcess = 2 };

/// How to search. The defaults search the whole space, within DLBLAS_TUNE_SECONDS per key.
struct TuneOptions {
  double seconds = 0;         // budget of a key; 0: DLBLAS_TUNE_SECONDS, default 10
  std::string strategy = {};  // "exhaustive", "random"; empty: by the size of the space
  std::uint64_t seed = 0;
  int max_evaluations = 0;           // 0: no limit but the budget
  bool force = false;                // measure every candidate again
  std::string implementations = {};  // comma list; empty: all that support the problem
  std::vector<Narrow> space = {};
  MeasureIn measure_in = MeasureIn::kAuto;
  /// Return false to drop the configuration ("block_m=64 order=kmn").
  std::function<bool(std::string_view implementation, std::string_view config)> where = {};
  /// Progress; return false to stop the search and keep what was measured.
  std::function<bool(const TuneEvent&)> on_event = {};
};

namespace detail {

/// The options in C ABI form. Keeps an exception thrown by a callback: it ends the search and is
/// rethrown once the library has returned.
class TuneCall {
 public:
  explicit TuneCall(const TuneOptions& options) : options_(options) {
    for (const Narrow& n : options.space) {
      implementations_.push_back(n.implementation.c_str());
      knobs_.push_back(n.knob.c_str());
      values_.push_back(n.values.c_str());
    }
    c_.size = sizeof c_;
    c_.seconds = options.seconds;
    c_.strategy = text(options.strategy);
    c_.seed = options.seed;
    c_.max_evaluations = options.max_evaluations;
    c_.force = options.force;
    c_.measure_in = static_cast<std::int32_t>(options.measure_in);
    c_.implementations = text(options.implementations);
    c_.num_knobs = static_cast<std::int32_t>(knobs_.size());
    c_.knob_implementations = implementations_.data();
    c_.knob_names = knobs_.data();
    c_.knob_values = values_.data();
    c_.self = this;
    if (options.where) c_.where = &TuneCall::where;
    if (options.where || options.on_event) c_.on_event = &TuneCall::on_event;
  }
  TuneCall(const TuneCall&) = delete;
  TuneCall& operator=(const TuneCall&) = delete;

  using Function = decltype(&dlblas_tune);
  std::string run(Function function, const Operator& op, const AnyArguments& arguments,
                  const Context& context) {
    const dlblas_args args = arguments.pack(nullptr, 0, context.flags());
    char* report = nullptr;
    const dlblas_status status = function(op.handle(), &args, context.get(), &c_, &report);
    if (thrown_) {
      dlblas_free(report);
      std::rethrow_exception(thrown_);
    }
    check(status);
    return take_text(report);
  }

 private:
  static const char* text(const std::string& s) { return s.empty() ? nullptr : s.c_str(); }
  static int where(void* self, const char* implementation, const char* config) noexcept {
    auto& call = *static_cast<TuneCall*>(self);
    return call.guarded([&] { return call.options_.where(implementation, config); });
  }
  static int on_event(void* self, const dlblas_event* e) noexcept {
    auto& call = *static_cast<TuneCall*>(self);
    if (call.thrown_) return 1;
    if (!call.options_.on_event) return 0;
    return !call.guarded([&] {
      return call.options_.on_event({static_cast<TuneEvent::Kind>(e->kind), e->done, e->planned,
                                     e->failed, view(e->implementation), view(e->config),
                                     view(e->note), e->milliseconds, e->best_ms, view(e->best),
                                     e->elapsed_s, e->budget_s});
    });
  }
  static std::string_view view(const char* s) { return s ? s : ""; }
  template <typename F>
  bool guarded(F&& callback) noexcept {
    try {
      return !thrown_ && callback();
    } catch (...) {
      thrown_ = std::current_exception();
      return false;
    }
  }

  const TuneOptions& options_;
  std::vector<const char*> implementations_, knobs_, values_;
  dlblas_tune_options c_ = {};
  std::exception_ptr thrown_;
};

}  // namespace detail

/// Searches and publishes the winner; returns the report as JSON. Throws TuningFailedError when no
/// candidate was right.
inline std::string tune(const Operator& op, Values values, NamedValues named = {},
                        const TuneOptions& options = {}, const Context& context = {}) {
  return detail::TuneCall(options).run(&dlblas_tune, op, detail::AnyArguments(values, named),
                                       context);
}

/// The operator, tuned for these arguments: `Operator matmul = get_op("matmul", {a, b})`. A store
/// hit measures nothing. For any other problem the operator makes a plain call. `report` (may be
/// null) receives JSON.
inline Operator get_op(const Operator& op, Values values, NamedValues named = {},
                       const TuneOptions& options = {}, const Context& context = {},
                       std::string* report = nullptr) {
  std::string text = detail::TuneCall(options).run(&dlblas_get_op, op,
                                                   detail::AnyArguments(values, named), context);
  if (report) *report = std::move(text);
  return op;
}

}  // namespace v1
}  // namespace dlblas

#endif  // DLBLAS_TUNE_HPP_
