// The store under everything that goes wrong with disks, folders and processes: damage at every
// byte, kill −9 at every step, crowds, hostile folders, failing writes. Asserted each time: what
// was published is there, nothing else is used, and the caller sees no exception. The table of
// faults is in docs/store.md.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "../store_battery/expect.hpp"

namespace {
// What the store did, in order, with the fsyncs that the system really saw: a lost one fails
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
using Ids = std::set<int>;

class StoreBattery : public ::testing::Test {
 protected:
  void TearDown() override { store_fault_hook = nullptr; }
  std::string root() const { return scratch_.root(); }
  const std::string& path() const { return scratch_.path(); }
  std::string quarantine() const { return root() + "/quarantine"; }

  // Two records; the second one's file is the patient.
  std::string publish_two() {
    Store store(root());
    EXPECT_TRUE(store.publish(sample_record(1)) && store.publish(sample_record(2)));
    return file_of(root(), sample_record(2));
  }

  // A fresh process loads: the first record only, the patient set aside with `reason`.
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

// ---- damaged files
// ----------------------------------------------------------------------------------

TEST_F(StoreBattery, TruncatedAtEveryByte) {
  const std::string file = publish_two(), whole = slurp(file);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    spill(file, whole.substr(0, n));
    Store store(root());
    ASSERT_EQ(ids_of(*store.load(sample_key())), Ids{1}) << n;
    ASSERT_EQ(store.counters().quarantined, 1) << n;
    ASSERT_FALSE(fs::exists(file));
  }
  spill(file, whole);
  EXPECT_EQ(fresh_ids(root()), (Ids{1, 2}));
}

TEST_F(StoreBattery, OneBitFlippedInEveryByte) {
  const std::string file = publish_two(), whole = slurp(file);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    spill(file, bad);
    Store store(root());
    ASSERT_EQ(ids_of(*store.load(sample_key())), Ids{1}) << at;
    ASSERT_EQ(store.counters().quarantined, 1) << at;
  }
}

TEST_F(StoreBattery, AnotherVersion) {
  const std::string file = publish_two();
  std::string body = slurp(file);
  body.resize(body.size() - 72);
  body[body.find('1')] = '2';
  const std::string text = seal(body);
  fs::remove(file);
  spill(key_folder(root()) + "/" + std::string(digest_of(text)), text);
  expect_set_aside("version");
}

TEST_F(StoreBattery, MovedFromAnotherKey) {
  const std::string file = publish_two();
  ASSERT_TRUE(Store(root()).publish(sample_record(3, 1)));
  fs::remove(file);
  const std::string alien = file_of(root(), sample_record(3, 1));
  fs::rename(alien, key_folder(root()) + "/" + fs::path(alien).filename().string());
  expect_set_aside("wrong_key");
}

TEST_F(StoreBattery, UnderAnotherName) {
  const std::string file = publish_two();
  fs::rename(file, key_folder(root()) + "/README");
  expect_set_aside("name");
}

TEST_F(StoreBattery, TooLong) {
  const std::string file = publish_two();
  spill(file, std::string(kMaxRecordBytes + 1, 'x'));
  expect_set_aside("too_long");
}

TEST_F(StoreBattery, FifoIsNotWaitedFor) {
  const std::string file = publish_two();
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  expect_set_aside("not_regular");
}

TEST_F(StoreBattery, SymlinkIsNotFollowed) {
  const std::string file = publish_two();
  fs::rename(file, path() + "/elsewhere");  // the very record, good as it is
  fs::create_symlink(path() + "/elsewhere", file);
  expect_set_aside("not_regular");
  EXPECT_TRUE(fs::exists(path() + "/elsewhere"));
}

TEST_F(StoreBattery, FolderInPlaceOfAFile) {
  const std::string file = publish_two();
  fs::remove(file);
  fs::create_directories(file + "/inside");
  expect_set_aside("not_regular");
}

TEST_F(StoreBattery, FileThatOthersMayWrite) {
  const std::string file = publish_two();
  ::chmod(file.c_str(), 0622);
  expect_set_aside("foreign");
}

