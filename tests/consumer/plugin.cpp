// A shared object that uses dlblas through the C ABI. With the static library linked in, it must
// export its own function and nothing of dlblas, so that two such objects in one process do not
// clash.
#include <dlblas/dlblas.h>

extern "C" int plugin_works() {
  dlblas_op_t op = nullptr;
  return dlblas_op("rms_norm", &op) == DLBLAS_OK && op != nullptr;
}
