// Pulls the plug after every system call: the disk model, and its faults. See disk.hpp. Read
// next: crowds.cpp.
#include "disk.hpp"

#include "trial.hpp"

namespace dlblas::battery {

Disk::Disk(const std::string& root) : root_(root) {
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(root, none)) {
    auto inode = std::make_shared<Inode>();
    inode->folder = entry.is_directory();
    if (!inode->folder) inode->data = inode->synced = slurp(entry.path().string());
    now_[entry.path().string().substr(root.size() + 1)] = std::move(inode);
  }
  durable_ = now_;
}

bool Disk::below(const std::string& path, std::string* relative) const {
  if (path.size() <= root_.size() + 1 || path.compare(0, root_.size() + 1, root_ + "/") != 0)
    return false;
  *relative = path.substr(root_.size() + 1);
  return true;
}

// Every name in the folder, added or removed, is now on disk; the contents of its subfolders are
// not.
void Disk::sync_folder(const std::string& folder) {
  const auto inside = [&](const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return (slash == path.npos ? std::string() : path.substr(0, slash)) == folder;
  };
  std::erase_if(durable_, [&](const auto& name) { return inside(name.first); });
  for (const auto& [path, inode] : now_)
    if (inside(path)) durable_[path] = inode;
}

void Disk::apply(const DiskStep& step) {
  using What = DiskStep::What;
  std::string path, to;
  if (step.what == What::kSyncFolder && step.path == root_) return sync_folder("");
  if (!below(step.path, &path)) return;
  switch (step.what) {
    case What::kMakeFolder:
    case What::kCreate:
      // An open with O_CREAT of an existing file (the lock) changes nothing.
      if (!now_.count(path)) now_[path] = std::make_shared<Inode>();
      now_[path]->folder = step.what == What::kMakeFolder;
      return;
    case What::kWrite:
      if (now_.count(path)) now_[path]->data += step.bytes;
      return;
    case What::kSyncFile:
      if (now_.count(path)) now_[path]->synced = now_[path]->data;
      return;
    case What::kSyncFolder:
      return sync_folder(path);
    case What::kRename:
      if (!below(step.to, &to) || !now_.count(path)) return;
      now_[to] = now_[path];
      now_.erase(path);
      return;
    case What::kUnlink:
      now_.erase(path);
      return;
  }
}

Disk::Names Disk::found(Survived survived) const {
  if (survived == Survived::kNames || survived == Survived::kAll) return now_;
  Names names = durable_;
  if (survived == Survived::kRemovals)
    std::erase_if(names, [&](const auto& name) { return !now_.count(name.first); });
  return names;
}

void Disk::pull_the_plug(Survived survived, const std::string& to) const {
  // Sorted by path: a folder precedes its contents, and an entry without a folder is lost.
  for (const auto& [path, inode] : found(survived)) {
    const std::string full = to + "/" + path;
    if (::access(fs::path(full).parent_path().c_str(), F_OK) != 0) continue;
    if (inode->folder) {
      ::mkdir(full.c_str(), 0700);
    } else {
      spill(full, survived == Survived::kAll ? inode->data : inode->synced);
    }
  }
}

namespace {

// Records `body` on a store that `make` made, and pulls the plug after each of its steps, in every
// way. `check` receives the recovered root and whether all steps were done.
void after_every_step(
    Trial& t, const std::function<void(const std::string&)>& make,
    const std::function<void(const std::string&)>& body,
    const std::function<void(const std::string&, const std::string&, bool)>& check) {
  const Scratch scratch;
  make(scratch.root());
  const Disk before(scratch.path());
  const std::vector<DiskStep> steps = syscalls::record([&] { body(scratch.root()); });
  if (steps.size() < 4) t.stopped("nothing was recorded");
  Disk disk = before;
  for (std::size_t n = 0; n <= steps.size(); ++n) {
    if (n > 0) disk.apply(steps[n - 1]);
    for (const Survived survived : kSurvivals) {
      const Scratch found;
      disk.pull_the_plug(survived, found.path());
      t.tried();
      check(found.root(),
            "after step " + std::to_string(n) + ", survivors " +
                std::to_string(static_cast<int>(survived)),
            n == steps.size());
    }
  }
}

void while_keeping(Trial& t, const Subject& s) {
  constexpr int kBulk = 300;
  for (const bool first : {true, false})
    after_every_step(
        t,
        [&](const std::string& root) {
          if (!first) s.keep(root, 1, kBulk);
        },
        [&](const std::string& root) {
          if (!s.keep(root, 2, kBulk)) t.stopped("keeping");
        },
        [&](const std::string& root, const std::string& when, bool promised) {
          if (!first) t.expect_kept(s, root, 1, when, kBulk);
          const bool there = t.expect_whole(s, root, 2, when, kBulk);
          if (promised && !there) t.lost("promised, " + when);
          t.expect_goes_on(s, root, 3, when, kBulk);
        });
}

// One of the merged files may belong to another process that died after renaming it, before
// syncing.
void while_compacting(Trial& t, const Subject& s) {
  const auto make = [&](const std::string& root) {
    for (int id = 0; id < 4; ++id) s.keep(root, id, 3);
  };
  const auto check = [&](const std::string& root, const std::string& when, bool) {
    for (int id = 0; id < 4; ++id) t.expect_kept(s, root, id, when);
  };
  after_every_step(
      t, make, [](const std::string& root) { Store(root).compact(sample_key()); }, check);
  after_every_step(
      t, make,
      [&](const std::string& root) {
        // The first compaction dies before its first unlink and before it has synced names.
        std::string merged;
        {
          const Scratch other;
          make(other.root());
          Store(other.root()).compact(sample_key());
          const std::string folder = s.folders(other.root()).back();
          for (const auto& entry : fs::directory_iterator(folder)) merged = entry.path().string();
          const std::string name = fs::path(merged).filename().string();
          const std::string bytes = slurp(merged);
          const Fd fd(::open(s.folders(root).back().c_str(), O_RDONLY | O_DIRECTORY));
          syscalls::fail(5, EIO, syscalls::Which::kWriting);  // its last: the names
          write_file(fd.get(), name, bytes);
          syscalls::calm();
        }
        Store(root).compact(sample_key());
      },
      check);
}

}  // namespace

const std::vector<Fault>& disk_faults() {
  static const std::vector<Fault> faults = {
      {"plug pulled after every system call of keeping, modelled",
       "promised is there, the other whole or absent", while_keeping},
      {"plug pulled after every system call of compacting, modelled", "all rows there",
       while_compacting, true, false},
  };
  return faults;
}

}  // namespace dlblas::battery
