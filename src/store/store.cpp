// Publishing and loading; see store.hpp. This file decides what a folder's files mean; files.cpp
// reads and writes them. Read next: store/maintain.cpp.
#include "store/store.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "core/env.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace dlblas {
namespace {

// A key's records are merged whenever there are a multiple of this: a load reads at most about this
// many files.
constexpr std::size_t kCompactEvery = 32;
// Folders above a key's that publishing may have created: results and v1, at any time (another
// process may have cleared them); dlblas and .cache too when a store first writes.
constexpr int kParents = 2, kParentsAtFirst = 4;

// From 1 to kLatestStamp: 0 is "not stamped", and no record has a time outside this range. A clock
// outside it is wrong, so it counts as the earliest.
std::int64_t now_ns() {
  using std::chrono::nanoseconds;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t now = std::chrono::duration_cast<nanoseconds>(since).count();
  return now < 1 || now > kLatestStamp ? 1 : now;
}

// The working directory may change later; the store stays where it was.
std::string absolute(const std::string& path) {
  if (path.empty() || path.front() == '~') return path;  // refused by open_root
  std::error_code failed;
  std::string s = std::filesystem::absolute(path, failed).lexically_normal().string();
  while (s.size() > 1 && s.back() == '/') s.pop_back();  // O_NOFOLLOW would follow "link/"
  return failed ? path : s;
}

auto identity(const Record::Candidate& c) {
  return std::tie(c.implementation, c.source_hash, c.config);
}

bool newer(const Merged::Row& a, const Merged::Row& b) {
  return std::tie(a.candidate.measured_at, a.record) > std::tie(b.candidate.measured_at, b.record);
}

// Reads one file and checks it against the name and the folder it should have.
Flaw examine(int folder, const std::string& file, Trust trust, const std::string& hash,
             const std::string& name, Record* record) {
  std::string bytes;
  Flaw flaw = read_file(folder, file, trust, &bytes);
  if (flaw == Flaw::kNone) flaw = parse(bytes, record);
  if (flaw == Flaw::kNone && name != digest_of(bytes)) flaw = Flaw::kWrongName;
  if (flaw == Flaw::kNone && hash != key_hash(record->key)) flaw = Flaw::kWrongKey;
  return flaw;
}

}  // namespace

std::int64_t stamp_after(std::int64_t newest) {
  return std::max(now_ns(), std::min(newest, kLatestStamp - 1) + 1);
}

namespace detail {

Flaw pack(Record record, std::vector<Packed>* out) {
  std::string text = print(record);
  if (text.size() > kMaxRecordBytes && record.candidates.size() > 1) {
    Record half{record.key, record.env, {}};
    const auto middle =
        record.candidates.begin() + static_cast<std::ptrdiff_t>(record.candidates.size() / 2);
    half.candidates.assign(middle, record.candidates.end());
    record.candidates.erase(middle, record.candidates.end());
    const Flaw flaw = pack(std::move(record), out);
    return flaw == Flaw::kNone ? pack(std::move(half), out) : flaw;
  }
  Packed packed;
  if (const Flaw flaw = parse(text, &packed.record); flaw != Flaw::kNone) return flaw;
  packed.name = digest_of(text);
  packed.text = std::move(text);
  out->push_back(std::move(packed));
  return Flaw::kNone;
}

}  // namespace detail

Store& Store::process() {
  static Store* store = [] {
    const std::string root = cache_root();
    return new Store(root.empty() ? root : root + "/v1");
  }();
  return *store;
}

Store::Store(const std::string& root, Trust trust) : root_(absolute(root)), trust_(trust) {}

Folder Store::open_child(const std::string& name, Missing missing) const {
  Folder root = open_root(root_, trust_, missing);
  if (!root.fd) return root;
  Folder child = open_folder(root.fd.get(), name, trust_, missing);
  if (!child.reason.empty()) child.reason += text("; the store is ", root_);
  return child;
}

Folder Store::open_key(const std::string& hash, Missing missing) const {
  Folder results = open_child("results", missing);
  if (!results.fd) return results;
  Folder folder = open_folder(results.fd.get(), hash, trust_, missing);
  if (!folder.reason.empty()) folder.reason += text("; the store is ", root_);
  return folder;
}

