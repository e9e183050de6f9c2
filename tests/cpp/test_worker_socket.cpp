// Candidates that fork, and candidates that close, shut down, replace or write to the worker's
// socket: each is its own failure, and no other candidate's record suffers. Also workers that
// answer another question than the one asked. Read next: src/tuner/fork_watch.hpp,
// src/tuner/worker_wire.hpp (Question), tests/cpp/test_worker.cpp (the other ways to fail).
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/cpp/tuner_dummy.hpp"
#include "tests/cpp/worker_program.hpp"
#include "tuner/worker_wire.hpp"

namespace dlblas::test {
namespace {

using worker::kWorkerSocket;

constexpr const char* kTwice = "the child came back from it";

void write_socket(std::string_view bytes) {
  (void)!write(kWorkerSocket, bytes.data(), bytes.size());
}

// A reply that reports a right result, faster than any other.
std::string forged_reply(worker::Question question) {
  worker::Outcome outcome;
  outcome.check.ms = 1e-6;
  worker::Writer body;
  body.put(worker::Reply::kDone);
  encode(body, outcome);
  const std::string bytes = body.take();
  worker::FrameHeader header;
  header.bytes = bytes.size();
  header.question = question;
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  return frame += bytes;
}

void wait_for_all_children() {
  while (waitpid(-1, nullptr, 0) > 0) continue;
}

void run_program() {
  char* const argv[] = {const_cast<char*>("/bin/true"), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, argv[0], nullptr, nullptr, argv, environ) == 0)
    waitpid(child, nullptr, 0);
}

void in_a_while(const std::function<void()>& act) {
  std::thread([act] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    act();
  }).detach();
}

struct Misdeed {
  const char* name;
  void (*act)();
  Failure failure;    // kNone: it may do that
  const char* words;  // of the failure's note
};
const Misdeed kMisdeeds[] = {
    {"forks_once",
     [] {
       static bool done = false;
       if (!std::exchange(done, true)) (void)fork();
     },
     Failure::kLaunchError, kTwice},
    {"forks_always", [] { (void)fork(); }, Failure::kLaunchError, kTwice},
    {"forks_twice",
     [] {
       if (fork() == 0) (void)fork();
     },
     Failure::kLaunchError, kTwice},
    {"throws_in_its_child",
     [] {
       if (fork() == 0) throw Error(ErrorKind::kLaunch, "in the child");
     },
     Failure::kLaunchError, kTwice},
    {"grandchild_comes_back",
     [] {
       if (fork() == 0 && fork() != 0) _exit(0);
     },
     Failure::kLaunchError, kTwice},
    {"forks_and_is_slow",  // to come back, and the worker has answered
     [] {
       static bool done = false;
       if (!std::exchange(done, true) && fork() == 0)
         std::this_thread::sleep_for(std::chrono::milliseconds(20));
     },
     Failure::kLaunchError, kTwice},
    {"clones",  // a fork that calls no handlers
     [] {
       static bool done = false;
       if (!std::exchange(done, true)) (void)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
     },
     Failure::kNone, ""},
    {"forks_a_program",
     [] {
       if (fork() == 0) {
         execl("/bin/true", "true", nullptr);
         _exit(1);
       }
       wait_for_all_children();
     },
     Failure::kNone, ""},
    {"forks_a_helper",
     [] {
       if (fork() == 0) _exit(0);
       wait_for_all_children();
     },
     Failure::kNone, ""},
    {"leaves_a_helper",
     [] {
       static bool done = false;
       if (!std::exchange(done, true) && fork() == 0)
         for (;;) pause();
     },
     Failure::kNone, ""},
    {"starts_a_program", run_program, Failure::kNone, ""},
    {"makes_it_not_wait", [] { fcntl(kWorkerSocket, F_SETFL, O_NONBLOCK); }, Failure::kNone, ""},
    {"closes", [] { close(kWorkerSocket); }, Failure::kCrash, "closed, shut down or replaced"},
    {"closes_all",
     [] {
       for (int fd = 3; fd < 64; ++fd) close(fd);
     },
     Failure::kCrash, "closed, shut down or replaced"},
    {"closes_and_stays",
     [] {
       close(kWorkerSocket);
       for (;;) pause();
     },
     Failure::kCrash, "closed its socket, and did not end"},
    {"shuts_down_reading", [] { shutdown(kWorkerSocket, SHUT_RD); }, Failure::kCrash,
     "closed, shut down or replaced"},
    {"shuts_down_writing", [] { shutdown(kWorkerSocket, SHUT_WR); }, Failure::kCrash,
     "the worker "},
    {"shuts_down", [] { shutdown(kWorkerSocket, SHUT_RDWR); }, Failure::kCrash, "the worker "},
    {"replaces", [] { dup2(2, kWorkerSocket); }, Failure::kCrash, "closed, shut down or replaced"},
    {"child_keeps_it_open",  // so its end is not seen there
     [] {
       if (fork() == 0)
         for (;;) pause();
       _exit(7);
     },
     Failure::kCrash, "exited with status 7"},
    {"writes_a_byte", [] { write_socket("D"); }, Failure::kCrash, "sent what is no reply"},
    {"writes_garbage", [] { write_socket(std::string(1000, 'x')); }, Failure::kCrash,
     "sent what is no reply"},
    {"forges_the_first",
     [] {
       write_socket(forged_reply({1, 0}));
     },
     Failure::kCrash, "sent what is no reply"},
    {"forges_every_number",
     [] {
       for (std::uint64_t i = 0; i < 64; ++i) write_socket(forged_reply({i, i}));
     },
     Failure::kCrash, "sent what is no reply"},
    {"swallows_the_reply",  // as the rest of a frame of its own
     [] {
       worker::FrameHeader header;
       header.bytes = 4096;
       write_socket({reinterpret_cast<const char*>(&header), sizeof header});
     },
     Failure::kCrash, "sent what is no reply"},
    {"writes_later", [] { in_a_while([] { write_socket("later"); }); }, Failure::kCrash, ""},
    {"closes_later", [] { in_a_while([] { shutdown(kWorkerSocket, SHUT_RDWR); }); },
     Failure::kCrash, ""},
};

