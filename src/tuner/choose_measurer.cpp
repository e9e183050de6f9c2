// See choose_measurer.hpp.
#include "tuner/choose_measurer.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "tuner/worker_measurer.hpp"

namespace dlblas {
namespace {

// Starting a worker took 0.05 s (Python and its imports, 2 cores); on a GPU, where it creates a
// context and loads torch's libraries, 1.7 s (H200). Built-in kernels are tested; below this budget
// a worker is not worth it for them.
constexpr double kWorthAWorkerSeconds = 5;

// Why this process measures without trying for a worker; empty: it should try.
std::string why_here(const SearchSpace& space, const TuneOptions& options,
                     const RaceLimits& limits) {
  if (options.measure_in == MeasureIn::kWorker) return {};
  if (options.measure_in == MeasureIn::kProcess) return "as asked";
  if (!options.start_worker) return "this is one";
  const auto any = [&](const auto& is) {
    return std::any_of(space.points.begin(), space.points.end(),
                       [&](const Point& p) { return is(p.implementation->flags); });
  };
  if (any([](const ImplementationFlags& f) { return f.user && !f.local; })) return {};
  if (!any([](const ImplementationFlags& f) { return !f.local; }))
    return "only this process has the candidates";
  return limits.budget_s < kWorthAWorkerSeconds ? "built-in kernels in less than 5 s" : "";
}

// Implementations that users registered in a way that no worker can repeat run here, and a crash in
// one is ours.
void warn_of_local(const Operator& op, const SearchSpace& space) {
  for (const Point& point : space.points) {
    const Implementation& impl = *point.implementation;
    if (!impl.flags.user || !impl.flags.local) continue;
    log_once(LogLevel::kWarn, text("local ", op.schema.name, " ", impl.name),
             text(op.schema.name, ": ", impl.name,
                  " is measured in this process, which a crash or a hang in it ends too: a worker "
                  "cannot have it; register it from a module that can be imported, or from a "
                  "script with `if __name__ == \"__main__\":`"));
  }
}

worker::Waiting asking(dlblas_event_kind kind, const char* note, const TuneOptions& options,
                       const RaceLimits& limits) {
  if (!options.on_event) return {};
  return [=, on_event = options.on_event, clock = options.clock] {
    dlblas_event event{};
    event.size = sizeof event;
    event.kind = kind;
    event.implementation = event.config = event.best = "";
    event.note = note;
    event.milliseconds = event.best_ms = -1;
    event.elapsed_s = static_cast<double>(clock() - limits.begin_ns) * 1e-9;
    event.budget_s = limits.budget_s;
    return on_event(event);
  };
}

}  // namespace

std::unique_ptr<Measurer> choose_measurer(const MeasureRequest& request, const SearchSpace& space,
                                          const TuneOptions& options, RaceLimits& limits,
                                          std::string& no_worker) {
  no_worker = why_here(space, options, limits);
  if (!no_worker.empty()) {
    if (options.measure_in == MeasureIn::kAuto && options.start_worker)
      warn_of_local(request.op, space);
    return make_measurer(request);
  }
  const std::string& op = request.op.schema.name;
  const std::int64_t begin_ns = request.clock();
  const char* const note = options.worker_imports ? "it imports your modules" : "";
  try {
    if (!options.start_worker) throw worker::Unusable("no program is known that could be one");
    return std::make_unique<WorkerMeasurer>(
        request,
        WorkerTerms{options.start_worker, asking(DLBLAS_EVENT_WAITING, "", options, limits),
                    asking(DLBLAS_EVENT_WORKER, note, options, limits), options.worker_imports,
                    limits.budget_s, limits.begin_ns});
  } catch (const worker::Unusable& reason) {
    no_worker = reason.what();
  }
  if (options.worker_imports)
    limits.begin_ns +=
        std::min(request.clock() - begin_ns, static_cast<std::int64_t>(1e9 * first_call_seconds()));
  if (options.measure_in == MeasureIn::kWorker)
    throw Error(ErrorKind::kTuning,
                text(op, ": worker cannot be had; expected a process that measures, got: ",
                     no_worker, "; measure in this process instead (worker=False)"),
                {op, "worker", "a process that measures", no_worker});
  log_once(LogLevel::kWarn, "no-worker-" + no_worker,
           text(op, ": no worker, so this process measures: ", no_worker));
  return make_measurer(request);
}

}  // namespace dlblas
