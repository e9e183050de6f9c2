// See worker_wire.hpp.
#include "tuner/worker_wire.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cmath>

#include "dlblas/version.h"
#include "tuner/filler.hpp"

namespace dlblas::worker {
namespace {

[[noreturn]] void throw_malformed(const char* what) {
  throw Error(ErrorKind::kInternal,
              text("tune: message between worker and tuner is malformed; expected ", what,
                   ", got other bytes; a candidate wrote over the worker's memory, or report it"));
}

// The note that the linker leaves in the object that holds this function.
int find_build_id(dl_phdr_info* object, std::size_t, void* found) {
  const auto here = reinterpret_cast<ElfW(Addr)>(&find_build_id);
  const ElfW(Phdr)* const end = object->dlpi_phdr + object->dlpi_phnum;
  bool mine = false;
  for (const ElfW(Phdr)* p = object->dlpi_phdr; p != end; ++p)
    mine |= p->p_type == PT_LOAD && here - (object->dlpi_addr + p->p_vaddr) < p->p_memsz;
  if (!mine) return 0;
  for (const ElfW(Phdr)* p = object->dlpi_phdr; p != end; ++p) {
    if (p->p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(object->dlpi_addr + p->p_vaddr);
    const char* const stop = at + p->p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= stop) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* const name = at + sizeof note;
      const char* const bytes = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        static_cast<std::string*>(found)->assign(bytes, note.n_descsz);
      at = bytes + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return 1;
}

}  // namespace

const std::string& build_id() {
  static const std::string* const id = [] {
    auto* made = new std::string;
    dl_iterate_phdr(find_build_id, made);
    std::string digits;
    for (const char c : *made) {
      constexpr char kHex[] = "0123456789abcdef";
      digits += kHex[static_cast<unsigned char>(c) >> 4];
      digits += kHex[static_cast<unsigned char>(c) & 15];
    }
    *made = text(DLBLAS_VERSION, digits.empty() ? "" : "-", digits);
    return made;
  }();
  return *id;
}

std::string_view Reader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) throw_malformed("a whole message");
  const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(bytes));
  rest_.remove_prefix(taken.size());
  return taken;
}

bool Reader::flag() {
  const auto byte = get<std::uint8_t>();
  if (byte > 1) throw_malformed("0 or 1");
  return byte != 0;
}

std::uint32_t Reader::count(std::uint32_t most) {
  const auto n = get<std::uint32_t>();
  if (n > most) throw_malformed("fewer things");
  return n;
}

double Reader::finite() {
  const auto value = get<double>();
  if (!std::isfinite(value)) throw_malformed("a finite number");
  return value;
}

void Reader::end() const {
  if (!rest_.empty()) throw_malformed("the end of the message");
}

bool is_frame(const FrameHeader& header, std::uint64_t most) {
  return header.mark == FrameHeader::kMark && header.version == FrameHeader::kVersion &&
         header.bytes <= most;
}

namespace {

// Reads an enumerator from `first` to `last`.
template <typename Enum>
Enum enumerator(Reader& from, Enum first, Enum last, const char* what) {
  const auto value = from.get<std::underlying_type_t<Enum>>();
  if (value < static_cast<std::underlying_type_t<Enum>>(first) ||
      value > static_cast<std::underlying_type_t<Enum>>(last))
    throw_malformed(what);
  return static_cast<Enum>(value);
}

bool is_dtype(DType dtype) { return dtype <= DType::kAbsent; }
bool is_device(DeviceType type) { return type == DeviceType::kCpu || type == DeviceType::kCuda; }

constexpr std::int64_t kMaxSize = std::int64_t{1} << 48;  // no memory has an end that far
constexpr std::uint16_t kMaxThreads = 8192;

bool is_sane(const Problem& p) {
  bool sane = is_device(p.device_type) && p.device_index >= 0 && p.threads <= kMaxThreads &&
              p.flags <= (kDeterministic | kAllowTf32 | kRepeatable);
  for (const TensorTraits& t : p.tensors)
    sane = sane && is_dtype(t.dtype) && t.layout <= Layout::kTokensOuter && t.align_log2 <= 4 &&
           t.alias <= kMaxTensors;
  for (const std::int64_t n : p.dims) sane = sane && n >= 0 && n <= kMaxSize;
  return sane;
}

// True if the view covers exactly its bytes, row-major.
bool is_sane(const IndexTensor& index) {
  const TensorView& v = index.view;
  if (index.tensor < 0 || index.tensor >= kMaxTensors || v.rank < 0 || v.rank > kMaxRank ||
      !is_dtype(v.dtype) || v.dtype == DType::kAbsent || v.data ||
      v.device.type != DeviceType::kCpu)
    return false;
  const auto most = static_cast<std::int64_t>(index.bytes.size());
  std::int64_t numel = 1;
  for (int i = v.rank; i-- > 0;) {
    if (v.shape[i] < 0 || v.strides[i] != numel) return false;
    if (numel > 0 && v.shape[i] > most / numel) return false;
    numel *= v.shape[i];
  }
  return numel * size_of(v.dtype) == most;
}

}  // namespace

