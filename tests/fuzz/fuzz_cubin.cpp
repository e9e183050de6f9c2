// Any bytes as a cubin's container, with and without a valid digest: refused, or packing back to
// the same bytes.
// fuzz: src/jit/disk_cache.cpp src/store/record.cpp src/store/sha256.cpp src/store/store.cpp
// fuzz: src/store/files.cpp src/store/maintain.cpp src/core/env.cpp
// fuzz: src/core/log.cpp src/core/harmless.cpp src/store/key_lock.cpp
#include <cstdint>
#include <cstdlib>
#include <string>

#include "jit/disk_cache.hpp"
#include "store/sha256.hpp"

namespace {
void read(const std::string& bytes) {
  using namespace dlblas::jit;
  Cubin cubin;
  if (detail::unpack(bytes, "abc", "13.0", &cubin) && detail::pack("abc", "13.0", cubin) != bytes)
    std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  read(bytes + dlblas::sha256_hex(bytes));
  return 0;
}
