// See worker_wire.hpp.
#include "tuner/worker_wire.hpp"

#include <elf.h>
#include <link.h>

#include "dlblas/version.h"

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

void encode(Writer& to, const Fields& fields) {
  to.put(static_cast<std::uint32_t>(fields.size()));
  for (const Record::Field& field : fields) to.put(field.name).put(field.value);
}

Fields decode_fields(Reader& from) {
  Fields fields;
  for (auto left = from.get<std::uint32_t>(); left > 0; --left) {
    const std::string_view name = from.text(), value = from.text();
    fields.push_back({std::string(name), std::string(value)});
  }
  return fields;
}

std::string encode(const Opening& opening) {
  Writer to;
  to.put(Ask::kOpen).put(opening.op).put(opening.schema_hash).put(opening.problem);
  to.put(opening.seed).put(static_cast<std::uint32_t>(opening.scalars.size()));
  for (const ScalarValue& value : opening.scalars) to.put(value);
  to.put(static_cast<std::uint32_t>(opening.indices.size()));
  for (const IndexTensor& index : opening.indices)
    to.put(index.tensor).put(index.view).put(index.bytes);
  return to.take();
}

Opening decode_opening(Reader& from) {
  Opening opening;
  opening.op = from.text();
  opening.schema_hash = from.text();
  opening.problem = from.get<Problem>();
  opening.seed = from.get<std::uint64_t>();
  for (auto left = from.get<std::uint32_t>(); left > 0; --left)
    opening.scalars.push_back(from.get<ScalarValue>());
  for (auto left = from.get<std::uint32_t>(); left > 0; --left) {
    IndexTensor& index = opening.indices.emplace_back();
    index.tensor = from.get<std::int32_t>();
    index.view = from.get<TensorView>();
    index.bytes = from.text();
    const bool fits = index.tensor >= 0 && index.tensor < kMaxTensors && index.view.rank >= 0 &&
                      index.view.rank <= kMaxRank;
    if (!fits) throw_malformed("a tensor of the operator");
  }
  return opening;
}

void encode(Writer& to, const Opened& opened) {
  encode(to, opened.key);
  to.put(opened.checks_whole).put(opened.whole_ms).put(opened.cost).put(opened.compiles_at_once);
  encode(to, opened.conditions);
}

Opened decode_opened(Reader& from) {
  Opened opened;
  opened.key = decode_fields(from);
  opened.checks_whole = from.get<std::uint8_t>() != 0;
  opened.whole_ms = from.get<double>();
  opened.cost = from.get<SampleCost>();
  opened.compiles_at_once = from.get<std::int32_t>();
  opened.conditions = decode_fields(from);
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

void encode(Writer& to, const Outcome& outcome) {
  to.put(outcome.check.failure).put(outcome.check.note).put(outcome.check.error);
  to.put(outcome.check.ms).put(outcome.mistrusted).put(outcome.lost);
  to.put(outcome.measured).put(outcome.compiled).put(outcome.prepared);
}

Outcome decode_outcome(Reader& from) {
  Outcome outcome;
  const auto failure = from.get<std::uint8_t>();
  if (failure >= kNumFailures) throw_malformed("a kind of failure");
  outcome.check.failure = static_cast<Failure>(failure);
  outcome.check.note = from.text();
  outcome.check.error = from.get<double>();
  outcome.check.ms = from.get<double>();
  outcome.mistrusted = from.get<std::uint8_t>() != 0;
  outcome.lost = from.get<std::uint8_t>() != 0;
  outcome.measured = from.get<std::int64_t>();
  outcome.compiled = from.get<std::int64_t>();
  outcome.prepared = from.get<std::int64_t>();
  return outcome;
}

}  // namespace dlblas::worker
