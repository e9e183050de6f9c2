// The wire format between the tuner and its worker: one request, one reply, in frames with a mark
// and a length. Both ends are one build of one library on one machine (the greeting checks that),
// so numbers are sent as they are in memory. Every length, count, enumerator and size is still
// checked, both ways, since a candidate may have written over whatever the worker sends; nothing
// that is kept is larger than what arrived. No pickle, no text to evaluate. In: plain values. Out:
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

/// Identifies the request that a frame belongs to. A reply repeats its request's: a candidate has
/// the socket too, and whatever it writes or replays there names another question. The secret is
/// new for each.
struct Question {
  std::uint64_t number = 0;  // 0: the greeting
  std::uint64_t secret = 0;
  bool operator==(const Question&) const = default;
};
/// The header of every frame, before its body. "DLBW" and the version of the format below.
struct FrameHeader {
  std::uint32_t mark = kMark;
  std::uint32_t version = kVersion;
  std::uint64_t bytes = 0;
  Question question;
  static constexpr std::uint32_t kMark = 0x57424c44, kVersion = 3;
};
static_assert(sizeof(FrameHeader) == 32);
/// Requests carry index-valued arguments; replies a few numbers and words.
inline constexpr std::uint64_t kMaxRequest = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kMaxReply = std::uint64_t{1} << 20;
/// The most candidates of one batch; the most fields of a record.
inline constexpr std::uint32_t kMaxBatch = 1024, kMaxFields = 256;
/// True for the header of a frame of at most `most` bytes.
bool is_frame(const FrameHeader& header, std::uint64_t most);
/// The worker's first frame: which library it has, as the version and the linker's build id, if
/// any.
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

/// Throws Error(kInternal) if the bytes end early, or are invalid.
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
  /// The number of things that follow, at most `most`.
  std::uint32_t count(std::uint32_t most);
  double finite();
  /// Checks that the message ends here.
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
/// The subject of a search. The problem's operator is given by name: ids are local to a process.
struct Opening {
  std::string op, schema_hash;
  Problem problem;
  std::uint64_t seed = 0;
  std::vector<ScalarValue> scalars;
  std::vector<IndexTensor> indices;
  std::int64_t sizes[kMaxLetters] = {};  // of the caller's own call, by letter; 0: not told
};
std::string encode(const Opening& opening);
/// Checks that values are in range; the caller checks that they match the operator (fits).
Opening decode_opening(Reader& from);
/// True if it matches this operator: its tensors, scalars, letters, index-valued arguments.
bool fits(const Opening& opening, const Schema& schema);

/// What the worker reports about an opened search.
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
/// For kAhead: the candidates to compile.
std::vector<Candidate> decode_batch(Reader& from);
/// For kSample: the milliseconds that a run takes.
double decode_duration(Reader& from);

/// A verdict on one candidate, and what this request added to the process's counters.
struct Outcome {
  Check check;
  bool mistrusted = false, lost = false;
  std::int64_t measured = 0, compiled = 0, prepared = 0;
};
void encode(Writer& to, const Outcome& outcome);
Outcome decode_outcome(Reader& from);

/// What compiling ahead did, and the order in which to try the candidates: indices into those that
/// were sent, none twice.
struct Ahead {
  std::int64_t compiled = 0, prepared = 0;
  std::vector<std::uint32_t> order;
};
void encode(Writer& to, const Ahead& ahead);
Ahead decode_ahead(Reader& from, std::size_t sent);

void encode(Writer& to, const Fields& fields);
Fields decode_fields(Reader& from);

}  // namespace dlblas::worker
