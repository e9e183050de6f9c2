// What the tuner and its worker say to each other, as bytes: one request, one reply, in frames with
// a mark and a length. Both ends are one build of one library on one machine (the greeting says
// so), so numbers go as they lie in memory. Every length, count, enumerator and size is checked all
// the same, both ways, since a candidate may have written over whatever the worker sends; what is
// kept is never larger than what came. No pickle, no text to evaluate. In: plain values. Out:
// strings of bytes. Flow: measure > [wire] > worker.  Read next: tuner/worker_measurer.cpp (asks),
// tuner/worker_serve.cpp (answers), tests/fuzz/fuzz_worker.cpp.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tuner/measure.hpp"

namespace dlblas::worker {

/// What a frame is about. A reply repeats its request's: a candidate has the socket too, and what
/// it writes there, or sends again, names another question. The secret is new for each.
struct Question {
  std::uint64_t number = 0;  // 0: the greeting
  std::uint64_t secret = 0;
  bool operator==(const Question&) const = default;
};
/// Of every frame: then its body. "DLBW" and the version of what is below.
struct FrameHeader {
  std::uint32_t mark = kMark;
  std::uint32_t version = kVersion;
  std::uint64_t bytes = 0;
  Question question;
  static constexpr std::uint32_t kMark = 0x57424c44, kVersion = 2;
};
static_assert(sizeof(FrameHeader) == 32);
/// Requests carry index-valued arguments; replies a few numbers and words.
inline constexpr std::uint64_t kMaxRequest = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kMaxReply = std::uint64_t{1} << 20;
/// Candidates of one batch; fields of a record.
inline constexpr std::uint32_t kMaxBatch = 1024, kMaxFields = 256;
/// True: the header of a frame that may have `most` bytes.
bool is_frame(const FrameHeader& header, std::uint64_t most);
/// The worker's first frame: which library it has. From the linker's build id, else the version.
const std::string& build_id();

class Writer {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T> Writer& put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& put(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Throws Error(kInternal) where the bytes end early, or are none of what they should be.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(get<std::uint64_t>()); }
  bool flag();
  /// Of at most `most` things that follow.
  std::uint32_t count(std::uint32_t most);
  double finite();
  /// The message ends here.
  void end() const;

 private:
  std::string_view take(std::uint64_t bytes);
  std::string_view rest_;
};

enum class Request : std::uint8_t { kOpen, kPrepare, kCheck, kWhole, kSample, kAhead, kConditions };
Request decode_request(Reader& from);
enum class Reply : std::uint8_t {
  kDone,
  kError,     // a typed error of the library, for the whole search
  kNoMemory,  // not even the inputs fit
  kUnknown,   // no such operator or implementation there, or another one of that name
};
Reply decode_reply(Reader& from);
/// What follows kError.
void encode(Writer& to, const Error& error);
Error decode_error(Reader& from);

/// A copy of one index-valued argument of the caller, row-major.
struct IndexTensor {
  std::int32_t tensor = 0;
  TensorView view;  // of `bytes`
  std::string bytes;
};
/// What a search is about. The problem's operator goes by name: ids are a process' own.
struct Opening {
  std::string op, schema_hash;
  Problem problem;
  std::uint64_t seed = 0;
  std::vector<ScalarValue> scalars;
  std::vector<IndexTensor> indices;
};
std::string encode(const Opening& opening);
/// Its values lie in their ranges; whether they are the operator's is its finder's to ask (fits).
Opening decode_opening(Reader& from);
/// True if it is about this operator: its tensors, scalars, letters, index-valued arguments.
bool fits(const Opening& opening, const Schema& schema);

/// What the worker found out about it.
struct Opened {
  Fields key;  // the store's: both must mean the same machine and problem
  bool checks_whole = false;
  double whole_ms = 0;
  SampleCost cost;
  std::int32_t compiles_at_once = 1;
  Fields conditions;  // as they are before anything has run
};
void encode(Writer& to, const Opened& opened);
Opened decode_opened(Reader& from);

/// The name, the identity and the configuration of a candidate.
struct Candidate {
  std::string implementation, identity, config;
};
void encode(Writer& to, const Candidate& candidate);
Candidate decode_candidate(Reader& from);
/// Of kAhead: those to be compiled.
std::vector<Candidate> decode_batch(Reader& from);
/// Of kSample: what a run takes, milliseconds.
double decode_duration(Reader& from);

/// A verdict on one candidate; and what this request added to the process' counters.
struct Outcome {
  Check check;
  bool mistrusted = false, lost = false;
  std::int64_t measured = 0, compiled = 0, prepared = 0;
};
void encode(Writer& to, const Outcome& outcome);
Outcome decode_outcome(Reader& from);

/// What compiling ahead did, and in which order the candidates are to be tried: indices into those
/// that were sent, none twice.
struct Ahead {
  std::int64_t compiled = 0, prepared = 0;
  std::vector<std::uint32_t> order;
};
void encode(Writer& to, const Ahead& ahead);
Ahead decode_ahead(Reader& from, std::size_t sent);

void encode(Writer& to, const Fields& fields);
Fields decode_fields(Reader& from);

}  // namespace dlblas::worker
