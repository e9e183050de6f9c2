// dlblas_worker: the process in which candidates are measured, for programs that are not Python.
// The library starts it (its socket is descriptor 3) and kills it; it has no other use.
// Read next: bindings/c/worker.cpp.
#include "dlblas/dlblas.h"

int main() { return dlblas_worker_main(3); }
