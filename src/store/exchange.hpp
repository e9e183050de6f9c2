// Exchange of results: one sealed file with all records of a store, or another store's folder.
// Incoming records are data from outside: each is parsed and checked as if it were in the store,
// and is then published like one of our own. Flow: `dlblas cache export|import|merge`.  Read next:
// docs/store.md, "Elsewhere".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.hpp"

namespace dlblas {

inline constexpr std::size_t kMaxExportBytes = std::size_t{1} << 30;

/// The outcome of an import or a merge.
struct Exchange {
  std::int64_t records = 0;          // kept: something in them was new here
  std::int64_t known = 0;            // all of them was here already, or as measured later
  std::vector<std::string> refused;  // one line each: which, and its flaw
  std::string failed;  // why a record could not be kept; empty while the disk takes it
};

/// Every record of the store, merged per key and environment, in a fixed order.
std::string export_text(Store& store);

/// Splits an export into its records' texts, in order and not yet parsed; otherwise returns the
/// Flaw of the container.
Flaw split_export(std::string_view all, std::vector<std::string_view>* records);

/// Imports the records of a good container; invalid ones are refused one by one.
Exchange import_records(Store& store, const std::vector<std::string_view>& records);

/// Imports everything in another store's folder. It may be anyone's: it is read, never written.
Exchange merge_store(Store& store, Store& other);

}  // namespace dlblas
