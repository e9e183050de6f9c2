// mla_decode_lse on CPUs: one implementation per instruction-set level. A task is some heads of a
// token; a block of keys is widened once for all of them, and its latents are the values.
// In: Problem, Config; Args. Out: Kernel; o and lse. Flow: call > validate > [select] > [compile] >
// [launch].  Read next: ops/attention/cpu/attend_cpu.hpp.
#include "core/rates.hpp"
#include "ops/attention/cpu/attend_cpu.hpp"
#include "ops/attention/mla_decode_lse/mla_decode_lse.hpp"

namespace dlblas::attention::mla {
namespace {

constexpr std::int64_t kHeads = 32;  // of a task

struct State {
  AttendPasses passes;
};

class Job {
 public:
  Job(const Args& args, const AttendPasses& passes)
      : args_(args),
        passes_(passes),
        heads_(args.letters[kH]),
        latent_(args.letters[kR]),
        depth_(latent_ + args.letters[kDr]),
        parts_((heads_ + kHeads - 1) / kHeads) {}
  std::int64_t tasks() const { return args_.letters[kT] * parts_; }
  void run(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % parts_ * kHeads;
      run_heads(i / parts_, first, std::min(kHeads, heads_ - first));
    }
  }

 private:
  void run_heads(std::int64_t t, std::int64_t first, std::int64_t count) const {
    Attending attending(passes_, count, depth_, latent_);
    for (std::int64_t m = 0; m < count; ++m) {
      float* const query = attending.query(m);
      for (const int i : {kQNope, kQPe}) {
        const TensorView& q = args_.tensors[i];
        read_line(passes_, q, t * q.strides[0] + (first + m) * q.strides[1], q.strides[2],
                  q.shape[2], query + (i == kQNope ? 0 : latent_));
        const auto scale = static_cast<float>(scale_of_cache(args_, i == kQNope ? kCkv : kKpe));
        if (scale != 1)
          for (std::int64_t d = 0; d < q.shape[2]; ++d)
            query[(i == kQNope ? 0 : latent_) + d] *= scale;
      }
      attending.begin(m, false, 0);
    }
    const std::int64_t length = length_of(args_, t);
    const auto sight = [&](std::int64_t) {
      return std::pair<std::int64_t, std::int64_t>{0, length};
    };
    constexpr std::int64_t kBlock = Attending::kBlock;
    std::vector<float> keys(static_cast<std::size_t>(kBlock * depth_));
    std::vector<const void*> rows(kBlock);
    for (std::int64_t n = 0; n < kBlock; ++n) rows[n] = keys.data() + n * depth_;
    for (std::int64_t block = 0; block < length; block += kBlock) {
      const std::int64_t here = std::min(kBlock, length - block);
      for (std::int64_t n = 0; n < here; ++n) widen(t, block + n, keys.data() + n * depth_);
      attending.block(block, {rows.data(), here, depth_, DType::kF32},
                      {rows.data(), here, latent_, DType::kF32},
                      static_cast<float>(scale_of(args_)), 0, sight);
    }
    const TensorView &o = args_.tensors[kO], &lse = args_.tensors[kLse];
    for (std::int64_t m = 0; m < count; ++m) {
      const std::int64_t h = first + m;
      static_cast<float*>(lse.data)[t * lse.strides[0] + h * lse.strides[1]] =
          attending.finish(m, latent_, static_cast<float>(scale_of_cache(args_, kCkv)));
      write_line(passes_, attending.output(m, latent_), o, t * o.strides[0] + h * o.strides[1],
                 o.strides[2], latent_);
    }
  }
  void widen(std::int64_t t, std::int64_t n, float* to) const {
    for (const int i : {kCkv, kKpe}) {
      const TensorView& c = args_.tensors[i];
      const std::int64_t at =
          page_of(args_, t, n) * c.strides[0] + n % args_.letters[kPage] * c.strides[1];
      read_line(passes_, c, at, c.strides[2], c.shape[2], to + (i == kCkv ? 0 : latent_));
    }
  }

  const Args& args_;
  const AttendPasses& passes_;
  std::int64_t heads_, latent_, depth_, parts_;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const Job job(args, kernel.load<State>().passes);
  context.run(0, job.tasks(), 1,
              [&](std::int64_t begin, std::int64_t end) { job.run(begin, end); });
  return 0;
}

double estimate(const Query& q, const Config&) {
  const auto& d = q.problem.dims;
  const double keys = static_cast<double>(d[kT] * d[kW] * d[kPage]) / 2;
  const auto columns = static_cast<double>(2 * d[kR] + d[kDr]);
  constexpr double kPart = 0.5;  // of the rate of multiply-adds
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(std::max<double>(1, q.problem.threads),
                                          keys * columns * size_of(q.problem.tensors[kCkv].dtype),
                                          2 / kPart * static_cast<double>(d[kH]) * keys * columns,
                                          DType::kF32);
}

}  // namespace

std::vector<Implementation> cpu() {
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = [](const Query&) { return Support::yes(); };
  base.estimate = estimate;
  base.prepare = [](const Query& q, const Config&) {
    return make_kernel({run}, State{kernels::code_of<AttendLevel>(q).passes()});
  };
  return attend_levels(base);
}

}  // namespace dlblas::attention::mla
