// selective_scan on NVIDIA GPUs, any layout. In: Problem, Config; Args. Out: Kernel and its source;
// launches. Flow: call > validate > [select] > [compile] > [launch].  Read next:
// selective_scan.cuh.
#include "ops/ssm/selective_scan/selective_scan.hpp"
#include "ops/ssm/selective_scan/selective_scan_config.hpp"
#include "ops/ssm/steps_cuda.hpp"

namespace dlblas::ssm::scan {
namespace {

struct Form : kernels::CudaForm<SelectiveScanTraits, SelectiveScanConfig> {
  static constexpr const char* kInclude = "ops/ssm/selective_scan/selective_scan.cuh";
  static constexpr const char* kEntry = "dlblas::ssm::selective_scan";
  static constexpr const char* kConfigName = "dlblas::ssm::SelectiveScanConfig";

  static const ConfigTable<Config>& table() {
    static const auto* knobs = new ConfigTable<Config>{
        field<&Config::threads>("threads", {32, 64, 128, 256}),
        field<&Config::items>("items", {4, 8}), field<&Config::channels>("channels", {1, 2, 4})};
    return *knobs;
  }
  static const TraitsTable<Traits>& traits_table() {
    static const auto* members = new TraitsTable<Traits>{
        "dlblas::ssm::SelectiveScanTraits",
        {member<&Traits::u>("u"), member<&Traits::delta>("delta"), member<&Traits::a>("a"),
         member<&Traits::b>("b"), member<&Traits::c>("c"), member<&Traits::d>("d"),
         member<&Traits::initial>("initial"), member<&Traits::z>("z"),
         member<&Traits::bias>("bias"), member<&Traits::softplus>("softplus"),
         member<&Traits::wide>("wide")}};
    return *members;
  }

  static Support supports(const Query& q) {
    constexpr std::int64_t kMax = 8192;  // a block's states in shared memory
    if (q.problem.dims[kN] > kMax)
      return Support::no("N is {}; at most {}", q.problem.dims[kN], kMax);
    return Support::yes();
  }
  static std::int32_t shared_bytes(const Query& q, const State& s) {
    return s.config.channels * static_cast<std::int32_t>(q.problem.dims[kN]) *
           static_cast<std::int32_t>(sizeof(float));
  }

  static Traits traits(const Query& q, const Config&) {
    const Problem& p = q.problem;
    Traits s{};
    s.u = type_of(p, kU), s.delta = type_of(p, kDelta), s.a = type_of(p, kA);
    s.b = type_of(p, kB), s.c = type_of(p, kC), s.d = type_of(p, kD);
    s.initial = type_of(p, kInitial), s.z = type_of(p, kZ), s.bias = type_of(p, kDeltaBias);
    s.softplus = p.scalars[0] != 0;
    s.wide = true;
    for (const Tensor i : {kU, kDelta, kB, kC, kZ, kY})
      s.wide &= type_of(p, i) == DType::kAbsent || rows_are_wide(p.tensors[i], kScanAccess);
    return s;
  }

  /// Depends on the sizes of a row alone, so that a row has the same bits in any batch.
  static Config preset(const Query& q) {
    const auto& dims = q.problem.dims;
    Config c;
    c.channels = dims[kR] == 1 ? 1 : 2;
    while (c.threads > 32 && c.threads / 2 * c.items >= dims[kL]) c.threads /= 2;
    if (dims[kL] >= 2 * c.threads * c.items) c.items = 8;
    return c;
  }
  static Problem typical(const Problem& problem) { return problem; }

  static double milliseconds(const Query& q, const Config&) {
    double steps = 1;
    for (const Letter letter : {kBatch, kG, kR, kL})
      steps *= static_cast<double>(q.problem.dims[letter]);
    const double bytes = 3 * steps * size_of(type_of(q.problem, kU));
    // Per step and element of the state: an exponential, a quarter as fast as a product, and some
    // products computed twice.
    constexpr double kOperations = 24;
    const double operations = kOperations * steps * static_cast<double>(q.problem.dims[kN]);
    return 1e3 * launch_s(q.device) + roofline_ms(q.device, bytes, operations, DType::kF32);
  }

  static std::vector<StepFn> steps(const State&) { return {run}; }
  static int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
    const State& s = kernel.load<State>();
    SelectiveScanParams p{};
    p.length = args.letters[kL];
    p.width = static_cast<std::int32_t>(args.letters[kN]);
    p.groups = static_cast<std::int32_t>(args.letters[kG]);
    p.group_channels = static_cast<std::int32_t>(args.letters[kR]);
    p.blocks = (p.group_channels + s.config.channels - 1) / s.config.channels;
    point(args, kU, p.u, p.u_at);
    point(args, kDelta, p.delta, p.delta_at);
    point(args, kA, p.a, p.a_at);
    point(args, kB, p.b, p.b_at);
    point(args, kC, p.c, p.c_at);
    point(args, kD, p.d, p.d_at);
    point(args, kInitial, p.initial, p.initial_at);
    point(args, kZ, p.z, p.z_at);
    point(args, kDeltaBias, p.bias, p.bias_at);
    point(args, kY, p.y, p.y_at);
    point(args, kState, p.state, p.state_at);
    cuda::Launch how;
    how.grid.x = static_cast<unsigned>(args.letters[kBatch] * p.groups * p.blocks);
    how.block.x = static_cast<unsigned>(s.config.threads);
    how.shared_bytes = static_cast<unsigned>(s.shared_bytes);
    if (how.grid.x == 0) return 0;
    return cuda::launch(*kernel.entries[0], how, p, context.stream);
  }
};

}  // namespace

Implementation cuda() {
  return kernels::make_cuda<Form>("cuda_chunks",
                                  source_hash<"ops/ssm/selective_scan/selective_scan_cuda.cpp">());
}

}  // namespace dlblas::ssm::scan
