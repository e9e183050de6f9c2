// selective_state_update on NVIDIA GPUs, any layout. In: Problem, Config; Args. Out: Kernel and its
// source; launches. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// selective_state_update.cuh.
#include "ops/ssm/selective_state_update/selective_state_update.hpp"
#include "ops/ssm/selective_state_update/selective_state_update_config.hpp"
#include "ops/ssm/steps_cuda.hpp"

namespace dlblas::ssm::update {
namespace {

struct Form : kernels::CudaForm<StateUpdateTraits, StateUpdateConfig> {
  static constexpr const char* kInclude =
      "ops/ssm/selective_state_update/selective_state_update.cuh";
  static constexpr const char* kEntry = "dlblas::ssm::selective_state_update";
  static constexpr const char* kConfigName = "dlblas::ssm::StateUpdateConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{field<&Config::rows>("rows", {1, 2, 4, 8}),
                                                       field<&Config::warps>("warps", {2, 4, 8})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::ssm::StateUpdateTraits",
        {member<&Traits::state>("state"), member<&Traits::x>("x"), member<&Traits::dt>("dt"),
         member<&Traits::a>("a"), member<&Traits::b>("b"), member<&Traits::c>("c"),
         member<&Traits::d>("d"), member<&Traits::z>("z"), member<&Traits::bias>("bias"),
         member<&Traits::softplus>("softplus"), member<&Traits::wide>("wide"),
         member<&Traits::wide_a>("wide_a"), member<&Traits::access>("access"),
         member<&Traits::columns>("columns")}};
    return *members;
  }

  static Support supports(const Query& q) {
    constexpr std::int64_t kMax = 1 << 24;
    if (q.problem.dims[kN] > kMax)
      return Support::no("N is {}; at most {}", q.problem.dims[kN], kMax);
    return Support::yes();
  }

  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    Traits s{};
    s.state = type_of(p, kState), s.x = type_of(p, kX), s.dt = type_of(p, kDt);
    s.a = type_of(p, kA), s.b = type_of(p, kB), s.c = type_of(p, kC);
    s.d = type_of(p, kD), s.z = type_of(p, kZ), s.bias = type_of(p, kDtBias);
    s.softplus = p.scalars[0] != 0;
    s.columns = static_cast<std::int32_t>(p.dims[kN]);
    // 16 bytes of the state per access; fewer columns where that does not divide N. By sizes alone:
    // see state_update_lanes.
    s.access = 16 / size_of(s.state);
    while (s.columns % s.access != 0) s.access /= 2;
    s.wide = rows_are_wide(p.tensors[kState], s.access) && rows_are_wide(p.tensors[kB], s.access) &&
             rows_are_wide(p.tensors[kC], s.access);
    s.wide_a = rows_are_wide(p.tensors[kA], s.access);
    return s;
  }

  /// Rows per block.
  static std::int64_t rows_of_block(const Traits& s, const Config& c) {
    return std::int64_t{c.warps} * 32 / state_update_lanes(s) * c.rows;
  }
  static Config preset(const Query& q) {
    Config c;
    if (q.problem.dims[kN] == 0) return c;
    // Fewer rows per thread if all rows do not fill the device.
    const auto& dims = q.problem.dims;
    double heads = 1;
    for (const Letter letter : {kBatch, kG, kR}) heads *= static_cast<double>(dims[letter]);
    const auto blocks = [&] {
      const std::int64_t rows = rows_of_block(traits(q, c), c);
      return heads * static_cast<double>((dims[kP] + rows - 1) / rows);
    };
    while (c.rows > 1 && blocks() < 4.0 * q.device.units) c.rows /= 2;
    return c;
  }

  static double milliseconds(const Query& q, const Config&) {
    double elements = 1;
    for (const Letter letter : {kBatch, kG, kR, kP, kN})
      elements *= static_cast<double>(q.problem.dims[letter]);
    const double bytes = 2 * elements * size_of(type_of(q.problem, kState));
    return 1e3 * (launch_s(q.device) + bytes / memory_bytes_per_s(q.device));
  }

  static std::vector<StepFn> steps(const State&) { return {run}; }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    const std::int64_t channels = args.letters[kP], rows = rows_of_block(s.traits, s.config);
    StateUpdateParams p{};
    p.heads = static_cast<std::int32_t>(args.letters[kG] * args.letters[kR]);
    p.group_heads = static_cast<std::int32_t>(args.letters[kR]);
    p.blocks = static_cast<std::int32_t>((channels + rows - 1) / rows);
    p.channels = channels;
    point(args, kState, p.state, p.state_at);
    point(args, kX, p.x, p.x_at);
    point(args, kDt, p.dt, p.dt_at);
    point(args, kA, p.a, p.a_at);
    point(args, kB, p.b, p.b_at);
    point(args, kC, p.c, p.c_at);
    point(args, kD, p.d, p.d_at);
    point(args, kZ, p.z, p.z_at);
    point(args, kDtBias, p.bias, p.bias_at);
    point(args, kY, p.y, p.y_at);
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(args.letters[kBatch] * p.heads * p.blocks);
    how.block.x = static_cast<unsigned>(s.config.warps * 32);
    if (how.grid.x == 0) return 0;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
};

}  // namespace

Implementation cuda() {
  return kernels::make_cuda<Form>(
      "cuda_rows", source_hash<"ops/ssm/selective_state_update/selective_state_update_cuda.cpp">());
}

}  // namespace dlblas::ssm::update
