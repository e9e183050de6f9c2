// One result of tuning as plain values, and its text: what the store keeps, one small file per
// record. In: names, texts and numbers; nothing here knows operators, problems or devices. Out:
// UTF-8 lines that begin with `dlblas-result 1`, end with a SHA-256 of everything before, and read
// back to the same values or not at all. Flow: the tuner publishes, select loads.  Read next:
// store/store.hpp; docs/store.md.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dlblas {

inline constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 20;
/// The latest time that a record may have, in 2261: the largest number would leave no later time
/// for future runs.
inline constexpr std::int64_t kLatestStamp = 9'200'000'000'000'000'000;

struct Record {
  /// One `name value` pair. Names are [a-z0-9_.]{1,64}; values are UTF-8 without control
  /// characters.
  struct Field {
    std::string name, value;
    friend auto operator<=>(const Field&, const Field&) = default;
    friend bool operator==(const Field&, const Field&) = default;
  };

  /// One measured (implementation, source, configuration), or how it failed.
  struct Candidate {
    std::string implementation;
    std::string source_hash;
    std::string config;              // KnobTable::print's text; the reader re-validates it
    std::vector<double> samples_ms;  // raw; at least one unless `failure` says why there is none
    std::string failure;  // empty: ok; else its kind, "wrong_result", "launch_error", …
    std::string note;     // the failure's own words, in one line; may be empty
    double error = 0;     // worst |out − ref| over its bound, ≤ 1 is right; NaN, inf: 1e300
    bool is_default = false;
    std::int64_t measured_at = 0;  // unix nanoseconds; 0: `publish` stamps it
    friend bool operator==(const Candidate&, const Candidate&) = default;
  };

  std::vector<Field> key;  // what the result is for; hashed, it names the folder
  std::vector<Field> env;  // driver, compiler, version, strategy, seed, budget, …
  std::vector<Candidate> candidates;
  friend bool operator==(const Record&, const Record&) = default;
};
using Fields = std::vector<Record::Field>;

/// Why a file or a text is not a record. Each has its own name (name_of), the suffix in
/// quarantine/.
enum class Flaw {
  kNone,
  kTooLong,      // above kMaxRecordBytes
  kTruncated,    // no closing digest line
  kDigest,       // the digest is another one
  kVersion,      // not `dlblas-result 1`
  kEncoding,     // not UTF-8, or a control character
  kUnknownLine,  // a line, name or field that no record has
  kDuplicate,    // the same name, or the same candidate, twice
  kUnsorted,     // names or sections out of order
  kNumber,       // not finite, negative, not written the shortest way, a time after kLatestStamp
  kMissing,      // no key, no candidate, a candidate without a field, or without sample and failure
  kWrongName,    // the file is not named by its digest
  kWrongKey,     // the key inside does not hash to the folder's name: moved or copied
  kNotRegular,   // a symlink, FIFO, socket, device or folder
  kForeign,      // owned by, or writable by, another user
  kUnreadable,   // the system refused to read it: it is passed over where it lies, never moved
  kBusy,         // out of descriptors or memory: nothing wrong with the file
  kVanished,     // gone since it was listed: compacted or cleared by another process
};
std::string_view name_of(Flaw flaw);

/// Key and environment sorted by name: the form that print writes and parse yields.
void sort_fields(Fields& fields);

/// The text of a record, digest included. The text of an invalid record (a newline in a value) may
/// be unreadable: parse it before you keep it, as `Store::publish` does.
std::string print(const Record& record);

/// Strict inverse of print; never throws on what the text holds. `*out` is set only for
/// Flaw::kNone.
Flaw parse(std::string_view text, Record* out);

/// `body` (whole lines) with its closing digest line.
std::string seal(std::string body);

/// The digest in the closing line of a text that parse accepted: the record's file name.
std::string_view digest_of(std::string_view text);

/// SHA-256 of the sorted key's lines: the folder's name.
std::string key_hash(const Fields& key);

}  // namespace dlblas
