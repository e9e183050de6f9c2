// What `dlblas cache` does with a store: list, show, verify, clear, and compaction; see store.hpp.
// Read next: docs/store.md.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "store/store.hpp"

namespace dlblas {
namespace {

bool is_hash(const std::string& name) {
  return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

// Takes the store's lock, which serialises compactions; closing the descriptor releases it. Two
// compactions at once would only do the work twice, so a file system without locks simply never
// compacts.
Fd try_lock(int root) {
  Fd fd(::openat(root, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return Fd();
  return fd;
}

// Unlinks a folder's entries, except folders and the temporary files of writers that may be at
// work: removing one would cost them the record. Returns how many entries were removed.
std::int64_t empty_folder(int folder) {
  sweep_folder(folder);
  std::int64_t gone = 0;
  for (const std::string& name : list_folder(folder))
    gone += ::unlinkat(folder, name.c_str(), 0) == 0;
  return gone;
}

}  // namespace

std::vector<std::string> Store::key_folders() const {
  const Folder results = open_child("results", Missing::kFail);
  if (!results.fd) return {};
  std::vector<std::string> names = list_folder(results.fd.get());
  std::erase_if(names, [](const std::string& name) { return !is_hash(name); });
  return names;
}

std::vector<std::shared_ptr<const Merged>> Store::ls() {
  const std::lock_guard lock(mutex_);
  std::set<std::string> hashes;
  for (const auto& [hash, entry] : entries_) hashes.insert(hash);
  for (std::string& hash : key_folders()) hashes.insert(std::move(hash));
  std::vector<std::shared_ptr<const Merged>> all;
  for (const std::string& hash : hashes)
    if (const auto merged = refresh(hash); !merged->rows.empty()) all.push_back(merged);
  return all;
}

std::shared_ptr<const Merged> Store::show(const std::string& hash) {
  std::shared_ptr<const Merged> found;
  for (const std::shared_ptr<const Merged>& merged : ls()) {
    if (!key_hash(merged->key).starts_with(hash)) continue;
    if (found) return nullptr;
    found = merged;
  }
  return found;
}

StoreCheck Store::verify() {
  const std::lock_guard lock(mutex_);
  StoreCheck check;
  for (const std::string& hash : key_folders()) {
    const Folder folder = open_key(hash, Missing::kFail);
    if (!folder.fd) continue;
    // A fresh entry: a file that this process read before may be broken on the disk by now.
    CacheEntry fresh;
    const std::int64_t before = quarantined_.load();
    for (const std::string& name : list_folder(folder.fd.get()))
      check.good += take(folder, hash, name, fresh);
    check.bad += quarantined_.load() - before;
    if (trust_ == Trust::kOurs) sweep_folder(folder.fd.get());
  }
  return check;
}

std::int64_t Store::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  if (trust_ == Trust::kAnyone) return 0;
  std::int64_t gone = 0;
  for (const std::string& hash : key_folders()) gone += unlink_key(hash);
  for (const char* name : {"cubins", "quarantine"}) {
    const Folder folder = open_child(name, Missing::kFail);
    if (folder.fd) gone += empty_folder(folder.fd.get());
  }
  return gone;
}

std::int64_t Store::remove(const std::string& hash) {
  const std::lock_guard lock(mutex_);
  entries_.erase(hash);
  return trust_ == Trust::kOurs && is_hash(hash) ? unlink_key(hash) : 0;
}

std::int64_t Store::unlink_key(const std::string& hash) const {
  const Folder results = open_child("results", Missing::kFail);
  if (!results.fd) return 0;
  const Folder folder = open_folder(results.fd.get(), hash, trust_, Missing::kFail);
  const std::int64_t gone = folder.fd ? empty_folder(folder.fd.get()) : 0;
  ::unlinkat(results.fd.get(), hash.c_str(), AT_REMOVEDIR);
  return gone;
}

bool Store::compact_folder(const std::string& hash) {
  if (trust_ == Trust::kAnyone) return false;
  const Folder root = open_root(root_, trust_, Missing::kFail);
  const Fd turn = root.fd ? try_lock(root.fd.get()) : Fd();
  const Folder folder = turn ? open_key(hash, Missing::kFail) : Folder();
  if (!folder.fd) return false;
  const std::lock_guard lock(mutex_);
  refresh(hash);
  sweep_folder(folder.fd.get());
  return replace(folder, hash, entries_[hash]);
}

// Writes the merged records, then unlinks the sources they contain. At every point between, the
// files present merge to the same rows; a record published meanwhile is not among the sources and
// stays.
bool Store::replace(const Folder& folder, const std::string& hash, CacheEntry& entry) {
  std::map<Fields, Record> by_env;
  for (const Merged::Row& row : entry.merged->rows) {
    Record& record = by_env[*row.env];
    record.candidates.push_back(row.candidate);
  }
  std::vector<detail::Packed> packed;
  for (auto& [env, record] : by_env) {
    record.key = entry.merged->key;
    record.env = env;
    if (detail::pack(std::move(record), &packed) != Flaw::kNone) return false;
  }
  std::set<std::string> keep;
  for (const detail::Packed& p : packed) {
    keep.insert(p.name);
    const auto held = entry.records.find(p.name);
    const bool there = held != entry.records.end() && held->second.durable;
    std::string why;
    if (!there && write(hash, p.name, p.text, &why) != 0) return false;
  }
  // A merged record that exists already may be another process's, not synced yet: its name must be
  // durable before a source is removed.
  if (sync_names(folder.fd.get()) != 0 || after(StoreStep::kMerged) != 0) return false;
  for (const auto& [name, held] : entry.records) {
    if (!held.durable || keep.count(name)) continue;
    ::unlinkat(folder.fd.get(), name.c_str(), 0);
    if (after(StoreStep::kSourceUnlinked) != 0) return false;
  }
  // Not synced: a source that comes back after a power cut is merged again to the same rows.
  return true;
}

}  // namespace dlblas
