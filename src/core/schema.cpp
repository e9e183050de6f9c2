// The schema parser: a cursor over the text (core/cursor.hpp), one function a grammar rule; see
// schema.hpp for the grammar. In: the schema string. Out: Schema. Errors name the column and what
// was expected there.
#include "core/schema.hpp"

#include <cctype>

#include "core/cursor.hpp"
#include "core/error.hpp"

namespace dlblas {
namespace {

int find_tensor(const Schema& schema, std::string_view name) {
  for (std::size_t i = 0; i < schema.tensors.size(); ++i)
    if (schema.tensors[i].name == name) return static_cast<int>(i);
  return -1;
}
// Among the results alone: one may bear the name of an argument.
int find_result(const Schema& schema, std::string_view name) {
  for (std::size_t i = schema.num_inputs; i < schema.tensors.size(); ++i)
    if (schema.tensors[i].name == name) return static_cast<int>(i);
  return -1;
}
int find_scalar(const Schema& schema, std::string_view name) {
  for (std::size_t i = 0; i < schema.scalars.size(); ++i)
    if (schema.scalars[i].name == name) return static_cast<int>(i);
  return -1;
}

std::int8_t letter_index(Cursor& c, Schema& schema, const std::string& name) {
  const int known = schema.find_letter(name);
  if (known >= 0) return static_cast<std::int8_t>(known);
  if (static_cast<int>(schema.letters.size()) == kMaxLetters)
    c.fail(text("at most ", kMaxLetters, " letters"));
  schema.letters.push_back({name, false});
  return static_cast<std::int8_t>(schema.letters.size() - 1);
}

// One name of a dtype class; false when it is not a fixed class.
bool fixed_class(std::string_view name, DTypeSet* set) {
  if (name == "f") return *set |= kFloats, true;
  if (name == "f8") return *set |= set_of(DType::kF8E4M3) | set_of(DType::kF8E5M2), true;
  if (name == "index") return *set |= set_of(DType::kI32) | set_of(DType::kI64), true;
  const DType t = dtype_from_name(name);
  if (t == DType::kAbsent) return false;
  return *set |= set_of(t), true;
}

void parse_classes(Cursor& c, Schema& schema, TensorSpec& tensor) {
  do {
    const std::string name = c.name("a dtype class");
    if (name == "like") {
      c.expect("(");
      const std::string other = c.name("a tensor's name");
      tensor.like = static_cast<std::int8_t>(find_tensor(schema, other));
      if (tensor.like < 0) c.fail(text("an earlier tensor in like(), not ", other));
      if (schema.tensors[tensor.like].optional)
        c.fail(text("a tensor in like() that is always given, not ", other));
      c.expect(")");
    } else if (!fixed_class(name, &tensor.dtypes)) {
      tensor.dtype_scalar = static_cast<std::int8_t>(find_scalar(schema, name));
      if (tensor.dtype_scalar < 0 || schema.scalars[tensor.dtype_scalar].type != ScalarType::kDType)
        c.fail(text("a dtype class (f, f8, i8, index, a dtype, like(tensor), a dtype scalar), not ",
                    name));
    }
  } while (c.accept("|"));
  if (tensor.dtype_scalar >= 0 && !tensor.dtypes && tensor.like < 0 &&
      schema.scalars[tensor.dtype_scalar].has_default)
    c.fail(text("a dtype for where ", schema.scalars[tensor.dtype_scalar].name, " is none"));
}

DimExpr parse_dim(Cursor& c, Schema& schema, bool first) {
  DimExpr d;
  if (c.accept("*")) {
    if (!first) c.fail("`*` on the first dimension only");
    d.leading = true;
  } else if (c.at_digit()) {
    const std::int32_t n = c.count(0);
    if (!c.at_name()) return d.addend = n, d;
    if (n == 0) c.fail("a coefficient of at least 1 before this letter");
    d.coefficient = n;
  }
  d.letter = letter_index(c, schema, c.name("a dimension letter"));
  if (d.leading) return d;  // `*T` is plain: leading dimensions do not divide or grow
  if (c.accept("/")) d.divisor = c.count(1);
  if (c.accept("+")) d.addend = c.count(0);
  return d;
}

// `64`, `E`, `2E`, `P*page`.
void parse_limit(Cursor& c, Schema& schema, FillSpec& fill) {
  fill.has_limit = true;
  if (c.at_digit()) {
    fill.coefficient = c.count(0);
    if (!c.at_name() && !c.accept("*")) return;
  }
  fill.letters[0] = letter_index(c, schema, c.name("a number or a dimension letter"));
  if (c.accept("*"))
    fill.letters[1] = letter_index(c, schema, c.name("a dimension letter after `*`"));
}

void parse_fill(Cursor& c, Schema& schema, FillSpec& fill) {
  struct Word {
    std::string_view name;
    Fill fill;
    std::string_view limit;  // how one may begin; "": there is none
    bool none;               // may be followed by `|-1`
  };
  constexpr Word kWords[] = {{"normal", Fill::kNormal, "", false},
                             {"positive", Fill::kPositive, "", false},
                             {"zeros", Fill::kZeros, "", false},
                             {"permutation", Fill::kPermutation, "", false},
                             {"offsets", Fill::kOffsets, "<=", false},
                             {"index", Fill::kIndex, "< or <=", true},
                             {"distinct_rows", Fill::kDistinctRows, "<", true},
                             {"distinct", Fill::kDistinct, "<", true},
                             {"lengths", Fill::kLengths, "<=", false}};
  const Word* word = nullptr;
  for (const Word& w : kWords)
    if (!word && c.accept_word(w.name)) word = &w;
  if (!word)
    c.fail(
        "a fill: normal, positive, zeros, permutation, offsets<=LIMIT, index<LIMIT, index<=LIMIT, "
        "distinct<LIMIT, distinct_rows<LIMIT or lengths<=LIMIT");
  fill.fill = word->fill;
  const std::string_view sign = c.peek("<=") ? "<=" : c.peek("<") ? "<" : "";
  const bool allowed = sign.empty() ? word->limit.empty() || word->fill == Fill::kOffsets
                                    : word->limit == sign || word->limit == "< or <=";
  if (!allowed)
    c.fail(word->limit.empty() ? text("no limit after ", word->name)
                               : text(word->limit, " and a limit after ", word->name));
  if (c.accept(sign) && !sign.empty()) {
    fill.inclusive = sign == "<=";
    parse_limit(c, schema, fill);
  }
  if (!c.accept("|")) return;
  if (!word->none) c.fail(text("no `|-1` after ", word->name));
  c.expect("-1");
  fill.minus_one = true;
}

// A limit of a size that no input has would be 0 in every call.
void check_fills(const Cursor& c, const Schema& schema) {
  std::uint32_t sized = 0;
  for (int i = 0; i < schema.num_inputs; ++i)
    for (const DimExpr& d : schema.tensors[i].dims)
      if (d.letter >= 0) sized |= 1u << d.letter;
  for (const TensorSpec& t : schema.tensors)
    for (const std::int8_t letter : t.fill.letters)
      if (letter >= 0 && !(sized >> letter & 1u))
        c.fail(text("a size of an input in the fill of ", t.name, ", not ",
                    schema.letters[letter].name));
}

void parse_tensor(Cursor& c, Schema& schema, const std::string& name) {
  if (static_cast<int>(schema.tensors.size()) == kMaxTensors)
    c.fail(text("at most ", kMaxTensors, " tensors"));
  TensorSpec tensor;
  tensor.name = name;
  const std::size_t begin = c.position();
  parse_classes(c, schema, tensor);
  c.expect("[");
  if (!c.peek("]")) do
      tensor.dims.push_back(parse_dim(c, schema, tensor.dims.empty()));
    while (c.accept(","));
  c.expect("]");
  tensor.optional = c.accept("?");
  tensor.written = c.accept("!");
  tensor.type_text = c.since(begin);
  if (c.accept("~")) parse_fill(c, schema, tensor.fill);
  schema.tensors.push_back(std::move(tensor));
}

void parse_default(Cursor& c, ScalarSpec& scalar) {
  scalar.has_default = true;
  switch (scalar.type) {
    case ScalarType::kInt:
      scalar.default_value.i = c.integer();
      return;
    case ScalarType::kFloat:
      scalar.default_value.f = c.number();
      return;
    case ScalarType::kDType:
      scalar.default_value.i = -1;
      if (!c.accept_word("none")) c.fail("none");
      return;
    case ScalarType::kBool:
      scalar.default_value.i = c.accept_word("true");
      if (!scalar.default_value.i && !c.accept_word("false")) c.fail("true or false");
      return;
    case ScalarType::kEnum: {
      const std::string label = c.quoted();
      for (std::size_t i = 0; i < scalar.labels.size(); ++i)
        if (scalar.labels[i] == label)
          return void(scalar.default_value.i = static_cast<std::int64_t>(i));
      c.fail("one of the enumerated values as default");
    }
  }
}

void parse_scalar(Cursor& c, Schema& schema, const std::string& name) {
  if (static_cast<int>(schema.scalars.size()) == kMaxScalars)
    c.fail(text("at most ", kMaxScalars, " scalars"));
  ScalarSpec scalar;
  scalar.name = name;
  if (c.peek("\"")) {
    scalar.type = ScalarType::kEnum;
    do scalar.labels.push_back(c.quoted());
    while (c.accept("|"));
  } else if (c.accept_word("int")) {
    scalar.type = ScalarType::kInt;
  } else if (c.accept_word("bool")) {
    scalar.type = ScalarType::kBool;
  } else if (c.accept_word("dtype")) {
    scalar.type = ScalarType::kDType;
    c.expect("(");
    do {
      const std::string cls = c.name("a dtype class");
      if (!fixed_class(cls, &scalar.dtypes)) c.fail(text("a fixed dtype class, not ", cls));
    } while (c.accept("|"));
    c.expect(")");
  } else {
    c.expect("float");
  }
  if (c.accept("=")) parse_default(c, scalar);
  scalar.key = scalar.type != ScalarType::kFloat;
  if (c.accept_word("key"))
    scalar.key = true;
  else if (c.accept_word("runtime"))
    scalar.key = false;
  schema.scalars.push_back(std::move(scalar));
}

bool at_scalar_type(const Cursor& c) {
  for (std::string_view word : {"int ", "int=", "float ", "float=", "bool ", "bool=", "dtype(",
                                "int,", "float,", "bool,", "int)", "float)", "bool)", "\""})
    if (c.peek(word)) return true;
  return false;
}

void parse_params(Cursor& c, Schema& schema) {
  c.expect("(");
  bool keyword_only = false;
  while (!c.accept(")")) {
    if (!schema.params.empty()) c.expect(",");
    if (c.accept("*")) {
      if (keyword_only) c.fail("one `*` at the most");
      keyword_only = true;
      c.expect(",");
    }
    const std::string name = c.name("an argument's name");
    if (schema.find_param(name) >= 0) c.fail(text("a new argument name, not ", name, " again"));
    c.expect(":");
    const bool scalar = at_scalar_type(c);
    if (scalar)
      parse_scalar(c, schema, name);
    else
      parse_tensor(c, schema, name);
    const std::size_t index = scalar ? schema.scalars.size() : schema.tensors.size();
    schema.params.push_back({!scalar, static_cast<std::int8_t>(index - 1), keyword_only});
  }
  schema.num_inputs = static_cast<std::int32_t>(schema.tensors.size());
}

void parse_results(Cursor& c, Schema& schema) {
  c.expect("->");
  const bool several = c.accept("(");
  if (several && c.accept(")")) {
    for (const TensorSpec& t : schema.tensors)
      if (t.written) return;
    c.fail("a result, or an input marked `!`: it would do nothing");
  }
  do {
    const std::string name = c.name("a result's name");
    if (find_result(schema, name) >= 0) c.fail(text("a new result name, not ", name, " again"));
    c.expect(":");
    parse_tensor(c, schema, name);
    if (schema.tensors.back().optional || schema.tensors.back().written)
      c.fail(text("a plain type for the result ", name, ", without ? and !"));
    ++schema.num_results;
  } while (several && c.accept(","));
  if (several) c.expect(")");
  if (schema.num_results > kMaxResults) c.fail(text("at most ", kMaxResults, " results"));
}

void parse_where(Cursor& c, Schema& schema) {
  if (!c.accept_word("where")) return;
  do {
    const int letter = schema.find_letter(c.name("a dimension letter"));
    if (letter < 0) c.fail("a letter of this schema");
    c.expect(":");
    if (c.accept_word("exact")) continue;
    if (!c.accept_word("bucket")) c.fail("exact or bucket(tokens)");
    c.expect("(");
    c.expect("tokens");
    c.expect(")");
    schema.letters[letter].bucketed = true;
  } while (c.accept(","));
}

// FNV-1a, 64 bits: names a schema in store keys; nothing trusts it against an attacker.
std::string hash_text(std::string_view s) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (unsigned char byte : s) h = (h ^ byte) * 0x100000001b3ull;
  std::string hex(16, '0');
  for (int i = 15; i >= 0; --i, h >>= 4) hex[i] = "0123456789abcdef"[h & 15];
  return hex;
}

// One run of spaces where the text has any white space.
std::string canonical(std::string_view s) {
  std::string out;
  for (char ch : s) {
    const bool space = std::isspace(static_cast<unsigned char>(ch));
    if (!space)
      out += ch;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

int Schema::find_param(std::string_view wanted) const {
  for (std::size_t i = 0; i < params.size(); ++i)
    if (param_name(params[i]) == wanted) return static_cast<int>(i);
  return -1;
}

int Schema::find_letter(std::string_view wanted) const {
  for (std::size_t i = 0; i < letters.size(); ++i)
    if (letters[i].name == wanted) return static_cast<int>(i);
  return -1;
}

Schema parse_schema(std::string_view source) {
  Schema schema;
  schema.text = canonical(source);
  schema.hash = hash_text(schema.text);
  Cursor c(schema.text);
  schema.name = c.name("the operator's name");
  parse_params(c, schema);
  parse_results(c, schema);
  parse_where(c, schema);
  if (!c.done()) c.fail("the end");
  std::int8_t slot = 0;
  for (ScalarSpec& scalar : schema.scalars)
    if (scalar.key) scalar.key_slot = slot++;
  if (slot > kMaxKeyScalars) c.fail(text("at most ", kMaxKeyScalars, " key scalars"));
  check_fills(c, schema);
  for (int r = 0; r < schema.num_results; ++r)
    schema.judged.push_back(static_cast<std::int8_t>(schema.num_inputs + r));
  for (int i = 0; i < schema.num_inputs; ++i)
    if (schema.tensors[i].written) schema.judged.push_back(static_cast<std::int8_t>(i));
  if (schema.num_judged() > kMaxJudged)
    c.fail(text("at most ", kMaxJudged, " results and written inputs"));
  return schema;
}

InplaceForm parse_inplace(std::string_view source, const Schema& schema) {
  InplaceForm form;
  form.text = canonical(source);
  form.result_source.assign(schema.num_results, -1);
  Cursor c(form.text);
  form.name = c.name("the form's name");
  std::uint32_t listed = 0;  // bit i: schema.params[i] is in the form
  c.expect("(");
  bool keyword_only = false;
  while (!c.accept(")")) {
    if (!form.params.empty()) c.expect(",");
    if (c.accept("*")) {
      keyword_only = true;
      c.expect(",");
    }
    const std::string name = c.name("an argument's name");
    const int param = schema.find_param(name);
    if (param < 0) c.fail(text("an argument of ", schema.name, ", not ", name));
    if (listed >> param & 1u) c.fail(text("a new argument, not ", name, " again"));
    listed |= 1u << param;
    const Param& p = schema.params[param];
    form.params.push_back({p.is_tensor, p.index, keyword_only});
    if (!c.accept("!")) continue;
    if (!p.is_tensor) c.fail(text("a tensor to receive a result, not ", name));
    if (schema.tensors[p.index].written)
      c.fail(text("a tensor that the operator does not write itself, not ", name));
    const int result = find_result(schema, c.name("the result it receives"));
    if (result < 0) c.fail(text("a result of ", schema.name));
    form.result_source[result - schema.num_inputs] = p.index;
  }
  if (!c.done()) c.fail("the end");
  for (std::size_t i = 0; i < schema.params.size(); ++i) {
    const Param& p = schema.params[i];
    const bool may_lack =
        p.is_tensor ? schema.tensors[p.index].optional : schema.scalars[p.index].has_default;
    if (!(listed >> i & 1u) && !may_lack)
      c.fail(text("every argument without a default, ", schema.param_name(p), " too"));
  }
  for (std::int8_t source_index : form.result_source)
    if (source_index < 0) c.fail("every result to be received by an argument (name!result)");
  return form;
}

}  // namespace dlblas
