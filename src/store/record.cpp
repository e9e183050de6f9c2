// Printer and strict parser of records; see record.hpp. The printer defines one text per record and
// the parser accepts that text alone, so equal records have equal names and nothing is read two
// ways. Read next: store/store.hpp.
#include "store/record.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "core/utf8.hpp"
#include "store/sha256.hpp"

namespace dlblas {
namespace {

constexpr std::string_view kFirstLine = "dlblas-result 1\n";
constexpr std::string_view kDigestWord = "sha256 ";
constexpr std::size_t kDigestHex = 64;
constexpr std::size_t kDigestLine = kDigestWord.size() + kDigestHex + 1;
constexpr std::size_t kMaxName = 64;

// A candidate's lines, in the order they are written. The indices are used by set_field below.
enum CandidateLine {
  kConfig,
  kDefault,
  kError,
  kFailure,
  kImplementation,
  kMeasuredAt,
  kSamples,
  kSource
};
constexpr std::array<std::string_view, 8> kCandidateLines = {
    "config",         "default",     "error",      "failure",
    "implementation", "measured_at", "samples_ms", "source_hash"};

template <typename T>
std::string number(T value) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

// Accepts only what `number` would have written, and no minus: one text per value.
template <typename T>
bool read_number(std::string_view word, T* value) {
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), *value);
  return failed == std::errc{} && end == word.data() + word.size() && word[0] != '-' &&
         std::isfinite(static_cast<double>(*value)) && number(*value) == word;
}

void append_line(std::string& s, std::string_view prefix, std::string_view name,
                 std::string_view value) {
  ((((s += prefix) += name) += ' ') += value) += '\n';
}

// Valid UTF-8, without C0 (except newlines), DEL and C1: a terminal obeys these.
bool is_clean(std::string_view s) {
  while (!s.empty()) {
    std::uint32_t code = 0;
    const std::size_t length = utf8_character(s, &code);
    const bool control = (code < 0x20 && code != '\n') || (code >= 0x7f && code < 0xa0);
    if (length == 0 || control) return false;
    s.remove_prefix(length);
  }
  return true;
}

bool is_name(std::string_view s) {
  return !s.empty() && s.size() <= kMaxName && std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

// Takes `prefix` off the front of `s`.
bool take(std::string_view& s, std::string_view prefix) {
  if (!s.starts_with(prefix)) return false;
  s.remove_prefix(prefix.size());
  return true;
}

// Reads the lines between the first and the last of a text whose digest held.
class Lines {
 public:
  Flaw line(std::string_view text) {
    const std::size_t space = text.find(' ');
    if (space == text.npos) return Flaw::kUnknownLine;
    std::string_view name = text.substr(0, space);
    const std::string_view value = text.substr(space + 1);
    if (take(name, "key.")) return field(record_.key, record_.env.empty(), name, value);
    if (take(name, "env.")) return field(record_.env, true, name, value);
    if (take(name, "cand.")) return candidate(name, value);
    return Flaw::kUnknownLine;
  }

  Flaw finish(Record* out) {
    if (next_ != 0 || record_.key.empty() || record_.candidates.empty()) return Flaw::kMissing;
    std::set<std::tuple<std::string_view, std::string_view, std::string_view>> seen;
    for (const Record::Candidate& c : record_.candidates) {
      if (c.implementation.empty() || (c.samples_ms.empty() && c.failure.empty()))
        return Flaw::kMissing;
      if (!seen.insert({c.implementation, c.config, c.source_hash}).second) return Flaw::kDuplicate;
    }
    *out = std::move(record_);
    return Flaw::kNone;
  }

 private:
  Flaw field(Fields& fields, bool in_section, std::string_view name, std::string_view value) {
    if (!is_name(name)) return Flaw::kUnknownLine;
    if (!in_section || !record_.candidates.empty()) return Flaw::kUnsorted;
    if (!fields.empty() && fields.back().name == name) return Flaw::kDuplicate;
    if (!fields.empty() && fields.back().name > name) return Flaw::kUnsorted;
    fields.push_back({std::string(name), std::string(value)});
    return Flaw::kNone;
  }

  // `name` must be `<number>.<line>`: exactly the next line of exactly the next candidate.
  Flaw candidate(std::string_view name, std::string_view value) {
    std::int64_t index = 0;
    const std::size_t dot = std::min(name.find('.'), name.size());
    const bool counted = read_number(name.substr(0, dot), &index) && dot < name.size();
    const auto at =
        counted ? std::find(kCandidateLines.begin(), kCandidateLines.end(), name.substr(dot + 1))
                : kCandidateLines.end();
    if (at == kCandidateLines.end()) return Flaw::kUnknownLine;
    const auto lines = static_cast<std::int64_t>(kCandidateLines.size());
    const auto count = static_cast<std::int64_t>(record_.candidates.size());
    const std::int64_t current = next_ == 0 ? count : count - 1;
    const std::int64_t line = at - kCandidateLines.begin();
    if (index < current || (index == current && line < next_)) return Flaw::kDuplicate;
    if (index > current || line > next_) return Flaw::kMissing;
    if (next_ == 0) record_.candidates.emplace_back();
    next_ = static_cast<int>((line + 1) % lines);
    return set_field(record_.candidates.back(), static_cast<CandidateLine>(line), value)
               ? Flaw::kNone
               : Flaw::kNumber;
  }

  // `kind: words`, or a kind alone, as earlier libraries wrote it.
  static void set_failure(Record::Candidate& c, std::string_view value) {
    const std::size_t end = value.find(": ");
    const bool told = end != value.npos && end > 0 && end + 2 < value.size();
    c.failure = value.substr(0, told ? end : value.size());
    if (told) c.note = value.substr(end + 2);
  }

  static bool set_field(Record::Candidate& c, CandidateLine line, std::string_view value) {
    switch (line) {
      case kConfig:
        c.config = value;
        return true;
      case kFailure:
        set_failure(c, value);
        return true;
      case kImplementation:
        c.implementation = value;
        return true;
      case kSource:
        c.source_hash = value;
        return true;
      case kDefault:
        c.is_default = value == "1";
        return value == "0" || value == "1";
      case kError:
        return read_number(value, &c.error);
      case kMeasuredAt:
        return read_number(value, &c.measured_at) && c.measured_at <= kLatestStamp;
      case kSamples:
        return samples(value, &c.samples_ms);
    }
    return false;
  }

  static bool samples(std::string_view value, std::vector<double>* out) {
    while (!value.empty()) {
      const std::string_view word = value.substr(0, value.find(' '));
      double sample = 0;
      if (!read_number(word, &sample)) return false;
      out->push_back(sample);
      if (word.size() == value.size()) return true;
      value.remove_prefix(word.size() + 1);
      if (value.empty()) return false;  // a trailing space
    }
    return true;
  }

  Record record_;
  int next_ = 0;  // the candidate line expected now; 0: a new candidate, or the end
};

}  // namespace

