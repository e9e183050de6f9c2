// SHA-256 (FIPS 180-4): names keys and records, closes every record, detects a flipped bit.
// In: bytes. Out: 64 lowercase hex digits. Plain C++, ~300 MB/s: a record is a few kilobytes.
// Flow: used by store/record.cpp.  Tested on the NIST vectors in tests/cpp/test_store_record.cpp.
#pragma once

#include <string>
#include <string_view>

namespace dlblas {

/// The digest of `bytes` as 64 lowercase hex digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace dlblas
