// See worker_serve.hpp.
#include "tuner/worker_serve.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <new>

#include "core/counters.hpp"
#include "core/error.hpp"
#include "tuner/fork_watch.hpp"
#include "tuner/worker_wire.hpp"

namespace dlblas::worker {
namespace {

// Waits even if a candidate has made the socket non-blocking.
bool wait_for(int fd, short events) {
  pollfd polled{fd, events, 0};
  return poll(&polled, 1, -1) >= 0 || errno == EINTR;
}

// False: the other end is closed, or reading failed.
bool read_all(int fd, void* to, std::size_t bytes) {
  for (auto* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t got = read(fd, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN && wait_for(fd, POLLIN)) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_frame(int fd, const Question& question, std::string_view body) {
  FrameHeader header;
  header.bytes = body.size();
  header.question = question;
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame += body;
  for (std::string_view rest = frame; !rest.empty();) {
    const ssize_t sent = write(fd, rest.data(), rest.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN && wait_for(fd, POLLOUT)) continue;
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool read_frame(int fd, Question& question, std::string& body) {
  constexpr std::size_t kStep = std::size_t{1} << 20;  // no more room than came, and this
  FrameHeader header;
  if (!read_all(fd, &header, sizeof header) || !is_frame(header, kMaxRequest)) return false;
  question = header.question;
  body.clear();
  while (body.size() < header.bytes) {
    const std::size_t have = body.size();
    body.resize(have + std::min<std::size_t>(kStep, header.bytes - have));
    if (!read_all(fd, body.data() + have, body.size() - have)) return false;
  }
  return true;
}

// The socket and the process as they were before any candidate ran.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) { (void)fstat(socket, &was_); }

  /// The child of a candidate's fork is no worker: it exits, and answers nothing.
  void leave_if_child() const {
    if (getpid() != pid_) _exit(0);
  }
  /// Between a request and its reply the tuner sends nothing: a socket that has something to read
  /// now, or is another one, was closed, shut down or replaced by a candidate.
  bool intact() const {
    struct stat is;
    if (fstat(socket_, &is) != 0 || is.st_dev != was_.st_dev || is.st_ino != was_.st_ino)
      return false;
    pollfd polled{socket_, POLLIN | POLLRDHUP, 0};
    return poll(&polled, 1, 0) == 0;
  }

 private:
  const int socket_;
  const pid_t pid_ = getpid();
  struct stat was_ {};
};

void write_number(const char* path, const char* digits) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!write(fd, digits, std::char_traits<char>::length(digits));
  close(fd);
}

// Limits what a candidate may allocate beyond what is there now to three quarters of what the
// machine has free, so that the system need not kill a process. Data, not address space: runtimes
// reserve much of that and use little. A device's memory is the driver's to refuse.
void limit_memory() {
  std::int64_t available_kib = -1, data_pages = -1;
  char line[256];
  if (std::FILE* file = std::fopen("/proc/meminfo", "re")) {
    long long value = 0;
    while (available_kib < 0 && std::fgets(line, sizeof line, file))
      if (std::sscanf(line, "MemAvailable: %lld kB", &value) == 1) available_kib = value;
    std::fclose(file);
  }
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    long long pages = 0;
    if (std::fscanf(file, "%*d %*d %*d %*d %*d %lld", &pages) == 1) data_pages = pages;
    std::fclose(file);
  }
  if (available_kib < 0 || data_pages < 0) return;
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  const auto wanted = static_cast<rlim_t>(data_pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) +
                      static_cast<rlim_t>(available_kib) * 1024 / 4 * 3;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_DATA, &limit);
}

struct Counted {
  std::int64_t measured = g_counters.measured, compiled = g_counters.compiled,
               prepared = g_counters.prepared;
};

class Session {
 public:
  explicit Session(const MakeContext& make_context) : make_context_(make_context) {}

  std::string answer(std::string_view request) {
    Reader from(request);
    Writer to;
    try {
      const Request ask = decode_request(from);
      if (ask == Request::kOpen) return open(from);
      if (!measurer_) return Writer().put(Reply::kUnknown).take();
      if (ask == Request::kAhead) return compile_ahead(from);
      if (ask == Request::kConditions) {
        from.end();
        to.put(Reply::kDone);
        encode(to, measurer_->conditions());
        return to.take();
      }
      return judge(ask, from);
    } catch (const Error& e) {
      to.put(Reply::kError);
      encode(to, e);
    } catch (const std::bad_alloc&) {
      to.put(Reply::kNoMemory);
    }
    return to.take();
  }

 private:
  std::string open(Reader& from) {
    opening_ = decode_opening(from);
    const Form* form = Registry::process().find(opening_.op);
    if (!form || form->op->schema.hash != opening_.schema_hash || !fits(opening_, form->op->schema))
      return Writer().put(Reply::kUnknown).take();
    op_ = form->op;
    opening_.problem.op = op_->id;
    const Context& context = make_context_(opening_.problem);
    const Args caller = caller_of();
    measurer_ = make_measurer(
        {*op_, opening_.problem, opening_.seed, &caller, context, steady_nanoseconds});
    if (opening_.problem.device_type == DeviceType::kCpu) limit_memory();
    Opened opened;
    opened.key = store_key(*op_, opening_.problem);
    opened.checks_whole = measurer_->checks_whole();
    opened.whole_ms = measurer_->whole_cost_ms();
    opened.cost = measurer_->sample_cost();
    opened.compiles_at_once = measurer_->compiles_at_once();
    opened.conditions = measurer_->conditions();
    Writer to;
    to.put(Reply::kDone);
    encode(to, opened);
    return to.take();
  }

