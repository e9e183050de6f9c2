// selective_scan on CPUs: one implementation per instruction-set level. A task is some channels of
// a group over the whole sequence, in blocks of steps: B and C of a block are transposed once for
// all channels, so that each step reads contiguous rows.
// In: Problem, Config; Args. Out: Kernel; y and the last state. Flow: call > validate > [select] >
// [compile] > [launch].  Read next: ops/ssm/steps_simd.hpp.
#include "ops/ssm/selective_scan/selective_scan.hpp"
#include "ops/ssm/steps_cpu.hpp"

namespace dlblas::ssm::scan {
namespace {

constexpr std::int64_t kChannels = 16;  // of a task
constexpr std::int64_t kSteps = 64;     // of a block

struct State {
  SsmPasses passes;
};

/// Buffers of a task: rows of A and of the state for its channels, B and C of a block of steps.
struct Scratch {
  std::vector<float> memory;
  float *a, *state, *b, *c;
  explicit Scratch(std::int64_t width)
      : memory(static_cast<std::size_t>(2 * (kChannels + kSteps) * width)),
        a(memory.data()),
        state(a + kChannels * width),
        b(state + kChannels * width),
        c(b + kSteps * width) {}
};

/// One call, as its tasks see it.
class Job {
 public:
  Job(const Args& args, const SsmPasses& passes)
      : args_(args),
        passes_(passes),
        groups_(args.letters[kG]),
        channels_(args.letters[kR]),
        length_(args.letters[kL]),
        width_(args.letters[kN]),
        parts_((channels_ + kChannels - 1) / kChannels) {}
  std::int64_t tasks() const { return args_.letters[kBatch] * groups_ * parts_; }

  void run(std::int64_t begin, std::int64_t end) const {
    Scratch scratch(width_);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t group = i / parts_, first = i % parts_ * kChannels;
      const std::int64_t g = group % groups_;
      run_channels(
          {group / groups_, g, g * channels_ + first, std::min(kChannels, channels_ - first)},
          scratch);
    }
  }

 private:
  struct Part {
    std::int64_t b, g, first, count;
  };
  const TensorView& tensor(int i) const { return args_.tensors[i]; }
  Line line(int i, std::int64_t b, std::int64_t d, std::int64_t begin, std::int64_t count) const {
    const TensorView& t = tensor(i);
    return {t, place(t, {b, d, begin}), t.strides[2], count};
  }
  float parameter(int i, std::int64_t d) const {
    return static_cast<float>(load_element(tensor(i), place(tensor(i), {d})));
  }

  void run_channels(const Part& part, Scratch& scratch) const {
    SsmRow rows[kChannels];
    for (std::int64_t k = 0; k < part.count; ++k) {
      const std::int64_t d = part.first + k;
      SsmRow& row = rows[k];
      float* state = scratch.state + k * width_;
      row = {.state = state,
             .a = nullptr,
             .b = scratch.b,
             .c = scratch.c,
             .dt = nullptr,
             .dx = nullptr,
             .y = nullptr,
             .count = width_,
             .steps = 0,
             .same_a = 0,
             .state_type = DType::kF32};
      const TensorView& a = tensor(kA);
      set_a(passes_, {a, place(a, {d}), a.strides[1], width_}, scratch.a + k * width_, row);
      if (args_.has(kInitial))
        read(passes_, line(kInitial, part.b, d, 0, width_), state);
      else
        std::fill(state, state + width_, 0.0f);
    }
    for (std::int64_t begin = 0; begin < length_; begin += kSteps) {
      const std::int64_t count = std::min(kSteps, length_ - begin);
      turn_over(kB, part, begin, count, scratch.b);
      turn_over(kC, part, begin, count, scratch.c);
      for (std::int64_t k = 0; k < part.count; ++k)
        run_block(rows[k], part.b, part.first + k, begin, count);
    }
    for (std::int64_t k = 0; k < part.count; ++k)
      write(passes_, scratch.state + k * width_, line(kState, part.b, part.first + k, 0, width_));
  }

  /// Transposes [N, steps] of a group to [steps, N].
  void turn_over(int i, const Part& part, std::int64_t begin, std::int64_t count, float* to) const {
    const TensorView& t = tensor(i);
    if (t.strides[2] == 1) {
      for (std::int64_t l = 0; l < count; ++l)
        read(passes_, {t, place(t, {part.b, part.g, 0, begin + l}), 1, width_}, to + l * width_);
      return;
    }
    float row[kSteps];
    for (std::int64_t n = 0; n < width_; ++n) {
      read(passes_, {t, place(t, {part.b, part.g, n, begin}), t.strides[3], count}, row);
      for (std::int64_t l = 0; l < count; ++l) to[l * width_ + n] = row[l];
    }
  }

  void run_block(SsmRow row, std::int64_t b, std::int64_t d, std::int64_t begin,
                 std::int64_t count) const {
    float u[kSteps], dt[kSteps], dx[kSteps], y[kSteps], more[kSteps];
    const auto all = [&](float value) {
      std::fill(more, more + count, value);
      return more;
    };
    read(passes_, line(kU, b, d, begin, count), u);
    read(passes_, line(kDelta, b, d, begin, count), dt);
    passes_.times(dt, args_.has(kDeltaBias) ? all(parameter(kDeltaBias, d)) : nullptr,
                  args_.scalars[kSoftplus].i != 0, u, dx, count);
    row.dt = dt, row.dx = dx, row.y = y, row.steps = count;
    passes_.steps(row);
    if (args_.has(kD)) passes_.finish(y, all(parameter(kD, d)), u, nullptr, count);
    if (args_.has(kZ)) {
      read(passes_, line(kZ, b, d, begin, count), more);
      passes_.finish(y, nullptr, u, more, count);
    }
    write(passes_, y, line(kY, b, d, begin, count));
  }

  const Args& args_;
  const SsmPasses& passes_;
  std::int64_t groups_, channels_, length_, width_, parts_;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const Job job(args, kernel.load<State>().passes);
  context.run(0, job.tasks(), 1,
              [&](std::int64_t begin, std::int64_t end) { job.run(begin, end); });
  return 0;
}

double estimate(const Query& q, const Config&) {
  double steps = 1;
  for (const Letter letter : {kBatch, kG, kR, kL})
    steps *= static_cast<double>(q.problem.dims[letter]);
  const double elements = steps * static_cast<double>(q.problem.dims[kN]);
  const double units = std::max<double>(1, q.problem.threads);
  constexpr double kOperations = 30;  // of an element: an exponential and two products
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(units, 3 * steps * size_of(q.problem.tensors[kU].dtype),
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

}  // namespace dlblas::ssm::scan
