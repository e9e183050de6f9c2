// matmul by name, tuned for its arguments: the first run measures, every later one reads the store.
// Prints progress, the table of candidates, and how many were measured: 0 the second time.
#include <cstdio>
#include <vector>

#include <dlblas/dlblas.hpp>

int main() try {
  constexpr std::int64_t kM = 64, kK = 512, kN = 512;
  std::vector<float> a(kM * kK, 0.5f), b(kK * kN, 0.25f), out(kM * kN);
  const dlblas::TensorRef lhs(a, {kM, kK}), rhs(b, {kK, kN});

  dlblas::TuneOptions options;
  options.seconds = 2;
  options.on_event = [best_ms = -1.0](const dlblas::TuneEvent& e) mutable {
    const bool better = best_ms < 0 || e.best_ms < best_ms;
    if (e.kind == dlblas::TuneEvent::Kind::kMeasured && better)
      std::printf("%3d/%d  %.2f µs\n", e.done, e.planned, 1e3 * (best_ms = e.best_ms));
    return true;  // go on
  };
  const dlblas::Operator matmul = dlblas::get_op("matmul", {lhs, rhs}, {}, options);

  matmul({lhs, rhs}, {{"activation", "relu"}}, {{out, {kM, kN}}});
  std::printf("out[0] = %g, expected %g\n", static_cast<double>(out[0]), 0.125 * kK);
  std::printf("\n%s\n", dlblas::explain(matmul, {lhs, rhs}).c_str());
  std::printf("measured: %lld\n", static_cast<long long>(dlblas::counters().measured));
} catch (const dlblas::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