  // What the caller lends: its sizes, runtime scalars and copies of its index-valued tensors.
  Args caller_of() {
    Args args;
    args.schema = &op_->schema;
    std::copy(std::begin(opening_.sizes), std::end(opening_.sizes), args.letters);
    for (std::size_t i = 0; i < kMaxScalars; ++i)
      args.scalars[i] = i < opening_.scalars.size() ? opening_.scalars[i] : ScalarValue{};
    for (IndexTensor& index : opening_.indices) {
      args.present |= 1u << index.tensor;
      args.tensors[index.tensor] = index.view;
      args.tensors[index.tensor].data = index.bytes.data();
    }
    return args;
  }

  // Null: the candidate is not here, or not the same.
  const Plan* plan_of(const Candidate& candidate) {
    const Implementation* impl = op_->find(candidate.implementation);
    if (!impl) return nullptr;
    const std::string name =
        text(candidate.implementation, " ", candidate.config, " ", candidate.identity);
    // Once found to be the same, it stays so for the run, whatever its parts would be now.
    if (const auto known = plans_.find(name); known != plans_.end()) return known->second.get();
    const Problem& problem = opening_.problem;
    Record::Candidate asked;
    asked.implementation = candidate.implementation;
    asked.source_hash = candidate.identity;
    asked.config = candidate.config;
    if (!Identity({problem, device_info(problem.device()), *impl}).holds(asked)) return nullptr;
    auto made = std::make_unique<Plan>();
    made->problem = problem;
    made->implementation = impl;
    made->config = impl->table().parse(candidate.config, impl->name);
    return (plans_[name] = std::move(made)).get();
  }

  std::string judge(Request ask, Reader& from) {
    const Candidate candidate = decode_candidate(from);
    const double ms = ask == Request::kSample ? decode_duration(from) : 0;
    from.end();
    const Plan* plan = plan_of(candidate);
    if (!plan) return Writer().put(Reply::kUnknown).take();
    const Counted before;
    Outcome outcome;
    Check& check = outcome.check;
    try {
      if (ask == Request::kPrepare) {
        check.failure = Failure::kCompileError;
        ForkWatch watch;
        {
          const ForkWatch::Run watched(watch, plan);
          compile(*plan);
        }
        if (watch.came_back(plan)) throw Error(ErrorKind::kCompile, ForkWatch::kWords);
        check.failure = Failure::kNone;
      } else if (ask == Request::kCheck) {
        check = measurer_->check(*plan);
      } else if (ask == Request::kWhole) {
        check = measurer_->check_whole(*plan);
      } else {
        check.ms = measurer_->sample(*plan, ms);
      }
    } catch (const std::bad_alloc&) {
      check.failure = Failure::kOutOfMemory;
      check.note = "more memory than there is";
    } catch (const std::exception& e) {
      if (check.failure == Failure::kNone) check.failure = Failure::kLaunchError;
      check.note = e.what();
      measurer_->look_after_failure();
    }
    const Counted after;
    outcome.mistrusted = measurer_->mistrusted();
    outcome.lost = measurer_->lost();
    outcome.measured = after.measured - before.measured;
    outcome.compiled = after.compiled - before.compiled;
    outcome.prepared = after.prepared - before.prepared;
    Writer to;
    to.put(Reply::kDone);
    encode(to, outcome);
    return to.take();
  }

  // Returns the order in which to try them, as indices into those that were sent.
  std::string compile_ahead(Reader& from) {
    std::vector<const Plan*> plans, sent;
    for (const Candidate& candidate : decode_batch(from)) sent.push_back(plan_of(candidate));
    std::copy_if(sent.begin(), sent.end(), std::back_inserter(plans),
                 [](const Plan* plan) { return plan != nullptr; });
    const Counted before;
    measurer_->compile_ahead(plans);
    const Counted after;
    Ahead ahead{after.compiled - before.compiled, after.prepared - before.prepared, {}};
    for (const Plan* plan : plans)
      ahead.order.push_back(
          static_cast<std::uint32_t>(std::find(sent.begin(), sent.end(), plan) - sent.begin()));
    Writer to;
    to.put(Reply::kDone);
    encode(to, ahead);
    return to.take();
  }

  const MakeContext& make_context_;
  Opening opening_;
  const Operator* op_ = nullptr;
  std::unique_ptr<Measurer> measurer_;
  std::map<std::string, std::unique_ptr<Plan>> plans_;
};

}  // namespace

int serve(int socket, const MakeContext& make_context) {
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  write_number("/proc/self/oom_score_adj",
               "1000");  // the system kills this process before the one that waits for it
  const Line line(socket);
  Question question;
  if (!write_frame(socket, question, build_id())) return 1;
  Session session(make_context);
  for (std::string request; read_frame(socket, question, request);) {
    const std::string answer = session.answer(request);
    line.leave_if_child();
    if (!line.intact()) {
      std::fputs("a candidate closed, shut down or replaced the worker's socket\n", stderr);
      return 1;
    }
    if (!write_frame(socket, question, answer)) return 1;
  }
  return 0;
}

}  // namespace dlblas::worker
