// RMS norm of four rows: with a new result, into given memory, and in place.
// Prints the first row of each, then why this implementation was chosen.
#include <cstdio>
#include <vector>

#include <dlblas/dlblas.hpp>
#include <dlblas/ops.hpp>

namespace {
void print(const char* what, const float* row) {
  std::printf("%-9s", what);
  for (int i = 0; i < 4; ++i) std::printf(" %7.4f", static_cast<double>(row[i]));
  std::printf("\n");
}
}  // namespace

int main() try {
  constexpr std::int64_t kT = 4, kC = 256;
  std::vector<float> x(kT * kC), weight(kC, 1.0f), y(kT * kC);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3.0f;
  const dlblas::TensorRef rows(x, {kT, kC});

  const dlblas::Tensor made = dlblas::rms_norm(rows, weight);
  print("new", made.span<float>().data());

  dlblas::rms_norm_out({y, {kT, kC}}, rows, weight, {.eps = 1e-5});
  print("given", y.data());

  dlblas::rms_norm_({x, {kT, kC}}, weight);
  print("in place", x.data());

  std::printf("\n%s\n", dlblas::explain("rms_norm", {rows, weight}).c_str());
} catch (const dlblas::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
