// Processes that die while they publish or compact, and crowds of them: the next process finds what
// was published. The order of fsyncs stands for a power cut. All faults:
// tests/store_battery/deaths.cpp. Read next: tests/cpp/test_store_refusals.cpp.
#include <sys/syscall.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "../store_battery/expect.hpp"

namespace {
// The store's steps in order, with the fsyncs that the system really received: a missing one fails
// SyncsInOrder.
std::vector<std::string>* g_trace = nullptr;
void trace(const char* what) {
  if (g_trace) g_trace->push_back(what);
}
}  // namespace

extern "C" int fsync(int fd) {
  struct stat st;
  if (g_trace && ::fstat(fd, &st) == 0) trace(S_ISDIR(st.st_mode) ? "fsync folder" : "fsync file");
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace dlblas {
namespace {

using namespace battery;

using StoreDeaths = StoreTest;

constexpr int kBulk = 900;  // samples: a file of several chunks

TEST_F(StoreDeaths, KilledAtEveryStepOfPublishing) {
  ASSERT_TRUE(Store(root()).publish(sample_record(1, 0, kBulk)));
  int killed = 0;
  Ids expected = {1};
  for (int step = 1;; ++step) {
    const int id = step + 1;
    const int status = wait_for(spawn([&] {
      kill_at(step);
      return Store(root()).publish(sample_record(id, 0, kBulk)) ? 0 : 1;
    }));
    const Ids now = fresh_ids(root(), 0, kBulk);
    ASSERT_TRUE(std::includes(now.begin(), now.end(), expected.begin(), expected.end())) << step;
    ASSERT_LE(now.size(), expected.size() + 1);
    const bool named = fs::exists(file_of(root(), sample_record(id, 0, kBulk)));
    ASSERT_EQ(now.count(id), named) << "whole or not at all, at step " << step;
    expected = now;
    if (!was_killed(status)) {
      ASSERT_TRUE(succeeded(status));
      ASSERT_EQ(now.count(id), 1u);
      break;
    }
    ++killed;
  }
  EXPECT_GE(killed, 8) << "created, four chunks or more, written, synced, renamed, folder synced";
  const StoreCheck check = Store(root()).verify();
  EXPECT_EQ(check.good, static_cast<std::int64_t>(expected.size()));
  EXPECT_EQ(check.bad, 0) << "temporary files are not mistaken for records";
}

// A child publishes without pause and reports through a pipe what is on disk; it is killed at a
// random moment. Everything it reported must be there, and nothing that it never published.
TEST_F(StoreDeaths, KilledAtRandomMoments) {
  constexpr int kRounds = 60;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Ids promised;
  int next = 0;
  for (int round = 0; round < kRounds; ++round, next += 1000) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t pid = spawn([&] {
      Store store(root());
      for (int id = next; id < next + 1000; ++id)
        if (!store.publish(sample_record(id)) || ::write(ends[1], &id, sizeof id) != sizeof id)
          return 1;
      return 0;
    });
    ::close(ends[1]);
    int id = 0;
    if (::read(ends[0], &id, sizeof id) == sizeof id) promised.insert(id);  // it is under way
    ::usleep(random() % 15000);
    ::kill(pid, SIGKILL);
    wait_for(pid);
    while (::read(ends[0], &id, sizeof id) == sizeof id) promised.insert(id);
    ::close(ends[0]);
  }
  EXPECT_GE(promised.size(), static_cast<std::size_t>(kRounds));
  Store store(root());
  const Ids found = ids_of(*store.load(sample_key()));  // also checks every value
  EXPECT_TRUE(std::includes(found.begin(), found.end(), promised.begin(), promised.end()));
  EXPECT_LE(found.size(), promised.size() + kRounds) << "at most the one in flight, each round";
  EXPECT_EQ(store.counters().quarantined, 0);
  RecordProperty("published", static_cast<int>(promised.size()));
}

TEST_F(StoreDeaths, KilledAtEveryStepOfCompaction) {
  const Ids all = {0, 1, 2, 3, 4, 5};
  int killed = 0;
  for (int step = 1;; ++step) {
    const Scratch here;
    Store writer(here.root());
    for (const int id : all) ASSERT_TRUE(writer.publish(sample_record(id)));
    const int status = wait_for(spawn([&] {
      Store store(here.root());
      kill_at(step);
      return store.compact(sample_key()) ? 0 : 1;
    }));
    ASSERT_EQ(fresh_ids(here.root()), all) << step;
    ASSERT_TRUE(Store(here.root()).compact(sample_key())) << "the dead one's lock is gone";
    ASSERT_EQ(fresh_ids(here.root()), all) << step;
    ASSERT_EQ(Store(here.root()).verify().good, 1);
    if (!was_killed(status)) {
      ASSERT_TRUE(succeeded(status));
      break;
    }
    ++killed;
  }
  EXPECT_GE(killed, 12) << "six steps of writing, merged, six sources";
}

TEST_F(StoreDeaths, LeftoversAreSweptWhenTheyAreOld) {
  ASSERT_TRUE(Store(root()).publish(sample_record(1)));
  for (int step = 1; step <= 2; ++step)
    ASSERT_TRUE(was_killed(wait_for(spawn([&] {
      kill_at(step);
      return Store(root()).publish(sample_record(2)) ? 0 : 1;
    }))));
  ASSERT_EQ(count_entries(key_folder(root())), 3);
  Store(root()).verify();
  EXPECT_EQ(count_entries(key_folder(root())), 3) << "young: their writers may live";
  for (const auto& entry : fs::directory_iterator(key_folder(root())))
    fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::hours(2));
  Store(root()).verify();
  EXPECT_EQ(count_entries(key_folder(root())), 1);
  EXPECT_EQ(fresh_ids(root()), Ids{1});
}

// Publishing sometimes compacts, so this also tests compaction against writers and readers.
TEST_F(StoreDeaths, EightProcessesOnOneKey) {
  constexpr int kProcesses = 8, kEach = 25;
  std::vector<pid_t> writers;
  for (int p = 0; p < kProcesses; ++p)
    writers.push_back(spawn([&] {
      Store store(root());
      for (int i = 0; i < kEach; ++i)
        if (!store.publish(sample_record(p * kEach + i))) return 1;
      return static_cast<int>(store.counters().quarantined);
    }));
  // A reader that starts from scratch each time must never see fewer records than before.
  const pid_t reader = spawn([&] {
    for (std::size_t before = 0, now = 0; now < kProcesses * kEach; before = now)
      if ((now = fresh_ids(root()).size()) < before) return 1;
    return 0;
  });
  for (const pid_t pid : writers) EXPECT_TRUE(succeeded(wait_for(pid)));
  EXPECT_TRUE(succeeded(wait_for(reader)));
  const Ids found = fresh_ids(root());
  EXPECT_EQ(found.size(), static_cast<std::size_t>(kProcesses * kEach));
  EXPECT_EQ(Store(root()).verify().bad, 0);
  ASSERT_TRUE(Store(root()).compact(sample_key()));
  EXPECT_EQ(count_entries(key_folder(root())), 1);
  EXPECT_EQ(fresh_ids(root()), found);
}

TEST_F(StoreDeaths, ClearAgainstWriters) {
  std::vector<pid_t> writers;
  for (int p = 0; p < 3; ++p)
    writers.push_back(spawn([&] {
      Store store(root());
      int failed = 0;
      for (int i = 0; i < 40; ++i) failed += !store.publish(sample_record(i, i % 2));
      return failed;
    }));
  Store store(root());
  for (int i = 0; i < 40; ++i, ::usleep(500)) store.clear();
  for (const pid_t pid : writers) EXPECT_TRUE(succeeded(wait_for(pid)));
  ASSERT_TRUE(store.publish(sample_record(1000)));
  EXPECT_EQ(fresh_ids(root()).count(1000), 1u);
  EXPECT_EQ(store.verify().bad, 0);
}

// A kill leaves everything that the kernel has; a power cut leaves only what was synced. So the
// order is the proof: the file before its name, the folders before success.
TEST_F(StoreDeaths, SyncsInOrder) {
  std::vector<std::string> seen;
  g_trace = &seen;
  store_fault_hook = [](StoreStep step) {
    constexpr const char* kNames[] = {"created", "chunk", "written", "synced", "renamed", "done"};
    trace(kNames[static_cast<int>(step)]);
    return 0;
  };
  const bool durable = Store(root()).publish(sample_record(1));
  g_trace = nullptr;
  EXPECT_TRUE(durable);
  std::vector<std::string> expected = {"created", "chunk",   "written",      "fsync file",
                                       "synced",  "renamed", "fsync folder", "done"};
  expected.insert(expected.end(), 4, "fsync folder");  // results, v1 and, the first time, two above
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace dlblas
