// The smallest program that uses an installed dlblas: the C ABI from C++, one operator call, no
// Python. Prints the version and "ok"; any other outcome is a failure of tests/test_consumer.py.
#include <dlblas/dlblas.h>
#include <dlblas/version.h>

#include <cmath>
#include <cstdio>
#include <cstring>

namespace {

dlblas_tensor matrix(float* data, int64_t* shape, int ndim) {
  dlblas_tensor t = {};
  t.data = data;
  t.device = {1, 0};
  t.ndim = ndim;
  t.dtype = {2, 32, 1};
  t.shape = shape;
  return t;
}

int failed(const char* what) {
  dlblas_error error = {};
  error.size = sizeof error;
  dlblas_last_error(&error);
  std::fprintf(stderr, "%s: %s\n", what, error.message);
  return 1;
}

}  // namespace

int main() {
  if (dlblas_abi_version() != DLBLAS_ABI_VERSION) return failed("abi version");
  if (std::strcmp(dlblas_version(), DLBLAS_VERSION) != 0) return failed("version");

  float x[2][3] = {{1, 2, 3}, {-4, 0, 4}}, weight[3] = {1, 1, 2}, y[2][3] = {};
  int64_t rows_by_c[2] = {2, 3}, c[1] = {3}, y_shape[DLBLAS_MAX_RANK] = {2, 3};
  const dlblas_tensor tensors[2] = {matrix(&x[0][0], rows_by_c, 2), matrix(weight, c, 1)};
  dlblas_tensor out = matrix(&y[0][0], y_shape, 2);
  dlblas_value values[2] = {};
  for (int i = 0; i < 2; ++i) {
    values[i].kind = DLBLAS_TENSOR;
    values[i].as.tensor = &tensors[i];
  }
  dlblas_args args = {};
  args.size = sizeof args;
  args.values = values;
  args.num_values = 2;
  args.outputs = &out;
  args.num_outputs = 1;
  dlblas_op_t op = nullptr;
  if (dlblas_op("rms_norm", &op) != DLBLAS_OK) return failed("dlblas_op");
  if (dlblas_call(op, &args, nullptr) != DLBLAS_OK) return failed("dlblas_call");

  for (int row = 0; row < 2; ++row) {
    const float* r = x[row];
    const double scale = 1 / std::sqrt((r[0] * r[0] + r[1] * r[1] + r[2] * r[2]) / 3.0 + 1e-6);
    for (int col = 0; col < 3; ++col) {
      if (std::fabs(y[row][col] - r[col] * scale * weight[col]) > 1e-5)
        return failed("wrong result");
    }
  }
  std::printf("dlblas %s ok\n", dlblas_version());
  return 0;
}