void Store::report(const std::string& why) {
  const std::lock_guard lock(mutex_);
  reason_ = why;
  if (std::exchange(warned_, true)) return;
  log(LogLevel::kWarn, text(why, "; results are kept in memory only, see `dlblas info`"));
}

std::string Store::reason() const {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty()) return reason_;
  }
  if (trust_ == Trust::kAnyone) return {};
  const std::string root = probe_root(root_);
  return root.empty() ? open_child("results", Missing::kFail).reason : root;
}

StoreCounters Store::counters() const {
  return {hits_.load(), misses_.load(), published_.load(), quarantined_.load(),
          failed_writes_.load()};
}

int Store::write(const std::string& hash, const std::string& name, const std::string& text,
                 std::string* why) {
  int error = 0;
  // ENOENT: another process cleared the store between two of our steps. Start again; each clear can
  // cost one attempt, and clears are rare.
  for (int attempt = 0; attempt < 16; ++attempt) {
    const Folder folder = open_key(hash, Missing::kCreate);
    error = folder.fd ? write_file(folder.fd.get(), name, text) : folder.error;
    if (error == 0) error = sync_parents(folder.fd.get(), rooted_ ? kParents : kParentsAtFirst);
    if (error == 0) {
      rooted_ = true;
      break;
    }
    *why = !folder.reason.empty()
               ? folder.reason
               : dlblas::text("cache: ", root_, " cannot be written; ", std::strerror(error));
    if (error != ENOENT) break;
  }
  return error;
}

bool Store::publish(Record record) {
  if (trust_ == Trust::kAnyone) return false;  // the shipped table is not ours to change
  for (Record::Candidate& c : record.candidates)
    if (c.measured_at == 0) c.measured_at = now_ns();
  const std::string hash = key_hash(record.key);
  std::vector<detail::Packed> packed;
  if (const Flaw flaw = detail::pack(std::move(record), &packed); flaw != Flaw::kNone) {
    failed_writes_.fetch_add(1);
    log(LogLevel::kWarn, text("cache: a record is not valid; expected one that reads back, got \"",
                              name_of(flaw), "\"; it is dropped"));
    return false;
  }
  bool all_durable = true;
  for (detail::Packed& p : packed) {
    std::string why;
    const bool durable = write(hash, p.name, p.text, &why) == 0;
    if (!durable) report(why);
    (durable ? published_ : failed_writes_).fetch_add(1);
    all_durable &= durable;
    const std::lock_guard lock(mutex_);
    if (durable) reason_.clear();
    CacheEntry& entry = entries_[hash];
    entry.records[p.name] = {std::make_shared<const Record>(std::move(p.record)), durable};
    entry.skipped.erase(p.name);
    entry.merged = nullptr;
  }
  if (!all_durable) return false;
  const Folder folder = open_key(hash, Missing::kFail);
  const std::size_t records = folder.fd ? list_folder(folder.fd.get()).size() : 0;
  if (records > 0 && records % kCompactEvery == 0) compact_folder(hash);
  return true;
}

std::shared_ptr<const Merged> Store::load(const Fields& key) {
  const std::string hash = key_hash(key);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Merged> merged = refresh(hash);
  // A key without records leaves no entry behind: calls ask for one key per problem.
  if (const auto at = entries_.find(hash); at->second.records.empty() && at->second.skipped.empty())
    entries_.erase(at);
  (merged->rows.empty() ? misses_ : hits_).fetch_add(1);
  return merged;
}

KeyLock Store::lock_key(const Fields& key) const {
  if (trust_ == Trust::kAnyone || root_.empty()) return {};
  return KeyLock(open_child("locks", Missing::kCreate), key_hash(key));
}

