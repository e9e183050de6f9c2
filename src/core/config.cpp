// Printer and strict parser of configurations; see config.hpp.
#include "core/config.hpp"

#include <algorithm>
#include <charconv>

namespace dlblas {

KnobTable::KnobTable(std::vector<Knob> knobs) : knobs_(std::move(knobs)) {
  if (knobs_.size() > kMaxKnobs)
    throw Error(ErrorKind::kInternal, text("a table of knobs or traits has ", knobs_.size(),
                                           " members; at most ", kMaxKnobs));
}

int KnobTable::find(std::string_view name) const {
  for (int i = 0; i < size(); ++i)
    if (knobs_[i].name == name) return i;
  return -1;
}

std::string KnobTable::print(const Config& config) const {
  if (knobs_.empty()) return "default";
  std::string s;
  for (int i = 0; i < size(); ++i) {
    const Knob& knob = knobs_[i];
    if (i > 0) s += ' ';
    s += knob.name;
    s += '=';
    const auto at = std::find(knob.values.begin(), knob.values.end(), config.values[i]);
    if (!knob.labels.empty() && at != knob.values.end())
      s += knob.labels[at - knob.values.begin()];
    else
      s += std::to_string(config.values[i]);
  }
  return s;
}

bool KnobTable::is_before(const Config& a, const Config& b) const {
  for (int i = 0; i < size(); ++i) {
    if (a.values[i] == b.values[i]) continue;
    const std::vector<std::int64_t>& values = knobs_[i].values;
    const auto first = std::find_if(values.begin(), values.end(), [&](std::int64_t v) {
      return v == a.values[i] || v == b.values[i];
    });
    return first != values.end() && *first == a.values[i];
  }
  return false;
}

std::string KnobTable::literal(const Config& config, std::string_view aggregate) const {
  std::string s = text(aggregate, "{");
  for (int i = 0; i < size(); ++i)
    s += text(i > 0 ? ", ." : ".", knobs_[i].name, " = decltype(", aggregate, "::", knobs_[i].name,
              ")(", config.values[i], ")");
  return s + "}";
}

namespace {
[[noreturn]] void refuse(std::string_view owner, const std::string& what) {
  throw Error(ErrorKind::kArgument, text(owner, ": config ", what), {.argument = "config"});
}

bool parse_value(const Knob& knob, std::string_view word, std::int64_t* value) {
  if (!knob.labels.empty()) {
    const auto at = std::find(knob.labels.begin(), knob.labels.end(), word);
    if (at == knob.labels.end()) return false;
    *value = knob.values[at - knob.labels.begin()];
    return true;
  }
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), *value);
  return failed == std::errc{} && end == word.data() + word.size() &&
         std::to_string(*value) == word;  // one text per value: no leading zeros
}
}  // namespace

Config KnobTable::parse(std::string_view line, std::string_view owner) const {
  Config config;
  if (knobs_.empty()) {
    if (line != "default")
      refuse(owner, text("has no knobs; expected \"default\", got \"", line, "\""));
    return config;
  }
  for (const Knob& knob : knobs_) {
    const std::string_view word = line.substr(0, line.find(' '));
    const bool named = word.size() > knob.name.size() && word.starts_with(knob.name) &&
                       word[knob.name.size()] == '=';
    if (!named) {
      std::string all;
      for (const Knob& one : knobs_) all += text(all.empty() ? "" : ", ", one.name);
      refuse(owner, text("has an unexpected field; expected ", knob.name, "=<value> (of ", all,
                         "), got \"", word, "\""));
    }
    std::int64_t value = 0;
    if (!parse_value(knob, word.substr(knob.name.size() + 1), &value) ||
        std::find(knob.values.begin(), knob.values.end(), value) == knob.values.end())
      refuse(owner, text("has a value outside its domain; expected one of the declared values of ",
                         knob.name, ", got \"", word, "\""));
    config.values[config.count++] = value;
    line.remove_prefix(word.size());
    if (config.count < size() && !line.empty()) line.remove_prefix(1);  // the space between two
  }
  if (!line.empty()) refuse(owner, text("has trailing text; expected the end, got \"", line, "\""));
  return config;
}

bool KnobTable::contains(const Config& config) const {
  if (config.count != size()) return false;
  for (int i = 0; i < size(); ++i) {
    const auto& values = knobs_[i].values;
    if (std::find(values.begin(), values.end(), config.values[i]) == values.end()) return false;
  }
  return true;
}

}  // namespace dlblas
