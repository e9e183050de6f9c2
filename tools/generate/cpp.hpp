// Writes <dlblas/ops.hpp>: one typed C++ function per operator, its `_out` form and its in-place
// forms. In: the registry. Out: text. Required arguments are parameters, in schema order; optional
// ones are members of <Operator>Options (an empty TensorRef is an absent tensor). Several results
// are a struct. Read next: include/dlblas/value.hpp, which these functions call.
#pragma once

#include "tools/generate/names.hpp"

namespace dlblas::generate {

class CppWriter {
 public:
  std::string write(const Registry& registry) {
    out_ =
        "// Made by tools/generate.cpp from the operators' schemas: one typed function per "
        "operator. Do not edit.\n"
        "// In: references to the caller's memory, options with the schema's defaults. Out: new "
        "results, or the\n"
        "// destinations of the `_out` form, which allocates nothing. Errors are thrown as in "
        "<dlblas/error.hpp>.\n"
        "#ifndef DLBLAS_OPS_HPP_\n#define DLBLAS_OPS_HPP_\n\n"
        "#include <dlblas/dlblas.hpp>\n\n"
        "#include <cstdint>\n#include <optional>\n#include <utility>\n\n"
        "namespace dlblas {\ninline namespace v1 {\n";
    for (const Operator* op : registry.operators()) write_operator(*op);
    return out_ + "\n}  // namespace v1\n}  // namespace dlblas\n\n#endif  // DLBLAS_OPS_HPP_\n";
  }

 private:
  // Argument names must not clash with keywords or with names that the functions' bodies use.
  static std::string argument_name(std::string_view name) {
    static const std::set<std::string, std::less<>> taken = {
        "alignas",   "alignof",   "and",       "asm",       "auto",      "bitand",   "bitor",
        "bool",      "break",     "case",      "catch",     "char",      "class",    "compl",
        "concept",   "const",     "consteval", "constexpr", "constinit", "continue", "co_await",
        "co_return", "co_yield",  "decltype",  "default",   "delete",    "do",       "double",
        "else",      "enum",      "explicit",  "export",    "extern",    "false",    "float",
        "for",       "friend",    "goto",      "if",        "inline",    "int",      "long",
        "mutable",   "namespace", "new",       "noexcept",  "not",       "nullptr",  "operator",
        "or",        "private",   "protected", "public",    "register",  "requires", "return",
        "short",     "signed",    "sizeof",    "static",    "struct",    "switch",   "template",
        "this",      "throw",     "true",      "try",       "typedef",   "typeid",   "typename",
        "union",     "unsigned",  "using",     "virtual",   "void",      "volatile", "while",
        "xor",       "options",   "context",   "arguments", "op",        "results"};
    return apart(std::string(name), taken);
  }

  // The name of a result's parameter in the `_out` form; must not clash with the inputs' names
  // either.
  static std::string destination_name(const Schema& schema, int result) {
    std::set<std::string, std::less<>> inputs;
    for (const Param& p : schema.params) inputs.insert(argument_name(schema.param_name(p)));
    std::string name = argument_name(schema.tensors[schema.num_inputs + result].name);
    return inputs.count(name) ? apart(name + "_out", inputs) : name;
  }
  static std::string enum_name(const Schema& schema, const ScalarSpec& s) {
    return pascal(schema.name) + pascal(s.name);
  }

  // "leaky_relu" → kLeakyRelu, "" → kNone, "1x128" → k1x128; two labels never share an enumerator.
  static std::vector<std::string> enumerators(const ScalarSpec& s) {
    std::set<std::string, std::less<>> taken;
    std::vector<std::string> names;
    for (const std::string& label : s.labels) {
      std::string word;
      for (char ch : label) word += std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
      word = pascal(word);
      names.push_back(
          apart("k" + (word.empty() ? (label.empty() ? "None" : "Symbol") : word), taken));
      taken.insert(names.back());
    }
    return names;
  }

  void write_enum(const Schema& schema, const ScalarSpec& s) {
    const std::string name = enum_name(schema, s);
    const std::vector<std::string> words = enumerators(s);
    out_ += list("\nenum class " + name + " { ", words, " };\n", "  ");
    out_ += "constexpr const char* name_of(" + name + " value) {\n  switch (value) {\n";
    for (std::size_t i = 0; i < words.size(); ++i)
      out_ += "    case " + name + "::" + words[i] + ": return \"" + s.labels[i] + "\";\n";
    out_ += "  }\n  return \"\";\n}\n";
  }

  static std::string type_of(const Form& form, const Param& p) {
    const Schema& schema = form.op->schema;
    if (p.is_tensor) return is_written(form, p) ? "OutRef" : "TensorRef";
    const ScalarSpec& s = schema.scalars[p.index];
    switch (s.type) {
      case ScalarType::kInt:
        return "std::int64_t";
      case ScalarType::kFloat:
        return "double";
      case ScalarType::kBool:
        return "bool";
      case ScalarType::kDType:
        return s.has_default ? "std::optional<DType>" : "DType";
      case ScalarType::kEnum:
        return enum_name(schema, s);
    }
    return "";
  }

  static std::string default_of(const Form& form, const Param& p) {
    const Schema& schema = form.op->schema;
    if (p.is_tensor) return "{}";
    const ScalarSpec& s = schema.scalars[p.index];
    if (s.type != ScalarType::kEnum) return default_text(s, "true", "false", "{}");
    return enum_name(schema, s) +
           "::" + enumerators(s)[static_cast<std::size_t>(s.default_value.i)];
  }

