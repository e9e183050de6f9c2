// The memory of the library: what tuning measured, kept permanently and shared by every process of
// a user. In: records (key, environment, candidates). Out: all that any process ever published for
// a key, merged. Failing disks, hostile folders and broken files cost a re-measurement, never a
// wrong result or an exception. Flow: select and get_op load, the tuner publishes, `dlblas cache`
// maintains.  Read next: docs/store.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/key_lock.hpp"
#include "store/record.hpp"

namespace dlblas {

/// All records of one key as one: for each (implementation, source, configuration) its newest
/// samples. "Newest" is the greater (measured_at, record name). A clock that went backwards can
/// therefore let an older measurement of the *same* code win; it never hides another candidate.
struct Merged {
  struct Row {
    Record::Candidate candidate;
    std::shared_ptr<const Fields> env;  // of the record it was measured in
    std::string record;                 // that record's name
  };
  Fields key;
  std::vector<Row> rows;    // sorted by implementation, source hash, configuration
  std::size_t records = 0;  // how many were merged
};

/// One store's activity in this process.
struct StoreCounters {
  std::int64_t hits = 0, misses = 0;  // loads that found records, or none
  std::int64_t published = 0;         // records that are on the disk
  std::int64_t quarantined = 0;       // files set aside, or skipped where they could not be moved
  std::int64_t failed_writes = 0;     // records kept in memory only, or refused
};

struct StoreCheck {
  std::int64_t good = 0, bad = 0;  // record files; the bad ones are in quarantine/ now
};

/// A time stamp for a measurement made now. It is later than `newest`, the newest stamp known,
/// whatever the clock says: one that was ahead once must not win for good.
std::int64_t stamp_after(std::int64_t newest);

/// Thread-safe. Loads hold a mutex while they read; publishing writes and syncs without it.
class Store {
 public:
  /// The user's store: `v1` in core/env's cache_root(). Never destroyed.
  static Store& process();
  /// A store in the folder `root`, created by the first publish. An empty root means memory only.
  explicit Store(const std::string& root) : Store(root, Trust::kOurs) {}
  /// The table shipped in the package, read only: same layout, anyone's folder, bad files are
  /// skipped.
  static Store shipped(const std::string& path) { return Store(path, Trust::kAnyone); }

  /// Keeps a record: on the disk, else in this process with one warning. True: it is on the disk
  /// and survives a crash from here on. A candidate without a time is stamped now; a record too
  /// long for one file is split into several. A record that could not be read back (a control
  /// character, a NaN sample) is refused and logged.
  bool publish(Record record);

  /// All that is known for a key; never null, possibly without rows. Lists the key's folder and
  /// reads only names it has not read before: names are content hashes, so what another process
  /// published or cleared is seen at the next load, and a repeated load costs one listing.
  std::shared_ptr<const Merged> load(const Fields& key);

  /// The lock that says "this process searches the key now", if no other process has it.
  KeyLock lock_key(const Fields& key) const;

  /// Every key that has records.
  std::vector<std::shared_ptr<const Merged>> ls();
  /// One of them by its key_hash, or a prefix that only it has; null when there is none or several.
  std::shared_ptr<const Merged> show(const std::string& hash);
  /// Reads every file again, sets bad ones aside, removes leftovers of killed writers.
  StoreCheck verify();
  /// Removes all records, compiled kernels and the quarantine, here and on the disk; returns how
  /// many files were removed.
  std::int64_t clear();
  /// Removes the records of one key, by its whole key_hash, here and on the disk; returns how many
  /// files were removed.
  std::int64_t remove(const std::string& hash);
  /// Rewrites a key's records as few: one per environment, superseded samples dropped. Safe to kill
  /// at any point: sources are removed only after the merged ones are synced. False if another
  /// process is compacting, or the disk refused. `publish` calls it at every 32nd record of a key.
  bool compact(const Fields& key) { return compact_folder(key_hash(key)); }

  const std::string& path() const { return root_; }
  /// Why results are kept in memory only; empty while the disk takes them.
  std::string reason() const;
  StoreCounters counters() const;

 private:
  struct Held {
    std::shared_ptr<const Record> record;
    bool durable;  // it has a file; it is forgotten when the file goes
  };
  /// What this process knows about one key.
  struct CacheEntry {
    std::map<std::string, Held> records;  // by name
    std::set<std::string> skipped;        // bad files that could not be moved away
    std::shared_ptr<const Merged> merged;
  };

  Store(const std::string& root, Trust trust);

  Folder open_child(const std::string& name, Missing missing) const;
  Folder open_key(const std::string& hash, Missing missing) const;
  std::vector<std::string> key_folders() const;
  std::int64_t unlink_key(const std::string& hash) const;
  int write(const std::string& hash, const std::string& name, const std::string& text,
            std::string* why);
  void report(const std::string& why);

  // Call these with the mutex held.
  const std::shared_ptr<const Merged>& refresh(const std::string& hash);
  bool take(const Folder& folder, const std::string& hash, const std::string& name,
            CacheEntry& entry);
  bool set_aside(const Folder& folder, const std::string& hash, const std::string& name, Flaw flaw);

  bool compact_folder(const std::string& hash);
  bool replace(const Folder& folder, const std::string& hash, CacheEntry& entry);

  const std::string root_;
  const Trust trust_;
  mutable std::mutex mutex_;
  std::map<std::string, CacheEntry> entries_;  // by key_hash
  std::string reason_;
  bool warned_ = false;
  std::atomic<bool> rooted_{false};  // the folders above the root are on the disk
  std::atomic<std::int64_t> hits_{0}, misses_{0}, published_{0}, quarantined_{0}, failed_writes_{0};
};

namespace detail {
/// A record and its text, ready to be a file.
struct Packed {
  std::string name, text;
  Record record;
};
/// Prints a record, in halves where it is too long, and parses it back: what the reader would
/// refuse is never written. `out` is complete only for Flaw::kNone.
Flaw pack(Record record, std::vector<Packed>* out);
}  // namespace detail

}  // namespace dlblas
