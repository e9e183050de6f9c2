// The oracle of selective_state_update, in f64 and for any strides.
// Read next: ops/ssm/step_oracle.hpp (the step, and what it allows).
#include "ops/ssm/selective_state_update/selective_state_update.hpp"
#include "ops/ssm/step_oracle.hpp"

namespace dlblas::ssm::update {
namespace {

/// One channel of a head.
struct Channel {
  const Args& args;
  std::int64_t b, h, p;

  const TensorView& tensor(int i) const { return args.tensors[i]; }
  double x() const { return element(tensor(kX), b, h, p); }
  double parameter(int i) const { return args.has(i) ? element(tensor(i), h, p) : 0; }
  Rounded dt() const {
    return time_step(element(tensor(kDt), b, h, p), parameter(kDtBias),
                     args.scalars[kSoftplus].i != 0);
  }
  StateElement state(const Rounded& dt, std::int64_t n) const {
    StateElement s(element(tensor(kState), b, h, p, n));
    s.step(dt, x(), element(tensor(kA), h, p, n), element(tensor(kB), b, h / args.letters[kR], n));
    return s;
  }
  Rounded output(bool& lost) const {
    Output sum;
    const Rounded time = dt();
    for (std::int64_t n = 0; n < args.letters[kN]; ++n)
      sum.add(state(time, n), element(tensor(kC), b, h / args.letters[kR], n));
    lost = sum.lost();
    const double z = args.has(kZ) ? element(tensor(kZ), b, h, p) : 0;
    return sum.finish(parameter(kD), x(), args.has(kZ) ? &z : nullptr);
  }
};

}  // namespace

/// Rows of y are heads, those of the state channels.
void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  const std::int64_t heads = args.letters[kG] * args.letters[kR], channels = args.letters[kP];
  const std::int64_t all = args.letters[kBatch] * heads, width = args.letters[kN];
  for (std::int64_t i = 0; i < num_rows; ++i) {
    if (rows[i] < all * channels) {
      const std::int64_t head = rows[i] / channels;
      const Channel at{args, head / heads, head % heads, rows[i] % channels};
      const Rounded time = at.dt();
      for (std::int64_t n = 0; n < width; ++n) {
        const StateElement s = at.state(time, n);
        put(out[1], i * width + n, args.tensors[kState].dtype, {s.value(), s.off()}, s.lost());
      }
    }
    for (std::int64_t p = 0; rows[i] < all && p < channels; ++p) {
      bool lost = false;
      const Rounded y = Channel{args, rows[i] / heads, rows[i] % heads, p}.output(lost);
      put(out[0], i * channels + p, args.result(0).dtype, y, lost);
    }
  }
}

}  // namespace dlblas::ssm::update
