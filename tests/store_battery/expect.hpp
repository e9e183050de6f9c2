// What the store's GoogleTest programs check about rows. Read next:
// tests/cpp/test_store_damage.cpp.
#pragma once

#include <gtest/gtest.h>

#include "battery.hpp"

namespace dlblas::battery {

using Ids = std::set<int>;

/// The ids of the rows. Fails the test if a row differs from everything that was published.
inline Ids ids_of(const Merged& merged, int bulk = 3) {
  const Rows rows = rows_of(merged, bulk);
  EXPECT_EQ(rows.wrong, 0);
  return rows.ids;
}

/// What a process that has never seen the store reads.
inline Ids fresh_ids(const std::string& root, int which = 0, int bulk = 3) {
  Store store(root);
  return ids_of(*store.load(sample_key(which)), bulk);
}

/// A store in its own folder, removed at the end.
class StoreTest : public ::testing::Test {
 protected:
  void TearDown() override { store_fault_hook = nullptr; }
  std::string root() const { return scratch_.root(); }
  const std::string& path() const { return scratch_.path(); }
  std::string quarantine() const { return root() + "/quarantine"; }

  /// Two records; the second one's file is the patient.
  std::string publish_two() {
    Store store(root());
    EXPECT_TRUE(store.publish(sample_record(1)) && store.publish(sample_record(2)));
    return file_of(root(), sample_record(2));
  }

  /// Loads in a fresh process: gets only the first record, and sets the patient aside with
  /// `reason`.
  void expect_set_aside(const std::string& reason) {
    Store store(root());
    EXPECT_EQ(ids_of(*store.load(sample_key())), Ids{1}) << reason;
    EXPECT_EQ(store.counters().quarantined, 1) << reason;
    EXPECT_EQ(ids_of(*store.load(sample_key())), Ids{1});
    EXPECT_EQ(store.counters().quarantined, 1) << "counted once";
    int with_reason = 0;
    for (const auto& entry : fs::directory_iterator(quarantine()))
      with_reason += entry.path().extension() == "." + reason;
    EXPECT_EQ(with_reason, 1) << reason;
    EXPECT_TRUE(store.publish(sample_record(2))) << "measured again, kept again";
    EXPECT_EQ(fresh_ids(root()), (Ids{1, 2}));
  }

  Scratch scratch_;
};

}  // namespace dlblas::battery
