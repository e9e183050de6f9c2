// Any text as an operator's schema: refused with a typed error that gives the position, or a schema
// whose parts stay within their limits, also as the schema of an in-place form.
// fuzz: src/core/schema.cpp src/core/schema_sizes.cpp src/core/dim.cpp
#include <cstdint>
#include <cstdlib>

#include "core/error.hpp"
#include "core/schema.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlblas;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Schema schema = parse_schema(text);
    if (schema.name.empty() || schema.hash.empty() || schema.num_results < 1 ||
        schema.num_inputs + schema.num_results != static_cast<int>(schema.tensors.size()))
      std::abort();
    parse_inplace(text, schema);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kArgument && e.kind() != ErrorKind::kInternal) std::abort();
    if (e.what()[0] == '\0') std::abort();
  }
  return 0;
}
