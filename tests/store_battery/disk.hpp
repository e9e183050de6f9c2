// A disk that keeps only what was synced: replays recorded system calls up to any point, then pulls
// the plug. In: the steps, and the tree they started from (all of it durable). Out: the tree that a
// machine would find, in the worst orders that POSIX allows. Read next: disk.cpp.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "syscalls.hpp"

namespace dlblas::battery {

/// How much of the unsynced state may have reached the disk.
enum class Survived {
  kNothing,   // names and data that no sync covered are gone
  kNames,     // every name is there, unsynced data is not: empty files
  kRemovals,  // names that went are gone, new ones are not there yet
  kAll,       // as after kill -9
};
inline constexpr Survived kSurvivals[] = {Survived::kNothing, Survived::kNames, Survived::kRemovals,
                                          Survived::kAll};

class Disk {
 public:
  /// Starts from the tree at `root`, read now; ignores steps whose paths lie elsewhere.
  explicit Disk(const std::string& root);
  void apply(const DiskStep& step);
  /// Writes what remains after the plug was pulled into the folder `to`.
  void pull_the_plug(Survived survived, const std::string& to) const;

 private:
  struct Inode {
    bool folder = false;
    std::string data, synced;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;  // by path below the root
  bool below(const std::string& path, std::string* relative) const;
  void sync_folder(const std::string& folder);
  Names found(Survived survived) const;

  const std::string root_;
  Names now_, durable_;
};

}  // namespace dlblas::battery
