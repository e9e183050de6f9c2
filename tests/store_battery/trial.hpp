// The parts of every fault of the battery: a subject that is stored (results or cubins, through one
// interface), and the counts of what was tried, lost, wrongly used, or stopped the library. Faults
// are functions in tables; main.cpp runs them all and prints the table of docs/reliability.md. Read
// next: tests/store_battery/damage.cpp.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "battery.hpp"

namespace dlblas::battery {

/// What a process that has never seen the store reads for one id.
enum class Seen { kAbsent, kGood, kWrong };

/// Results or cubins. The id determines the content, bit for bit; `bulk` determines its length.
struct Subject {
  std::string_view name;
  /// The folder under the root that holds the files, preceded by the root and the folders in
  /// between.
  std::vector<std::string> (*folders)(const std::string& root);
  bool (*keep)(const std::string& root, int id, int bulk);  // true: promised to be on the disk
  Seen (*look)(const std::string& root, int id, int bulk);
  std::string (*bytes)(int id, int bulk);        // of its file
  std::string (*file_name)(int id, int bulk);    // within the last folder
  std::string (*reseal)(std::string_view body);  // a body with a digest that holds
  std::size_t digest_bytes;                      // that end a file

  std::string file(const std::string& root, int id, int bulk = 3) const {
    return folders(root).back() + "/" + file_name(id, bulk);
  }
  std::string body(int id, int bulk = 3) const {
    const std::string all = bytes(id, bulk);
    return all.substr(0, all.size() - digest_bytes);
  }
};
extern const Subject kResults, kCubins;

/// The counts of one fault on one subject.
class Trial {
 public:
  Trial(bool whole, std::uint64_t seed) : whole_(whole), random_(seed) {}

  /// Which of 0 … n − 1 are tried: all, or in a sampled run about `some`, including both ends.
  std::vector<int> pick(int n, int some = 24);
  std::mt19937_64& random() { return random_; }
  bool whole() const { return whole_; }

  void tried(int n = 1) { tried_ += n; }
  void lost(const std::string& what) { ++lost_, complain("lost: " + what); }
  void wrong(const std::string& what) { ++wrong_, complain("wrongly used: " + what); }
  void stopped(const std::string& what) { ++stopped_, complain("stopped: " + what); }
  /// This machine or this user cannot try it; reported in the table.
  void not_here(const std::string& why) { not_here_ = why; }

  /// Must be good; absent counts as lost, anything else as wrong.
  void expect_kept(const Subject& s, const std::string& root, int id, const std::string& when,
                   int bulk = 3);
  /// Must be absent; anything else counts as wrongly used.
  void expect_unused(const Subject& s, const std::string& root, int id, const std::string& when,
                     int bulk = 3);
  /// Must be whole or absent; returns which.
  bool expect_whole(const Subject& s, const std::string& root, int id, const std::string& when,
                    int bulk = 3);
  /// Storing one more must work, and it must be there.
  void expect_goes_on(const Subject& s, const std::string& root, int id, const std::string& when,
                      int bulk = 3);

  std::int64_t num_tried() const { return tried_; }
  std::int64_t num_lost() const { return lost_; }
  std::int64_t num_wrong() const { return wrong_; }
  std::int64_t num_stopped() const { return stopped_; }
  const std::string& why_not_here() const { return not_here_; }
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void complain(const std::string& what) {
    if (complaints_.size() < 8) complaints_.push_back(what);
  }
  const bool whole_;
  std::mt19937_64 random_;
  std::int64_t tried_ = 0, lost_ = 0, wrong_ = 0, stopped_ = 0;
  std::string not_here_;
  std::vector<std::string> complaints_;
};

struct Fault {
  const char* name;
  const char* asserted;
  void (*run)(Trial&, const Subject&);
  bool results = true, cubins = true;
};
/// One table per file; main.cpp concatenates them.
const std::vector<Fault>& damage_faults();
const std::vector<Fault>& trust_faults();
const std::vector<Fault>& death_faults();
const std::vector<Fault>& disk_faults();
const std::vector<Fault>& crowd_faults();
const std::vector<Fault>& surroundings_faults();

/// One attack on a user's store, tried on its own.
struct Attack {
  const char* name;
  void (*run)(Trial&);
};
const std::vector<Attack>& file_attacks();
const std::vector<Attack>& folder_attacks();
const std::vector<Attack>& content_attacks();

}  // namespace dlblas::battery
