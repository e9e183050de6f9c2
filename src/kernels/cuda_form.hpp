// A CUDA kernel as an Implementation. The kernel's file defines a form: a struct of static
// functions over its own traits and configuration, derived from CudaForm; this header supplies the
// functions of the contract and the text that the JIT compiles. In: a form. Out: an Implementation.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: core/implementation.hpp,
// ops/norm/cuda/norm_ring_cuda.cpp (a form).
//
// A form has
//   kInclude, kEntry, kConfigName               header, kernel, the configuration's C++ name
//   table(), traits_table()                     knobs; the members of the traits
//   Traits traits(q, config)                    what the kernel is compiled for
//   Config preset(q)                            the default configuration
//   double milliseconds(q, config)              the estimate
//   Params launch(state, args, workspace, how)  one call: fills `how`, returns the parameters
// and, where CudaForm's defaults do not suffice,
//   supports(q), constrain(q, space), shared_bytes(q, state), workspace_bytes(q, state)
//   zeroed_bytes(q, state)  how much of the workspace to zero before the first step
//   same_bits(q)      see Implementation
//   typical(problem)  under kDeterministic, the preset of this problem is the only configuration
//   sources(q, state) several kernels, or template arguments other than traits and configuration
//   steps(state)      in place of `launch`, one step per source
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/implementation.hpp"
#include "cuda/cuda.hpp"

namespace dlblas::kernels {

/// State that `prepare` leaves for the calls.
template <typename Traits, typename Config>
struct CudaState {
  const void* user;  // Implementation::user
  Traits traits;
  Config config;
  std::int32_t shared_bytes;  // dynamic, of the first kernel
  std::int32_t units;
  bool dependent;
};

template <typename TraitsType, typename ConfigType>
struct CudaForm {
  using Traits = TraitsType;
  using Config = ConfigType;
  using State = CudaState<Traits, Config>;

  static constexpr std::int32_t kMinArch = 80;
  /// The kernel uses sm_90a instructions: it runs on that architecture alone.
  static constexpr bool kHopper = false;
  static constexpr bool kIsDeterministic = true;
  static constexpr bool kSearched = true;  // false: there are no knobs, and Config is empty
  /// Programmatic dependent launch (device/pdl.cuh), from sm_90.
  static constexpr bool kDependent = false;

  static Support supports(const Query&) { return Support::yes(); }
  static void constrain(const Query&, Space&) {}
  static std::int32_t shared_bytes(const Query&, const State&) { return 0; }
  static std::size_t workspace_bytes(const Query&, const State&) { return 0; }
  static std::size_t zeroed_bytes(const Query&, const State&) { return 0; }
};

/// `entry<traits, configuration>`: a KernelSource's entry.
template <typename Form>
std::string cuda_entry(const char* entry, const typename Form::State& state) {
  const auto& table = Form::table();
  return text(entry, "<", Form::traits_table().literal(state.traits), ", ",
              table.literal(table.to_config(state.config), Form::kConfigName), ">");
}

template <typename Form>
typename Form::State cuda_state(const Query& q, const typename Form::Config& config) {
  typename Form::State state{q.self.user,    Form::traits(q, config),
                             config,         0,
                             q.device.units, Form::kDependent && q.device.arch >= 90};
  state.shared_bytes = Form::shared_bytes(q, state);
  return state;
}

/// The configuration with the smallest estimate, the first on a tie; `none` if the space is empty:
/// `supports` refuses such a device, but may not have been called.
template <typename Form, typename Estimate>
auto least_estimate(const Query& q, typename Form::Config none, const Estimate& milliseconds) {
  Space space(Form::table());
  Form::constrain(q, space);
  double best_ms = std::numeric_limits<double>::infinity();
  for (const dlblas::Config& config : space.configs()) {
    const auto c = Form::table().from_config(config);
    const double ms = milliseconds(c);
    if (ms < best_ms) none = c, best_ms = ms;
  }
  return none;
}
template <typename Form>
auto least_estimate(const Query& q, typename Form::Config none) {
  return least_estimate<Form>(q, none, [&](const auto& c) { return Form::milliseconds(q, c); });
}

/// The step of a form with one kernel.
template <typename Form>
int launch_step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& state = kernel.load<typename Form::State>();
  cuda::Launch how;
  how.shared_bytes = static_cast<unsigned>(state.shared_bytes);
  how.dependent = state.dependent;
  const auto params = Form::launch(state, args, workspace, how);
  return cuda::launch(*kernel.entries[0], how, params, context.stream);
}

/// The contract's functions over a form.
template <typename Form>
struct CudaFunctions {
  using Config = typename Form::Config;
  using State = typename Form::State;

  static Config config_of(const dlblas::Config& config) {
    if constexpr (Form::kSearched)
      return Form::table().from_config(config);
    else
      return {};
  }
  static bool one_configuration(const Query& q) {
    if constexpr (requires { Form::typical(q.problem); })
      return q.problem.flags & kDeterministic;
    else
      return false;
  }
  static dlblas::Config heuristic(const Query& q) {
    if constexpr (requires { Form::typical(q.problem); })
      if (one_configuration(q))
        return Form::table().to_config(Form::preset(q.about(Form::typical(q.problem))));
    return Form::table().to_config(Form::preset(q));
  }
  static void constrain(const Query& q, Space& space) {
    if (one_configuration(q))
      space.require_only("the same bits: one configuration a width", heuristic(q));
    else
      Form::constrain(q, space);
  }
  static double estimate(const Query& q, const dlblas::Config& config) {
    return Form::milliseconds(q, config_of(config));
  }
  static std::vector<KernelSource> sources(const Query& q, const dlblas::Config& config) {
    const State state = cuda_state<Form>(q, config_of(config));
    if constexpr (requires { Form::sources(q, state); })
      return Form::sources(q, state);
    else
      return {{Form::kInclude, cuda_entry<Form>(Form::kEntry, state), state.shared_bytes}};
  }
  static Kernel prepare(const Query& q, const dlblas::Config& config) {
    const State state = cuda_state<Form>(q, config_of(config));
    Kernel kernel = make_kernel({}, state, Form::workspace_bytes(q, state));
    kernel.zeroed_bytes = Form::zeroed_bytes(q, state);
    if constexpr (requires { Form::steps(state); })
      for (const StepFn step : Form::steps(state)) kernel.steps[kernel.num_steps++] = step;
    else
      kernel.steps[kernel.num_steps++] = launch_step<Form>;
    return kernel;
  }
};

/// `source_hash` is that of the form's file; `user` becomes Implementation::user.
template <typename Form>
Implementation make_cuda(const char* name, const char* source_hash, const void* user = nullptr) {
  using Functions = CudaFunctions<Form>;
  Implementation impl;
  impl.name = name;
  impl.backend = DeviceType::kCuda;
  impl.min_arch = Form::kMinArch;
  if constexpr (Form::kHopper) impl.min_arch = impl.max_arch = 90;
  impl.source_hash = source_hash;
  impl.flags = {.deterministic = Form::kIsDeterministic, .capturable = true};
  impl.user = user;
  impl.supports = Form::supports;
  if constexpr (requires(const Query& q) { Form::same_bits(q); }) impl.same_bits = Form::same_bits;
  if constexpr (Form::kSearched) {
    impl.knobs = &Form::table();
    impl.constrain = Functions::constrain;
    impl.heuristic = Functions::heuristic;
  }
  impl.estimate = Functions::estimate;
  impl.prepare = Functions::prepare;
  impl.sources = Functions::sources;
  return impl;
}

}  // namespace dlblas::kernels
