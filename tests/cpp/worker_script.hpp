// A scripted worker on the fake clock: a function defines what each candidate does, and waiting
// costs the time it states. So a search of candidates that hang for seconds takes no time and is
// exact.
#pragma once

#include <algorithm>
#include <functional>
#include <map>

#include "tests/cpp/tuner_dummy.hpp"
#include "tuner/worker_measurer.hpp"

namespace dlblas::test {

/// What a worker does on a request.
struct Act {
  double seconds = 0;  // until it answers, or ends
  worker::Ending ending = worker::Ending::kReplied;
  worker::Outcome outcome = {};
  bool outside = false;
};
using Script = std::function<Act(worker::Request what, const worker::Candidate& candidate)>;

struct Stage {
  Script script;
  Fields key;
  std::function<worker::Exchange()> opening;  // empty: it goes well
  double start_s = 0.1, open_s = 0;
  double start_limit_s = 0;  // what the last one was given
  double whole_ms = -1;      // the oracle's time for all rows; below zero: a check compares all
  int at_once = 1;           // candidates of a batch, which comes back in reverse
  double ahead_s = 0;        // compiling it
  double conditions_s = 0;
  std::string lacks;  // an implementation that the worker does not have
  int starts = 0, most_starts = 1000;
  std::vector<std::string> asked;  // "check slow"
  std::vector<double> limits;      // of the same requests
};

inline void advance(double seconds) { g_now += static_cast<std::int64_t>(seconds * 1e9); }

class ScriptedLink final : public worker::Link {
 public:
  explicit ScriptedLink(Stage& stage) : stage_(stage) {}

  worker::Exchange exchange(std::string_view request, double limit_s) override {
    worker::Reader from(request);
    const auto what = from.get<worker::Request>();
    worker::Writer to;
    to.put(worker::Reply::kDone);
    if (what == worker::Request::kOpen) {
      if (stage_.opening) return stage_.opening();
      const double whole_ms = std::max(0.0, stage_.whole_ms);
      encode(to, worker::Opened{stage_.key,
                                stage_.whole_ms < 0,
                                whole_ms,
                                {.least_ms = 0.02},
                                stage_.at_once,
                                {{"cache", "warm"}}});
      return after(stage_.open_s, limit_s, to);
    }
    if (what == worker::Request::kConditions) {
      encode(to, Fields{{"cache", "warm"}});
      return after(stage_.conditions_s, limit_s, to);
    }
    if (what == worker::Request::kAhead) {
      worker::Ahead ahead;
      for (std::size_t i = worker::decode_batch(from).size(); i-- > 0;)
        ahead.order.push_back(static_cast<std::uint32_t>(i));
      encode(to, ahead);
      return after(stage_.ahead_s, limit_s, to);
    }
    const worker::Candidate candidate = worker::decode_candidate(from);
    constexpr const char* kWords[] = {"open", "prepare", "check", "whole", "sample"};
    stage_.asked.push_back(text(kWords[static_cast<int>(what)], " ", candidate.implementation));
    stage_.limits.push_back(limit_s);
    if (candidate.implementation == stage_.lacks) {
      worker::Writer unknown;
      return after(0, limit_s, unknown.put(worker::Reply::kUnknown));
    }
    const Act act = stage_.script(what, candidate);
    encode(to, act.outcome);
    if (act.ending == worker::Ending::kReplied || act.seconds > limit_s)
      return after(act.seconds, limit_s, to);
    advance(act.seconds);
    return {act.ending, {}, "was scripted to end", act.outside};
  }

 private:
  static worker::Exchange after(double seconds, double limit_s, worker::Writer& reply) {
    advance(std::min(seconds, limit_s));
    if (seconds > limit_s) return {worker::Ending::kTimedOut, {}, "was scripted to end", false};
    return {worker::Ending::kReplied, reply.take(), {}, false};
  }
  Stage& stage_;
};

inline worker::Start start_of(Stage& stage) {
  return [&stage](const worker::Waiting&, double limit_s) -> std::unique_ptr<worker::Link> {
    stage.start_limit_s = limit_s;
    if (limit_s < stage.start_s) {
      advance(limit_s);
      throw worker::Unusable("it said nothing");
    }
    if (stage.starts == stage.most_starts) throw worker::Unusable("the stage is closed");
    ++stage.starts;
    advance(stage.start_s);
    return std::make_unique<ScriptedLink>(stage);
  };
}

/// Tunes with a scripted worker.
class ScriptedWorker : public TunerTest {
 protected:
  TuneReport run(const Operator& op) {
    stage_.key = store_key(op, make_problem(op));
    options_.start_worker = start_of(stage_);
    return run_tune(op);
  }
  /// Checks that reported time increases between candidates; a first call's seconds still count
  /// while it lasts.
  void check_that_time_goes_on() {
    options_.on_event = [last_s = 0.0](const dlblas_event& event) mutable {
      if (event.kind == DLBLAS_EVENT_WAITING || event.kind == DLBLAS_EVENT_WORKER) return false;
      EXPECT_GE(event.elapsed_s, last_s - 1e-9) << event.kind << " " << event.implementation;
      last_s = event.elapsed_s;
      return false;
    };
  }
  int asked(const std::string& what) const {
    return static_cast<int>(std::count(stage_.asked.begin(), stage_.asked.end(), what));
  }
  Stage stage_;
};

/// A right candidate: `ms` per run, and `check_s` for its check.
inline Act right(worker::Request what, double ms, double check_s = 0.01) {
  Act act;
  act.seconds = what == worker::Request::kSample ? 1e-3 * ms : check_s;
  act.outcome.check.ms = ms;
  act.outcome.measured = what == worker::Request::kCheck;
  return act;
}
inline Act hangs() { return {1e9}; }
inline Act dies(bool outside = false) { return {0.01, worker::Ending::kDied, {}, outside}; }

}  // namespace dlblas::test
