// The smallest C++ program that uses an installed dlblas: one operator call, one typed error, no
// Python. Prints the version and "ok", with --info the inventory; any other output fails
// tests/test_consumer.py.
#include <dlblas/version.h>
#include <dlblas/ops.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

namespace {

bool is_rms_norm(const float* y, const std::vector<float>& x, const std::vector<float>& weight) {
  const std::size_t c = weight.size();
  for (std::size_t row = 0; row < x.size() / c; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < c; ++i) squares += x[row * c + i] * x[row * c + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(c) + 1e-6);
    for (std::size_t i = 0; i < c; ++i) {
      if (std::fabs(y[row * c + i] - x[row * c + i] * scale * weight[i]) > 1e-5) return false;
    }
  }
  return true;
}

int fail(const char* what) {
  std::fprintf(stderr, "consumer: %s\n", what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--info") == 0)
    return std::puts(dlblas::info().c_str()) < 0 ? fail("cannot write") : 0;
  if (dlblas_abi_version() != DLBLAS_ABI_VERSION) return fail("header and library differ");
  if (std::strcmp(dlblas_version(), DLBLAS_VERSION) != 0)
    return fail("version.h and library differ");
  std::vector<float> x = {1, 2, 3, -4, 0, 4}, weight = {1, 1, 2}, y(6);
  try {
    dlblas::rms_norm_out({y, {2, 3}}, {x, {2, 3}}, weight);
    if (!is_rms_norm(y.data(), x, weight)) return fail("wrong result in rms_norm_out");
    const dlblas::Tensor made = dlblas::rms_norm({x, {2, 3}}, weight);
    if (!is_rms_norm(made.span<float>().data(), x, weight)) return fail("wrong result in rms_norm");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
  try {
    dlblas::rms_norm_out({y, {3, 2}}, {x, {3, 2}}, weight);
    return fail("a weight of the wrong length was accepted");
  } catch (const dlblas::ShapeMismatchError&) {
  }
  std::printf("dlblas %s ok\n", dlblas_version());
  return 0;
}
