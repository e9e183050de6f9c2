// Many processes at once: 16 on 200 keys; 64 writers, any of which may be killed at any moment,
// while others compact, verify and clear nothing. Everything a process was told is stored must be
// there. Read next: attacks_files.cpp.
#include <sys/mman.h>

#include "jit/disk_cache.hpp"
#include "trial.hpp"

namespace dlblas::battery {
namespace {

/// Promises made by any process, killed or not: one byte each in shared memory.
class Ledger {
 public:
  explicit Ledger(std::size_t n)
      : size_(n),
        bytes_(static_cast<char*>(
            ::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Ledger() { ::munmap(bytes_, size_); }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  void promise(std::size_t at) { __atomic_store_n(bytes_ + at, 1, __ATOMIC_RELEASE); }
  bool promised(std::size_t at) const { return __atomic_load_n(bytes_ + at, __ATOMIC_ACQUIRE); }

 private:
  const std::size_t size_;
  char* const bytes_;
};

// Each process writes every key in its own order: for results its own candidate per key, for cubins
// the same content as all others.
void sixteen_by_200(Trial& t, const Subject& s) {
  const int processes = 16, keys = t.whole() ? 200 : 40;
  const bool results = &s == &kResults;
  const Scratch scratch;
  Ledger ledger(static_cast<std::size_t>(processes * keys));
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p)
    children.push_back(spawn([&] {
      ::alarm(300);
      Store store(scratch.root());
      for (int i = 0; i < keys; ++i) {
        const int key = (i * 7 + p * 13) % keys;
        const bool kept =
            results ? store.publish(sample_record(p, key)) : s.keep(scratch.root(), key, 3);
        if (kept) ledger.promise(static_cast<std::size_t>(p * keys + key));
        // A process sees its own record at once, whatever the others do.
        if (results && !store.load(sample_key(key))->rows.size()) return 1;
        if (!results && s.look(scratch.root(), key, 3) != Seen::kGood) return 1;
      }
      return 0;
    }));
  for (const pid_t child : children)
    if (!succeeded(wait_for(child))) t.stopped("a process of the crowd");
  t.tried(processes * keys);
  for (int key = 0; key < keys; ++key) {
    Store store(scratch.root());
    const Rows found = results ? rows_of(*store.load(sample_key(key))) : Rows();
    if (found.wrong) t.wrong("key " + std::to_string(key));
    for (int p = 0; p < processes; ++p) {
      const std::string label = "process " + std::to_string(p) + ", key " + std::to_string(key);
      if (!ledger.promised(static_cast<std::size_t>(p * keys + key))) t.stopped(label);
      if (results && !found.ids.count(p)) t.lost(label);
    }
    if (!results) t.expect_kept(s, scratch.root(), key, "key " + std::to_string(key));
  }
  if (results ? Store(scratch.root()).verify().bad : jit::detail::verify_cubins(scratch.root()).bad)
    t.wrong("a bad file was made");
}

// 64 writers: a random one is killed and replaced, again and again, while two more processes
// compact or verify without pause.
void writers_killed(Trial& t, const Subject& s) {
  constexpr int kWriters = 64, kEach = 12;
  const int kills = t.whole() ? 300 : 40;
  const bool results = &s == &kResults;
  const Scratch scratch;
  const int generations = kWriters + kills;
  Ledger ledger(static_cast<std::size_t>(generations * kEach));
  const auto start = [&](int generation) {
    return spawn([&] {
      ::alarm(300);
      for (int i = 0; i < kEach; ++i) {
        const int id = generation * kEach + i;
        if (s.keep(scratch.root(), id, 3)) ledger.promise(static_cast<std::size_t>(id));
      }
      return 0;
    });
  };
  std::vector<pid_t> keepers;
  for (int k = 0; k < 2; ++k)
    keepers.push_back(spawn([&] {
      ::alarm(300);
      for (;;) {
        if (!results)
          jit::detail::verify_cubins(scratch.root());
        else if (k == 0)
          Store(scratch.root()).compact(sample_key());
        else
          Store(scratch.root()).verify();
        ::usleep(2000);
      }
      return 0;
    }));
  std::vector<pid_t> writers;
  int next = 0;
  while (next < kWriters) writers.push_back(start(next++));
  for (int n = 0; n < kills; ++n) {
    ::usleep(static_cast<useconds_t>(t.random()() % 3000));
    pid_t& victim = writers[t.random()() % kWriters];
    ::kill(victim, SIGKILL);
    wait_for(victim);
    victim = start(next++);
  }
  for (const pid_t writer : writers)
    if (!succeeded(wait_for(writer))) t.stopped("a writer");
  for (const pid_t keeper : keepers) {
    ::kill(keeper, SIGKILL);
    wait_for(keeper);
  }
  t.tried(kills);
  int promised = 0;
  Store store(scratch.root());
  const Rows found = results ? rows_of(*store.load(sample_key())) : Rows();
  for (int id = 0; id < generations * kEach; ++id) {
    if (!ledger.promised(static_cast<std::size_t>(id))) continue;
    ++promised;
    if (results ? !found.ids.count(id) : s.look(scratch.root(), id, 3) != Seen::kGood)
      t.lost("promised " + std::to_string(id));
  }
  if (found.wrong) t.wrong("rows that were not published");
  if (promised < kWriters * kEach / 2) t.stopped("hardly anything was kept");
  if (store.verify().bad) t.wrong("a bad file was made");
  t.expect_goes_on(s, scratch.root(), 1 << 20, "after the crowd");
}

}  // namespace

const std::vector<Fault>& crowd_faults() {
  static const std::vector<Fault> faults = {
      {"16 processes x 200 keys at once", "each finds its own, at the end all are there",
       sixteen_by_200},
      {"64 writers under random SIGKILL, compacted and verified meanwhile",
       "all that was promised is there", writers_killed},
  };
  return faults;
}

}  // namespace dlblas::battery
