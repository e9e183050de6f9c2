// selective_state_update on CPUs: one implementation per instruction-set level. A task is some
// channels of a head, whose rows of the state are read and written once.
// In: Problem, Config; Args. Out: Kernel; y and the state. Flow: call > validate > [select] >
// [compile] > [launch].  Read next: ops/ssm/steps_simd.hpp.
#include "ops/ssm/selective_state_update/selective_state_update.hpp"
#include "ops/ssm/steps_cpu.hpp"

namespace dlblas::ssm::update {
namespace {

constexpr std::int64_t kChannels = 64;  // of a task

struct State {
  SsmPasses passes;
};

/// One call, as its tasks see it.
class Job {
 public:
  Job(const Args& args, const SsmPasses& passes)
      : args_(args),
        passes_(passes),
        heads_(args.letters[kG] * args.letters[kR]),
        channels_(args.letters[kP]),
        width_(args.letters[kN]),
        parts_((channels_ + kChannels - 1) / kChannels) {}
  std::int64_t tasks() const { return args_.letters[kBatch] * heads_ * parts_; }

  void run(std::int64_t begin, std::int64_t end) const {
    std::vector<float> wide(static_cast<std::size_t>(4 * width_));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t head = i / parts_, first = i % parts_ * kChannels;
      const std::int64_t count = std::min(kChannels, channels_ - first);
      run_channels({head / heads_, head % heads_, first, count}, wide.data());
    }
  }

 private:
  struct Part {
    std::int64_t b, h, first, count;
  };
  const TensorView& tensor(int i) const { return args_.tensors[i]; }
  /// The line of a tensor [batch, heads, P], or [heads, P].
  Line line(int i, const Part& part) const {
    const TensorView& t = tensor(i);
    const bool batched = t.rank == 3;
    const std::int64_t first =
        batched ? place(t, {part.b, part.h, part.first}) : place(t, {part.h, part.first});
    return {t, first, t.strides[t.rank - 1], part.count};
  }
  const float* optional(int i, const Part& part, float* to) const {
    if (!args_.has(i)) return nullptr;
    read(passes_, line(i, part), to);
    return to;
  }

  void run_channels(const Part& part, float* wide) const {
    float x[kChannels], dt[kChannels], dx[kChannels], y[kChannels];
    float more[2][kChannels];  // the bias, then D; z
    read(passes_, line(kX, part), x);
    read(passes_, line(kDt, part), dt);
    passes_.times(dt, optional(kDtBias, part, more[0]), args_.scalars[kSoftplus].i != 0, x, dx,
                  part.count);
    float *a = wide, *b = wide + width_, *c = b + width_, *state = c + width_;
    const std::int64_t group = part.h / args_.letters[kR];
    for (const int i : {kB, kC}) {
      const TensorView& t = tensor(i);
      read(passes_, {t, place(t, {part.b, group}), t.strides[2], width_}, i == kB ? b : c);
    }
    for (std::int64_t p = 0; p < part.count; ++p) {
      const TensorView &s = tensor(kState), &rates = tensor(kA);
      const Line row{s, place(s, {part.b, part.h, part.first + p}), s.strides[3], width_};
      const bool unit = row.stride == 1 || width_ == 1;
      SsmRow step{.state = unit ? row.data() : static_cast<void*>(state),
                  .a = nullptr,
                  .b = b,
                  .c = c,
                  .dt = dt + p,
                  .dx = dx + p,
                  .y = y + p,
                  .count = width_,
                  .steps = 1,
                  .same_a = 0,
                  .state_type = unit ? s.dtype : DType::kF32};
      set_a(passes_, {rates, place(rates, {part.h, part.first + p}), rates.strides[2], width_}, a,
            step);
      if (!unit) read(passes_, row, state);
      passes_.steps(step);
      if (!unit) write(passes_, state, row);
    }
    const float* d = optional(kD, part, more[0]);
    passes_.finish(y, d, x, optional(kZ, part, more[1]), part.count);
    write(passes_, y, line(kY, part));
  }

  const Args& args_;
  const SsmPasses& passes_;
  std::int64_t heads_, channels_, width_, parts_;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const Job job(args, kernel.load<State>().passes);
  context.run(0, job.tasks(), 1,
              [&](std::int64_t begin, std::int64_t end) { job.run(begin, end); });
  return 0;
}

double estimate(const Query& q, const Config&) {
  const auto& dims = q.problem.dims;
  double elements = 1;
  for (const Letter letter : {kBatch, kG, kR, kP, kN})
    elements *= static_cast<double>(dims[letter]);
  const DType type = q.problem.tensors[kState].dtype;
  const double units = std::max<double>(1, q.problem.threads);
  constexpr double kOperations = 30;  // of an element: an exponential and two products
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(units, 2 * elements * size_of(type),
                                          kOperations * elements, DType::kF32);
}

}  // namespace

std::vector<Implementation> cpu() {
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = [](const Query&) { return Support::yes(); };
  base.estimate = estimate;
  base.prepare = [](const Query& q, const Config&) {
    return make_kernel({run}, State{kernels::code_of<StepLevel>(q).passes()});
  };
  return step_levels(base);
}

}  // namespace dlblas::ssm::update
