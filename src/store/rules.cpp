// One file per rule; see rules.hpp. The printer defines the text, and the parser accepts only what
// prints back to itself. Read next: dispatch/ruled.cpp.
#include "store/rules.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "store/sha256.hpp"
#include "store/store.hpp"

namespace dlblas {
namespace {

constexpr std::string_view kFirstLine = "dlblas-rule 1\n";
// Folders above `rules` that a first rule may have created: v1, dlblas, .cache.
constexpr int kParents = 4;

// Two pins of one operator and key share one file: the later replaces the earlier.
std::string file_of(const Rule& rule) {
  const bool pin = rule.kind == Rule::Kind::kPin;
  return text(name_of(rule.kind), "-",
              sha256_hex(text(rule.op, "\n", rule.key, "\n", pin ? "" : rule.implementation, "\n",
                              pin ? "" : rule.config, "\n")));
}

Folder open_rules(const std::string& root_path, Missing missing) {
  Folder root = open_root(root_path, Trust::kOurs, missing);
  if (!root.fd) return root;
  return open_folder(root.fd.get(), "rules", Trust::kOurs, missing);
}

// Reads one file and checks it against the name it should have.
Flaw examine(int folder, const std::string& file, const std::string& name, Rule* rule) {
  std::string bytes;
  if (const Flaw flaw = read_file(folder, file, Trust::kOurs, &bytes); flaw != Flaw::kNone)
    return flaw;
  if (!parse(bytes, rule)) return Flaw::kDigest;
  return name == file_of(*rule) ? Flaw::kNone : Flaw::kWrongName;
}

bool take_line(std::string_view& s, std::string_view name, std::string* value) {
  const std::size_t end = s.find('\n');
  if (end == s.npos || !s.starts_with(name)) return false;
  *value = s.substr(name.size(), end - name.size());
  s.remove_prefix(end + 1);
  return true;
}

// Moves a bad file to quarantine/rule-<name>.<reason>; if it cannot be moved, it stays. Another
// process may have written the same rule again meanwhile: the moved file is read once more, and
// moved back if it is good.
void set_aside(const std::string& root_path, const Folder& folder, const std::string& name,
               Flaw flaw) {
  constexpr std::size_t kNamePart = 200;  // within NAME_MAX whatever the name was
  if (flaw == Flaw::kUnreadable || flaw == Flaw::kBusy) return;  // says nothing of its content
  const Folder root = open_root(root_path, Trust::kOurs, Missing::kFail);
  const Folder quarantine =
      root.fd ? open_folder(root.fd.get(), "quarantine", Trust::kOurs, Missing::kCreate) : Folder();
  const std::string to = text("rule-", name.substr(0, kNamePart), ".", name_of(flaw));
  if (!quarantine.fd ||
      ::renameat(folder.fd.get(), name.c_str(), quarantine.fd.get(), to.c_str()) != 0)
    return;
  Rule rule;
  if (examine(quarantine.fd.get(), to, name, &rule) == Flaw::kNone)
    ::renameat(quarantine.fd.get(), to.c_str(), folder.fd.get(), name.c_str());
}

}  // namespace

struct Rules::State {
  std::mutex mutex;
  std::shared_ptr<const std::vector<Rule>> current;
};

struct Rules::Read {
  std::vector<Rule> rules;
  std::vector<std::pair<std::string, Flaw>> bad;  // a file's name, and what is wrong with it
};

std::shared_ptr<Rules::State> Rules::make_state() { return std::make_shared<State>(); }

std::string_view name_of(Rule::Kind kind) { return kind == Rule::Kind::kPin ? "pin" : "forbid"; }

std::string print(const Rule& rule) {
  return seal(text(kFirstLine, "rule.config ", rule.config, "\nrule.implementation ",
                   rule.implementation, "\nrule.key ", rule.key, "\nrule.kind ", name_of(rule.kind),
                   "\nrule.op ", rule.op, "\n"));
}

bool parse(std::string_view all, Rule* out) {
  Rule rule;
  std::string kind;
  std::string_view s = all;
  if (!s.starts_with(kFirstLine)) return false;
  s.remove_prefix(kFirstLine.size());
  if (!take_line(s, "rule.config ", &rule.config) ||
      !take_line(s, "rule.implementation ", &rule.implementation) ||
      !take_line(s, "rule.key ", &rule.key) || !take_line(s, "rule.kind ", &kind) ||
      !take_line(s, "rule.op ", &rule.op))
    return false;
  rule.kind = kind == "pin" ? Rule::Kind::kPin : Rule::Kind::kForbid;
  if (rule.op.empty() || rule.implementation.empty() || print(rule) != all) return false;
  *out = std::move(rule);
  return true;
}

Rules& Rules::process() {
  static auto* rules = new Rules(Store::process().path());
  return *rules;
}

Rules::Read Rules::read() const {
  Read found;
  const Folder folder = open_rules(root_, Missing::kFail);
  if (!folder.fd) return found;
  for (const std::string& name : list_folder(folder.fd.get())) {
    Rule rule;
    const Flaw flaw = examine(folder.fd.get(), name, name, &rule);
    if (flaw == Flaw::kVanished) continue;  // another process lifted it
    if (flaw == Flaw::kNone) {
      found.rules.push_back(std::move(rule));
      continue;
    }
    found.bad.emplace_back(name, flaw);
    log_once(LogLevel::kWarn, "rule/" + name,
             text("cache: rules/", printable(name),
                  " is no rule, so what it pinned or forbade does not hold; see `dlblas cache "
                  "rules` and decide again; `dlblas cache verify` sets it aside"));
  }
  return found;
}

std::shared_ptr<const std::vector<Rule>> Rules::current() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->current) state_->current = std::make_shared<const std::vector<Rule>>(read().rules);
  return state_->current;
}

void Rules::refresh() {
  const std::lock_guard lock(state_->mutex);
  state_->current = nullptr;
}

std::string Rules::keep(const Rule& rule) {
  const Folder folder = open_rules(root_, Missing::kCreate);
  if (!folder.fd) return folder.reason;
  Rule back;
  const std::string all = print(rule);
  if (!parse(all, &back) || !(back == rule)) return "it could not be read back";
  int error = write_file(folder.fd.get(), file_of(rule), all);
  if (error == 0) error = sync_parents(folder.fd.get(), kParents);
  refresh();
  return error == 0 ? "" : std::strerror(error);
}

std::int64_t Rules::lift(const Rule& rule) {
  const Folder folder = open_rules(root_, Missing::kFail);
  const bool gone = folder.fd && ::unlinkat(folder.fd.get(), file_of(rule).c_str(), 0) == 0;
  if (gone) sync_names(folder.fd.get());
  refresh();
  return gone;
}

std::int64_t Rules::bad() { return static_cast<std::int64_t>(read().bad.size()); }

std::int64_t Rules::verify() {
  const Read found = read();
  const Folder folder = open_rules(root_, Missing::kFail);
  for (const auto& [name, flaw] : found.bad)
    if (folder.fd) set_aside(root_, folder, name, flaw);
  if (folder.fd) sweep_folder(folder.fd.get());
  refresh();
  return static_cast<std::int64_t>(found.bad.size());
}

}  // namespace dlblas
