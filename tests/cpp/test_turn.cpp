// Concurrent searches of one key: one measures, the others wait for its record, or take the default
// if it takes too long. Threads here; processes are this program, started again. Read
// next: src/tuner/turn.hpp, src/store/key_lock.hpp, tests/test_one_search.py.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/cpp/tuner_dummy.hpp"
#include "tests/cpp/worker_program.hpp"
#include "tuner/together.hpp"
#include "tuner/turn.hpp"

namespace dlblas::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// The same operator in this program's other processes.
const Operator& the_operator() {
  static const Operator& made =
      make_operator({dummy("slow", kSlow), dummy("knobbed", kKnobbed, &dummy_table())});
  return made;
}
constexpr std::int64_t kConfigs = 5;

bool wait_until(const std::function<bool()>& is, int most_ms = 20'000) {
  for (int ms = 0; ms < most_ms; ms += 2) {
    if (is()) return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return false;
}

// Holds a search that has begun until it is told to continue.
struct Gate {
  std::atomic<bool> reached{false}, open{false};
  Race::OnEvent on_event() {
    return [this](const dlblas_event& event) {
      if (event.kind != DLBLAS_EVENT_MEASURED || reached.exchange(true)) return false;
      EXPECT_TRUE(wait_until([&] { return open.load(); }));
      return false;
    };
  }
};

class OneSearch : public TunerTest {
 protected:
  TuneReport search(const std::function<void(TuneOptions&)>& change = {}, std::int64_t rows = 8,
                    bool all = false) {
    TuneOptions options = options_;
    if (change) change(options);
    const Operator& op = the_operator();
    return (all ? tune : get_op)(op, make_problem(op, rows), nullptr, context_, options);
  }
  // Runs `during` while another thread is in the middle of a search with `change`.
  void beside(const std::function<void()>& during,
              const std::function<void(TuneOptions&)>& change = {}, bool all = false) {
    Gate gate;
    std::thread other([&] {
      const TuneReport report = search(
          [&](TuneOptions& o) {
            o.on_event = gate.on_event();
            if (change) change(o);
          },
          8, all);
      EXPECT_EQ(report.source, "tuned");
    });
    EXPECT_TRUE(wait_until([&] { return gate.reached.load(); }));
    std::thread opener([&] {
      std::this_thread::sleep_for(milliseconds(200));
      gate.open = true;
    });
    during();
    opener.join();
    other.join();
  }
  std::size_t records(std::int64_t rows = 8) { return store_->load(key(rows))->records; }
  static Fields key(std::int64_t rows = 8) {
    return store_key(the_operator(), make_problem(the_operator(), rows));
  }
  std::string lock_path() { return folder_ + "/v1/locks/" + key_hash(key()); }
};

TEST_F(OneSearch, ThreadsMeasureAKeyOnce) {
  const std::int64_t before = measured();
  std::atomic<int> tuned{0}, stored{0}, waited{0};
  options_.on_event = [](const dlblas_event&) {  // long enough for the others to come
    std::this_thread::sleep_for(milliseconds(10));
    return false;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      const TuneReport report = search();
      tuned += report.source == "tuned";
      stored += report.source == "store";
      waited += report.waited_s > 0;
      EXPECT_STREQ(report.winner->name, "knobbed");
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(measured() - before, kConfigs);
  EXPECT_EQ(tuned, 1);
  EXPECT_EQ(stored, 5);
  EXPECT_EQ(waited, 5);
  EXPECT_EQ(records(), 1u);
  EXPECT_TRUE(fs::is_empty(folder_ + "/v1/locks")) << "a lock is gone after its search";
}

TEST_F(OneSearch, AStoreInMemoryHasTurnsAsWell) {
  store_ = std::make_unique<Store>("");
  options_.store = store_.get();
  const std::int64_t before = measured();
  beside([&] { EXPECT_EQ(search().source, "store"); });
  EXPECT_EQ(measured() - before, kConfigs);
}

TEST_F(OneSearch, AnotherKeyIsMeasuredMeanwhile) {
  beside([&] {
    const TuneReport report = search({}, 500);
    EXPECT_EQ(report.source, "tuned");
    EXPECT_EQ(report.waited_s, 0);
  });
}

// The other search's gate stays shut for longer than this one waits.
TEST_F(OneSearch, WhoWaitedTooLongTakesTheDefault) {
  Gate gate;
  std::thread other([&] { search([&](TuneOptions& o) { o.on_event = gate.on_event(); }); });
  ASSERT_TRUE(wait_until([&] { return gate.reached.load(); }));
  const std::int64_t before = measured();
  const auto hurried = [](TuneOptions& o) { o.seconds = 0.1; };
  const TuneReport report = search(hurried);
  EXPECT_EQ(report.source, "default");
  EXPECT_STREQ(report.winner->name, "slow");
  EXPECT_STREQ(report.served->name, "slow");
  EXPECT_NE(report.why.find("another search of this key was at work for 2."), std::string::npos)
      << report.why;
  EXPECT_GE(report.waited_s, most_wait_s(0.1));
  EXPECT_LT(report.waited_s, most_wait_s(0.1) + 2);
  EXPECT_EQ(measured(), before);
  const TuneReport narrowed = search([](TuneOptions& o) {
    o.seconds = 0.1;
    o.implementations = {"knobbed"};
  });
  EXPECT_STREQ(narrowed.winner->name, "knobbed") << "the default of what was asked for";
  EXPECT_STREQ(narrowed.served->name, "slow");
  EXPECT_EQ(measured(), before);
  // tune, unlike get_op, must measure, and does.
  EXPECT_EQ(search(hurried, 8, true).source, "tuned");
  EXPECT_GT(measured(), before);
  gate.open = true;
  other.join();
}

TEST_F(OneSearch, AStopEndsTheWait) {
  beside([&] {
    const TuneReport report = search([](TuneOptions& o) {
      o.on_event = [](const dlblas_event& e) { return e.kind == DLBLAS_EVENT_WAITING; };
    });
    EXPECT_TRUE(report.stopped);
    EXPECT_EQ(report.source, "default");
    EXPECT_LT(report.waited_s, 1);
  });
}

TEST_F(OneSearch, InsideItselfItTakesTheDefaultAtOnce) {
  int inner = 0;
  const TuneReport report = search([&](TuneOptions& o) {
    o.on_event = [&](const dlblas_event& e) {
      if (e.kind != DLBLAS_EVENT_MEASURED || inner++ > 0) return false;
      for (const bool all : {false, true}) {
        const TuneReport nested = search({}, 8, all);
        EXPECT_EQ(nested.source, "default");
        EXPECT_EQ(nested.waited_s, 0);
      }
      EXPECT_EQ(search({}, 500).source, "tuned") << "another key";
      return false;
    };
  });
  EXPECT_EQ(report.source, "tuned");
  EXPECT_GT(inner, 1);
}

// Two threads inside searches request each other's key: neither waits.
TEST_F(OneSearch, ARingOfSearchesWaitsForNothing) {
  std::atomic<int> inside{0};
  const auto run = [&](std::int64_t mine, std::int64_t other) {
    bool first = true;
    const TuneReport report = search(
        [&](TuneOptions& o) {
          o.on_event = [&](const dlblas_event& e) {
            if (e.kind != DLBLAS_EVENT_MEASURED || !std::exchange(first, false)) return false;
            ++inside;
            EXPECT_TRUE(wait_until([&] { return inside >= 2; }));
            const TuneReport nested = search({}, other);
            EXPECT_EQ(nested.source, "default");
            EXPECT_EQ(nested.waited_s, 0);
            ++inside;
            EXPECT_TRUE(wait_until([&] { return inside >= 4; }));
            return false;
          };
        },
        mine);
    EXPECT_EQ(report.source, "tuned");
  };
  std::thread one(run, 8, 500), two(run, 500, 8);
  one.join();
  two.join();
}

TEST_F(OneSearch, TuneTakesTheRecordOfTheSameQuestion) {
  const auto again = [&](const char* source, const std::function<void(TuneOptions&)>& theirs,
                         const std::function<void(TuneOptions&)>& mine) {
    store_->clear();
    beside(
        [&] {
          const TuneReport report = search(mine, 8, true);
          EXPECT_EQ(report.source, source);
          EXPECT_GT(report.waited_s, 0);
        },
        theirs, true);
  };
  const auto same = [](TuneOptions&) {};
  again("store", same, same);
  again("store", same, [](TuneOptions& o) { o.seconds = 5; });
  again("tuned", same, [](TuneOptions& o) { o.seconds = 20; });
  again("tuned", same, [](TuneOptions& o) { o.seed = 3; });
  again("tuned", same, [](TuneOptions& o) { o.strategy = "random"; });
  again("tuned", same, [](TuneOptions& o) { o.implementations = {"knobbed"}; });
  again(
      "tuned", [](TuneOptions& o) { o.implementations = {"knobbed"}; }, same);
  again(
      "tuned", [](TuneOptions& o) { o.max_evaluations = 2; }, same);
  const auto narrow = [](TuneOptions& o) { o.knobs = {{"", "block", {"1", "2"}}}; };
  again("store", narrow, narrow);
  const auto chosen = [](TuneOptions& o) {
    o.where = [](std::string_view, std::string_view) { return true; };
  };
  again("tuned", chosen, chosen);
}

// Its record tells no reader that everything was searched.
TEST_F(OneSearch, ASearchThatWasStoppedAnswersNoOther) {
  Gate gate;
  std::thread other([&] {
    search(
        [&](TuneOptions& o) {
          o.on_event = [&, hold = gate.on_event()](const dlblas_event& e) {
            (void)hold(e);
            return gate.open.load();
          };
        },
        8, true);
  });
  ASSERT_TRUE(wait_until([&] { return gate.reached.load(); }));
  std::thread opener([&] {
    std::this_thread::sleep_for(milliseconds(100));
    gate.open = true;
  });
  EXPECT_EQ(search({}, 8, true).source, "tuned");
  opener.join();
  other.join();
}

// ---- Processes

class OneSearchOfProcesses : public OneSearch {
 protected:
  void SetUp() override {
    OneSearch::SetUp();
    ASSERT_EQ(pipe(ends_), 0);
  }
  void TearDown() override {
    for (const int fd : ends_) close(fd);
    OneSearch::TearDown();
  }
  // A process that searches; it reports after its first configuration, then pauses for `hold_ms`.
  pid_t start(int hold_ms) {
    const pid_t child = fork();
    if (child == 0) {
      const std::string path = own_path(), root = folder_ + "/v1", fd = std::to_string(ends_[1]),
                        hold = std::to_string(hold_ms);
      execl(path.c_str(), path.c_str(), "--search", root.c_str(), fd.c_str(), hold.c_str(),
            nullptr);
      _exit(1);
    }
    return child;
  }
  void wait_for_word() {
    char byte = 0;
    ASSERT_EQ(read(ends_[0], &byte, 1), 1);
  }
  static int status_of(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  }
  int ends_[2] = {-1, -1};
};

TEST_F(OneSearchOfProcesses, OneMeasuresAndTheOthersHaveItsRecord) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) children.push_back(start(100));
  std::int64_t total = 0;
  for (const pid_t child : children) {
    const int status = status_of(child);
    ASSERT_TRUE(WIFEXITED(status));
    total += WEXITSTATUS(status);
  }
  EXPECT_EQ(total, kConfigs);
  EXPECT_EQ(records(), 1u);
  EXPECT_TRUE(fs::is_empty(folder_ + "/v1/locks"));
}