  // The printed members of a form's options; empty when all arguments are required.
  static std::string options_members(const Form& form) {
    std::string members;
    for (const Param& p : *form.params)
      if (is_option(form.op->schema, p))
        members += "  " + type_of(form, p) + " " + argument_name(form.op->schema.param_name(p)) +
                   " = " + default_of(form, p) + ";\n";
    return members;
  }
  // An in-place form shares the functional form's options type if the options are the same.
  static std::string options_name(const Form& form) {
    const Form& functional = form.op->forms.front();
    const bool own = form.inplace && options_members(form) != options_members(functional);
    if (!own) return pascal(form.op->schema.name) + "Options";
    return pascal(form.name) + "InplaceOptions";
  }

  static std::vector<std::string> parameters(const Form& form) {
    std::vector<std::string> items;
    const Schema& schema = form.op->schema;
    for (const Param& p : *form.params) {
      if (is_option(schema, p)) continue;
      const std::string type = type_of(form, p);
      items.push_back((p.is_tensor ? "const " + type + "& " : type + " ") +
                      argument_name(schema.param_name(p)));
    }
    if (!options_members(form).empty())
      items.push_back("const " + options_name(form) + "& options = {}");
    items.push_back("const Context& context = {}");
    return items;
  }

  // The two statements that begin every function: the handle, and the values in schema order.
  static std::string prologue(const Form& form) {
    const Schema& schema = form.op->schema;
    std::vector<std::string> values;
    for (const Param& p : *form.params) {
      std::string value = argument_name(schema.param_name(p));
      if (is_option(schema, p)) value = "options." + value;
      const bool is_enum = !p.is_tensor && schema.scalars[p.index].type == ScalarType::kEnum;
      values.push_back(is_enum ? "name_of(" + value + ")" : value);
    }
    const std::string make = values.empty() ? "  const detail::Arguments<0> arguments("
                                            : "  const detail::Arguments arguments(";
    return "  static const dlblas_op_t op = detail::find_op(\"" + std::string(form.name) +
           "\");\n" + list(make, values, ");\n", "      ");
  }

  static std::string documentation(const Form& form) {
    std::string s = "\n" + wrap(form.op->def.formula, "/// ") +
                    wrap(form.inplace ? form.inplace->text : form.op->schema.text, "/// ");
    return s;
  }

  // The tensor spec of output r of a form.
  static const TensorSpec& output(const Form& form, int r) {
    const Schema& schema = form.op->schema;
    return schema.tensors[schema.num_inputs + form.result_of(r)];
  }
  static std::string result_type(const Form& form) {
    if (form.num_outputs == 1) return "Tensor";
    return pascal(form.name) + (form.inplace ? "InplaceResults" : "Results");
  }

  // A form that returns results: one function with new results, one into the caller's.
  void write_returning(const Form& form) {
    const Schema& schema = form.op->schema;
    const int count = form.num_outputs;
    const std::string name = argument_name(form.name);
    if (count > 1) {
      out_ += "\nstruct " + result_type(form) + " {\n";
      for (int r = 0; r < count; ++r)
        out_ += "  Tensor " + argument_name(output(form, r).name) + ";\n";
      out_ += "};\n";
    }
    out_ += documentation(form);
    out_ +=
        list("inline " + result_type(form) + " " + name + "(", parameters(form), ") {\n", "    ");
    out_ += prologue(form);
    const std::string call =
        "detail::call_new<" + std::to_string(count) + ">(op, arguments, context)";
    if (count == 1) {
      out_ += "  return std::move(" + call + "[0]);\n}\n";
    } else {
      out_ += "  auto results = " + call + ";\n";
      std::vector<std::string> moved;
      for (int r = 0; r < count; ++r)
        moved.push_back("std::move(results[" + std::to_string(r) + "])");
      out_ += list("  return {", moved, "};\n}\n", "          ");
    }

    std::vector<std::string> items, outs = {"op", "arguments", "context"};
    for (int r = 0; r < count; ++r) {
      outs.push_back(destination_name(schema, form.result_of(r)));
      items.push_back("const OutRef& " + outs.back());
    }
    for (const std::string& item : parameters(form)) items.push_back(item);
    out_ += list("inline void " + std::string(form.name) + "_out(", items, ") {\n", "    ");
    out_ += prologue(form) + list("  detail::call_into(", outs, ");\n}\n", "      ");
  }

  // A form that only writes into its arguments.
  void write_writing(const Form& form) {
    out_ += documentation(form);
    out_ +=
        list("inline void " + argument_name(form.name) + "(", parameters(form), ") {\n", "    ");
    out_ += prologue(form) + "  detail::call_inplace(op, arguments, context);\n}\n";
  }

  void write_operator(const Operator& op) {
    const Schema& schema = op.schema;
    out_ += "\n// " + schema.name + ", schema " + schema.hash + " " + std::string(60, '-') + "\n";
    for (const ScalarSpec& s : schema.scalars)
      if (s.type == ScalarType::kEnum) write_enum(schema, s);
    std::set<std::string> written;
    for (const Form& form : op.forms) {
      const std::string members = options_members(form);
      if (!members.empty() && written.insert(options_name(form)).second)
        out_ += "\nstruct " + options_name(form) + " {\n" + members + "};\n";
      if (form.num_outputs > 0)
        write_returning(form);
      else
        write_writing(form);
    }
  }

  std::string out_;
};

}  // namespace dlblas::generate
