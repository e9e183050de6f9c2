// What a store promises when nothing goes wrong: merging, staleness by source, memory, other
// processes, listing, compaction, the shipped table. Failures are in test_store_damage.cpp.
#include "store/store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "../store_battery/expect.hpp"

namespace dlblas {
namespace {

using namespace battery;

TEST(Store, KeepsAcrossProcesses) {
  const Scratch scratch;
  Store writer(scratch.root());
  EXPECT_TRUE(writer.load(sample_key())->rows.empty());
  EXPECT_FALSE(fs::exists(scratch.root())) << "a load must not make folders";
  ASSERT_TRUE(writer.publish(sample_record(1)));
  ASSERT_TRUE(writer.publish(sample_record(2)));
  EXPECT_EQ(fresh_ids(scratch.root()), (std::set<int>{1, 2}));
  EXPECT_TRUE(fresh_ids(scratch.root(), 1).empty()) << "another key";
  EXPECT_EQ(fs::status(scratch.root()).permissions(), fs::perms(0700));
  EXPECT_EQ(fs::status(file_of(scratch.root(), sample_record(1))).permissions(), fs::perms(0600));
  const StoreCounters c = writer.counters();
  EXPECT_EQ(c.misses, 1);
  EXPECT_EQ(c.published, 2);
  EXPECT_EQ(c.failed_writes + c.quarantined, 0);
  EXPECT_EQ(writer.reason(), "");
}

TEST(Store, KeyOrderDoesNotMatter) {
  const Scratch scratch;
  Store store(scratch.root());
  ASSERT_TRUE(store.publish(sample_record(1)));
  Fields reversed = sample_key();
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(store.load(reversed)->rows.size(), 1u);
}

TEST(Store, NewestSampleOfACandidateWins) {
  const Scratch scratch;
  Store store(scratch.root());
  Record record = sample_record(1);
  for (const std::int64_t at : {50, 90, 70}) {  // published out of order: the clock went back
    record.candidates[0].measured_at = at;
    record.candidates[0].samples_ms = {static_cast<double>(at)};
    ASSERT_TRUE(store.publish(record));
  }
  Store fresh(scratch.root());
  const auto merged = fresh.load(sample_key());
  ASSERT_EQ(merged->rows.size(), 1u);
  EXPECT_EQ(merged->rows[0].candidate.samples_ms, std::vector<double>{90});
  EXPECT_EQ(merged->records, 3u);
}

TEST(Store, EqualTimesAreSettledByNameEverywhereAlike) {
  const Scratch a, b;
  Record one = sample_record(1), two = sample_record(1);
  two.candidates[0].samples_ms = {9};
  Store first(a.root()), second(b.root());
  ASSERT_TRUE(first.publish(one) && first.publish(two));
  ASSERT_TRUE(second.publish(two) && second.publish(one));
  EXPECT_EQ(first.load(sample_key())->rows[0].candidate,
            second.load(sample_key())->rows[0].candidate);
}

TEST(Store, AnotherSourceIsAnotherCandidate) {
  const Scratch scratch;
  Store store(scratch.root());
  Record record = sample_record(1);
  ASSERT_TRUE(store.publish(record));
  record.candidates[0].source_hash = "0dd";
  ASSERT_TRUE(store.publish(record));
  const auto merged = store.load(sample_key());
  ASSERT_EQ(merged->rows.size(), 2u);
  EXPECT_EQ(merged->rows[0].candidate.source_hash, "0dd");
  EXPECT_EQ(merged->rows[1].candidate.source_hash, "5eed");
}

TEST(Store, StampsCandidatesWithoutATime) {
  const Scratch scratch;
  Store store(scratch.root());
  Record record = sample_record(1);
  record.candidates[0].measured_at = 0;
  ASSERT_TRUE(store.publish(record));
  EXPECT_GT(store.load(sample_key())->rows[0].candidate.measured_at, std::int64_t{1} << 60);
}

// A timestamp without a successor would tie with all later ones, so such a record is refused:
// anything measured after an accepted record is newer than it.
TEST(Store, EveryTimeThatIsTakenHasALaterOne) {
  const Scratch scratch;
  Store store(scratch.root());
  Record record = sample_record(1);
  record.candidates[0].measured_at = INT64_MAX;
  EXPECT_FALSE(store.publish(record));
  EXPECT_TRUE(store.load(sample_key())->rows.empty());
  for (const std::int64_t stamp : {std::int64_t{0}, std::int64_t{1} << 62, kLatestStamp - 1}) {
    const std::int64_t later = stamp_after(stamp);
    EXPECT_GT(later, stamp);
    record.candidates[0].measured_at = later;
    EXPECT_TRUE(store.publish(record)) << later;
  }
  EXPECT_EQ(stamp_after(INT64_MAX), kLatestStamp) << "what is published reads back";
}

TEST(Store, RepeatedLoadReadsNothingAgain) {
  const Scratch scratch;
  ASSERT_TRUE(Store(scratch.root()).publish(sample_record(1)));
  Store store(scratch.root());
  const auto first = store.load(sample_key());
  // Damaged behind the store's back: if it were read again it would be set aside.
  spill(file_of(scratch.root(), sample_record(1)), "broken");
  EXPECT_EQ(store.load(sample_key()), first);
  EXPECT_EQ(store.counters().hits, 2);
  EXPECT_EQ(store.counters().quarantined, 0);
}

TEST(Store, SeesWhatOthersPublishAndClear) {
  const Scratch scratch;
  Store mine(scratch.root()), theirs(scratch.root());
  ASSERT_TRUE(mine.publish(sample_record(1)));
  ASSERT_TRUE(theirs.publish(sample_record(2)));
  EXPECT_EQ(ids_of(*mine.load(sample_key())), (std::set<int>{1, 2}));
  EXPECT_EQ(theirs.clear(), 2);
  EXPECT_TRUE(mine.load(sample_key())->rows.empty());
  ASSERT_TRUE(mine.publish(sample_record(3))) << "the folders come back";
  EXPECT_EQ(ids_of(*theirs.load(sample_key())), std::set<int>{3});
}

TEST(Store, RemovesOneKeyAndNothingElse) {
  const Scratch scratch;
  Store mine(scratch.root()), theirs(scratch.root());
  for (const int which : {0, 1}) ASSERT_TRUE(mine.publish(sample_record(which, which)));
  ASSERT_TRUE(theirs.publish(sample_record(2)));
  spill(scratch.path() + "/outside", "dear");
  for (const char* none : {"", "..", "../../outside", "0", "../results"})
    EXPECT_EQ(mine.remove(none), 0) << none;
  EXPECT_EQ(mine.remove(key_hash(sample_key(7))), 0) << "a key without records";
  EXPECT_EQ(mine.remove(key_hash(sample_key())), 2) << "another process' record as well";
  EXPECT_TRUE(mine.load(sample_key())->rows.empty());
  EXPECT_TRUE(theirs.load(sample_key())->rows.empty());
  EXPECT_EQ(fresh_ids(scratch.root(), 1), Ids{1});
  EXPECT_EQ(slurp(scratch.path() + "/outside"), "dear");
  ASSERT_TRUE(mine.publish(sample_record(3))) << "the folder comes back";
  EXPECT_EQ(fresh_ids(scratch.root()), Ids{3});
}

TEST(Store, ListsAndShows) {
  const Scratch scratch;
  Store store(scratch.root());
  EXPECT_TRUE(store.ls().empty());
  for (int which = 0; which < 20; ++which) ASSERT_TRUE(store.publish(sample_record(which, which)));
  Store fresh(scratch.root());
  EXPECT_EQ(fresh.ls().size(), 20u);
  const std::string hash = key_hash(sample_key(7));
  ASSERT_NE(fresh.show(hash), nullptr);
  EXPECT_EQ(fresh.show(hash)->key, sample_key(7));
  EXPECT_NE(fresh.show(hash.substr(0, 12)), nullptr);
  EXPECT_EQ(fresh.show("nothing"), nullptr);
  EXPECT_EQ(fresh.show(""), nullptr) << "a prefix of several";
}

TEST(Store, SplitsWhatIsTooLongForAFile) {
  const Scratch scratch;
  Store store(scratch.root());
  constexpr int kBulk = 400;
  Record record = sample_record(0, 0, kBulk);
  record.candidates.clear();
  for (int id = 0; id < 300; ++id) record.candidates.push_back(sample_candidate(id, kBulk));
  ASSERT_GT(print(record).size(), kMaxRecordBytes);
  ASSERT_TRUE(store.publish(record));
  EXPECT_GT(count_entries(key_folder(scratch.root())), 1);
  EXPECT_EQ(fresh_ids(scratch.root(), 0, kBulk).size(), 300u);
}

TEST(Store, RefusesARecordThatWouldNotReadBack) {
  const Scratch scratch;
  Store store(scratch.root());
  Record record = sample_record(1);
  record.env[0].value = "a\nb";
  EXPECT_FALSE(store.publish(record));
  EXPECT_TRUE(store.load(sample_key())->rows.empty());
  EXPECT_EQ(store.counters().failed_writes, 1);
  EXPECT_EQ(store.reason(), "") << "the disk is not at fault";
}

TEST(Store, CompactsPerEnvironmentAndForgetsTheSuperseded) {
  const Scratch scratch;
  Store store(scratch.root());
  for (int id = 0; id < 6; ++id) {
    Record record = sample_record(id);
    if (id % 2) record.env[0].value = "clang 14";
    ASSERT_TRUE(store.publish(record));
  }
  Record old = sample_record(0);
  old.candidates[0].measured_at = 1;
  old.candidates[0].samples_ms = {77};
  ASSERT_TRUE(store.publish(old));
  ASSERT_TRUE(store.compact(sample_key()));
  EXPECT_EQ(count_entries(key_folder(scratch.root())), 2);
  Store fresh(scratch.root());
  const auto merged = fresh.load(sample_key());
  EXPECT_EQ(ids_of(*merged), (std::set<int>{0, 1, 2, 3, 4, 5}));
  for (const Merged::Row& row : merged->rows)
    EXPECT_EQ(row.env->at(0).value, row.candidate.measured_at % 2 ? "clang 14" : "g++ 12");
  EXPECT_EQ(ids_of(*store.load(sample_key())), ids_of(*merged));
  ASSERT_TRUE(store.compact(sample_key())) << "again: nothing to do";
  EXPECT_EQ(fresh.load(sample_key()), merged);
}

TEST(Store, PublishCompactsByItself) {
  const Scratch scratch;
  Store store(scratch.root());
  for (int id = 0; id < 70; ++id) ASSERT_TRUE(store.publish(sample_record(id)));
  EXPECT_LT(count_entries(key_folder(scratch.root())), 40);
  EXPECT_EQ(fresh_ids(scratch.root()).size(), 70u);
}

TEST(Store, ShippedTableIsReadOnly) {
  const Scratch scratch;
  ASSERT_TRUE(Store(scratch.root()).publish(sample_record(1)));
  spill(key_folder(scratch.root()) + "/bad", "bad");
  fs::permissions(scratch.root(), fs::perms(0775));  // a package folder is whose it is
  Store shipped = Store::shipped(scratch.root());
  EXPECT_EQ(ids_of(*shipped.load(sample_key())), std::set<int>{1});
  EXPECT_EQ(ids_of(*shipped.load(sample_key())), std::set<int>{1});
  EXPECT_EQ(shipped.counters().quarantined, 1) << "skipped once, not at every load";
  EXPECT_TRUE(fs::exists(key_folder(scratch.root()) + "/bad"));
  EXPECT_FALSE(shipped.publish(sample_record(2)));
  EXPECT_FALSE(shipped.compact(sample_key()));
  EXPECT_EQ(shipped.clear(), 0);
  EXPECT_EQ(ids_of(*shipped.load(sample_key())), std::set<int>{1});
}

TEST(Store, ThreadsShareOne) {
  const Scratch scratch;
  Store store(scratch.root());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&store, t] {
      for (int i = 0; i < 12; ++i) {
        EXPECT_TRUE(store.publish(sample_record(t * 12 + i)));
        EXPECT_GE(store.load(sample_key())->rows.size(), static_cast<std::size_t>(i + 1));
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ids_of(*store.load(sample_key())).size(), 48u);
  EXPECT_EQ(fresh_ids(scratch.root()).size(), 48u);
}

}  // namespace
}  // namespace dlblas
