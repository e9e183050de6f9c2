// See worker_process.hpp. One thread, one poll loop: the socket both ways and the worker's standard
// error, which is drained all the time, or a talkative worker would block.
#include "tuner/worker_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "core/log.hpp"
#include "tuner/worker_spawn.hpp"
#include "tuner/worker_wire.hpp"

namespace dlblas::worker {
namespace {

constexpr int kSliceMs = 100;             // how often the caller is asked whether to go on
constexpr std::size_t kLastWords = 1500;  // of standard error, for the failure's text
constexpr double kFarewellSeconds = 1;    // from the socket's end to the process'

// No candidate can know the secret before it runs.
std::uint64_t new_secret() {
  std::uint64_t secret = 0;
  if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) != sizeof secret)
    secret = static_cast<std::uint64_t>(steady_nanoseconds()) * 0x9e3779b97f4a7c15u;
  return secret;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

class ProcessLink final : public Link {
 public:
  ProcessLink(const Command& command, Waiting waiting) : waiting_(std::move(waiting)) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw Unusable(text("no socket: ", std::strerror(errno)));
    Descriptor first(ends[0]), second(ends[1]);
    socket_ = move_up(first.release());
    const Descriptor theirs = move_up(second.release());
    int words[2];
    if (pipe2(words, O_CLOEXEC) != 0) throw Unusable(text("no pipe: ", std::strerror(errno)));
    Descriptor read_end(words[0]), write_end(words[1]);
    errors_ = move_up(read_end.release());
    const Descriptor their_errors = move_up(write_end.release());
    for (const int fd : {socket_.get(), errors_.get()}) fcntl(fd, F_SETFL, O_NONBLOCK);
    child_ = spawn({command.argv, command.environment, theirs.get(), their_errors.get()});
  }

  // The worker is idle, or of no use: it is ended at once.
  ~ProcessLink() override {
    if (child_ > 0) end_child(child_, 0);
  }

