/* rms_norm of one row through the C ABI, into memory of the program's. Prints the version and "ok";
 * any other outcome is a failure of tests/test_consumer.py. */
#include <dlblas/dlblas.h>
#include <math.h>
#include <stdio.h>

static dlblas_tensor row_of(float* data, int64_t* size) {
  dlblas_tensor t = {data, {1, 0}, 1, {2, 32, 1}, size, NULL, 0};
  return t;
}

int main(void) {
  float x[4] = {1, 2, 3, 4}, weight[4] = {1, 1, 1, 2}, y[4] = {0};
  int64_t size = 4;
  dlblas_tensor in[2] = {row_of(x, &size), row_of(weight, &size)}, out = row_of(y, &size);
  dlblas_value values[2] = {{DLBLAS_TENSOR, 0, {&in[0]}}, {DLBLAS_TENSOR, 0, {&in[1]}}};
  dlblas_args args = {sizeof args, values, 2, 0, NULL, &out, 1, 0};
  dlblas_op_t op = NULL;
  if (dlblas_op("rms_norm", &op) != DLBLAS_OK || dlblas_call(op, &args, NULL) != DLBLAS_OK) {
    dlblas_error error = {.size = sizeof error};
    dlblas_last_error(&error);
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  if (fabs(y[3] - 8 / sqrt(7.5 + 1e-6)) > 1e-5) return 2;
  printf("dlblas %s ok\n", dlblas_version());
  return 0;
}
