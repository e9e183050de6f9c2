// Writes operators.md: a section per operator with formula, schema, arguments, results,
// implementations and knobs. In: the registry. Out: Markdown text. Read next:
// docs/add_an_operator.md.
#pragma once

#include "tools/generate/names.hpp"

namespace dlblas::generate {

class PageWriter {
 public:
  std::string write(const Registry& registry) {
    out_ =
        "<!-- Made by tools/generate.cpp from the operators' schemas. Do not edit. -->\n# "
        "Operators\n\n"
        "Every operator with its schema, and the implementations in the order they are considered. "
        "Which one a\n"
        "call gets, and why, is what `dlblas explain` prints.\n";
    for (const Operator* op : registry.operators()) write_operator(*op);
    return out_;
  }

 private:
  // Escapes `|`, which would end a table cell early.
  static std::string cell(std::string_view s) {
    std::string out;
    for (char ch : s) out += ch == '|' ? std::string("\\|") : std::string(1, ch);
    return out;
  }
  void row(const std::vector<std::string>& cells) {
    out_ += "|";
    for (const std::string& c : cells) out_ += " " + cell(c) + " |";
    out_ += "\n";
  }
  void table(const std::vector<std::string>& head) {
    row(head);
    out_ += "|";
    for (std::size_t i = 0; i < head.size(); ++i) out_ += "---|";
    out_ += "\n";
  }

  static std::string default_of(const Schema& schema, const Param& p) {
    if (!is_optional(schema, p)) return "required";
    if (p.is_tensor) return "absent";
    return default_text(schema.scalars[p.index], "true", "false", "none");
  }

  static std::string key_of(const Schema& schema, const Param& p) {
    if (p.is_tensor) return "dtype, layout";
    const ScalarSpec& scalar = schema.scalars[p.index];
    if (scalar.letter >= 0) return "as its letter";
    return scalar.key_set ? "whether it is set" : scalar.key ? "value" : "not";
  }

  void write_arguments(const Operator& op) {
    const Schema& schema = op.schema;
    table({"argument", "what", "default", "in the key"});
    for (const Param& p : schema.params) {
      const std::string name =
          "`" + std::string(schema.param_name(p)) + "`" + (p.keyword_only ? " (keyword)" : "");
      // What a choice may depend on is part of the Problem; run-time scalars never cause a miss.
      row({name, describe(op.forms.front(), p), default_of(schema, p), key_of(schema, p)});
    }
    out_ += "\n";
    if (schema.num_results > 0) table({"result", "what"});
    for (int r = 0; r < schema.num_results; ++r) {
      const TensorSpec& t = schema.tensors[schema.num_inputs + r];
      row({"`" + t.name + "`", "`" + t.type_text + "`"});
    }
    std::string letters;
    for (const Letter& l : schema.letters)
      letters += (letters.empty() ? "`" : ", `") + l.name + "` " +
                 (l.pool       ? "free (" + l.pool_size.print(schema.letters) + ")"
                  : l.bucketed ? "bucketed"
                               : "exact");
    if (!letters.empty()) out_ += "\nLetters: " + letters + ".\n";
  }

  static std::string knob_values(const Knob& k) {
    std::string s;
    for (std::size_t i = 0; i < k.values.size(); ++i)
      s += (i ? ", " : "") +
           (k.labels.empty() ? std::to_string(k.values[i]) : std::string(k.labels[i]));
    return s;
  }

  void write_implementations(const Operator& op) {
    table({"implementation", "backend", "same bits", "capturable", "knobs"});
    for (const Implementation* impl : op.candidates()) {
      std::string knobs;
      for (const Knob& k : impl->table().knobs())
        knobs += (knobs.empty() ? "" : "; ") + text("`", k.name, "`: ", knob_values(k));
      row({text("`", impl->name, "`"), impl->backend == DeviceType::kCpu ? "cpu" : "cuda",
           impl->flags.deterministic ? "in any batch"
           : impl->flags.repeatable  ? "in every run"
                                     : "no",
           impl->flags.capturable ? "yes" : "no", knobs.empty() ? "none" : knobs});
    }
  }

  void write_operator(const Operator& op) {
    out_ += "\n## " + op.schema.name + "\n" + std::string(op.def.formula) + "\n\n```\n" +
            wrap(op.schema.text, "");
    for (const InplaceForm& form : op.inplace_forms) out_ += wrap(form.text, "");
    out_ +=
        "```\nFamily `" + std::string(op.def.family) + "`, schema `" + op.schema.hash + "`.\n\n";
    write_arguments(op);
    out_ += "\n";
    write_implementations(op);
  }

  std::string out_;
};

}  // namespace dlblas::generate