int run_misdeed(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  kernel.load<const Misdeed*>()->act();
  static const Behaviour plain;
  struct State {
    const Behaviour* behaviour;
    std::int64_t block;
  };
  Kernel rest;
  rest.store(State{&plain, 1});
  return run_dummy(args, context, rest, workspace);
}

Implementation doing(const Misdeed& misdeed) {
  Implementation impl = user(dummy(misdeed.name, kPlain));
  impl.user = &misdeed;
  impl.prepare = [](const Query& q, const Config&) {
    return make_kernel({run_misdeed}, &q.user<Misdeed>());
  };
  return impl;
}

const Behaviour kOff{Defect::kWrong, [](std::int64_t) -> std::int64_t { return 10'000; }};

// One operator per misdeed, each with a right and a wrong candidate; the same in tests and workers.
const Operator& operator_of(std::size_t i) {
  static const auto made = [] {
    std::array<const Operator*, std::size(kMisdeeds)> all{};
    for (std::size_t k = 0; k < all.size(); ++k)
      all[k] = &make_operator({dummy("right", kPlain), doing(kMisdeeds[k]),
                               user(dummy("wrong", kOff, &dummy_table())),
                               user(dummy("also", kPlain, &dummy_table()))});
    return all;
  }();
  return *made[i];
}
const Operator& prepares() {
  static const Operator& made = [&]() -> const Operator& {
    Implementation forks = user(dummy("forks", kPlain));
    forks.prepare = [](const Query&, const Config&) {
      (void)fork();
      Kernel kernel;
      kernel.steps[0] = run_dummy;
      kernel.num_steps = 1;
      struct State {
        const Behaviour* behaviour;
        std::int64_t block;
      };
      kernel.store(State{&kPlain, 1});
      return kernel;
    };
    return make_operator({dummy("right", kPlain), forks});
  }();
  return made;
}

class WorkerSocket : public TunerTest, public ::testing::WithParamInterface<std::size_t> {
 protected:
  void SetUp() override {
    TunerTest::SetUp();
    options_.clock = steady_nanoseconds;
    options_.measure_in = MeasureIn::kWorker;
    options_.seconds = 10;
    options_.start_worker = [](const worker::Waiting& waiting, double limit_s) {
      return worker::start({{own_path(), "--worker"}, {}}, waiting, limit_s);
    };
  }
};

// The other candidates are right and wrong as before, in memory and in the store.
void expect_others(const TuneReport& report) {
  int wrong = 0, also = 0;
  for (const Evaluated& e : report.evaluated) {
    const std::string name = e.plan->implementation->name;
    if (name != "right" && name != "also" && name != "wrong") continue;
    EXPECT_EQ(name_of(e.failure), name == "wrong" ? "wrong_result" : "") << name << ": " << e.note;
    wrong += name == "wrong";
    also += name == "also";
  }
  EXPECT_EQ(wrong, 4);
  EXPECT_EQ(also, 4);
}

TEST_P(WorkerSocket, IsItsOwnFailureAndNoOthers) {
  const Misdeed& misdeed = kMisdeeds[GetParam()];
  const Operator& op = operator_of(GetParam());
  const int before = open_descriptors();
  const TuneReport report = run_tune(op);
  expect_others(report);
  const Evaluated* e = find(report, misdeed.name);
  ASSERT_NE(e, nullptr);
  const bool late = misdeed.failure == Failure::kCrash && !*misdeed.words;
  // Whether a late misdeed is caught depends on its timing; no other candidate is ever blamed.
  if (!late) {
    EXPECT_EQ(name_of(e->failure), name_of(misdeed.failure)) << e->note;
    EXPECT_NE(e->note.find(misdeed.words), std::string::npos) << e->note;
  }
  for (const Merged::Row& row : store_->load(store_key(op, make_problem(op)))->rows) {
    const Record::Candidate& c = row.candidate;
    if (c.implementation == misdeed.name) continue;
    EXPECT_EQ(c.failure, c.implementation == "wrong" ? "wrong_result" : "") << c.implementation;
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_FALSE(has_children());
}
INSTANTIATE_TEST_SUITE_P(Misdeeds, WorkerSocket,
                         ::testing::Range(std::size_t{0}, std::size(kMisdeeds)),
                         [](const auto& i) { return std::string(kMisdeeds[i.param].name); });

// The pair that an attack used repeatedly: one that forks, one that is wrong. Never a wrong record.
TEST_F(WorkerSocket, OneThatForksBesideAWrongOneTimeAfterTime) {
  options_.seconds = 3;
  for (int i = 0; i < 8; ++i) {
    store_->clear();
    const TuneReport report = run_tune(operator_of(0));
    expect_others(report);
    EXPECT_EQ(name_of(find(report, "forks_once")->failure), "launch_error");
  }
}

TEST_F(WorkerSocket, AForkWhileItIsPreparedIsACompileError) {
  const TuneReport report = run_tune(prepares());
  EXPECT_STREQ(report.winner->name, "right");
  EXPECT_EQ(name_of(find(report, "forks")->failure), "compile_error");
  EXPECT_NE(find(report, "forks")->note.find(kTwice), std::string::npos);
}

// Without a worker this process itself is forked: the child ends all the same, and publishes
// nothing.
TEST_F(WorkerSocket, InThisProcessTheChildEndsAsWell) {
  options_.measure_in = MeasureIn::kProcess;
  const pid_t self = getpid();
  const TuneReport report = run_tune(operator_of(1));
  ASSERT_EQ(getpid(), self);
  expect_others(report);
  EXPECT_EQ(name_of(find(report, "forks_always")->failure), "launch_error");
  wait_for_all_children();
}

// ---- Workers that answer another question: the link takes none of it.

bool read_whole(void* to, std::size_t bytes) {
  return recv(kWorkerSocket, to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

// Greets, answers the first question correctly, and the second as `how` says.
int lie(const std::string& how) {
  const auto frame = [](worker::Question question, const std::string& body) {
    worker::FrameHeader header;
    header.bytes = body.size();
    header.question = question;
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
  };
  write_socket(frame({}, worker::build_id()));
  std::string first;
  worker::FrameHeader header;
  for (int n = 1; read_whole(&header, sizeof header); ++n) {
    std::string body(header.bytes, '\0');
    if (!read_whole(body.data(), body.size())) break;
    worker::Question question = header.question;
    if (n == 2) {
      if (how == "replayed") {
        write_socket(first);
        continue;
      }
      if (how == "next") ++question.number;
      if (how == "secret") question.secret ^= 1;
      if (how == "greeting") question = {};
    }
    const std::string reply = frame(question, body);
    if (n == 1) first = reply;
    write_socket(reply);
    if (n == 1 && how == "early") {
      ++question.number;
      write_socket(frame(question, body));
    }
  }
  return 0;
}

TEST(WorkerAnswers, AReplyToAnotherQuestionIsNone) {
  for (const char* how : {"right", "replayed", "next", "secret", "greeting", "early"}) {
    const auto link = worker::start({{own_path(), "--lie", how}, {}}, {}, 10);
    const worker::Exchange first = link->exchange("one", 10);
    if (std::string(how) != "early") {
      EXPECT_EQ(first.ending, worker::Ending::kReplied) << how;
      EXPECT_EQ(first.reply, "one") << how;
    }
    const worker::Exchange second = link->exchange("two", 10);
    if (std::string(how) == "right") {
      EXPECT_EQ(second.reply, "two");
      continue;
    }
    EXPECT_NE(second.ending, worker::Ending::kReplied) << how;
    if (std::string(how) != "early") {
      EXPECT_EQ(second.how, "sent what is no reply") << how;
    }
    EXPECT_EQ(link->exchange("three", 10).ending, worker::Ending::kGone) << how;
  }
}

// It died or sent something between two questions: this is detected before the next one is asked.
TEST(WorkerAnswers, OneThatIsGoneIsNotAsked) {
  const auto link = worker::start({{own_path(), "--lie", "right"}, {}}, {}, 10);
  EXPECT_EQ(link->exchange("one", 10).reply, "one");
  std::FILE* file = std::fopen("/proc/thread-self/children", "r");
  int pid = 0;
  ASSERT_TRUE(file && std::fscanf(file, "%d", &pid) == 1);
  std::fclose(file);
  kill(pid, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  const worker::Exchange got = link->exchange("two", 10);
  EXPECT_EQ(got.ending, worker::Ending::kGone);
  EXPECT_TRUE(got.outside) << got.how;
}

}  // namespace
}  // namespace dlblas::test

int main(int argc, char** argv) {
  using namespace dlblas::test;
  operator_of(0);  // before any other: their names are counted, in workers as well
  prepares();
  if (argc > 1 && std::string(argv[1]) == "--worker") return serve_tests();
  if (argc > 2 && std::string(argv[1]) == "--lie") return lie(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