TEST_F(StoreBattery, FileWithoutPermissions) {
  const int status = as_nobody([] {
    const Scratch mine;
    Store store(mine.root());
    if (!store.publish(sample_record(1)) || !store.publish(sample_record(2))) return 1;
    ::chmod(file_of(mine.root(), sample_record(2)).c_str(), 0);
    Store fresh(mine.root());
    if (ids_of(*fresh.load(sample_key())) != Ids{1}) return 2;
    return fresh.counters().quarantined == 1 ? 0 : 3;
  });
  EXPECT_TRUE(succeeded(status)) << WEXITSTATUS(status);
}

TEST_F(StoreBattery, LongAndOddNamesGoToQuarantineToo) {
  publish_two();
  spill(key_folder(root()) + "/" + std::string(255, 'n'), "x");
  spill(key_folder(root()) + "/\xff\x1b[31m \n", "x");
  spill(key_folder(root()) + "/.nfs0001", "x");  // hidden: NFS's business, and our temporary files
  Store store(root());
  EXPECT_EQ(ids_of(*store.load(sample_key())), (Ids{1, 2}));
  EXPECT_EQ(count_entries(quarantine()), 2);
}

TEST_F(StoreBattery, QuarantineThatCannotBeUsed) {
  const std::string file = publish_two();
  spill(file, "broken");
  fs::create_directory_symlink(path(), quarantine());
  Store store(root());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ids_of(*store.load(sample_key())), Ids{1});
  EXPECT_EQ(store.counters().quarantined, 1);
  EXPECT_EQ(slurp(file), "broken") << "skipped where it is";
}

TEST_F(StoreBattery, VerifyFindsWhatBrokeAfterItWasRead) {
  const std::string file = publish_two();
  Store store(root());
  EXPECT_EQ(store.load(sample_key())->rows.size(), 2u);
  spill(file, slurp(file) + "x");
  const StoreCheck check = store.verify();
  EXPECT_EQ(check.good, 1);
  EXPECT_EQ(check.bad, 1);
  EXPECT_EQ(ids_of(*store.load(sample_key())), Ids{1});
  EXPECT_EQ(store.clear(), 2) << "the good one and the quarantined one";
}

TEST_F(StoreBattery, RandomBytesOfEverySize) {
  publish_two();
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(random() % 2000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    spill(key_folder(root()) + "/" + std::string(64, static_cast<char>(65 + i % 26)) +
              std::to_string(i),
          bytes);
  }
  Store store(root());
  EXPECT_EQ(ids_of(*store.load(sample_key())), (Ids{1, 2}));
  EXPECT_EQ(store.counters().quarantined, 300);
}

// ---- processes that die
// -----------------------------------------------------------------------------

constexpr int kBulk = 900;  // samples: a file of several chunks

