// Reports, before any other error and in plain words, that the compiler is set to an older C++ than
// these headers need. The C header <dlblas/dlblas.h> works with any.
#ifndef DLBLAS_CPP20_HPP_
#define DLBLAS_CPP20_HPP_

#if __cplusplus < 202002L
#error "dlblas needs C++20: compile with -std=c++20 (<dlblas/dlblas.h> alone is C)"
#endif

#endif  // DLBLAS_CPP20_HPP_