Request decode_request(Reader& from) {
  return enumerator(from, Request::kOpen, Request::kConditions, "a request");
}
Reply decode_reply(Reader& from) {
  return enumerator(from, Reply::kDone, Reply::kUnknown, "an answer");
}

void encode(Writer& to, const Error& error) {
  const ErrorDetail& d = error.detail();
  to.put(error.kind()).put(std::string_view(error.what()));
  to.put(d.op).put(d.argument).put(d.expected).put(d.got);
}

Error decode_error(Reader& from) {
  const ErrorKind kind =
      enumerator(from, ErrorKind::kShape, ErrorKind::kInternal, "a kind of error");
  const std::string message(from.text());
  ErrorDetail detail;
  for (std::string* word : {&detail.op, &detail.argument, &detail.expected, &detail.got})
    *word = from.text();
  from.end();
  return Error(kind, message, detail);
}

void encode(Writer& to, const Fields& fields) {
  to.put(static_cast<std::uint32_t>(fields.size()));
  for (const Record::Field& field : fields) to.put(field.name).put(field.value);
}

Fields decode_fields(Reader& from) {
  Fields fields;
  for (auto left = from.count(kMaxFields); left > 0; --left) {
    const std::string_view name = from.text(), value = from.text();
    fields.push_back({std::string(name), std::string(value)});
  }
  return fields;
}

std::string encode(const Opening& opening) {
  Writer to;
  to.put(Request::kOpen).put(opening.op).put(opening.schema_hash).put(opening.problem);
  to.put(opening.seed).put(static_cast<std::uint32_t>(opening.scalars.size()));
  for (const ScalarValue& value : opening.scalars) to.put(value);
  to.put(static_cast<std::uint32_t>(opening.indices.size()));
  for (const IndexTensor& index : opening.indices)
    to.put(index.tensor).put(index.view).put(index.bytes);
  for (const std::int64_t size : opening.sizes) to.put(size);
  return to.take();
}

Opening decode_opening(Reader& from) {
  Opening opening;
  opening.op = from.text();
  opening.schema_hash = from.text();
  opening.problem = from.get<Problem>();
  if (!is_sane(opening.problem)) throw_malformed("a problem");
  opening.seed = from.get<std::uint64_t>();
  for (auto left = from.count(kMaxScalars); left > 0; --left)
    opening.scalars.push_back(from.get<ScalarValue>());
  for (auto left = from.count(kMaxTensors); left > 0; --left) {
    IndexTensor& index = opening.indices.emplace_back();
    index.tensor = from.get<std::int32_t>();
    index.view = from.get<TensorView>();
    index.bytes = from.text();
    if (!is_sane(index)) throw_malformed("a tensor of indices");
  }
  for (std::int64_t& size : opening.sizes) size = from.get<std::int64_t>();
  from.end();
  return opening;
}

bool fits(const Opening& opening, const Schema& schema) {
  const Problem& p = opening.problem;
  const auto num_tensors = schema.tensors.size();
  for (std::size_t i = 0; i < kMaxTensors; ++i) {
    const TensorTraits& t = p.tensors[i];
    const bool absent = t.dtype == DType::kAbsent;
    if (i >= num_tensors ? t.alias != 0 : absent && !schema.tensors[i].optional) return false;
    const auto source = static_cast<std::size_t>(t.alias) - 1;
    if (t.alias && (i < static_cast<std::size_t>(schema.num_inputs) ||
                    source >= static_cast<std::size_t>(schema.num_inputs) ||
                    p.tensors[source].dtype == DType::kAbsent || p.tensors[source].alias))
      return false;
  }
  const auto sizes = schema.sizes_of(p);
  for (std::size_t i = 0; i < num_tensors; ++i)
    for (std::size_t k = 0; k < schema.tensors[i].dims.size(); ++k) {
      const DimExpr& dim = schema.tensors[i].dims[k];
      if (p.tensors[i].dtype != DType::kAbsent && dim.evaluate(sizes.data()) < 0) return false;
      if ((p.ones[i] >> k & 1u) && !dim.may_be_smaller()) return false;
    }
  for (const ScalarSpec& s : schema.scalars) {
    if (!s.key) continue;
    const std::int64_t value = p.scalars[s.key_slot];
    const auto labels = static_cast<std::int64_t>(s.labels.size());
    if ((s.type == ScalarType::kBool || s.key_set) && (value < 0 || value > 1)) return false;
    if (s.type == ScalarType::kEnum && (value < 0 || value >= labels)) return false;
    if (s.type == ScalarType::kDType && (value < -1 || value >= kNumDTypes)) return false;
  }
  if (!opening.scalars.empty() && opening.scalars.size() != schema.scalars.size()) return false;
  return std::all_of(opening.indices.begin(), opening.indices.end(), [&](const IndexTensor& t) {
    return t.tensor < schema.num_inputs && holds_indices(schema.tensors[t.tensor].fill.fill);
  });
}

