// Any bytes as a record, an export or a rule: refused, or printing back to the same bytes. For half
// of the inputs the digest is made valid, so that the code behind the check is reached.
// fuzz: src/store/record.cpp src/store/sha256.cpp src/store/rules.cpp src/store/exchange.cpp
// fuzz: src/store/store.cpp src/store/files.cpp src/store/maintain.cpp
// fuzz: src/core/env.cpp src/core/log.cpp src/core/harmless.cpp
// fuzz: src/store/key_lock.cpp
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "store/exchange.hpp"
#include "store/rules.hpp"

namespace {
void demand(bool holds) {
  if (!holds) std::abort();
}

void read(std::string_view bytes) {
  using namespace dlblas;
  Record record;
  const Flaw flaw = parse(bytes, &record);
  demand(!name_of(flaw).empty());
  if (flaw == Flaw::kNone) {
    demand(print(record) == bytes);
    demand(key_hash(record.key).size() == 64);
  }
  Rule rule;
  if (parse(bytes, &rule)) demand(print(rule) == bytes);
  std::vector<std::string_view> records;
  if (split_export(bytes, &records) == Flaw::kNone)
    for (const std::string_view one : records) demand(one.size() <= bytes.size());
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  if (!bytes.empty()) read(dlblas::seal(bytes));
  return 0;
}
