// paged_attention_lse on CPUs: one implementation per instruction-set level. A task is up to
// kQueries rows of a sequence with the heads that share a head of the cache; keys are read once for
// all of them. In: Problem, Config; Args. Out: Kernel; o and lse. Flow: call > validate > [select]
// > [compile] > [launch].  Read next: ops/attention/cpu/attend_cpu.hpp.
#include "core/rates.hpp"
#include "ops/attention/attention_host.hpp"
#include "ops/attention/cpu/attend_cpu.hpp"
#include "ops/attention/paged_attention_lse/paged_sight.hpp"

namespace dlblas::attention::paged {
namespace {

constexpr std::int64_t kQueries = 4;  // rows of a task

struct State {
  AttendPasses passes;
};

class Job {
 public:
  Job(const Args& args, const AttendPasses& passes)
      : args_(args),
        passes_(passes),
        pages_(args),
        heads_(size(kHkv)),
        group_(size(kG)),
        depth_(size(kD)),
        width_(size(kDv)) {
    for (std::int64_t b = 0; b < size(kB); ++b) {
      const auto [begin, end] = pages_.queries(b);
      for (std::int64_t t = begin; t < end; t += kQueries)
        parts_.push_back({b, t, std::min(kQueries, end - t), end});
    }
    // Rows that belong to no sequence see nothing.
    std::int64_t after = 0;
    for (const Part& part : parts_) {
      add_blind(after, part.first);
      after = std::max(after, part.first + part.count);
    }
    add_blind(after, size(kT));
  }
  std::int64_t tasks() const { return static_cast<std::int64_t>(parts_.size()) * heads_; }
  void run(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) run_part(parts_[i / heads_], i % heads_);
  }

 private:
  struct Part {
    std::int64_t b, first, count, end;  // b −1: of no sequence
  };
  std::int64_t size(int letter) const { return args_.letters[letter]; }
  void add_blind(std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; t += kQueries)
      parts_.push_back({-1, t, std::min(kQueries, end - t), end});
  }
  float scale(int tensor) const {
    return args_.has(tensor) ? *static_cast<const float*>(args_.tensors[tensor].data) : 1.0f;
  }

  void run_part(const Part& part, std::int64_t head) const {
    const std::int64_t queries = part.count * group_;
    Attending attending(passes_, queries, depth_, width_);
    load(part, head, attending);
    if (part.b >= 0) attend(part, head, attending);
    store(part, head, attending);
  }
  void load(const Part& part, std::int64_t head, Attending& attending) const {
    const TensorView& q = args_.tensors[kQ];
    for (std::int64_t m = 0; m < part.count * group_; ++m) {
      const std::int64_t t = part.first + m / group_, h = head * group_ + m % group_;
      read_line(passes_, q, t * q.strides[0] + h * q.strides[1], q.strides[2], depth_,
                attending.query(m));
      const bool sinks = args_.has(kSinks) && part.b >= 0;
      const TensorView& s = args_.tensors[kSinks];
      attending.begin(m, sinks, sinks ? static_cast<const float*>(s.data)[h * s.strides[0]] : 0);
    }
  }
  void attend(const Part& part, std::int64_t head, Attending& attending) const {
    const TensorView &k = args_.tensors[kKCache], &v = args_.tensors[kVCache];
    const std::int64_t length = pages_.length(part.b);
    const auto sight = [&](std::int64_t m) {
      return pages_.sight(length - (part.end - part.first) + m / group_, length);
    };
    const std::int64_t first = sight(0).first, end = sight((part.count - 1) * group_).second;
    const auto factor = static_cast<float>(scale_of(args_) * scale(kKScale));
    const auto cap = static_cast<float>(args_.scalars[kSoftcap].f);
    std::vector<std::int64_t> keys, values;
    constexpr std::int64_t kBlock = Attending::kBlock;
    for (std::int64_t block = first / kBlock * kBlock; block < end; block += kBlock) {
      const std::int64_t from = std::max(first, block), to = std::min(end, block + kBlock);
      keys.clear(), values.clear();
      for (std::int64_t n = from; n < to; ++n) {
        keys.push_back(pages_.offset(k, part.b, n, head));
        values.push_back(pages_.offset(v, part.b, n, head));
      }
      attending.block(from, keys, {&k, k.strides[3], depth_}, values, {&v, v.strides[3], width_},
                      factor, cap, sight);
    }
  }
  void store(const Part& part, std::int64_t head, Attending& attending) const {
    const TensorView &o = args_.tensors[kO], &lse = args_.tensors[kLse];
    for (std::int64_t m = 0; m < part.count * group_; ++m) {
      const std::int64_t t = part.first + m / group_, h = head * group_ + m % group_;
      const float log = attending.finish(m, width_, scale(kVScale));
      write_line(passes_, attending.output(m, width_), o, t * o.strides[0] + h * o.strides[1],
                 o.strides[2], width_);
      static_cast<float*>(lse.data)[t * lse.strides[0] + h * lse.strides[1]] = log;
    }
  }

  const Args& args_;
  const AttendPasses& passes_;
  Pages pages_;
  std::int64_t heads_, group_, depth_, width_;
  std::vector<Part> parts_;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const Job job(args, kernel.load<State>().passes);
  context.run(0, job.tasks(), 1,
              [&](std::int64_t begin, std::int64_t end) { job.run(begin, end); });
  return 0;
}

double estimate(const Query& q, const Config&) {
  const auto& dims = q.problem.dims;
  const double keys = static_cast<double>(dims[kW] * dims[kPage]) / 2;
  const double columns = static_cast<double>(dims[kHkv] * (dims[kD] + dims[kDv]));
  const double units = std::max<double>(1, q.problem.threads);
  constexpr double kPart = 0.5;  // of the rate of multiply-adds
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(
             units,
             static_cast<double>(dims[kB]) * keys * columns *
                 size_of(q.problem.tensors[kKCache].dtype),
             2 / kPart * static_cast<double>(dims[kT] * dims[kG]) * keys * columns, DType::kF32);
}

}  // namespace

std::vector<Implementation> cpu() {
  Implementation base;
  base.flags = {.deterministic = true};
  base.supports = [](const Query&) { return Support::yes(); };
  base.same_bits = [](const Query& q) { return bits_beside_tiles(q, bool(serves_tiles(q))); };
  base.estimate = estimate;
  base.prepare = [](const Query& q, const Config&) {
    return make_kernel({run}, State{kernels::code_of<AttendLevel>(q).passes()});
  };
  return attend_levels(base);
}

}  // namespace dlblas::attention::paged
