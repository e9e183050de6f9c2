// Tuning through the C ABI: the search, and get_op, which searches only what the store does not
// know. In: the arguments of a call (only index-valued tensors are read), options. Out: a JSON
// report. Read next: tuner/tune.hpp, docs/tuning.md.
#include "tuner/tune.hpp"

#include "bindings/c/bound_call.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/c/worker.hpp"

namespace dlblas {
namespace {

using TuneFn = TuneReport (*)(const Operator&, const Problem&, const Args*, const Context&,
                              const TuneOptions&);

dlblas_status run_tuning(TuneFn run, dlblas_op_t op, const dlblas_args* call,
                         const dlblas_context* user, const dlblas_tune_options* options,
                         char** report) {
  return guarded([&] {
    const BoundCall bound_call(op, call, user);
    TuneOptions chosen = options_from(options);
    chosen.start_worker = worker_starter();
    const TuneReport done =
        run(bound_call.op, bound_call.problem, &bound_call.args, bound_call.side.context(), chosen);
    give_text(report ? print_json(done) : std::string(), report);
  });
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

}  // extern "C"
