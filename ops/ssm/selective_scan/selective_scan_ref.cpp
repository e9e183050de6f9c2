// The oracle of selective_scan, in f64 and for any strides: one channel after another, step by
// step. Read next: ops/ssm/step_oracle.hpp (the step, and what it allows).
#include <cmath>
#include <vector>

#include "ops/ssm/selective_scan/selective_scan.hpp"
#include "ops/ssm/step_oracle.hpp"

namespace dlblas::ssm::scan {
namespace {

/// The element at these indices.
template <typename... Places>
double element(const TensorView& t, Places... places) {
  const std::int64_t at[] = {static_cast<std::int64_t>(places)...};
  std::int64_t offset = 0;
  for (int i = 0; i < t.rank; ++i) offset += at[i] * t.strides[i];
  return load_element(t, offset);
}

/// Stores the reference's result for one element.
void put(const OracleOut& out, std::int64_t at, DType type, const Rounded& r, bool lost) {
  const double stored = round_to(type, r.value);
  out.value[at] = std::isinf(stored) ? stored : r.value;
  out.magnitude[at] = lost ? -1 : std::isfinite(r.off) ? r.off : 0;
}

}  // namespace

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  const std::int64_t channels = args.letters[kG] * args.letters[kR];
  const std::int64_t length = args.letters[kL], width = args.letters[kN];
  const auto& t = args.tensors;
  for (std::int64_t i = 0; i < num_rows; ++i) {
    if (rows[i] >= args.letters[kBatch] * channels) continue;
    const std::int64_t b = rows[i] / channels, d = rows[i] % channels, g = d / args.letters[kR];
    const auto parameter = [&](int p) { return args.has(p) ? element(t[p], d) : 0; };
    std::vector<StateElement> state;
    for (std::int64_t n = 0; n < width; ++n)
      state.emplace_back(args.has(kInitial) ? element(t[kInitial], b, d, n) : 0);
    for (std::int64_t l = 0; l < length; ++l) {
      const double u = element(t[kU], b, d, l);
      const Rounded dt = time_step(element(t[kDelta], b, d, l), parameter(kDeltaBias),
                                   args.scalars[kSoftplus].i != 0);
      Output sum;
      for (std::int64_t n = 0; n < width; ++n) {
        StateElement& s = state[static_cast<std::size_t>(n)];
        s.step(dt, u, element(t[kA], d, n), element(t[kB], b, g, n, l));
        sum.add(s, element(t[kC], b, g, n, l));
      }
      const double z = args.has(kZ) ? element(t[kZ], b, d, l) : 0;
      const Rounded y = sum.finish(parameter(kD), u, args.has(kZ) ? &z : nullptr);
      put(out[0], i * length + l, args.result(0).dtype, y, sum.lost());
    }
    for (std::int64_t n = 0; n < width; ++n) {
      const StateElement& s = state[static_cast<std::size_t>(n)];
      put(out[1], i * width + n, args.result(1).dtype, {s.value(), s.off()}, s.lost());
    }
  }
}

}  // namespace dlblas::ssm::scan
