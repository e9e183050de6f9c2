// Says first, and in words, that a compiler was asked for an older C++ than these headers need. The
// C header <dlblas/dlblas.h> takes any.
#ifndef DLBLAS_CPP20_HPP_
#define DLBLAS_CPP20_HPP_

#if __cplusplus < 202002L
#error "dlblas needs C++20: compile with -std=c++20 (<dlblas/dlblas.h> alone is C)"
#endif

#endif  // DLBLAS_CPP20_HPP_