std::string_view name_of(Flaw flaw) {
  constexpr std::string_view kNames[] = {
      "ok",           "too_long",    "truncated", "digest",     "version", "encoding",
      "unknown_line", "duplicate",   "unsorted",  "number",     "missing", "name",
      "wrong_key",    "not_regular", "foreign",   "unreadable", "busy",    "vanished"};
  return kNames[static_cast<int>(flaw)];
}

void sort_fields(Fields& fields) { std::sort(fields.begin(), fields.end()); }

std::string seal(std::string body) {
  const std::string digest = sha256_hex(body);
  return ((body += kDigestWord) += digest) += '\n';
}

std::string_view digest_of(std::string_view text) {
  return text.substr(text.size() - kDigestHex - 1, kDigestHex);
}

std::string key_hash(const Fields& key) {
  Fields sorted = key;
  sort_fields(sorted);
  std::string lines;
  for (const Record::Field& f : sorted) append_line(lines, "key.", f.name, f.value);
  return sha256_hex(lines);
}

std::string print(const Record& record) {
  std::string s(kFirstLine);
  for (const auto& [prefix, fields] :
       {std::pair{"key.", record.key}, std::pair{"env.", record.env}}) {
    Fields sorted = fields;
    sort_fields(sorted);
    for (const Record::Field& f : sorted) append_line(s, prefix, f.name, f.value);
  }
  for (std::size_t n = 0; n < record.candidates.size(); ++n) {
    const Record::Candidate& c = record.candidates[n];
    const std::string prefix = "cand." + number(n) + ".";
    std::string samples;
    for (const double ms : c.samples_ms) (samples += samples.empty() ? "" : " ") += number(ms);
    // A worst error that is not finite (a NaN in the output) is still a fact: far above any bound.
    // (+ 0.0: no −0.)
    const double error = std::isfinite(c.error) ? c.error + 0.0 : 1e300;
    const bool told = !c.failure.empty() && !c.note.empty();
    const std::string failure = told ? c.failure + ": " + c.note : c.failure;
    const std::array<std::string, kCandidateLines.size()> values = {
        c.config,         c.is_default ? "1" : "0", number(error), failure,
        c.implementation, number(c.measured_at),    samples,       c.source_hash};
    for (std::size_t i = 0; i < values.size(); ++i)
      append_line(s, prefix, kCandidateLines[i], values[i]);
  }
  return seal(std::move(s));
}

Flaw parse(std::string_view text, Record* out) {
  if (text.size() > kMaxRecordBytes) return Flaw::kTooLong;
  if (text.size() <= kDigestLine || text.back() != '\n') return Flaw::kTruncated;
  std::string_view body = text.substr(0, text.size() - kDigestLine);
  if (body.back() != '\n' || !text.substr(body.size()).starts_with(kDigestWord))
    return Flaw::kTruncated;
  // The digest is checked first: once it holds, the reasons below are about what was written, not
  // about damage.
  if (sha256_hex(body) != digest_of(text)) return Flaw::kDigest;
  if (!take(body, kFirstLine)) return Flaw::kVersion;
  if (!is_clean(body)) return Flaw::kEncoding;
  Lines lines;
  while (!body.empty()) {
    const std::string_view line = body.substr(0, body.find('\n'));
    if (const Flaw flaw = lines.line(line); flaw != Flaw::kNone) return flaw;
    body.remove_prefix(line.size() + 1);
  }
  return lines.finish(out);
}

}  // namespace dlblas
