// Tuning through the C ABI: the search, and get_op, which searches only what the store does not
// know. In: the arguments of a call (only index-valued tensors are read), options. Out: a JSON
// report. Read next: tuner/tune.hpp, docs/tuning.md.
#include "tuner/tune.hpp"

#include <algorithm>

#include "bindings/c/bound_call.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/c/worker.hpp"
#include "core/absent_device.hpp"
#include "core/json.hpp"
#include "dispatch/missed.hpp"
#include "dispatch/problem_text.hpp"

namespace dlblas {
namespace {

using TuneFn = TuneReport (*)(const Operator&, const Problem&, const Args*, const Context&,
                              const TuneOptions&);

dlblas_status run_tuning(TuneFn run, dlblas_op_t op, const dlblas_args* call,
                         const dlblas_context* user, const dlblas_tune_options* options,
                         char** report) {
  return guarded([&] {
    const BoundCall bound_call(op, call, user);
    require_present(bound_call.problem.device());
    TuneOptions chosen = options_from(options);
    set_worker_of(chosen);
    const TuneReport done =
        run(bound_call.op, bound_call.problem, &bound_call.args, bound_call.side.context(), chosen);
    give_text(report ? print_json(done) : std::string(), report);
  });
}

std::string print_missed(std::uint64_t mark, bool with_known) {
  JsonWriter w;
  w.open_object().key("missed").open_array();
  for (const Missed& one : missed_since(mark, with_known)) {
    const Operator& op = Registry::process().by_id(one.problem.op);
    w.open_object().field("why", name_of(one.why)).field("text", print_problem(op, one.problem));
    w.key("key").open_object();
    for (const auto& [name, value] : problem_fields(op, one.problem)) w.field(name, value);
    w.close_object().close_object();
  }
  w.close_array().close_object();
  return w.text();
}

// `name=value`, one per line.
Fields read_fields(std::string_view lines) {
  Fields fields;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string name(line.substr(0, equals));
    if (equals == line.size() || std::any_of(fields.begin(), fields.end(),
                                             [&](const auto& field) { return field.name == name; }))
      refuse(ErrorKind::kArgument, "tune_key",
             {"key", "is malformed", "lines of name=value, each name once", std::string(line)});
    fields.push_back({name, std::string(line.substr(equals + 1))});
  }
  return fields;
}

}  // namespace
}  // namespace dlblas

extern "C" {

dlblas_status dlblas_tune(dlblas_op_t op, const dlblas_args* call, const dlblas_context* user,
                          const dlblas_tune_options* options, char** report) {
  return dlblas::run_tuning(&dlblas::tune, op, call, user, options, report);
}

dlblas_status dlblas_get_op(dlblas_op_t op, const dlblas_args* call, const dlblas_context* user,
                            const dlblas_tune_options* options, char** report) {
  return dlblas::run_tuning(&dlblas::get_op, op, call, user, options, report);
}

dlblas_status dlblas_missed_mark(uint64_t* mark) {
  return dlblas::guarded([&] {
    const std::uint64_t now = dlblas::begin_missed();
    if (mark) *mark = now;
  });
}

dlblas_status dlblas_missed(uint64_t mark, char** text) {
  return dlblas::guarded([&] { dlblas::give_text(dlblas::print_missed(mark, false), text); });
}

dlblas_status dlblas_met(uint64_t mark, char** text) {
  return dlblas::guarded([&] { dlblas::give_text(dlblas::print_missed(mark, true), text); });
}

dlblas_status dlblas_tune_key(const char* key, const dlblas_tune_options* options, char** report) {
  using namespace dlblas;
  return guarded([&] {
    const Operator* op = nullptr;
    const Problem problem = read_problem(read_fields(key ? key : ""), &op);
    dlblas_context user{};
    user.size = sizeof user;
    user.num_threads = problem.threads;
    CallSide side(&user, nullptr);
    side.set_device(problem.device());
    TuneOptions chosen = options_from(options);
    set_worker_of(chosen);
    const TuneReport done = get_op(*op, problem, nullptr, side.context(), chosen);
    give_text(report ? print_json(done) : std::string(), report);
  });
}

}  // extern "C"
