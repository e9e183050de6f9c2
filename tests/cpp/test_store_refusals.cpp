// Folders that must not be trusted, and disks that refuse: the store works from memory, says why,
// warns once and leaves the place untouched, without an exception. All faults:
// tests/store_battery/trust.cpp. Read next: docs/store.md.
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "../store_battery/expect.hpp"

namespace dlblas {
namespace {

using namespace battery;

using StoreRefusals = StoreTest;

// The store works from memory, says why, warns once, and leaves the place untouched.
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

TEST_F(StoreRefusals, NoHome) { expect_memory_only("", "DLBLAS_CACHE"); }

TEST_F(StoreRefusals, RootIsASymlink) {
  fs::create_directory(path() + "/real");
  fs::permissions(path() + "/real", fs::perms(0700));
  fs::create_directory_symlink(path() + "/real", root());
  expect_memory_only(root(), "symbolic link");
  expect_memory_only(root() + "/", "symbolic link");
  EXPECT_TRUE(fs::is_empty(path() + "/real"));
}

TEST_F(StoreRefusals, ResultsIsASymlink) {
  ASSERT_TRUE(Store(root()).publish(sample_record(9)));
  fs::rename(root() + "/results", path() + "/real");
  fs::create_directory_symlink(path() + "/real", root() + "/results");
  expect_memory_only(root(), "symbolic link");
}

TEST_F(StoreRefusals, FoldersThatOthersMayWrite) {
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

TEST_F(StoreRefusals, KeyFolderThatOthersMayWrite) {
  ASSERT_TRUE(Store(root()).publish(sample_record(9)));
  ::chmod(key_folder(root()).c_str(), 0777);
  Store store(root());
  EXPECT_TRUE(store.load(sample_key())->rows.empty());
  EXPECT_FALSE(store.publish(sample_record(1)));
  EXPECT_TRUE(store.publish(sample_record(1, 1))) << "other keys go on";
}

TEST_F(StoreRefusals, RootIsAFile) {
  spill(root(), "not a folder");
  expect_memory_only(root(), "cannot");
}

TEST_F(StoreRefusals, RootOfAnotherUser) {
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

TEST_F(StoreRefusals, ReadOnlyRootStillServes) {
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

TEST_F(StoreRefusals, ReadOnlyHome) {
  const std::string home = path() + "/home";
  fs::create_directory(home);
  fs::permissions(home, fs::perms(0555));
  const int status = as_nobody([&] {
    expect_memory_only(home + "/.cache/dlblas/v1", "Permission denied");
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(succeeded(status));
}

constexpr int kBulk = 900;  // samples: a file of several chunks

TEST_F(StoreRefusals, FullDisk) {
  ASSERT_TRUE(Store(root()).publish(sample_record(1, 0, kBulk)));
  const int status = wait_for(spawn([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    Store store(root());
    // Every limit below the file's length, in coarse steps: the disk is full at another offset of
    // the file each time.
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

TEST_F(StoreRefusals, NoDescriptorsLeft) {
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
TEST_F(StoreRefusals, EveryStepFails) {
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

TEST_F(StoreRefusals, CompactionThatCannotWriteUnlinksNothing) {
  publish_two();
  Store store(root());
  store_fault_hook = [](StoreStep s) { return s == StoreStep::kWritten ? ENOSPC : 0; };
  EXPECT_FALSE(store.compact(sample_key()));
  store_fault_hook = nullptr;
  EXPECT_EQ(fresh_ids(root()), (Ids{1, 2}));
  EXPECT_EQ(count_entries(key_folder(root())), 2);
}

}  // namespace
}  // namespace dlblas
