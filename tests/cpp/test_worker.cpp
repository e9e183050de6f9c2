// Measuring in workers that are processes (this program, started again), whose candidates hang,
// crash, corrupt memory and give wrong results. Read next: tests/cpp/test_worker_measurer.cpp (time
// limits), src/tuner/worker_process.hpp.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "tests/cpp/tuner_dummy.hpp"
#include "tests/cpp/worker_program.hpp"
#include "tuner/worker_process.hpp"

namespace dlblas::test {
namespace {

// How a candidate ends its process, or tries to.
enum class End { kNone, kFault, kAbort, kExit, kHang, kSlowCompile, kHuge, kGuards, kWrong, kNan };

volatile int* volatile nowhere = nullptr;

int run_end(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  switch (kernel.load<End>()) {
    case End::kFault:
      std::fputs("about to write where nothing is\n", stderr);
      *nowhere = 1;
      break;
    case End::kAbort:
      std::abort();
    case End::kExit:
      _exit(0);  // as if all were well
    case End::kHang:
      for (;;) pause();
    case End::kHuge: {
      std::vector<std::unique_ptr<char[]>> kept;
      for (;;) kept.emplace_back(new char[std::size_t{1} << 30]);  // asked for, never touched
    }
    default:
      break;
  }
  static const Behaviour behaviours[] = {{Defect::kPastEnd}, {Defect::kWrong}, {Defect::kNan}, {}};
  const End end = kernel.load<End>();
  const Behaviour* b = &behaviours[end == End::kGuards  ? 0
                                   : end == End::kWrong ? 1
                                   : end == End::kNan   ? 2
                                                        : 3];
  struct State {
    const Behaviour* behaviour;
    std::int64_t block;
  };
  Kernel plain;
  plain.store(State{b, 1});
  return run_dummy(args, context, plain, workspace);
}

Implementation ending(const char* name, End end) {
  Implementation impl = dummy(name, kPlain);
  impl.user = reinterpret_cast<void*>(static_cast<std::uintptr_t>(end));
  impl.prepare = [](const Query& q, const Config&) {
    const auto how = static_cast<End>(reinterpret_cast<std::uintptr_t>(q.self.user));
    if (how == End::kSlowCompile)
      for (;;) pause();
    return make_kernel({run_end}, how);
  };
  return impl;
}

// The same operators in the tests and in their workers: registered in the same order in both.
struct Operators {
  const Operator& broken =
      make_operator({ending("right", End::kNone), user(ending("fault", End::kFault)),
                     user(ending("abort", End::kAbort)), user(ending("exit", End::kExit)),
                     user(ending("hang", End::kHang)), user(ending("slow", End::kSlowCompile)),
                     user(ending("huge", End::kHuge)), user(ending("guards", End::kGuards)),
                     user(ending("wrong", End::kWrong)), user(ending("nan", End::kNan))});
  const Operator& plain = make_operator({ending("first", End::kNone), ending("wrong", End::kWrong),
                                         dummy("wide", kPlain, &wide_table())});
  const Operator& stuck = make_operator(
      {ending("right", End::kNone), ending("hang", End::kHang), ending("slow", End::kSlowCompile)});
};
const Operators& operators() {
  static const Operators made;
  return made;
}

class ProcessWorker : public TunerTest {
 protected:
  void SetUp() override {
    TunerTest::SetUp();
    options_.clock = steady_nanoseconds;
    options_.measure_in = MeasureIn::kWorker;
    start_with({{own_path(), "--worker"}, {}});
  }
  void start_with(worker::Command command) {
    options_.start_worker = [command](const worker::Waiting& waiting, double limit_s) {
      return worker::start(command, waiting, limit_s);
    };
  }
  std::string error_of(const Operator& op) {
    try {
      run_tune(op);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kTuning);
      return e.what();
    }
    return "no error";
  }
};

// Sanitizers catch signals and allocations themselves, and end the process in their own way.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST_F(ProcessWorker, EveryWayToFailIsRecordedByItsKindAndTheRightOneWins) {
  // On a busy machine, too, all of them have their turn, and the one that hangs a second.
  options_.seconds = kSanitized ? 60 : 12;
  const int before = open_descriptors();
  const TuneReport report = run_tune(operators().broken);
  EXPECT_STREQ(report.winner->name, "right");
  EXPECT_EQ(report.place, "worker");
  const auto expect = [&](const char* name, Failure failure, const char* words) {
    const Evaluated* e = find(report, name);
    ASSERT_NE(e, nullptr) << name;
    EXPECT_EQ(name_of(e->failure), name_of(failure)) << name << ": " << e->note;
    EXPECT_NE(e->note.find(words), std::string::npos) << name << ": " << e->note;
  };
  expect("fault", Failure::kCrash,
         kSanitized ? "the worker exited with status "  // and a report longer than the last words
                    : "the worker was killed by signal 11 (segmentation fault): about to write "
                      "where nothing is");
  expect("abort", Failure::kCrash, "signal 6 (abort)");
  expect("exit", Failure::kCrash, "exited with status 0");
  expect("hang", Failure::kTimeout, "did not come back within ");
  expect("slow", Failure::kCompileTimeout, "not compiled within ");
  if (!kSanitized) expect("huge", Failure::kOutOfMemory, "more memory than there is");
  expect("guards", Failure::kOutOfBounds, "outside the results");
  expect("wrong", Failure::kWrongResult, "elements are wrong");
  expect("nan", Failure::kWrongResult, "elements are wrong");
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_FALSE(has_children()) << "no zombie, no worker left";
  // A user's first call may have compiled for long, so its timeout is not recorded.
  const std::int64_t measured_before = measured();
  EXPECT_EQ(run_get_op(operators().broken).source, "tuned") << "all other failures are known";
  EXPECT_EQ(measured(), measured_before + 2) << "the one that hangs and the slow one";
}

