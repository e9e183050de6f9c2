// The shortest operator call: y = a · b, with the library's own memory and threads.
#include <cstdio>
#include <vector>

#include <dlblas/ops.hpp>

int main() {
  const std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8};
  const dlblas::Tensor y = dlblas::matmul({a, {2, 2}}, {b, {2, 2}});
  for (float value : y.span<float>()) std::printf("%g ", static_cast<double>(value));
  std::printf("\n");
}
