// Results that travel: one sealed file with all records of a store, and another store's folder.
// What comes in is data from outside: every record is parsed and checked as if it lay in the store,
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

/// What came in.
struct Exchange {
  std::int64_t records = 0;          // kept: something in them was new here
  std::int64_t known = 0;            // all of them was here already, or as measured later
  std::vector<std::string> refused;  // one line each: which, and its flaw
  std::string failed;  // why a record could not be kept; empty while the disk takes it
};

/// Every record of the store, merged per key and environment, in a fixed order.
std::string export_text(Store& store);

/// The texts of the records in an export, in order; Flaw of the container otherwise. They are not
/// parsed yet.
Flaw split_export(std::string_view all, std::vector<std::string_view>* records);

/// Takes what a good container holds; records that are not valid are refused one by one.
Exchange import_records(Store& store, const std::vector<std::string_view>& records);

/// Takes all that another store's folder holds. It may be anyone's: it is read, never written.
Exchange merge_store(Store& store, Store& other);

}  // namespace dlblas
