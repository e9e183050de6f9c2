// `dlblas_cache`: lists the store and maintains it. A command is one word; its arguments follow,
// one per line. Output is JSON; input (a file, another store) is checked record by record.
// Read next: store/exchange.hpp, store/rules.hpp.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "bindings/c/guard.hpp"
#include "core/json.hpp"
#include "dispatch/dispatch.hpp"
#include "jit/disk_cache.hpp"
#include "store/exchange.hpp"
#include "store/rules.hpp"

namespace dlblas {
namespace {

using Words = std::vector<std::string>;

[[noreturn]] void refuse_argument(const char* argument, const std::string& problem,
                                  const std::string& expected, const std::string& got,
                                  const std::string& advice) {
  refuse(ErrorKind::kArgument, "cache", {argument, problem, expected, got, advice});
}

void write_record(JsonWriter& w, const Merged& merged, bool candidates) {
  w.open_object().field("hash", key_hash(merged.key)).key("key").open_object();
  for (const auto& [name, value] : merged.key) w.field(name, value);
  w.close_object().field("records", static_cast<std::int64_t>(merged.records));
  w.field("rows", static_cast<std::int64_t>(merged.rows.size()));
  if (candidates) {
    w.key("candidates").open_array();
    for (const Merged::Row& row : merged.rows) {
      const Record::Candidate& c = row.candidate;
      w.open_object().field("implementation", c.implementation).field("source_hash", c.source_hash);
      w.field("config", c.config)
          .field("failure", c.failure)
          .field("note", c.note)
          .field("error", c.error);
      w.field("default", c.is_default).field("record", row.record).key("samples_ms").open_array();
      for (double ms : c.samples_ms) w.value(ms);
      w.close_array().field("measured_at", c.measured_at).key("env").open_object();
      for (const auto& [name, value] : *row.env) w.field(name, value);
      w.close_object().close_object();
    }
    w.close_array();
  }
  w.close_object();
}

// `pin\nop\nname`: the command, then one argument per line; a space may follow the command instead.
Words split(std::string_view command) {
  std::size_t end = std::min(command.find_first_of(" \n"), command.size());
  Words words{std::string(command.substr(0, end))};
  while (end < command.size()) {
    command.remove_prefix(end + 1);
    end = std::min(command.find('\n'), command.size());
    words.emplace_back(command.substr(0, end));
  }
  return words;
}

void forget_all() {
  for (const Operator* op : Registry::process().operators()) forget(*op);
}

std::string absolute(const std::string& path) {
  if (path.empty())
    refuse_argument("path", "is empty", "a file's or folder's name", "none", "name one");
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed);
  if (failed)
    refuse_argument("path", "is relative to a folder that is gone",
                    "an absolute path, or a current folder",
                    text(path, " (", failed.message(), ")"), "name it from the root");
  return whole.lexically_normal().string();
}

void write_keys(JsonWriter& w, Store& store) {
  w.key("keys").open_array();
  for (const auto& merged : store.ls()) write_record(w, *merged, false);
  w.close_array();
}

std::string op_of(const Fields& key) {
  for (const Record::Field& f : key)
    if (f.name == "op") return f.value;
  return {};
}

std::shared_ptr<const Merged> known_key(Store& store, const std::string& prefix) {
  auto merged = store.show(prefix);
  if (!merged)
    refuse_argument("key", "is not in the store", "a hash, or a prefix that only one key has",
                    prefix, "`dlblas cache ls` lists them");
  return merged;
}

// A rule outlives the records it was made for, so lifting one also searches the rules' keys.
// Returns the key's hash and the operator it belongs to, empty where the record does not say.
std::pair<std::string, std::string> ruled_key(Store& store, const std::string& prefix) {
  std::map<std::string, std::string> found;
  for (const auto& merged : store.ls())
    if (const std::string hash = key_hash(merged->key); hash.starts_with(prefix))
      found.emplace(hash, op_of(merged->key));
  Rules::process().refresh();  // another process may have decided since
  for (const Rule& rule : *Rules::process().current())
    if (!rule.key.empty() && rule.key.starts_with(prefix)) found.emplace(rule.key, rule.op);
  if (found.empty() || found.size() > 1)
    refuse_argument("key", found.empty() ? "is of no record and no rule" : "stands for several",
                    "a hash, or a prefix that only one key has", prefix,
                    "`dlblas cache rules` and `dlblas cache ls` list them");
  return *found.begin();
}

void write_verify(JsonWriter& w, Store& store) {
  const StoreCheck check = store.verify();
  const jit::CubinCheck cubins = jit::verify_cubins();
  w.field("good", check.good).field("bad", check.bad);
  w.field("good_cubins", cubins.good).field("bad_cubins", cubins.bad);
  w.field("bad_rules", Rules::process().verify());
}

// Removes one key's records or, if the key is empty, those of all keys of an operator (the operator
// need not be registered).
void remove_records(JsonWriter& w, Store& store, const std::string& key, const std::string& op) {
  if (key.empty() == op.empty())
    refuse_argument("key", "is not the one word", "either a key or an operator",
                    key.empty() ? "none" : "both", "write rm KEY, or rm --op NAME");
  std::vector<std::string> hashes;
  if (!key.empty()) hashes.push_back(key_hash(known_key(store, key)->key));
  const Form* form = op.empty() ? nullptr : Registry::process().find(op);
  const std::string& name = form ? form->op->schema.name : op;
  for (const auto& merged : store.ls())
    if (!op.empty() && op_of(merged->key) == name) hashes.push_back(key_hash(merged->key));
  if (hashes.empty() && !form) Registry::process().at(op);  // an unknown operator, in words
  std::int64_t removed = 0;
  for (const std::string& hash : hashes) removed += store.remove(hash);
  forget_all();
  w.field("keys", static_cast<std::int64_t>(hashes.size())).field("removed", removed);
}

void write_compact(JsonWriter& w, Store& store) {
  std::int64_t keys = 0, failed = 0, records = 0;
  for (const auto& merged : store.ls()) {
    ++keys;
    failed += !store.compact(merged->key);
    records += static_cast<std::int64_t>(store.load(merged->key)->records);
  }
  w.field("keys", keys).field("failed", failed).field("records", records);
}

const char* kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

// The export is renamed into place, which would put a regular file where a FIFO, device node or
// link was: replaces only regular files.
void refuse_irregular(const Folder& folder, const std::filesystem::path& file) {
  struct stat st;
  const std::string name = file.filename().string();
  if (!folder.fd || ::fstatat(folder.fd.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (!S_ISREG(st.st_mode))
    refuse_argument("path", "is there and is no regular file", "a new name, or a regular file's",
                    text(file.string(), " (", kind_of(st.st_mode), ")"),
                    "give the name of a new or a regular file; nothing was written");
}

void export_to(JsonWriter& w, Store& store, const std::string& path) {
  const std::filesystem::path file = absolute(path);
  if (!file.has_filename())  // ".", "..", "name/"
    refuse_argument("path", "names a folder", "a new name, or a regular file's", file.string(),
                    "add the name of a new or a regular file; nothing was written");
  const Folder folder = open_root(file.parent_path().string(), Trust::kAnyone, Missing::kFail);
  refuse_irregular(folder, file);
  const std::string all = export_text(store);
  const int error =
      folder.fd ? write_file(folder.fd.get(), file.filename().string(), all) : folder.error;
  if (error != 0)
    refuse_argument("path", "cannot be written", "a file in a folder that exists",
                    text(file.string(), " (", std::strerror(error), ")"),
                    "choose a folder that you may write, on a disk with room");
  std::vector<std::string_view> records;
  split_export(all, &records);
  w.field("file", file.string()).field("records", static_cast<std::int64_t>(records.size()));
}

void write_exchange(JsonWriter& w, const Exchange& exchange) {
  if (!exchange.failed.empty())
    refuse(ErrorKind::kTuning, "cache",
           {"store", "cannot be written", "a store that takes records", exchange.failed,
            "what was read before stays; make room, or set DLBLAS_CACHE, and import again"});
  w.field("imported", exchange.records).field("known", exchange.known).key("refused").open_array();
  for (const std::string& line : exchange.refused) w.value(line);
  w.close_array();
  forget_all();
}

// The store's messages are about its own files; these are about a user's.
std::string words_of(Flaw flaw) {
  switch (flaw) {
    case Flaw::kVanished:
      return "there is none";
    case Flaw::kNotRegular:
      return "it is no file";
    case Flaw::kUnreadable:
      return "it may not be read";
    case Flaw::kVersion:
      return "it is of another version of the format";
    case Flaw::kTruncated:
    case Flaw::kMissing:
      return "its end is missing";
    case Flaw::kDigest:
      return "its digest is another one: it was changed or cut";
    default:
      return std::string(name_of(flaw));
  }
}

void import_from(JsonWriter& w, Store& store, const std::string& path) {
  const std::string file = absolute(path);
  std::string all;
  Flaw flaw = read_file(AT_FDCWD, file, Trust::kAnyone, &all, kMaxExportBytes);
  std::vector<std::string_view> records;
  if (flaw == Flaw::kNone) flaw = split_export(all, &records);
  if (flaw != Flaw::kNone)
    refuse_argument("path", "is no export", "a whole file of `dlblas cache export`",
                    text(file, " (", words_of(flaw), ")"),
                    "write one with `dlblas cache export`, and copy all of it");
  write_exchange(w, import_records(store, records));
}

bool is_folder(const std::string& path) {
  std::error_code failed;  // a name too long, say: then it is none
  return std::filesystem::is_directory(path, failed);
}

void merge_from(JsonWriter& w, Store& store, const std::string& path) {
  std::string folder = absolute(path);
  if (is_folder(folder + "/v1/results")) folder += "/v1";
  if (!is_folder(folder + "/results"))
    refuse_argument("path", "is no store", "a folder with results/ or v1/results/", folder,
                    "name a cache folder that you may read, as `dlblas cache path` prints it");
  Store other = Store::shipped(folder);
  write_exchange(w, merge_store(store, other));
}

/// The operator's own name for one of its forms. When lifting a rule, the name may be of an
/// operator unknown to this process: a user's that is not imported here.
std::string operator_of(const std::string& name, bool lifting) {
  if (lifting && !Registry::process().find(name)) {
    Rules::process().refresh();
    for (const Rule& rule : *Rules::process().current())
      if (rule.op == name) return name;
  }
  return Registry::process().at(name).op->schema.name;
}

// op, implementation, configuration, key. An empty configuration means none; without a key line the
// rule covers all problems. Names must be known now: a mistyped one would never match.
Rule rule_of(Store& store, Rule::Kind kind, const Words& words, bool lifting) {
  const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : std::string(); };
  Rule rule{kind, "", "", word(2), word(3)};
  rule.op = operator_of(word(1), lifting);
  if (words.size() > 4 && word(4).empty())  // a shell's variable that was not set, say
    refuse_argument("key", "is empty", "a hash, or a prefix that only one key has", "none",
                    "leave it out for every problem");
  if (!word(4).empty()) {
    std::string whose;
    if (lifting) {
      std::tie(rule.key, whose) = ruled_key(store, word(4));
    } else {
      const auto merged = known_key(store, word(4));
      rule.key = key_hash(merged->key);
      whose = op_of(merged->key);
    }
    if (!whose.empty() && whose != rule.op)
      refuse_argument("key", "is another operator's", "a key of " + rule.op, "one of " + whose,
                      "`dlblas cache ls` shows whose each is");
  }
  if (lifting) return rule;
  const Operator& op = *Registry::process().at(rule.op).op;
  const Implementation* impl = op.find(rule.implementation);
  if (!impl) {
    std::string known;
    for (const Implementation* i : op.candidates())
      known += text(known.empty() ? "" : ", ", i->name);
    refuse_argument("implementation", "is unknown", "one of " + known, rule.implementation,
                    "`dlblas list` says what each is for");
  }
  if (!rule.config.empty()) impl->table().parse(rule.config, impl->name);
  return rule;
}

void keep_rule(JsonWriter& w, const Rule& rule) {
  if (const std::string why = Rules::process().keep(rule); !why.empty())
    refuse(ErrorKind::kTuning, "cache",
           {"rule", "cannot be kept", "a store that can be written", why,
            "make room, or set DLBLAS_CACHE to a folder of your own"});
  forget_all();
  w.field("kept", true);
}

void write_rules(JsonWriter& w) {
  Rules::process().refresh();
  forget_all();
  w.key("rules").open_array();
  for (const Rule& rule : *Rules::process().current()) {
    w.open_object().field("kind", name_of(rule.kind)).field("op", rule.op).field("key", rule.key);
    w.field("implementation", rule.implementation).field("config", rule.config).close_object();
  }
  w.close_array().field("bad_rules", Rules::process().bad());
}

void lift_rule(JsonWriter& w, const Rule& rule) {
  w.field("lifted", Rules::process().lift(rule));
  forget_all();
}

bool change_rules(JsonWriter& w, Store& store, const Words& words) {
  using Kind = Rule::Kind;
  const std::string& verb = words[0];
  if (verb == "pin")
    keep_rule(w, rule_of(store, Kind::kPin, words, false));
  else if (verb == "forbid")
    keep_rule(w, rule_of(store, Kind::kForbid, words, false));
  else if (verb == "unpin")
    lift_rule(w, rule_of(store, Kind::kPin, words, true));
  else if (verb == "allow")
    lift_rule(w, rule_of(store, Kind::kForbid, words, true));
  else if (verb == "rules")
    write_rules(w);
  else
    return false;
  return true;
}

std::string run_cache_command(std::string_view command) {
  Store& store = Store::process();
  const Words words = split(command);
  const std::string &verb = words[0], argument = words.size() > 1 ? words[1] : std::string();
  JsonWriter w;
  w.open_object().field("path", store.path()).field("memory_only_because", store.reason());
  if (verb == "ls") {
    write_keys(w, store);
  } else if (verb == "show") {
    const auto merged = known_key(store, argument);
    w.key("result");
    write_record(w, *merged, true);
  } else if (verb == "verify") {
    write_verify(w, store);
    forget_all();
  } else if (verb == "clear") {
    w.field("removed", store.clear());
    forget_all();
  } else if (verb == "rm") {
    remove_records(w, store, argument, words.size() > 2 ? words[2] : std::string());
  } else if (verb == "compact") {
    write_compact(w, store);
  } else if (verb == "export") {
    export_to(w, store, argument);
  } else if (verb == "import") {
    import_from(w, store, argument);
  } else if (verb == "merge") {
    merge_from(w, store, argument);
  } else if (verb != "path" && !change_rules(w, store, words)) {
    refuse_argument(
        "command", "is unknown",
        "path, ls, show, verify, rm, clear, compact, export, import, merge, pin, unpin, "
        "forbid, allow or rules",
        verb, "see `dlblas cache --help`");
  }
  w.close_object();
  return w.text();
}

}  // namespace
}  // namespace dlblas

extern "C" {

using namespace dlblas;

dlblas_status dlblas_cache(const char* command, char** out) {
  return guarded([&] { give_text(run_cache_command(command ? command : ""), out); });
}
}
