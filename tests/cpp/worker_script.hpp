// A worker as a script, on the fake clock: what each candidate does is a function, and waiting
// costs what it says. So a search of candidates that hang for seconds takes no time, and is exact.
#pragma once

#include <functional>
#include <map>

#include "tests/cpp/tuner_dummy.hpp"
#include "tuner/worker_measurer.hpp"

namespace dlblas::test {

/// What a worker does when it is asked.
struct Act {
  double seconds = 0;  // until it answers, or ends
  worker::Ending ending = worker::Ending::kReplied;
  worker::Outcome outcome = {};
  bool outside = false;
};
using Script = std::function<Act(worker::Ask what, const worker::Candidate& candidate)>;

struct Stage {
  Script script;
  Fields key;
  std::function<worker::Exchange()> opening;  // empty: it goes well
  double start_s = 0.1;
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
    const auto what = from.get<worker::Ask>();
    worker::Writer to;
    to.put(worker::Answer::kDone);
    if (what == worker::Ask::kOpen && stage_.opening) return stage_.opening();
    if (what == worker::Ask::kOpen) {
      encode(to, worker::Opened{stage_.key, true, 0, {.least_ms = 0.02}, 1, {{"cache", "warm"}}});
      return {worker::Ending::kReplied, to.take(), {}, false};
    }
    if (what == worker::Ask::kConditions) {
      encode(to, Fields{{"cache", "warm"}});
      return {worker::Ending::kReplied, to.take(), {}, false};
    }
    const worker::Candidate candidate = worker::decode_candidate(from);
    constexpr const char* kWords[] = {"open", "prepare", "check", "whole", "sample"};
    stage_.asked.push_back(text(kWords[static_cast<int>(what)], " ", candidate.implementation));
    stage_.limits.push_back(limit_s);
    const Act act = stage_.script(what, candidate);
    if (act.ending == worker::Ending::kReplied && act.seconds <= limit_s) {
      advance(act.seconds);
      encode(to, act.outcome);
      return {worker::Ending::kReplied, to.take(), {}, false};
    }
    const bool late = act.seconds > limit_s;
    advance(late ? limit_s : act.seconds);
    return {late ? worker::Ending::kTimedOut : act.ending, {}, "was scripted to end", act.outside};
  }

 private:
  Stage& stage_;
};

inline worker::Start start_of(Stage& stage) {
  return [&stage](const worker::Waiting&) -> std::unique_ptr<worker::Link> {
    if (stage.starts == stage.most_starts) throw worker::Unusable("the stage is closed");
    ++stage.starts;
    advance(stage.start_s);
    return std::make_unique<ScriptedLink>(stage);
  };
}

/// A right candidate: `ms` a run, and `check_s` for being checked.
inline Act right(worker::Ask what, double ms, double check_s = 0.01) {
  Act act;
  act.seconds = what == worker::Ask::kSample ? 1e-3 * ms : check_s;
  act.outcome.check.ms = ms;
  act.outcome.measured = what == worker::Ask::kCheck;
  return act;
}
inline Act hangs() { return {1e9}; }
inline Act dies(bool outside = false) { return {0.01, worker::Ending::kDied, {}, outside}; }

}  // namespace dlblas::test