TEST_F(OneSearchOfProcesses, OneThatIsKilledLeavesTheTurn) {
  const pid_t child = start(60'000);
  wait_for_word();
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(100));
    kill(child, SIGKILL);
  });
  const TuneReport report = search([](TuneOptions& o) { o.seconds = 60; });
  EXPECT_EQ(report.source, "tuned");
  EXPECT_GT(report.waited_s, 0.05);
  EXPECT_LT(report.waited_s, 10);
  killer.join();
  status_of(child);
}

TEST_F(OneSearchOfProcesses, OneThatIsStoppedKeepsNobodyForLong) {
  const pid_t child = start(60'000);
  wait_for_word();
  kill(child, SIGSTOP);
  const TuneReport report = search([](TuneOptions& o) { o.seconds = 0.1; });
  EXPECT_EQ(report.source, "default");
  EXPECT_LT(report.waited_s, most_wait_s(0.1) + 2);
  EXPECT_EQ(search({}, 500).source, "tuned") << "another key";
  kill(child, SIGKILL);
  status_of(child);
  EXPECT_EQ(search().source, "tuned") << "its file is left, and is free";
}

// The child of a search that was killed does not hold the turn, though it holds the descriptor.
TEST_F(OneSearchOfProcesses, AForkedChildHasNotItsParentsTurn) {
  Turn turn(*store_, key());
  ASSERT_EQ(turn.take(0, {}), Turn::Got::kMine);
  const pid_t child = fork();
  if (child == 0) {
    {
      Turn again(*store_, key());
      if (again.take(0.05, {}) != Turn::Got::kLate) _exit(1);  // its parent's
      Turn other(*store_, key(500));
      if (other.take(0, {}) != Turn::Got::kMine) _exit(2);
    }
    turn.~Turn();  // as unwinding would
    _exit(KeyLock().state() == KeyLock::State::kNone ? 0 : 3);
  }
  EXPECT_EQ(status_of(child), 0);
  EXPECT_TRUE(fs::exists(lock_path())) << "the child took the parent's lock away";
  const pid_t late = fork();
  if (late == 0) {  // lives on, and the parent's descriptor with it
    for (;;) pause();
  }
  EXPECT_EQ(store_->lock_key(key(500)).state(), KeyLock::State::kMine);
  kill(late, SIGKILL);
  status_of(late);
}

// Its parent's search waits for the worker, so the worker must not wait for the parent, not even
// while it imports.
TEST_F(OneSearchOfProcesses, AWorkerDoesNotWaitForItsParent) {
  Turn turn(*store_, key());
  ASSERT_EQ(turn.take(0, {}), Turn::Got::kMine);
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    Turn again(*store_, key());
    _exit(again.take(30, {}) == Turn::Got::kNested && again.waited_s() == 0 ? 0 : 1);
  }
  EXPECT_EQ(status_of(child), 0);
}

