// Writes _ops.pyi: the Python signature and docstring of every operator and in-place form.
// In: the registry. Out: text. Arguments keep the schema's order and keyword-only part; `out` and
// `stream` come last. Read next: tools/generate/pages.hpp.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tools/generate/names.hpp"

namespace dlblas::generate {

class PythonWriter {
 public:
  std::string write(const Registry& registry) {
    out_ =
        "# Made by tools/generate.cpp from the operators' schemas. Do not edit.\n"
        "\"\"\"The operators, one function each and one per in-place form.\n\n"
        "An array is anything with __dlpack__ or the array interface (NumPy, torch, ...).\n"
        "Results have the type of the first array; `out` takes the destinations in result "
        "order;\n`stream` is the CUDA stream's address, for arrays whose library says none."
        "\n\"\"\"\n\n"
        "from typing import Any, Literal, TypeAlias, TypeVar\n\n" +
        exported(registry) + "_A = TypeVar(\"_A\")\n_Array: TypeAlias = Any\n";
    for (const Operator* op : registry.operators())
      for (const Form& form : op->forms) write_form(form);
    return out_;
  }

 private:
  // Type checkers recognise a package's exports only from literal lists.
  static std::string exported(const Registry& registry) {
    std::set<std::string> names;
    for (const Operator* op : registry.operators())
      for (const Form& form : op->forms) names.emplace(form.name);
    std::string s = "__all__ = [\n";
    for (const std::string& name : names) s += "    \"" + name + "\",\n";
    return s + "]\n\n";
  }

  static std::string scalar_type(const ScalarSpec& s) {
    switch (s.type) {
      case ScalarType::kInt:
        return "int";
      case ScalarType::kFloat:
        return "float";
      case ScalarType::kBool:
        return "bool";
      case ScalarType::kDType:
        return s.has_default ? "str | None" : "str";
      case ScalarType::kEnum:
        break;
    }
    std::string labels;
    for (const std::string& label : s.labels)
      labels += (labels.empty() ? "\"" : ", \"") + label + "\"";
    return "Literal[" + labels + "]";
  }
  static std::string scalar_default(const ScalarSpec& s) {
    return default_text(s, "True", "False", "None");
  }

  // Python forbids a parameter without a default after one with a default, so an optional parameter
  // before a required one must be passed (None).
  static bool has_python_default(const Form& form, std::size_t i) {
    const std::vector<Param>& params = *form.params;
    if (!is_optional(form.op->schema, params[i])) return false;
    for (std::size_t k = i + 1;
         !params[i].keyword_only && k < params.size() && !params[k].keyword_only; ++k)
      if (!is_optional(form.op->schema, params[k])) return false;
    return true;
  }

  static std::string parameter(const Form& form, std::size_t i, bool first_tensor) {
    const Schema& schema = form.op->schema;
    const Param& p = (*form.params)[i];
    std::string s = std::string(schema.param_name(p)) + ": ";
    std::string fallback = "None";
    if (p.is_tensor) {
      s += first_tensor ? "_A" : "_Array";
      if (schema.tensors[p.index].dims.empty() && !is_written(form, p)) s += " | float";
      if (schema.tensors[p.index].optional) s += " | None";
    } else {
      s += scalar_type(schema.scalars[p.index]);
      if (schema.scalars[p.index].has_default) fallback = scalar_default(schema.scalars[p.index]);
    }
    return has_python_default(form, i) ? s + " = " + fallback : s;
  }

  static std::string result_type(const Form& form, bool has_tensor) {
    if (form.num_outputs == 0) return "None";
    const std::string one = has_tensor ? "_A" : "_Array";
    std::string s = one;
    for (int r = 1; r < form.num_outputs; ++r) s += ", " + one;
    return form.num_outputs == 1 ? s : "tuple[" + s + "]";
  }

  void write_form(const Form& form) {
    std::vector<std::string> items;
    bool keyword_only = false, has_tensor = false;
    for (std::size_t i = 0; i < form.params->size(); ++i) {
      const Param& p = (*form.params)[i];
      if (p.keyword_only && !keyword_only) items.emplace_back("*");
      keyword_only |= p.keyword_only;
      // A type variable must not stand only for an array that may be absent: an optional first
      // tensor stays _Array.
      const bool first = p.is_tensor && !has_tensor && !form.op->schema.tensors[p.index].optional &&
                         form.num_outputs > 0;
      items.push_back(parameter(form, i, first));
      has_tensor |= first;
    }
    const std::string result = result_type(form, has_tensor);
    if (!keyword_only) items.emplace_back("*");
    if (form.num_outputs > 0) items.push_back("out: " + result + " | None = None");
    items.emplace_back("stream: int | None = None");
    const std::string tail = ") -> " + result + ":\n";
    out_ += "\n" + signature("def " + std::string(form.name) + "(", items, tail) + docstring(form) +
            "    ...\n";
  }

  // Formatted as the common formatters do: one line, or one argument per line with a trailing
  // comma.
  static std::string signature(const std::string& head, const std::vector<std::string>& items,
                               const std::string& tail) {
    std::string flat, tall = head + "\n";
    for (const std::string& item : items) {
      flat += (flat.empty() ? "" : ", ") + item;
      tall += "    " + item + ",\n";
    }
    const std::string one_line = head + flat + tail;
    return one_line.size() <= 101 ? one_line : tall + tail;
  }

  static std::string docstring(const Form& form) {
    const Schema& schema = form.op->schema;
    std::string s = wrap(form.op->def.formula, "    ", 97) + "\n";
    s.insert(4, "\"\"\"");
    s += wrap(form.inplace ? form.inplace->text : schema.text, "    ") + "\n";
    for (const Param& p : *form.params) {
      std::string line = describe(form, p);
      std::erase(line, '`');
      s += wrap(std::string(schema.param_name(p)) + ": " + line + ".", "    ");
    }
    return s + "    \"\"\"\n";
  }

  std::string out_;
};

}  // namespace dlblas::generate