void encode(Writer& to, const Opened& opened) {
  encode(to, opened.key);
  const SampleCost& cost = opened.cost;
  to.put(opened.checks_whole).put(opened.whole_ms).put(cost.replays).put(cost.least_ms);
  to.put(cost.rotation).put(cost.flushes).put(opened.compiles_at_once);
  encode(to, opened.conditions);
}

Opened decode_opened(Reader& from) {
  Opened opened;
  opened.key = decode_fields(from);
  opened.checks_whole = from.flag();
  opened.whole_ms = from.finite();
  SampleCost& cost = opened.cost;
  cost.replays = from.flag();
  cost.least_ms = from.finite();
  cost.rotation = from.get<Rotation>();
  cost.flushes = from.flag();
  opened.compiles_at_once = from.get<std::int32_t>();
  if (opened.whole_ms < 0 || cost.least_ms < 0 || cost.rotation.sets < 1 ||
      cost.rotation.sets > Rotation::kMaxSets || cost.rotation.bytes > kMaxSize ||
      cost.rotation.wanted > kMaxSize || cost.rotation.sizes < 1 || cost.rotation.sizes > 2 ||
      cost.rotation.sets % cost.rotation.sizes != 0 || opened.compiles_at_once < 1 ||
      opened.compiles_at_once > static_cast<std::int32_t>(kMaxBatch))
    throw_malformed("what a search costs");
  opened.conditions = decode_fields(from);
  from.end();
  return opened;
}

void encode(Writer& to, const Candidate& candidate) {
  to.put(candidate.implementation).put(candidate.identity).put(candidate.config);
}

Candidate decode_candidate(Reader& from) {
  Candidate candidate;
  candidate.implementation = from.text();
  candidate.identity = from.text();
  candidate.config = from.text();
  return candidate;
}

std::vector<Candidate> decode_batch(Reader& from) {
  std::vector<Candidate> batch;
  for (auto left = from.count(kMaxBatch); left > 0; --left) batch.push_back(decode_candidate(from));
  from.end();
  return batch;
}

double decode_duration(Reader& from) {
  const double ms = from.finite();
  if (ms < 0) throw_malformed("a duration");
  return ms;
}

void encode(Writer& to, const Outcome& outcome) {
  to.put(outcome.check.failure).put(outcome.check.note).put(outcome.check.error);
  to.put(outcome.check.ms).put(outcome.check.beside);
  to.put(outcome.mistrusted).put(outcome.lost);
  to.put(outcome.measured).put(outcome.compiled).put(outcome.prepared);
}

namespace {

// The value is added to this process's counters.
std::int64_t decode_counter(Reader& from) {
  const auto n = from.get<std::int64_t>();
  if (n < 0 || n > kMaxSize) throw_malformed("a counter");
  return n;
}

}  // namespace

Outcome decode_outcome(Reader& from) {
  Outcome outcome;
  outcome.check.failure =
      enumerator(from, Failure::kNone, static_cast<Failure>(kNumFailures - 1), "a kind of failure");
  outcome.check.note = from.text();
  outcome.check.error = from.get<double>();  // infinite where a result was
  outcome.check.ms = decode_duration(from);
  if (std::isnan(outcome.check.error) || outcome.check.error < 0) throw_malformed("an error");
  outcome.check.beside = from.flag();
  outcome.mistrusted = from.flag();
  outcome.lost = from.flag();
  outcome.measured = decode_counter(from);
  outcome.compiled = decode_counter(from);
  outcome.prepared = decode_counter(from);
  from.end();
  return outcome;
}

void encode(Writer& to, const Ahead& ahead) {
  to.put(ahead.compiled).put(ahead.prepared);
  to.put(static_cast<std::uint32_t>(ahead.order.size()));
  for (const std::uint32_t i : ahead.order) to.put(i);
}

Ahead decode_ahead(Reader& from, std::size_t sent) {
  Ahead ahead;
  ahead.compiled = decode_counter(from);
  ahead.prepared = decode_counter(from);
  std::vector<bool> seen(sent, false);
  for (auto left = from.count(static_cast<std::uint32_t>(sent)); left > 0; --left) {
    const auto i = from.get<std::uint32_t>();
    if (i >= sent || seen[i]) throw_malformed("an order");
    seen[i] = true;
    ahead.order.push_back(i);
  }
  from.end();
  return ahead;
}

}  // namespace dlblas::worker