// Whatever is in the lock's place: the search continues without a lock, and leaves it untouched.
TEST_F(OneSearch, AnythingButAFileOfOurOwnIsNoLock) {
  const std::string dear = folder_ + "/dear";
  std::ofstream(dear) << "dear";
  fs::create_directories(folder_ + "/v1/locks");
  for (const fs::path& p : {fs::path(folder_ + "/v1"), fs::path(folder_ + "/v1/locks")})
    fs::permissions(p, fs::perms::owner_all);
  const std::string path = lock_path();
  const std::function<void()> hostile[] = {
      [&] { fs::create_symlink(dear, path); },
      [&] { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); },
      [&] { fs::create_directory(path); },
      [&] {
        std::ofstream(path) << "";
        fs::permissions(path, fs::perms::all);
      },
      [&] { fs::permissions(folder_ + "/v1/locks", fs::perms::all); },
      [&] {
        fs::permissions(folder_ + "/v1/locks", fs::perms::owner_all);
        fs::remove_all(folder_ + "/v1/locks");
        fs::create_directory_symlink(folder_, folder_ + "/v1/locks");
      },
  };
  for (const auto& prepare : hostile) {
    prepare();
    EXPECT_EQ(store_->lock_key(key()).state(), KeyLock::State::kNone);
    store_->clear();
    EXPECT_EQ(search().source, "tuned");
    if (!fs::is_symlink(folder_ + "/v1/locks")) fs::remove_all(path);
  }
  std::string words;
  std::ifstream(dear) >> words;
  EXPECT_EQ(words, "dear");
}

// --search ROOT FD HOLD_MS: the exit status is how many configurations it measured.
int search_as_a_process(const std::string& root, int fd, int hold_ms) {
  Store store(root);
  TuneOptions options;
  options.store = &store;
  options.clock = fake_clock;
  bool told = false;
  options.on_event = [&](const dlblas_event& event) {
    if (event.kind == DLBLAS_EVENT_MEASURED && !std::exchange(told, true)) {
      (void)!write(fd, "x", 1);
      std::this_thread::sleep_for(milliseconds(hold_ms));
    }
    return false;
  };
  const Operator& op = the_operator();
  get_op(op, make_problem(op), nullptr, Context{}, options);
  return static_cast<int>(g_counters.measured.load());
}

}  // namespace
}  // namespace dlblas::test

int main(int argc, char** argv) {
  dlblas::test::the_operator();  // before any other: their names are counted
  if (argc > 4 && std::string(argv[1]) == "--search")
    return dlblas::test::search_as_a_process(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
