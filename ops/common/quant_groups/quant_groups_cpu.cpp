// Scales over groups of columns on CPUs: one implementation per instruction-set level; any strides.
// Rows whose elements are not contiguous are gathered, one at a time. In: Problem; Args. Out:
// Kernel; codes and scales. Flow: call > validate > [select] > [compile] > [launch].
// Read next: quant_groups_simd.hpp.
#include <algorithm>
#include <vector>

#include "core/element.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/common/quant_groups/quant_groups.hpp"
#include "ops/common/quant_ref.hpp"

namespace dlblas::quant {
namespace {

struct Level {
  QuantGroupsFn row;
};
constexpr Level kBaseline = {baseline::quant_groups_row};
#if defined(__x86_64__)
constexpr Level kAvx2 = {avx2::quant_groups_row};
constexpr Level kAvx512 = {avx512::quant_groups_row};
#endif

struct Config {
  int task_kib = 64;  // of x that a task reads, at least
};
const ConfigTable<Config>& table() {
  static const auto* knobs =
      new ConfigTable<Config>{field<&Config::task_kib>("task_kib", {16, 64, 256})};
  return *knobs;
}

struct State {
  const QuantGroupsOp* op;
  QuantGroupsFn row;
  int task_kib;
};

std::int64_t last_stride(const TensorView& t) {
  return t.shape[t.rank - 1] <= 1 ? 1 : t.strides[t.rank - 1];
}
char* element(const TensorView& t, std::int64_t at) {
  return static_cast<char*>(t.data) + at * size_of(t.dtype);
}

/// One call, as its tasks see it.
class Job {
 public:
  Job(const Args& args, const State& state)
      : args_(args),
        op_(*state.op),
        row_(state.row),
        x_rows_(rows_of(x())),
        q_rows_(rows_of(q())),
        scale_rows_(rows_of(scale())) {}

  /// Quantises rows [begin, end).
  void run(std::int64_t begin, std::int64_t end) const {
    const std::int64_t width = args_.letters[op_.width], stride = last_stride(x());
    std::vector<float> values(static_cast<std::size_t>(width)), gathered;
    std::vector<char> codes(static_cast<std::size_t>(q().shape[q().rank - 1]));
    std::vector<char> scales(static_cast<std::size_t>(scale().shape[scale().rank - 1]) *
                             static_cast<std::size_t>(size_of(scale().dtype)));
    if (stride != 1) gathered.resize(static_cast<std::size_t>(op_.gated ? 2 * width : width));
    QuantGroupsRow row{};
    row.type = stride == 1 ? x().dtype : DType::kF32;
    row.q_type = q().dtype;
    row.kind = op_.kind;
    row.width = width;
    row.group = op_.columns(args_.letters);
    row.largest = static_cast<float>(largest_of(q().dtype));
    row.powers = op_.powers >= 0 && args_.scalars[op_.powers].i != 0;
    if (op_.global >= 0) row.global = static_cast<float>(load_element(tensor(op_.global), 0));
    row.values = values.data();
    const bool direct = last_stride(q()) == 1;
    for (std::int64_t t = begin; t < end; ++t) {
      if (!is_there(t)) continue;
      const std::int64_t first = x_rows_.offset(t);
      row.x = element(x(), first);
      for (std::size_t c = 0; c < gathered.size(); ++c)
        gathered[c] =
            static_cast<float>(load_element(x(), first + static_cast<std::int64_t>(c) * stride));
      if (stride != 1) row.x = gathered.data();
      if (op_.gated) row.up = static_cast<const char*>(row.x) + width * size_of(row.type);
      char* to = element(q(), q_rows_.offset(t));
      row.q = direct ? to : codes.data();
      row.scale = scales.data();
      row_(row);
      if (!direct) scatter(q(), codes, to);
      scatter(scale(), scales, element(scale(), scale_rows_.offset(t)));
    }
  }

 private:
  const TensorView& tensor(int i) const { return args_.tensors[i]; }
  const TensorView& x() const { return tensor(op_.x); }
  const TensorView& q() const { return tensor(op_.q); }
  const TensorView& scale() const { return tensor(op_.scale); }
  bool is_there(std::int64_t t) const {
    if (op_.count < 0) return true;
    const std::int64_t inner = args_.letters[op_.rows[1]], outer = t / inner;
    const TensorView& count = tensor(op_.count);
    return static_cast<double>(t - outer * inner) < load_element(count, outer * count.strides[0]);
  }
  static void scatter(const TensorView& t, const std::vector<char>& from, char* to) {
    const auto size = static_cast<std::size_t>(size_of(t.dtype));
    const std::int64_t step = last_stride(t) * size_of(t.dtype);
    for (std::size_t at = 0; at < from.size(); at += size, to += step)
      std::copy_n(from.data() + at, size, to);
  }

  const Args& args_;
  const QuantGroupsOp& op_;
  QuantGroupsFn row_;
  Rows x_rows_, q_rows_, scale_rows_;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto& state = kernel.load<State>();
  const QuantGroupsOp& op = *state.op;
  const std::int64_t rows = op.num_rows(args.letters), width = args.letters[op.width];
  if (rows == 0 || width == 0) return 0;
  const Job job(args, state);
  const std::int64_t bytes = width * size_of(args.tensors[op.x].dtype) * (op.gated ? 2 : 1);
  const std::int64_t grain = std::max<std::int64_t>(1, state.task_kib * 1024 / bytes);
  context.run(0, rows, grain, [&](std::int64_t begin, std::int64_t end) { job.run(begin, end); });
  return 0;
}

Kernel prepare(const Query& q, const dlblas::Config& config) {
  return make_kernel({run}, State{&kernels::op_of<QuantGroupsOp>(q), kernels::code_of<Level>(q).row,
                                  table().from_config(config).task_kib});
}

double estimate(const Query& q, const dlblas::Config&) {
  const auto& op = kernels::op_of<QuantGroupsOp>(q);
  const double elements = static_cast<double>(op.num_rows(q.problem.dims)) *
                          static_cast<double>(q.problem.dims[op.width]);
  const double bytes = elements * (size_of(q.problem.tensors[op.x].dtype) + 1);
  const double units = std::max<double>(1, q.problem.threads);
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(units, bytes, elements * 24, DType::kF32);
}

}  // namespace

std::vector<Implementation> quant_groups_cpu(const QuantGroupsOp& op) {
  Implementation base;
  base.flags = {.deterministic = true};
  base.knobs = &table();
  base.supports = [](const Query&) { return Support::yes(); };
  base.heuristic = [](const Query&) { return table().to_config(Config{}); };
  base.estimate = estimate;
  base.prepare = prepare;
  return kernels::per_level(
      base, "cpu_",
      {
#if defined(__x86_64__)
        {Isa::kAvx512, source_hash<"ops/common/quant_groups/quant_groups_avx512.cpp">(), &kAvx512},
            {Isa::kAvx2, source_hash<"ops/common/quant_groups/quant_groups_avx2.cpp">(), &kAvx2},
#endif
            {Isa::kBaseline, source_hash<"ops/common/quant_groups/quant_groups_baseline.cpp">(),
             &kBaseline},
      },
      &op);
}

}  // namespace dlblas::quant