TEST_F(ProcessWorker, ItsRecordsAreThoseOfThisProcess) {
  options_.max_evaluations = 6;
  options_.seconds = 60;
  options_.strategy = "exhaustive";  // random looks at times when it draws
  const Operator& op = operators().plain;
  std::set<std::string> texts[2];
  for (const MeasureIn where : {MeasureIn::kWorker, MeasureIn::kProcess}) {
    store_->clear();
    options_.measure_in = where;
    run_tune(op);
    const auto merged = store_->load(store_key(op, make_problem(op)));
    std::set<std::string>& all = texts[where == MeasureIn::kWorker];
    EXPECT_EQ(merged->rows.size(), 6u);
    for (const Record::Field& f : *merged->rows.front().env)
      all.insert(f.name + "=" + (f.name == "rounds" ? "" : f.value));
    for (const Merged::Row& row : merged->rows) {
      const Record::Candidate& c = row.candidate;
      all.insert(text(c.implementation, " ", c.source_hash, " ", c.config, " ", c.failure, " ",
                      std::to_string(c.error), " ", c.is_default));
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(ProcessWorker, WhereNoneCanBeHadThisProcessMeasuresOrSaysWhy) {
  const Operator& op = operators().plain;
  options_.max_evaluations = 3;
  start_with({{"/nowhere/at/all"}, {}});
  EXPECT_EQ(error_of(op), op.schema.name +
                              ": worker cannot be had; expected a process that measures, got: "
                              "/nowhere/at/all cannot be executed: No such file or directory; "
                              "measure in this process instead (worker=False)");
  start_with({{"/bin/sh", "-c", "echo not me >&2; exit 4"}, {}});
  EXPECT_NE(error_of(op).find("got: /bin/sh exited with status 4: not me; "), std::string::npos);
  start_with({{"/bin/sh", "-c", "echo nothing that a worker says >&3; cat"}, {}});
  EXPECT_NE(error_of(op).find("got: /bin/sh sent what is no reply"), std::string::npos)
      << error_of(op);
  options_.measure_in = MeasureIn::kAuto;
  EXPECT_EQ(run_tune(op).place, "process");
  EXPECT_FALSE(has_children());
}

TEST_F(ProcessWorker, ACandidateThatOnlyThisProcessHasIsMeasuredHere) {
  static Behaviour counted{Defect::kNone, [](std::int64_t) -> std::int64_t { return 1000; }};
  static const Implementation late = user(dummy("late", counted));
  Registry::process().add_implementation(operators().stuck, late);
  options_.measure_in = MeasureIn::kAuto;
  options_.implementations = {"right", "late"};
  const TuneReport report = run_tune(operators().stuck);
  EXPECT_EQ(report.place, "worker");
  EXPECT_EQ(find(report, "late")->failure, Failure::kNone);
  EXPECT_GT(counted.runs, 2);
}

// The pid of this process's current worker.
pid_t child_of_mine() {
  std::FILE* file = std::fopen("/proc/thread-self/children", "r");
  int pid = 0;
  if (!file || std::fscanf(file, "%d", &pid) != 1) pid = 0;
  if (file) std::fclose(file);
  return pid;
}

TEST_F(ProcessWorker, KilledFromOutsideCostsNoCandidate) {
  int kills = 0;
  options_.max_evaluations = 5;
  options_.on_event = [&](const dlblas_event& event) {
    if (event.kind == DLBLAS_EVENT_MEASURED && kills++ == 0) kill(child_of_mine(), SIGKILL);
    return false;
  };
  const TuneReport report = run_tune(operators().plain);
  EXPECT_GE(kills, 1);
  for (const Evaluated& e : report.evaluated)
    EXPECT_EQ(e.failure, e.plan->implementation->name == std::string("wrong")
                             ? Failure::kWrongResult
                             : Failure::kNone)
        << e.note;
}

// Stopped while it runs, and while it compiles.
class StoppedWorker : public ProcessWorker, public ::testing::WithParamInterface<const char*> {};
TEST_P(StoppedWorker, KeepsWhatWasMeasured) {
  options_.seconds = 60;
  options_.implementations = {"right", GetParam()};
  bool measured = false;  // then the other one is at work, however slow the machine is
  options_.on_event = [&measured](const dlblas_event& event) {
    measured |= event.kind == DLBLAS_EVENT_MEASURED;
    return measured && event.kind == DLBLAS_EVENT_WAITING;
  };
  const Operator& op = operators().stuck;
  const TuneReport report = run_tune(op);
  EXPECT_TRUE(report.stopped);
  EXPECT_LT(report.elapsed_s, 10);
  ASSERT_NE(report.winner, nullptr);
  EXPECT_STREQ(report.winner->name, "right");
  EXPECT_EQ(report.evaluated.size(), 1u) << "what was interrupted has not failed";
  EXPECT_EQ(store_->load(store_key(op, make_problem(op)))->rows.size(), 1u);
  EXPECT_FALSE(has_children());
}
INSTANTIATE_TEST_SUITE_P(Stuck, StoppedWorker, ::testing::Values("hang", "slow"),
                         [](const auto& i) { return std::string(i.param); });

// A child of this test tunes with a candidate that hangs, and is killed: its worker dies with it.
TEST_F(ProcessWorker, NoWorkerOutlivesWhoStartedIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t tuner = fork();
  if (tuner == 0) {
    const std::string path = own_path(), fd = std::to_string(ends[1]);
    execl(path.c_str(), path.c_str(), "--tune-and-hang", fd.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  pid_t its_worker = 0;
  ASSERT_EQ(read(ends[0], &its_worker, sizeof its_worker), ssize_t{sizeof its_worker});
  close(ends[0]);
  ASSERT_EQ(kill(its_worker, 0), 0);
  kill(tuner, SIGKILL);
  waitpid(tuner, nullptr, 0);
  const auto gone = [&] {  // a zombie that is not reaped here is as good as gone
    std::FILE* stat = std::fopen(text("/proc/", its_worker, "/stat").c_str(), "r");
    if (!stat) return true;
    char state = 0;
    const int got = std::fscanf(stat, "%*d (%*[^)]) %c", &state);
    std::fclose(stat);
    return got == 1 && (state == 'Z' || state == 'X');
  };
  for (int i = 0; i < 500 && !gone(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(gone());
}

// Reports its worker's pid while a candidate hangs there.
int tune_and_hang(int report_to) {
  char folder[] = "/tmp/dlblas-worker-XXXXXX";
  Store store(std::string(mkdtemp(folder)) + "/v1");
  TuneOptions options;
  options.store = &store;
  options.seconds = 600;
  options.implementations = {"right", "hang"};
  options.measure_in = MeasureIn::kWorker;
  options.start_worker = [](const worker::Waiting& waiting, double limit_s) {
    return worker::start({{own_path(), "--worker"}, {}}, waiting, limit_s);
  };
  options.on_event = [report_to](const dlblas_event& event) {
    const pid_t child = child_of_mine();
    return event.kind == DLBLAS_EVENT_WAITING && write(report_to, &child, sizeof child) < 0;
  };
  const Operator& op = operators().stuck;
  std::filesystem::remove_all(folder);
  tune(op, make_problem(op), nullptr, Context{}, options);
  return 0;
}

}  // namespace
}  // namespace dlblas::test

int main(int argc, char** argv) {
  dlblas::test::operators();  // before any other: their names are counted, in workers as well
  if (argc > 1 && std::string(argv[1]) == "--worker") return dlblas::test::serve_tests();
  if (argc > 2 && std::string(argv[1]) == "--tune-and-hang")
    return dlblas::test::tune_and_hang(std::atoi(argv[2]));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