TEST_F(StoreBattery, KilledAtEveryStepOfPublishing) {
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

// A child publishes without pause and says through a pipe what is on the disk; it is killed at a
// random moment. All it said must be there, and nothing that it never published.
TEST_F(StoreBattery, KilledAtRandomMoments) {
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

TEST_F(StoreBattery, KilledAtEveryStepOfCompaction) {
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

TEST_F(StoreBattery, LeftoversAreSweptWhenTheyAreOld) {
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

// ---- crowds
// -----------------------------------------------------------------------------------------

// Publishing compacts at times, so this is also compaction against writers and readers.
TEST_F(StoreBattery, EightProcessesOnOneKey) {
  constexpr int kProcesses = 8, kEach = 25;
  std::vector<pid_t> writers;
  for (int p = 0; p < kProcesses; ++p)
    writers.push_back(spawn([&] {
      Store store(root());
      for (int i = 0; i < kEach; ++i)
        if (!store.publish(sample_record(p * kEach + i))) return 1;
      return static_cast<int>(store.counters().quarantined);
    }));
  // A reader that starts from nothing each time must never see fewer than before.
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

TEST_F(StoreBattery, ClearAgainstWriters) {
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

// ---- folders that must not be trusted, disks that refuse
// ----------------------------------------------

// The store works from memory, says why, warns once, and leaves the place alone.
void expect_memory_only(const std::string& root, const std::string& why) {
  Store store(root);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(store.load(sample_key())->rows.empty()) << why;
  EXPECT_FALSE(store.publish(sample_record(1)));
  EXPECT_FALSE(store.publish(sample_record(2)));
  EXPECT_EQ(ids_of(*store.load(sample_key())), (Ids{1, 2})) << "kept for this process";
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 1) << warnings;
  EXPECT_NE(warnings.find(why), warnings.npos) << warnings;
  EXPECT_NE(store.reason().find(why), std::string::npos) << store.reason();
  EXPECT_NE(Store(root).reason().find(why), std::string::npos)
      << "`info` asks before anybody writes";
  EXPECT_EQ(store.counters().failed_writes, 2);
  EXPECT_EQ(store.counters().published, 0);
}

TEST_F(StoreBattery, NoHome) { expect_memory_only("", "DLBLAS_CACHE"); }

TEST_F(StoreBattery, RootIsASymlink) {
  fs::create_directory(path() + "/real");
  fs::permissions(path() + "/real", fs::perms(0700));
  fs::create_directory_symlink(path() + "/real", root());
  expect_memory_only(root(), "symbolic link");
  expect_memory_only(root() + "/", "symbolic link");
  EXPECT_TRUE(fs::is_empty(path() + "/real"));
}

TEST_F(StoreBattery, ResultsIsASymlink) {
  ASSERT_TRUE(Store(root()).publish(sample_record(9)));
  fs::rename(root() + "/results", path() + "/real");
  fs::create_directory_symlink(path() + "/real", root() + "/results");
  expect_memory_only(root(), "symbolic link");
}

TEST_F(StoreBattery, FoldersThatOthersMayWrite) {
  ASSERT_TRUE(Store(root()).publish(sample_record(9)));
  for (const std::string& folder : {root(), root() + "/results"})
    for (const int mode : {0770, 0702, 01777}) {
      ::chmod(folder.c_str(), static_cast<mode_t>(mode));
      expect_memory_only(root(), "writable by others");
      ::chmod(folder.c_str(), 0700);
    }
  ::chmod(root().c_str(), 0755);
  EXPECT_EQ(fresh_ids(root()), Ids{9}) << "readable by others is fine";
}

TEST_F(StoreBattery, KeyFolderThatOthersMayWrite) {
  ASSERT_TRUE(Store(root()).publish(sample_record(9)));
  ::chmod(key_folder(root()).c_str(), 0777);
  Store store(root());
  EXPECT_TRUE(store.load(sample_key())->rows.empty());
  EXPECT_FALSE(store.publish(sample_record(1)));
  EXPECT_TRUE(store.publish(sample_record(1, 1))) << "other keys go on";
}

TEST_F(StoreBattery, RootIsAFile) {
  spill(root(), "not a folder");
  expect_memory_only(root(), "cannot");
}

TEST_F(StoreBattery, RootOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  ASSERT_TRUE(Store(root()).publish(sample_record(9)));
  ::chmod(root().c_str(), 0755);
  const int status = as_nobody([&] {
    expect_memory_only(root(), "another user");
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(succeeded(status));
  ASSERT_EQ(::chown(root().c_str(), kNobody, kNobody), 0);
  expect_memory_only(root(), "another user");  // and the other way round
}

TEST_F(StoreBattery, ReadOnlyRootStillServes) {
  const int status = as_nobody([] {
    const Scratch mine;
    if (!Store(mine.root()).publish(sample_record(1))) return 1;
    for (const char* folder : {"/results", ""}) ::chmod((mine.root() + folder).c_str(), 0500);
    ::chmod(key_folder(mine.root()).c_str(), 0500);
    Store store(mine.root());
    ::testing::internal::CaptureStderr();
    const bool refused = !store.publish(sample_record(2)) && !store.publish(sample_record(3, 1));
    const std::string warnings = ::testing::internal::GetCapturedStderr();
    const Ids mixed = ids_of(*store.load(sample_key()));
    const Ids from_disk = fresh_ids(mine.root());
    const bool told = !store.reason().empty() && !Store(mine.root()).reason().empty();
    for (const char* folder : {"", "/results"}) ::chmod((mine.root() + folder).c_str(), 0700);
    ::chmod(key_folder(mine.root()).c_str(), 0700);
    if (!refused || std::count(warnings.begin(), warnings.end(), '\n') != 1) return 2;
    if (mixed != Ids{1, 2} || from_disk != Ids{1}) return 3;
    return told ? 0 : 4;
  });
  EXPECT_TRUE(succeeded(status)) << WEXITSTATUS(status);
}

TEST_F(StoreBattery, ReadOnlyHome) {
  const std::string home = path() + "/home";
  fs::create_directory(home);
  fs::permissions(home, fs::perms(0555));
  const int status = as_nobody([&] {
    expect_memory_only(home + "/.cache/dlblas/v1", "Permission denied");
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(succeeded(status));
}

TEST_F(StoreBattery, FullDisk) {
  ASSERT_TRUE(Store(root()).publish(sample_record(1, 0, kBulk)));
  const int status = wait_for(spawn([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    Store store(root());
    // Every limit below the file's length, in coarse steps: full at another place of the file each
    // time.
    const std::size_t length = print(sample_record(2, 0, kBulk)).size();
    for (std::size_t room = 0; room < length; room += 1000) {
      const rlimit limit = {room, RLIM_INFINITY};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      if (store.publish(sample_record(2, 0, kBulk))) return 1;
      if (ids_of(*store.load(sample_key()), kBulk) != Ids{1, 2}) return 2;
      if (fresh_ids(root(), 0, kBulk) != Ids{1}) return 3;
      if (count_entries(key_folder(root())) != 1)
        return 4;  // no leftovers: they would fill it further
    }
    const rlimit plenty = {RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &plenty);
    if (store.reason().empty()) return 5;
    if (!store.publish(sample_record(2, 0, kBulk))) return 6;
    if (!store.reason().empty()) return 7;
    return fresh_ids(root(), 0, kBulk) == Ids{1, 2} ? 0 : 8;
  }));
  EXPECT_TRUE(succeeded(status)) << WEXITSTATUS(status);
}

TEST_F(StoreBattery, NoDescriptorsLeft) {
  publish_two();
  const int status = wait_for(spawn([&] {
    Store store(root());
    if (store.load(sample_key())->rows.size() != 2) return 1;
    const rlimit none = {0, 1024};
    ::setrlimit(RLIMIT_NOFILE, &none);
    Store blind(root());
    const bool nothing = blind.load(sample_key())->rows.empty();
    const bool known = store.load(sample_key())->rows.size() == 2;
    const bool refused = !store.publish(sample_record(3));
    const rlimit plenty = {1024, 1024};
    ::setrlimit(RLIMIT_NOFILE, &plenty);
    if (!nothing || !known || !refused) return 2;
    return blind.load(sample_key())->rows.size() == 2 && blind.counters().quarantined == 0 ? 0 : 3;
  }));
  EXPECT_TRUE(succeeded(status)) << WEXITSTATUS(status);
}

StoreStep g_failing;
TEST_F(StoreBattery, EveryStepFails) {
  ASSERT_TRUE(Store(root()).publish(sample_record(1)));
  for (const StoreStep step : {StoreStep::kCreated, StoreStep::kChunk, StoreStep::kWritten,
                               StoreStep::kSynced, StoreStep::kRenamed, StoreStep::kFolderSynced}) {
    g_failing = step;
    store_fault_hook = [](StoreStep s) { return s == g_failing ? EIO : 0; };
    Store store(root());
    EXPECT_FALSE(store.publish(sample_record(2)));
    EXPECT_NE(store.reason().find("Input/output error"), std::string::npos);
    store_fault_hook = nullptr;
    EXPECT_EQ(ids_of(*store.load(sample_key())), (Ids{1, 2})) << "kept in memory";
    const bool named = step == StoreStep::kRenamed || step == StoreStep::kFolderSynced;
    EXPECT_EQ(fresh_ids(root()), named ? (Ids{1, 2}) : Ids{1});
    EXPECT_EQ(count_entries(key_folder(root())), named ? 2 : 1) << "no leftovers";
    fs::remove(file_of(root(), sample_record(2)));
  }
}

TEST_F(StoreBattery, CompactionThatCannotWriteUnlinksNothing) {
  publish_two();
  Store store(root());
  store_fault_hook = [](StoreStep s) { return s == StoreStep::kWritten ? ENOSPC : 0; };
  EXPECT_FALSE(store.compact(sample_key()));
  store_fault_hook = nullptr;
  EXPECT_EQ(fresh_ids(root()), (Ids{1, 2}));
  EXPECT_EQ(count_entries(key_folder(root())), 2);
}

// A kill leaves what the kernel has; a power cut only what was synced. So the order is the proof:
// the file before its name, the folders before success.
TEST_F(StoreBattery, SyncsInOrder) {
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