  Exchange exchange(std::string_view request, double limit_s) override {
    if (child_ <= 0) return {Ending::kGone, {}, "has ended before", false};
    // Between a reply and the next request a worker sends nothing, and stays alive. Otherwise a
    // candidate that ran in it has written to the socket, or has ended it.
    char byte;
    const ssize_t got = recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0) return finish(Ending::kGone, 0, kNoReply);
    if (got == 0) return finish(Ending::kGone, kFarewellSeconds);
    if (has_ended(child_)) return finish(Ending::kGone, 0);
    question_ = {question_.number + 1, new_secret()};
    FrameHeader header;
    header.bytes = request.size();
    header.question = question_;
    out_.assign(reinterpret_cast<const char*>(&header), sizeof header);
    body_ = request;
    sent_ = 0;
    return converse(limit_s);
  }

  /// The first frame, which answers no request.
  Exchange greeting(double limit_s) {
    out_.clear();
    body_ = {};
    sent_ = 0;
    return converse(limit_s);
  }

 private:
  Exchange converse(double limit_s) {
    in_.clear();
    const std::int64_t begin = steady_nanoseconds();
    const std::int64_t end = begin + static_cast<std::int64_t>(limit_s * 1e9);
    ask_at_ = begin + kSliceMs * std::int64_t{1'000'000};
    for (;;) {
      const double left_ms = static_cast<double>(end - steady_nanoseconds()) * 1e-6;
      if (left_ms <= 0) return finish(Ending::kTimedOut, 0);
      pollfd polled[2] = {{socket_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}};
      if (sent_ < out_.size() + body_.size()) polled[0].events |= POLLOUT;
      poll(polled, 2, static_cast<int>(std::min(left_ms + 1, kSliceMs + 0.0)));
      if (wants_to_stop()) return finish(Ending::kStopped, 0);
      // A process that a candidate started may hold the socket open after the worker's end.
      const bool ended = polled[0].revents == 0 && has_ended(child_);
      if (polled[1].revents) listen();
      if (polled[0].revents & POLLOUT) send_some();
      if (ended && !readable()) return finish(Ending::kDied, 0);
      if (!(polled[0].revents & (POLLIN | POLLHUP | POLLERR))) continue;
      if (!receive_some()) return finish(Ending::kDied, kFarewellSeconds);
      if (const Exchange done = whole_reply(); done.ending != Ending::kReplied || has_reply_)
        return done;
    }
  }

  bool readable() {
    char byte;
    return recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
  }

  // By the clock, not when poll has nothing to report: a worker may write all the time.
  bool wants_to_stop() {
    const std::int64_t now = steady_nanoseconds();
    if (!waiting_ || now < ask_at_) return false;
    ask_at_ = now + kSliceMs * std::int64_t{1'000'000};
    return waiting_();
  }

  void send_some() {
    const std::string_view rest = sent_ < out_.size() ? std::string_view(out_).substr(sent_)
                                                      : body_.substr(sent_ - out_.size());
    const ssize_t sent = send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) sent_ += static_cast<std::size_t>(sent);
  }

  // False: the other end is closed.
  bool receive_some() {
    char buffer[65536];
    const ssize_t got = recv(socket_.get(), buffer, sizeof buffer, 0);
    if (got > 0) in_.append(buffer, static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  Exchange whole_reply() {
    has_reply_ = false;
    FrameHeader header;  // as it begins, until all of it is here
    std::memcpy(&header, in_.data(), std::min(in_.size(), sizeof header));
    if (!is_frame(header, kMaxReply)) return finish(Ending::kDied, 0, kNoReply);
    if (in_.size() < sizeof header) return {};
    const bool sane = header.question == question_ && in_.size() - sizeof header <= header.bytes;
    if (!sane) return finish(Ending::kDied, 0, kNoReply);
    if (in_.size() - sizeof header < header.bytes) return {};
    has_reply_ = true;
    return {Ending::kReplied, in_.substr(sizeof header), {}, false};
  }

  // Standard error and output: the last of it is kept, for the text about an end.
  void listen() {
    char buffer[4096];
    ssize_t got;
    while ((got = read(errors_.get(), buffer, sizeof buffer)) > 0) {
      said_.append(buffer, static_cast<std::size_t>(got));
      if (log_level() >= LogLevel::kInfo) (void)!write(2, buffer, static_cast<std::size_t>(got));
      if (said_.size() > 4 * kLastWords) said_.erase(0, said_.size() - kLastWords);
    }
    if (got == 0) errors_.reset();  // closed: poll would tell so for ever
  }

  // The last lines, joined into one.
  std::string last_words() {
    if (said_.size() > kLastWords) said_.erase(0, said_.size() - kLastWords);
    std::string line;
    for (const char c : said_) {
      if (c == '\n' && !line.empty() && line.back() != '\n') line += '\n';
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x80) line += '?';  // half a character, or none: texts of ours are UTF-8
      if (byte >= ' ' && byte < 0x7f) line += c;
    }
    while (!line.empty() && is_space(line.back())) line.pop_back();
    std::string joined;
    for (const char c : line)
      if (c == '\n')
        joined += " | ";
      else
        joined += c;
    return joined;
  }

  Exchange finish(Ending ending, double limit_s, const char* instead = nullptr) {
    bool killed = false;
    const int status = end_child(std::exchange(child_, -1), limit_s, &killed);
    if (killed && limit_s > 0 && ended_from_outside(status)) instead = kHungUp;  // by this kill
    listen();
    std::string how = instead ? instead : words_of_status(status);
    if (const std::string words = last_words(); !words.empty()) how += ": " + words;
    const bool died = ending == Ending::kDied || ending == Ending::kGone;
    const bool outside = died && !killed && ended_from_outside(status);
    return {ending, {}, std::move(how), outside};
  }

  static constexpr const char* kNoReply = "sent what is no reply";
  static constexpr const char* kHungUp = "closed its socket, and did not end";

  const Waiting waiting_;
  pid_t child_ = -1;
  Question question_;  // the last one asked
  Descriptor socket_, errors_;
  std::string out_, in_, said_;
  std::string_view body_;
  std::size_t sent_ = 0;
  std::int64_t ask_at_ = 0;
  bool has_reply_ = false;
};

}  // namespace

std::unique_ptr<Link> start(const Command& command, const Waiting& waiting, double limit_s) {
  if (command.argv.empty()) throw Unusable("no program is known that could be one");
  auto link = std::make_unique<ProcessLink>(command, waiting);
  const Exchange greeting = link->greeting(limit_s);
  if (greeting.ending == Ending::kTimedOut)
    throw Unusable(text(command.argv[0], " said nothing for ", static_cast<int>(std::ceil(limit_s)),
                        " s: ", greeting.how));
  if (greeting.ending != Ending::kReplied) throw Unusable(text(command.argv[0], " ", greeting.how));
  if (greeting.reply != build_id())
    throw Unusable(text(command.argv[0], " is another build of the library: expected ", build_id(),
                        ", got ", greeting.reply));
  return link;
}

}  // namespace dlblas::worker
