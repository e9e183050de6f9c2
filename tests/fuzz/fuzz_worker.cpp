// Any bytes as messages between a tuner and its worker: the frame's header, every request, every
// reply. Refused with a typed error, or within the limits that both ends rely on.
// fuzz: src/tuner/worker_wire.cpp src/tuner/filler.cpp src/tuner/sample_cost.cpp
// fuzz: src/core/schema.cpp src/core/schema_sizes.cpp src/core/dim.cpp
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "core/schema.hpp"
#include "tuner/worker_wire.hpp"

namespace {

using namespace dlblas;
using namespace dlblas::worker;

void demand(bool holds) {
  if (!holds) std::abort();
}

template <typename Read>
void read(std::string_view bytes, const Read& decode) {
  try {
    Reader from(bytes);
    decode(from);
  } catch (const Error& e) {
    demand(e.kind() == ErrorKind::kInternal && e.what()[0] != '\0');
  }
}

void read_opening(Reader& from, std::size_t size) {
  static const Schema schema =
      parse_schema("op(x: f[*T, C], ids: i32[T] ~index<C, scale: float = 1) -> y: like(x)[*T, C]");
  const Opening opening = decode_opening(from);
  for (const IndexTensor& index : opening.indices) {
    demand(index.bytes.size() <= size);
    demand(index.view.numel() * size_of(index.view.dtype) ==
           static_cast<std::int64_t>(index.bytes.size()));
  }
  if (!fits(opening, schema)) return;
  for (const IndexTensor& index : opening.indices) demand(index.tensor < schema.num_inputs);
  demand(encode(opening).size() == size);  // nothing was lost
}

void read_request(std::string_view bytes) {
  read(bytes, [&](Reader& from) {
    switch (decode_request(from)) {
      case Request::kOpen:
        return read_opening(from, bytes.size());
      case Request::kAhead:
        return demand(decode_batch(from).size() <= kMaxBatch);
      case Request::kConditions:
        return from.end();
      case Request::kSample:
        decode_candidate(from);
        demand(decode_duration(from) >= 0);
        return from.end();
      default:
        decode_candidate(from);
        from.end();
    }
  });
}

void read_replies(std::string_view bytes) {
  read(bytes, [](Reader& from) { demand(decode_reply(from) <= Reply::kUnknown); });
  read(bytes, [](Reader& from) {
    const Opened opened = decode_opened(from);
    demand(std::isfinite(opened.cost.of(0.1)) && opened.compiles_at_once >= 1);
    demand(opened.key.size() <= kMaxFields);
  });
  read(bytes, [](Reader& from) {
    const Outcome outcome = decode_outcome(from);
    demand(static_cast<int>(outcome.check.failure) < kNumFailures && outcome.check.ms >= 0);
  });
  read(bytes, [](Reader& from) {
    for (const std::uint32_t i : decode_ahead(from, 16).order) demand(i < 16);
  });
  read(bytes, [](Reader& from) { demand(decode_error(from).kind() <= ErrorKind::kInternal); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  FrameHeader header;
  if (size >= sizeof header) {
    std::memcpy(&header, data, sizeof header);
    if (is_frame(header, kMaxReply)) demand(header.bytes <= kMaxReply);
  }
  read_request(bytes);
  read_replies(bytes);
  return 0;
}
