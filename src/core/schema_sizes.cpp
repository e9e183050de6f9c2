// The schema's grammar of sizes: one function per rule. In: a cursor at a size. Out: DimExpr, and
// letters that the schema did not have yet.
#include "core/schema_sizes.hpp"

#include <string>

#include "core/error.hpp"

namespace dlblas {
namespace {

// `2F` or `Hkv*D`; the coefficient, if any, has been read.
DimTerm parse_term(Cursor& c, Schema& schema, std::int32_t coefficient) {
  if (coefficient == 0) c.fail("a coefficient of at least 1 before this letter");
  DimTerm term;
  term.coefficient = coefficient;
  term.letter = letter_index(c, schema, c.name("a dimension letter"));
  if (!c.accept("*")) return term;
  if (!c.at_name()) c.fail("a letter after * (a number stands first: 2H)");
  term.times = letter_index(c, schema, c.name("a dimension letter"));
  if (c.peek("*")) c.fail("a product of two letters at the most");
  return term;
}

// True when a number without a letter ended the sum: `B+1`.
bool parse_terms(Cursor& c, Schema& schema, DimExpr& d, std::int32_t first) {
  d.terms[d.num_terms++] = parse_term(c, schema, first);
  while (c.accept("+")) {
    const std::int32_t n = c.at_name() ? 1 : c.count(0);
    if (!c.at_name()) return d.addend = n, true;
    if (d.num_terms == kMaxTerms) c.fail(text("at most ", kMaxTerms, " terms in a size"));
    d.terms[d.num_terms++] = parse_term(c, schema, n);
  }
  return false;
}

void parse_divisor(Cursor& c, Schema& schema, DimExpr& d) {
  d.whole = c.accept("//");
  if (!d.whole) c.expect("/");
  if (c.at_name())
    d.divisor_letter = letter_index(c, schema, c.name("a dimension letter"));
  else
    d.divisor = c.count(1);
}

void parse_addend(Cursor& c, DimExpr& d) {
  if (c.accept("+")) {
    if (c.at_name()) c.fail("a number after a division (letters stand before it, in parentheses)");
    d.addend = c.count(0);
  } else if (c.accept("-")) {
    if (!c.at_digit()) c.fail("a number after - (only numbers are subtracted)");
    d.addend = -c.count(0);
  }
}

DimExpr parse_sum(Cursor& c, Schema& schema, std::int32_t first) {
  DimExpr d;
  if (first < 0 && c.accept("(")) {
    const std::int32_t n = c.at_digit() ? c.count(0) : 1;
    if (parse_terms(c, schema, d, n)) c.fail("a letter in a sum that is divided");
    c.expect(")");
    if (!c.peek("/")) c.fail("/ or // after a sum in parentheses");
    parse_divisor(c, schema, d);
    return parse_addend(c, d), d;
  }
  if (first < 0 && c.at_digit()) first = c.count(0);
  if (first >= 0 && !c.at_name()) return DimExpr::of_constant(first);
  const bool ended = parse_terms(c, schema, d, first < 0 ? 1 : first);
  if (c.peek("/") && (ended || d.num_terms > 1))
    c.fail(text("parentheses around a sum that is divided: (", d.print(schema.letters), ")/..."));
  if (c.peek("/")) parse_divisor(c, schema, d);
  if (!ended) parse_addend(c, d);
  return d;
}

}  // namespace

std::int8_t letter_index(Cursor& c, Schema& schema, const std::string& name) {
  const int known = schema.find_letter(name);
  if (known >= 0) return static_cast<std::int8_t>(known);
  if (static_cast<int>(schema.letters.size()) == kMaxLetters)
    c.fail(text("at most ", kMaxLetters, " letters"));
  schema.letters.emplace_back().name = name;
  return static_cast<std::int8_t>(schema.letters.size() - 1);
}

DimExpr parse_size(Cursor& c, Schema& schema, std::int32_t first) {
  DimExpr d = parse_sum(c, schema, first);
  d.settle();
  return d;
}

DimExpr parse_dim(Cursor& c, Schema& schema, bool first) {
  if (c.accept("*")) {
    if (!first) c.fail("`*` on the first dimension only");
    DimExpr d = DimExpr::of_letter(letter_index(c, schema, c.name("a dimension letter")));
    d.leading = true;  // and plain: leading dimensions do not divide or grow
    return d;
  }
  const std::int32_t number = c.at_digit() ? c.count(0) : -1;
  const bool may_be_one = number == 1 && c.accept("|");
  DimExpr d = parse_size(c, schema, may_be_one ? -1 : number);
  if (may_be_one && d.is_constant()) c.fail("a size with letters after 1|");
  d.may_be_one = may_be_one;
  if (may_be_one || !c.accept("|")) return d;
  DimExpr whole = parse_size(c, schema);
  if (!d.is_half_of(whole)) c.fail("twice the size before |, as in D|2D");
  whole.may_be_half = true;
  return whole;
}

}  // namespace dlblas
