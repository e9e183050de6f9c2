// The schema parser: a cursor over the text (core/cursor.hpp), one function per grammar rule, and
// the rules of sizes in schema_sizes.cpp; see schema.hpp for the grammar. In: the schema string.
// Out: Schema. Errors name the column and what was expected there.
#include "core/schema.hpp"

#include <algorithm>
#include <bit>
#include <cctype>

#include "core/cursor.hpp"
#include "core/error.hpp"
#include "core/schema_sizes.hpp"

namespace dlblas {
namespace {

int find_tensor(const Schema& schema, std::string_view name) {
  for (std::size_t i = 0; i < schema.tensors.size(); ++i)
    if (schema.tensors[i].name == name) return static_cast<int>(i);
  return -1;
}
// Searches the results alone: a result may share an argument's name.
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
      const bool optional = schema.tensors[tensor.like].optional;
      if (c.accept("|")) {
        if (!optional) c.fail(text("), for ", other, " is always given"));
        const std::string fallback = c.name("a dtype");
        if (!fixed_class(fallback, &tensor.like_absent))
          c.fail(text("a fixed dtype class, not ", fallback));
      } else if (optional) {
        c.fail(
            text("a tensor in like() that is always given, or a dtype for where it is not: like(",
                 other, "|f32)"));
      }
      c.expect(")");
    } else if (name == "none") {
      tensor.optional = tensor.usual = true;
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

// `64`, `E`, `2E`, `P*page`.
void parse_limit(Cursor& c, Schema& schema, FillSpec& fill) {
  fill.has_limit = true;
  if (!c.at_digit() && !c.at_name() && !c.peek("(")) c.fail("a number or a dimension letter");
  fill.size = parse_size(c, schema);
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
                             {"negative", Fill::kNegative, "", false},
                             {"zeros", Fill::kZeros, "", false},
                             {"bits", Fill::kBits, "", false},
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
        "a fill: normal, positive, negative, zeros, bits, permutation, offsets<=LIMIT, "
        "index<LIMIT, index<=LIMIT, distinct<LIMIT, distinct_rows<LIMIT or lengths<=LIMIT");
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
  const bool of_floats = fill.fill == Fill::kPositive || fill.fill == Fill::kNegative ||
                         fill.fill == Fill::kZeros || fill.fill == Fill::kNormal;
  if (of_floats && c.accept_word("if")) fill.condition = c.name("a bool of the key");
  if (!c.accept("|")) return;
  if (!word->none) c.fail(text("no `|-1` after ", word->name));
  c.expect("-1");
  fill.minus_one = true;
}

void parse_tensor(Cursor& c, Schema& schema, const std::string& name) {
  if (static_cast<int>(schema.tensors.size()) == kMaxTensors)
    c.fail(text("at most ", kMaxTensors, " tensors"));
  TensorSpec tensor;
  tensor.name = name;
  const std::size_t begin = c.position();
  parse_classes(c, schema, tensor);
  c.expect("[");
  if (!c.peek("]")) do {
      if (static_cast<int>(tensor.dims.size()) == kMaxRank)
        c.fail(text("at most ", kMaxRank, " dimensions"));
      tensor.dims.push_back(parse_dim(c, schema, tensor.dims.empty()));
    } while (c.accept(","));
  c.expect("]");
  tensor.optional |= c.accept("?");
  tensor.written = c.accept("!");
  tensor.type_text = c.since(begin);
  if (c.accept("~")) parse_fill(c, schema, tensor.fill);
  schema.tensors.push_back(std::move(tensor));
}

void parse_default(Cursor& c, ScalarSpec& scalar) {
  scalar.has_default = true;
  switch (scalar.type) {
    case ScalarType::kInt:
      scalar.default_value.i = scalar.letter >= 0 ? c.count(0) : c.integer();
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

// `key`, `runtime`, `key(set)`, `key(set=50)`.
void parse_mark(Cursor& c, ScalarSpec& scalar) {
  const bool number = scalar.type == ScalarType::kFloat || scalar.type == ScalarType::kInt;
  scalar.key = scalar.type != ScalarType::kFloat && scalar.letter < 0;
  if (c.accept_word("runtime")) return void(scalar.key = false);
  if (!c.accept_word("key")) return;
  if (scalar.letter >= 0) c.fail("no mark: a dim is in the key as its letter (see where)");
  scalar.key = true;
  if (!c.accept("(")) return;
  if (!c.accept_word("set")) c.fail("set: key(set) for whether the value differs from its default");
  if (!number || !scalar.has_default) c.fail("an int or float with a default before key(set)");
  scalar.key_set = true;
  scalar.set_value = {scalar.default_value.i + 1, scalar.default_value.f + 1};
  if (c.accept("=")) {
    if (scalar.type == ScalarType::kInt)
      scalar.set_value.i = c.integer();
    else
      scalar.set_value.f = c.number();
    if (!scalar.is_set(scalar.set_value)) c.fail("a value that is not the default in key(set=...)");
  }
  c.expect(")");
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
  } else if (c.accept_word("dim")) {
    scalar.type = ScalarType::kInt;
    scalar.letter = letter_index(c, schema, name);
    Letter& letter = schema.letters[static_cast<std::size_t>(scalar.letter)];
    letter.scalar = static_cast<std::int8_t>(schema.scalars.size());
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
  if (c.peek("[")) c.fail("one number (a list is several arguments, or an index tensor)");
  if (c.peek("?"))
    c.fail("a default (= ...) instead of ?: a scalar may be left out when it has one");
  if (c.accept("=")) parse_default(c, scalar);
  parse_mark(c, scalar);
  schema.scalars.push_back(std::move(scalar));
}

// `bool` is also a dtype: it begins a tensor's type where dimensions or another class follow.
bool at_scalar_type(const Cursor& c) {
  if (c.peek("\"")) return true;
  for (std::string_view word : {"int", "float", "dim", "bool", "dtype"}) {
    Cursor ahead = c;
    if (!ahead.accept_word(word)) continue;
    if (word == "dtype") return ahead.peek("(");
    return word != "bool" || !(ahead.peek("[") || ahead.peek("|"));
  }
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
  if (several && c.accept(")")) {  // operators that only write what they are given
    for (const TensorSpec& tensor : schema.tensors)
      if (tensor.written) return;
    c.fail("a result, or an input marked `!`: it would do nothing");
  }
  do {
    const std::string name = c.name("a result's name");
    if (find_result(schema, name) >= 0) c.fail(text("a new result name, not ", name, " again"));
    c.expect(":");
    parse_tensor(c, schema, name);
    if (schema.tensors.back().optional || schema.tensors.back().written)
      c.fail(text("a plain type for the result ", name, ", without ? and !"));
    for (const DimExpr& d : schema.tensors.back().dims)
      if (d.may_be_smaller())
        c.fail(text("a size that is known for the result ", name, ", without |"));
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
    if (c.accept_word("free")) {
      c.expect("(");
      Letter& pool = schema.letters[static_cast<std::size_t>(letter)];
      const std::size_t known = schema.letters.size();
      pool.pool_size = parse_size(c, schema);
      if (schema.letters.size() > known) c.fail("letters of this schema in free()");
      pool.pool = true;
      c.expect(")");
      continue;
    }
    if (!c.accept_word("bucket")) c.fail("exact, bucket(tokens) or free(size)");
    c.expect("(");
    c.expect("tokens");
    c.expect(")");
    schema.letters[letter].bucketed = true;
  } while (c.accept(","));
}

// The letters that a call can determine: from arguments that give them, alone or with letters known
// so far.
std::uint32_t given_letters(const Schema& schema) {
  std::uint32_t known = 0, before = 0;
  for (const ScalarSpec& scalar : schema.scalars)
    if (scalar.letter >= 0) known |= 1u << scalar.letter;
  do {
    before = known;
    for (int i = 0; i < schema.num_inputs; ++i)
      for (const DimExpr& d : schema.tensors[static_cast<std::size_t>(i)].dims) {
        const std::uint32_t open = d.letters & ~known;
        if (std::has_single_bit(open) && !d.may_be_smaller() &&
            d.is_linear_in(std::countr_zero(open)))
          known |= open;
      }
  } while (known != before);
  return known;
}

// A size that no call could determine is the author's mistake: reported now, not at the first call.
void check_letters(Cursor& c, const Schema& schema) {
  const std::uint32_t known = given_letters(schema);
  for (const TensorSpec& tensor : schema.tensors)
    for (const DimExpr& d : tensor.dims)
      for (std::size_t i = 0; i < schema.letters.size(); ++i) {
        const std::string& letter = schema.letters[i].name;
        if (!(d.letters >> i & 1u)) continue;
        if (!(known >> i & 1u)) {
          const int scalar = find_scalar(schema, letter);
          const bool number = scalar >= 0 && schema.scalars[scalar].type == ScalarType::kInt;
          c.fail(text("an argument that gives ", letter, " of ", tensor.name, " ",
                      schema.print_dims(tensor), number ? " (write " : " (a tensor with it, or ",
                      letter, ": dim)"));
        }
        if (d.whole && schema.letters[i].bucketed)
          c.fail(text("/ instead of // in ", d.print(schema.letters), ", for ", letter,
                      " stands for all sizes of a bucket"));
      }
  for (const TensorSpec& tensor : schema.tensors)
    for (std::size_t i = 0; i < schema.letters.size(); ++i)
      if (tensor.fill.size.letters & ~known & 1u << i)
        c.fail(text("a size of an input in the fill of ", tensor.name, ", not ",
                    schema.letters[i].name));
  for (const Letter& letter : schema.letters) {
    const std::uint32_t others = letter.pool ? letter.pool_size.letters : 0;
    for (std::size_t i = 0; i < schema.letters.size(); ++i)
      if ((others >> i & 1u) && (schema.letters[i].pool || !(known >> i & 1u)))
        c.fail(text("letters in the key in free() of ", letter.name, ", not ",
                    schema.letters[i].name));
  }
}

void check_conditions(Cursor& c, const Schema& schema) {
  for (const TensorSpec& tensor : schema.tensors) {
    const std::string& name = tensor.fill.condition;
    if (name.empty()) continue;
    const int scalar = find_scalar(schema, name);
    if (scalar < 0 || schema.scalars[scalar].type != ScalarType::kBool ||
        !schema.scalars[scalar].key)
      c.fail(text("a bool of the key in the fill of ", tensor.name, ", not ", name));
  }
}

// FNV-1a, 64 bits: identifies a schema in store keys; not meant to resist an attacker.
std::string hash_text(std::string_view s) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (unsigned char byte : s) h = (h ^ byte) * 0x100000001b3ull;
  std::string hex(16, '0');
  for (int i = 15; i >= 0; --i, h >>= 4) hex[i] = "0123456789abcdef"[h & 15];
  return hex;
}

// Collapses every run of white space to one space.
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

Fill Schema::fill_of(int tensor, const ScalarValue* given) const {
  const FillSpec& spec = tensors[static_cast<std::size_t>(tensor)].fill;
  if (spec.condition.empty()) return spec.fill;
  const auto i = static_cast<std::size_t>(find_scalar(*this, spec.condition));
  const ScalarValue& value = given ? given[i] : scalars[i].default_value;
  return value.i != 0 ? spec.fill : Fill::kNormal;
}

std::string Schema::print_dims(const TensorSpec& spec) const {
  std::string s = "[";
  for (std::size_t i = 0; i < spec.dims.size(); ++i)
    s += dlblas::text(i ? ", " : "", spec.dims[i].leading ? "*" : "", spec.dims[i].print(letters));
  return s + "]";
}

std::array<std::int64_t, kMaxLetters> Schema::sizes_of(const Problem& problem) const {
  std::array<std::int64_t, kMaxLetters> sizes{};
  std::copy_n(problem.dims, letters.size(), sizes.begin());
  for (std::size_t i = 0; i < letters.size(); ++i)
    if (letters[i].pool)
      sizes[i] = std::max<std::int64_t>(1, letters[i].pool_size.evaluate(problem.dims));
  return sizes;
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
  check_letters(c, schema);
  check_conditions(c, schema);
  std::int8_t slot = 0;
  for (ScalarSpec& scalar : schema.scalars)
    if (scalar.key) scalar.key_slot = slot++;
  if (slot > kMaxKeyScalars) c.fail(text("at most ", kMaxKeyScalars, " key scalars"));
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
  for (int r = 0; r < schema.num_results; ++r)
    if (form.result_source[r] < 0) form.returned.push_back(static_cast<std::int8_t>(r));
  if (static_cast<int>(form.returned.size()) == schema.num_results)
    c.fail("a result that an argument receives (name!result)");
  return form;
}

}  // namespace dlblas
