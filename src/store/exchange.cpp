// Export, import, merge; see exchange.hpp. An export consists of `dlblas-export 1`, `records N`,
// each record after a line `record BYTES`, and a closing digest.
#include "store/exchange.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "core/error.hpp"
#include "store/sha256.hpp"

namespace dlblas {
namespace {

constexpr std::string_view kFirstLine = "dlblas-export 1\n";
constexpr std::size_t kDigestLine = 72;  // "sha256 ", 64 digits, a newline

// The rows of a key as records again, one per environment.
std::vector<Record> records_of(const Merged& merged) {
  std::map<Fields, Record> by_env;
  for (const Merged::Row& row : merged.rows) {
    Record& record = by_env[*row.env];
    record.key = merged.key;
    record.env = *row.env;
    record.candidates.push_back(row.candidate);
  }
  std::vector<Record> records;
  for (auto& [env, record] : by_env) records.push_back(std::move(record));
  return records;
}

// Takes `<name> <number>\n` off the front; accepts one text per number.
bool take_count(std::string_view& s, std::string_view name, std::size_t* value) {
  const std::size_t end = s.find('\n');
  if (end == s.npos || !s.starts_with(name)) return false;
  const std::string_view word = s.substr(name.size(), end - name.size());
  const auto [rest, failed] = std::from_chars(word.data(), word.data() + word.size(), *value);
  if (failed != std::errc{} || rest != word.data() + word.size() || std::to_string(*value) != word)
    return false;
  s.remove_prefix(end + 1);
  return true;
}

// True for the same row, or if the same code and configuration was measured later.
bool covers(const Record::Candidate& known, const Record::Candidate& c) {
  if (known == c) return true;
  return known.implementation == c.implementation && known.source_hash == c.source_hash &&
         known.config == c.config && known.measured_at > c.measured_at;
}

bool knows(Store& store, const Record& record) {
  const auto merged = store.load(record.key);
  return std::all_of(
      record.candidates.begin(), record.candidates.end(), [&](const Record::Candidate& c) {
        return std::any_of(merged->rows.begin(), merged->rows.end(),
                           [&](const Merged::Row& row) { return covers(row.candidate, c); });
      });
}

// A record without a time was not measured now, as publishing would claim, anew at every import: it
// counts as older than all that have one.
constexpr std::int64_t kEarliest = 1;

void take(Store& store, Record record, Exchange* exchange) {
  for (Record::Candidate& c : record.candidates)
    if (c.measured_at == 0) c.measured_at = kEarliest;
  if (knows(store, record)) {
    ++exchange->known;
  } else if (store.publish(std::move(record))) {
    ++exchange->records;
  } else {
    exchange->failed = store.reason();
  }
}

}  // namespace

std::string export_text(Store& store) {
  std::vector<detail::Packed> packed;
  for (const std::shared_ptr<const Merged>& merged : store.ls())
    for (Record& record : records_of(*merged)) detail::pack(std::move(record), &packed);
  std::string s = text(kFirstLine, "records ", packed.size(), "\n");
  for (const detail::Packed& p : packed) s += text("record ", p.text.size(), "\n") + p.text;
  return seal(std::move(s));
}

Flaw split_export(std::string_view all, std::vector<std::string_view>* records) {
  if (all.size() > kMaxExportBytes) return Flaw::kTooLong;
  if (all.size() < kFirstLine.size() + kDigestLine) return Flaw::kTruncated;
  std::string_view s = all.substr(0, all.size() - kDigestLine);
  if (s.back() != '\n' || !all.substr(s.size()).starts_with("sha256 ") || all.back() != '\n')
    return Flaw::kTruncated;
  if (sha256_hex(s) != digest_of(all)) return Flaw::kDigest;
  if (!s.starts_with(kFirstLine)) return Flaw::kVersion;
  s.remove_prefix(kFirstLine.size());
  std::size_t count = 0, length = 0;
  if (!take_count(s, "records ", &count)) return Flaw::kUnknownLine;
  std::vector<std::string_view> found;
  while (!s.empty()) {
    if (!take_count(s, "record ", &length)) return Flaw::kUnknownLine;
    if (length > s.size()) return Flaw::kTruncated;
    found.push_back(s.substr(0, length));
    s.remove_prefix(length);
  }
  if (found.size() != count) return Flaw::kMissing;
  *records = std::move(found);
  return Flaw::kNone;
}

Exchange import_records(Store& store, const std::vector<std::string_view>& records) {
  Exchange exchange;
  for (std::size_t i = 0; i < records.size(); ++i) {
    Record record;
    const Flaw flaw = parse(records[i], &record);
    if (flaw != Flaw::kNone)
      exchange.refused.push_back(text("record ", i + 1, ": ", name_of(flaw)));
    else
      take(store, std::move(record), &exchange);
  }
  return exchange;
}

Exchange merge_store(Store& store, Store& other) {
  Exchange exchange;
  for (const std::shared_ptr<const Merged>& merged : other.ls())
    for (Record& record : records_of(*merged)) take(store, std::move(record), &exchange);
  const std::int64_t bad = other.counters().quarantined;
  if (bad > 0)
    exchange.refused.push_back(text(bad, bad == 1 ? " file" : " files", " of ", other.path()));
  return exchange;
}

}  // namespace dlblas
