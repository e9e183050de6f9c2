// What the three writers of tools/generate.cpp share: names that a language accepts, numbers,
// lines, arguments. In: the parsed Schema and Form. Out: pieces of text; every function is
// deterministic. Read next: tools/generate/cpp.hpp.
#pragma once

#include <cctype>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "registry/registry.hpp"

namespace dlblas::generate {

/// rms_norm → RmsNorm; add_rms_norm_ → AddRmsNorm.
inline std::string pascal(std::string_view snake) {
  std::string out;
  bool upper = true;
  for (char ch : snake) {
    if (ch == '_') {
      upper = true;
      continue;
    }
    out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(ch))) : ch;
    upper = false;
  }
  return out;
}

/// Appends `_` to a name until it is not in `taken`.
inline std::string apart(std::string name, const std::set<std::string, std::less<>>& taken) {
  while (taken.count(name)) name += '_';
  return name;
}

/// The shortest text that parses to the same number, with a point or an exponent: 1e-6, 0.0.
inline std::string print_float(double v) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  std::string s(buffer, end);
  const std::size_t exponent = s.find('e');
  if (exponent == std::string::npos) return s.find('.') == std::string::npos ? s + ".0" : s;
  if (s[exponent + 2] == '0') s.erase(exponent + 2, 1);  // to_chars writes two digits at least
  return s;
}

/// A scalar's default, given a language's words for true, false and none; an enumeration's default
/// is its quoted label.
inline std::string default_text(const ScalarSpec& s, const char* yes, const char* no,
                                const char* none) {
  switch (s.type) {
    case ScalarType::kInt:
      return std::to_string(s.default_value.i);
    case ScalarType::kFloat:
      return print_float(s.default_value.f);
    case ScalarType::kBool:
      return s.default_value.i ? yes : no;
    case ScalarType::kDType:
      return none;
    case ScalarType::kEnum:
      break;
  }
  return "\"" + s.labels[static_cast<std::size_t>(s.default_value.i)] + "\"";
}

/// Joins words into lines of at most `width`, each after `prefix`: comments and docstrings.
inline std::string wrap(std::string_view text, const std::string& prefix, std::size_t width = 100) {
  std::string out, line;
  auto columns = [](std::string_view s) {  // UTF-8: continuation bytes take no column
    std::size_t n = 0;
    for (char ch : s) n += (static_cast<unsigned char>(ch) & 0xc0u) != 0x80u;
    return n;
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!line.empty() && columns(prefix) + columns(line) + 1 + columns(word) > width) {
      out += prefix + line + "\n";
      line.clear();
    }
    if (!word.empty()) line += (line.empty() ? "" : " ") + std::string(word);
    at = end + 1;
  }
  return line.empty() ? out : out + prefix + line + "\n";
}

/// `a, b, c` on one line if it fits after `head`, else one item per line: signatures.
inline std::string list(const std::string& head, const std::vector<std::string>& items,
                        const std::string& tail, const std::string& indent) {
  std::string flat;
  for (const std::string& item : items) flat += (flat.empty() ? "" : ", ") + item;
  if (head.size() + flat.size() + tail.size() <= 100) return head + flat + tail;
  std::string out = head + "\n";
  for (std::size_t i = 0; i < items.size(); ++i)
    out += indent + items[i] + (i + 1 < items.size() ? ",\n" : "");
  return out + tail;
}

/// The dtypes of a set in the library's order: `f32, f16`.
inline std::string print_dtypes(DTypeSet set) {
  std::string s;
  for (int i = 0; i < kNumDTypes; ++i)
    if (set >> i & 1u) s += text(s.empty() ? "" : ", ", name_of(static_cast<DType>(i)));
  return s;
}

/// True if the argument may be left out of a call.
inline bool is_optional(const Schema& schema, const Param& p) {
  return p.is_tensor ? schema.tensors[p.index].optional : schema.scalars[p.index].has_default;
}

/// True for a member of a C++ function's options: any optional argument but the usual tensors,
/// which are parameters (an empty TensorRef is an absent one).
inline bool is_option(const Schema& schema, const Param& p) {
  return is_optional(schema, p) && !(p.is_tensor && schema.tensors[p.index].usual);
}

/// True if this form writes the argument: through `!` in the schema, or as a result's memory.
inline bool is_written(const Form& form, const Param& p) {
  if (!p.is_tensor) return false;
  bool written = form.op->schema.tensors[p.index].written;
  if (form.inplace)
    for (std::int8_t source : form.inplace->result_source) written |= source == p.index;
  return written;
}

/// The result that an in-place form puts into an argument, or -1.
inline int received_result(const Form& form, const Param& p) {
  if (form.inplace && p.is_tensor)
    for (std::size_t r = 0; r < form.inplace->result_source.size(); ++r)
      if (form.inplace->result_source[r] == p.index) return static_cast<int>(r);
  return -1;
}

/// One line describing an argument, for docs and docstrings: `like(x)|f32[C]`, `one of "relu",
/// "silu"`.
inline std::string describe(const Form& form, const Param& p) {
  const Schema& schema = form.op->schema;
  if (p.is_tensor) {
    std::string s = "`" + schema.tensors[p.index].type_text + "`";
    const int result = received_result(form, p);
    if (result >= 0)
      s += ", receives `" + schema.tensors[schema.num_inputs + result].name + "`";
    else if (is_written(form, p))
      s += ", written";
    return s + (schema.tensors[p.index].optional ? ", may be absent" : "");
  }
  const ScalarSpec& scalar = schema.scalars[p.index];
  switch (scalar.type) {
    case ScalarType::kInt:
      return scalar.letter < 0 ? "integer" : "integer, the size `" + scalar.name + "`";
    case ScalarType::kFloat:
      return "float";
    case ScalarType::kBool:
      return "boolean";
    case ScalarType::kDType:
      return "a dtype: " + print_dtypes(scalar.dtypes);
    case ScalarType::kEnum:
      break;
  }
  std::string s;
  for (const std::string& label : scalar.labels)
    s += (s.empty() ? "one of \"" : ", \"") + label + "\"";
  return s;
}

}  // namespace dlblas::generate