// Brings an entry up to date. A concurrent compaction adds the merged file before it removes the
// sources, but one listing may miss both; so listings repeat until one adds nothing new. What an
// earlier round read stays: it is valid, and merging it twice changes nothing.
const std::shared_ptr<const Merged>& Store::refresh(const std::string& hash) {
  constexpr int kMaxRounds = 16;
  CacheEntry& entry = entries_[hash];
  const Folder folder = open_key(hash, Missing::kFail);
  std::set<std::string> seen;
  bool changed = !entry.merged, complete = false;
  for (int round = 0; folder.fd && round < kMaxRounds; ++round) {
    bool news = false;
    for (const std::string& name : list_folder(folder.fd.get(), false, &complete)) {
      if (!seen.insert(name).second || entry.records.count(name) || entry.skipped.count(name))
        continue;
      news = true;
      changed |= take(folder, hash, name, entry);
    }
    const bool all_there =
        std::all_of(entry.records.begin(), entry.records.end(),
                    [&](const auto& r) { return !r.second.durable || seen.count(r.first); });
    if (!news && (round > 0 || (all_there && !seen.empty()))) break;
  }
  // Nothing is forgotten merely because the folder could not be opened or listed (no descriptors
  // left, say).
  if (folder.fd ? complete : folder.error == ENOENT)
    changed |= std::erase_if(entry.records, [&](const auto& r) {
                 return r.second.durable && !seen.count(r.first);
               }) > 0;
  if (!changed) return entry.merged;

  auto merged = std::make_shared<Merged>();
  std::map<std::tuple<std::string, std::string, std::string>, Merged::Row> newest;
  for (const auto& [name, held] : entry.records) {
    merged->key = held.record->key;
    for (const Record::Candidate& c : held.record->candidates) {
      Merged::Row row{c, {held.record, &held.record->env}, name};
      const auto [at, fresh] = newest.try_emplace(identity(c), row);
      if (!fresh && newer(row, at->second)) at->second = std::move(row);
    }
  }
  for (auto& [id, row] : newest) merged->rows.push_back(std::move(row));
  merged->records = entry.records.size();
  entry.merged = std::move(merged);
  return entry.merged;
}

// Reads one file into the entry, or sets it aside. True when the entry changed.
bool Store::take(const Folder& folder, const std::string& hash, const std::string& name,
                 CacheEntry& entry) {
  Record record;
  const Flaw flaw = examine(folder.fd.get(), name, trust_, hash, name, &record);
  if (flaw == Flaw::kVanished || flaw == Flaw::kBusy) return false;
  if (flaw != Flaw::kNone) {
    if (!set_aside(folder, hash, name, flaw)) entry.skipped.insert(name);
    return false;
  }
  entry.records[name] = {std::make_shared<const Record>(std::move(record)), true};
  return true;
}

// Moves a bad file to quarantine/<start of the key's hash>-<name>.<reason>. False: it is still
// there. Between reading the bad file and moving it, another process may have published the very
// same record over it: the moved file is read again, and moved back if it is good. A file that
// merely could not be read is not moved at all.
bool Store::set_aside(const Folder& folder, const std::string& hash, const std::string& name,
                      Flaw flaw) {
  constexpr std::size_t kKeyPart = 16, kNamePart = 100;  // within NAME_MAX whatever the name was
  bool moved = false;
  if (trust_ == Trust::kOurs && flaw != Flaw::kUnreadable) {
    const Folder quarantine = open_child("quarantine", Missing::kCreate);
    std::string to =
        text(hash.substr(0, kKeyPart), "-", name.substr(0, kNamePart), ".", name_of(flaw));
    moved = quarantine.fd &&
            ::renameat(folder.fd.get(), name.c_str(), quarantine.fd.get(), to.c_str()) == 0;
    if (!moved && errno == ENOENT && quarantine.fd) return true;  // another process was faster
    Record record;
    if (moved && examine(quarantine.fd.get(), to, trust_, hash, name, &record) == Flaw::kNone)
      return ::renameat(quarantine.fd.get(), to.c_str(), folder.fd.get(), name.c_str()) == 0;
  }
  quarantined_.fetch_add(1);
  log(LogLevel::kInfo,
      text("cache: ", hash, "/", printable(name), " is not used; ", name_of(flaw)));
  return moved;
}

}  // namespace dlblas
