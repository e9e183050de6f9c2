// Any text as a configuration: refused with a typed error, or parsed so that it prints back the
// same, with every value in its domain.
// fuzz: src/core/config.cpp
#include <cstdint>
#include <cstdlib>

#include "core/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlblas;
  static const KnobTable table({{"block_m", {16, 32, 64, 128}, {}},
                                {"order", {0, 1, 2}, {"mnk", "nmk", "kmn"}},
                                {"stages", {-1, 0, 1, 9223372036854775807}, {}},
                                {"flag", {0, 1}, {}}});
  static const KnobTable none;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const KnobTable* t : {&table, &none}) try {
      const Config config = t->parse(text, "fuzzed");
      if (t->print(config) != text || !t->contains(config)) std::abort();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kArgument || e.what()[0] == '\0') std::abort();
    }
  return 0;
}
