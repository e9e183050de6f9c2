// What the store's GoogleTest programs ask of rows. Read next: tests/cpp/test_store_battery.cpp.
#pragma once

#include <gtest/gtest.h>

#include "battery.hpp"

namespace dlblas::battery {

/// The ids of the rows. Fails the test when a row is not exactly what somebody published.
inline std::set<int> ids_of(const Merged& merged, int bulk = 3) {
  const Rows rows = rows_of(merged, bulk);
  EXPECT_EQ(rows.wrong, 0);
  return rows.ids;
}

/// What a process that has never seen the store reads.
inline std::set<int> fresh_ids(const std::string& root, int which = 0, int bulk = 3) {
  Store store(root);
  return ids_of(*store.load(sample_key(which)), bulk);
}

}  // namespace dlblas::battery
