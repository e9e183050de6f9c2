// The store's reader on files that differ from what was written: each is set aside once, under the
// word that says why, and the good ones beside it are served. All faults:
// tests/store_battery/damage.cpp. Read next: tests/cpp/test_store_deaths.cpp.
#include <random>
#include <string>

#include "../store_battery/expect.hpp"

namespace dlblas {
namespace {

using namespace battery;

using StoreDamage = StoreTest;

TEST_F(StoreDamage, TruncatedAtEveryByte) {
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

TEST_F(StoreDamage, OneBitFlippedInEveryByte) {
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

TEST_F(StoreDamage, AnotherVersion) {
  const std::string file = publish_two();
  std::string body = slurp(file);
  body.resize(body.size() - 72);
  body[body.find('1')] = '2';
  const std::string text = seal(body);
  fs::remove(file);
  spill(key_folder(root()) + "/" + std::string(digest_of(text)), text);
  expect_set_aside("version");
}

TEST_F(StoreDamage, MovedFromAnotherKey) {
  const std::string file = publish_two();
  ASSERT_TRUE(Store(root()).publish(sample_record(3, 1)));
  fs::remove(file);
  const std::string alien = file_of(root(), sample_record(3, 1));
  fs::rename(alien, key_folder(root()) + "/" + fs::path(alien).filename().string());
  expect_set_aside("wrong_key");
}

TEST_F(StoreDamage, UnderAnotherName) {
  const std::string file = publish_two();
  fs::rename(file, key_folder(root()) + "/README");
  expect_set_aside("name");
}

TEST_F(StoreDamage, TooLong) {
  const std::string file = publish_two();
  spill(file, std::string(kMaxRecordBytes + 1, 'x'));
  expect_set_aside("too_long");
}

TEST_F(StoreDamage, FifoIsNotWaitedFor) {
  const std::string file = publish_two();
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  expect_set_aside("not_regular");
}

TEST_F(StoreDamage, SymlinkIsNotFollowed) {
  const std::string file = publish_two();
  fs::rename(file, path() + "/elsewhere");  // the very record, good as it is
  fs::create_symlink(path() + "/elsewhere", file);
  expect_set_aside("not_regular");
  EXPECT_TRUE(fs::exists(path() + "/elsewhere"));
}

TEST_F(StoreDamage, FolderInPlaceOfAFile) {
  const std::string file = publish_two();
  fs::remove(file);
  fs::create_directories(file + "/inside");
  expect_set_aside("not_regular");
}

TEST_F(StoreDamage, FileThatOthersMayWrite) {
  const std::string file = publish_two();
  ::chmod(file.c_str(), 0622);
  expect_set_aside("foreign");
}

TEST_F(StoreDamage, FileWithoutPermissions) {
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

TEST_F(StoreDamage, LongAndOddNamesGoToQuarantineToo) {
  publish_two();
  spill(key_folder(root()) + "/" + std::string(255, 'n'), "x");
  spill(key_folder(root()) + "/\xff\x1b[31m \n", "x");
  spill(key_folder(root()) + "/.nfs0001", "x");  // hidden: NFS's business, and our temporary files
  Store store(root());
  EXPECT_EQ(ids_of(*store.load(sample_key())), (Ids{1, 2}));
  EXPECT_EQ(count_entries(quarantine()), 2);
}

TEST_F(StoreDamage, QuarantineThatCannotBeUsed) {
  const std::string file = publish_two();
  spill(file, "broken");
  fs::create_directory_symlink(path(), quarantine());
  Store store(root());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ids_of(*store.load(sample_key())), Ids{1});
  EXPECT_EQ(store.counters().quarantined, 1);
  EXPECT_EQ(slurp(file), "broken") << "skipped where it is";
}

TEST_F(StoreDamage, VerifyFindsWhatBrokeAfterItWasRead) {
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

TEST_F(StoreDamage, RandomBytesOfEverySize) {
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

}  // namespace
}  // namespace dlblas
