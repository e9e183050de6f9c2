// Results and cubins as the battery handles them, and what a Trial expects of them; see trial.hpp.
#include "jit/disk_cache.hpp"
#include "store/sha256.hpp"
#include "trial.hpp"

namespace dlblas::battery {
namespace {

const std::string kCompiler = "13.0";

std::string cubin_digest(int id) { return sha256_hex("cubin " + std::to_string(id)).substr(0, 40); }

jit::Cubin sample_cubin(int id, int bulk) {
  jit::Cubin c;
  c.image =
      "\x7f"
      "ELF";
  std::mt19937 random(static_cast<unsigned>(id));
  for (int i = 0; i < 16 * bulk; ++i) c.image += static_cast<char>(random());
  c.symbol = "_Z4kern" + std::to_string(id);
  c.registers = 40 + id, c.spill_bytes = 8, c.stack_bytes = 16, c.shared_bytes = 1024;
  return c;
}

bool same(const jit::Cubin& a, const jit::Cubin& b) {
  return a.image == b.image && a.symbol == b.symbol && a.registers == b.registers &&
         a.spill_bytes == b.spill_bytes && a.stack_bytes == b.stack_bytes &&
         a.shared_bytes == b.shared_bytes;
}

// Every row must be a published one, whichever id is requested.
Seen look_result(const std::string& root, int id, int bulk) {
  Store store(root);
  const Rows rows = rows_of(*store.load(sample_key()), bulk);
  if (rows.wrong) return Seen::kWrong;
  return rows.ids.count(id) ? Seen::kGood : Seen::kAbsent;
}

Seen look_cubin(const std::string& root, int id, int bulk) {
  jit::Cubin cubin;
  if (!jit::detail::read_cubin(root, cubin_digest(id), kCompiler, &cubin)) return Seen::kAbsent;
  return same(cubin, sample_cubin(id, bulk)) ? Seen::kGood : Seen::kWrong;
}

}  // namespace

const Subject kResults = {
    "results",
    [](const std::string& root) {
      return std::vector<std::string>{root, root + "/results", key_folder(root)};
    },
    [](const std::string& root, int id, int bulk) {
      return Store(root).publish(sample_record(id, 0, bulk));
    },
    look_result,
    [](int id, int bulk) { return print(sample_record(id, 0, bulk)); },
    [](int id, int bulk) { return std::string(digest_of(print(sample_record(id, 0, bulk)))); },
    [](std::string_view body) { return seal(std::string(body)); },
    72};

const Subject kCubins = {
    "cubins",
    [](const std::string& root) {
      return std::vector<std::string>{root, root + "/cubins"};
    },
    [](const std::string& root, int id, int bulk) {
      return jit::detail::write_cubin(root, cubin_digest(id), kCompiler, sample_cubin(id, bulk));
    },
    look_cubin,
    [](int id, int bulk) {
      return jit::detail::pack(cubin_digest(id), kCompiler, sample_cubin(id, bulk));
    },
    [](int id, int) { return cubin_digest(id) + "-" + kCompiler; },
    [](std::string_view body) { return std::string(body) + sha256_hex(body); },
    64};

std::vector<int> Trial::pick(int n, int some) {
  std::vector<int> all;
  for (int i = 0; i < n; ++i)
    if (whole_ || n <= some || i == 0 || i == n - 1 ||
        random_() % static_cast<unsigned>(n) < static_cast<unsigned>(some))
      all.push_back(i);
  return all;
}

void Trial::expect_kept(const Subject& s, const std::string& root, int id, const std::string& when,
                        int bulk) {
  const Seen seen = s.look(root, id, bulk);
  if (seen == Seen::kAbsent) lost(when);
  if (seen == Seen::kWrong) wrong(when);
}

void Trial::expect_unused(const Subject& s, const std::string& root, int id,
                          const std::string& when, int bulk) {
  if (s.look(root, id, bulk) != Seen::kAbsent) wrong(when);
}

bool Trial::expect_whole(const Subject& s, const std::string& root, int id, const std::string& when,
                         int bulk) {
  const Seen seen = s.look(root, id, bulk);
  if (seen == Seen::kWrong) wrong(when);
  return seen == Seen::kGood;
}

void Trial::expect_goes_on(const Subject& s, const std::string& root, int id,
                           const std::string& when, int bulk) {
  if (!s.keep(root, id, bulk) || s.look(root, id, bulk) != Seen::kGood) stopped(when);
}

}  // namespace dlblas::battery
