// A shared object that uses dlblas through the C ABI. With the static library inside it must export
// its own function and nothing of dlblas: two such objects in one process never meet.
#include <dlblas/dlblas.h>

extern "C" int plugin_works() {
  dlblas_op_t op = nullptr;
  return dlblas_op("rms_norm", &op) == DLBLAS_OK && op != nullptr;
}
