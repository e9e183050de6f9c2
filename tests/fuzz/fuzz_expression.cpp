// Any text as an integer expression: refused with a typed error that gives the position, or
// evaluated to the same value every time, whatever its names stand for.
// fuzz: src/core/expression.cpp
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "core/error.hpp"
#include "core/expression.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlblas;
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kValues[][3] = {
      {1, 2, 3}, {0, 0, 0}, {-1, kMin, kMax}, {4096, -7, 1}};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Expression expression(text, {"T", "C", "block"});
    for (const auto& values : kValues)
      if (expression.evaluate(values) != expression.evaluate(values)) std::abort();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kArgument || e.what()[0] == '\0') std::abort();
  }
  return 0;
}
