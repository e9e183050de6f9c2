// Arithmetic of sizes; see dim.hpp. Saturates instead of overflowing: a size argument may be 2^62.
#include "core/dim.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace dlblas {
namespace {

std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kTooLarge : product;
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kTooLarge : sum;
}

std::int64_t value_of(const DimTerm& term, const std::int64_t* sizes) {
  const std::int64_t one = times(term.coefficient, sizes[term.letter]);
  return term.times < 0 ? one : times(one, sizes[term.times]);
}

}  // namespace

void DimExpr::settle() {
  letters = 0;
  for (int i = 0; i < num_terms; ++i) {
    letters |= 1u << terms[i].letter;
    if (terms[i].times >= 0) letters |= 1u << terms[i].times;
  }
  if (divisor_letter >= 0) letters |= 1u << divisor_letter;
  const bool one = num_terms == 1 && terms[0].coefficient == 1 && terms[0].times < 0 &&
                   divisor == 1 && divisor_letter < 0 && addend == 0;
  plain = one ? terms[0].letter : std::int8_t{-1};
}

bool DimExpr::is_linear_in(int letter) const {
  const bool invertible = whole || (divisor == 1 && divisor_letter < 0);
  bool there = false;
  for (int i = 0; i < num_terms; ++i) {
    if (terms[i].letter == letter && terms[i].times == letter) return false;
    there |= terms[i].letter == letter || terms[i].times == letter;
  }
  return there && invertible && divisor_letter != letter;
}

bool DimExpr::ignores(std::uint32_t open, const std::int64_t* sizes) const {
  const auto is_open = [open](std::int8_t letter) { return letter >= 0 && (open >> letter & 1u); };
  if (is_open(divisor_letter)) return false;
  for (int i = 0; i < num_terms; ++i) {
    const std::int8_t first = terms[i].letter, second = terms[i].times;
    if (is_open(first) && (second < 0 || is_open(second) || sizes[second] != 0)) return false;
    if (is_open(second) && !is_open(first) && sizes[first] != 0) return false;
  }
  return true;
}

std::int64_t DimExpr::compute(const std::int64_t* sizes) const {
  if (num_terms == 0) return addend;
  std::int64_t sum = 0;
  for (int i = 0; i < num_terms; ++i) sum = plus(sum, value_of(terms[i], sizes));
  const std::int64_t by = divisor_letter < 0 ? divisor : sizes[divisor_letter];
  if (by <= 0) return kNoSize;
  if (sum == kTooLarge) return kTooLarge;
  if (by == 1) return std::max(plus(sum, addend), kNoSize);  // division takes long
  if (whole && sum % by != 0) return kNoSize;
  const std::int64_t size = plus(sum / by + (sum % by != 0), addend);
  return std::max(size, kNoSize);
}

DimExpr::Solution DimExpr::solve(int letter, const std::int64_t* sizes, std::int64_t n) const {
  Solution none;
  std::int64_t rest = 0, slope = 0;
  if (__builtin_sub_overflow(n, addend, &rest) || rest < 0) return none;
  const std::int64_t by = divisor_letter < 0 ? divisor : sizes[divisor_letter];
  rest = times(rest, by);
  if (by <= 0 || rest == kTooLarge) return none;
  for (int i = 0; i < num_terms; ++i) {
    const DimTerm& term = terms[i];
    if (term.letter != letter && term.times != letter) {
      if (__builtin_sub_overflow(rest, value_of(term, sizes), &rest)) return none;
    } else {
      const std::int8_t other = term.letter == letter ? term.times : term.letter;
      slope = plus(slope, other < 0 ? term.coefficient : times(term.coefficient, sizes[other]));
    }
  }
  none.step = slope;
  if (rest < 0 || slope <= 0 || rest % slope != 0) return none;
  return {true, rest / slope, slope};
}

bool DimExpr::is_half_of(const DimExpr& other) const {
  const auto is_product = [](const DimExpr& d) {
    return d.num_terms == 1 && d.divisor == 1 && d.divisor_letter < 0 && d.addend == 0;
  };
  const DimTerm &mine = terms[0], &its = other.terms[0];
  return is_product(*this) && is_product(other) && mine.letter == its.letter &&
         mine.times == its.times && 2 * mine.coefficient == its.coefficient;
}

std::string DimExpr::print(const std::vector<Letter>& of) const {
  return may_be_smaller() ? text(print_smaller(of), "|", print_whole(of)) : print_whole(of);
}

std::string DimExpr::print_smaller(const std::vector<Letter>& of) const {
  if (may_be_one) return "1";
  DimExpr half = *this;
  half.terms[0].coefficient /= 2;
  return half.print_whole(of);
}

std::string DimExpr::print_whole(const std::vector<Letter>& of) const {
  std::string s;
  if (num_terms == 0) return text(s, addend);
  const auto name = [&](std::int8_t i) { return of[static_cast<std::size_t>(i)].name; };
  const bool divided = divisor != 1 || divisor_letter >= 0 || whole;
  const bool grouped = divided && num_terms > 1;
  if (grouped) s += "(";
  for (int i = 0; i < num_terms; ++i) {
    if (i > 0) s += "+";
    if (terms[i].coefficient != 1) s += std::to_string(terms[i].coefficient);
    s += name(terms[i].letter);
    if (terms[i].times >= 0) s += "*" + name(terms[i].times);
  }
  if (grouped) s += ")";
  if (divided) {
    s += whole ? "//" : "/";
    s += divisor_letter >= 0 ? name(divisor_letter) : std::to_string(divisor);
  }
  if (addend > 0) s += "+";
  if (addend != 0) s += std::to_string(addend);
  return s;
}

}  // namespace dlblas
