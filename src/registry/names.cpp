// See names.hpp.
#include "registry/names.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.hpp"

namespace dlblas {
namespace {

constexpr auto kKeywords = std::to_array<std::string_view>(
    {"False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
     "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
     "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
     "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"});
// Attributes of every namespace of torch.ops.
constexpr auto kOfTorch = std::to_array<std::string_view>({"name", "_dir"});

bool among(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::array<std::string, 3> in_torch(std::string_view form) {
  return {std::string(form), text(form, "_out"), text("_", form)};
}

bool clash(std::string_view a, std::string_view b) {
  const auto ours = in_torch(a), theirs = in_torch(b);
  return std::any_of(ours.begin(), ours.end(),
                     [&](const std::string& name) { return among(theirs, name); });
}

[[noreturn]] void refuse(const Schema& schema, const char* argument, const char* problem,
                         const std::string& expected, std::string_view got) {
  throw Error(ErrorKind::kArgument,
              text(schema.name, ": ", argument, " ", problem, "; expected ", expected, ", got ",
                   got, "; choose another one"),
              {schema.name, argument, expected, std::string(got)});
}

}  // namespace

void check_names(const Schema& schema, const std::vector<InplaceForm>& inplace_forms,
                 const std::vector<std::string_view>& known) {
  std::vector<std::string_view> taken = known;
  const auto check_form = [&](const char* argument, std::string_view name) {
    if (among(kKeywords, name))
      refuse(schema, argument, "is a keyword", "a name that Python can call", name);
    if (among(kOfTorch, name) || name.starts_with("__"))
      refuse(schema, argument, "is reserved", "a name that torch.ops can hold", name);
    for (const std::string_view other : taken)
      if (clash(name, other))
        refuse(schema, argument, "is taken",
               text("a name apart from ", other, ", ", other, "_out and _", other), name);
    taken.push_back(name);
  };
  check_form("name", schema.name);
  for (const InplaceForm& form : inplace_forms) check_form("inplace", form.name);

  std::vector<std::string_view> arguments;
  for (const TensorSpec& tensor : schema.tensors) arguments.push_back(tensor.name);
  for (const ScalarSpec& scalar : schema.scalars) arguments.push_back(scalar.name);
  for (const std::string_view name : arguments)
    if (among(kKeywords, name))
      refuse(schema, "schema", "names an argument by a keyword", "a name that Python's calls take",
             name);
}

}  // namespace dlblas
