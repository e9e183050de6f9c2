// Parser and stack machine of integer expressions; see expression.hpp.
#include "core/expression.hpp"

#include <algorithm>

#include "core/cursor.hpp"

namespace dlblas {
namespace {

using Kind = Expression::Kind;
using Step = Expression::Step;

constexpr int kMaxDepth = 32;  // of parentheses: the parser recurses

class Parser {
 public:
  Parser(std::string_view text, const std::vector<std::string_view>& names)
      : cursor_(text, "expression"), names_(names) {}

  std::vector<Step> run() {
    sum(0);
    if (!cursor_.done()) cursor_.fail("an operator or the end");
    return std::move(steps_);
  }

 private:
  void put(Kind kind, std::int64_t operand = 0) {
    if (steps_.size() == Expression::kMaxSteps)
      cursor_.fail(text("at most ", Expression::kMaxSteps, " values and operators"));
    steps_.push_back({kind, operand});
  }

  void sum(int depth) {
    if (depth > kMaxDepth) cursor_.fail(text("at most ", kMaxDepth, " parentheses deep"));
    product(depth);
    for (;;) {
      if (cursor_.accept("+"))
        product(depth), put(Kind::kAdd);
      else if (cursor_.accept("-"))
        product(depth), put(Kind::kSubtract);
      else
        return;
    }
  }

  void product(int depth) {
    factor(depth);
    for (;;) {
      if (cursor_.accept("*"))
        factor(depth), put(Kind::kMultiply);
      else if (cursor_.accept("/"))
        divisor(depth), put(Kind::kDivide);
      else if (cursor_.accept("%"))
        divisor(depth), put(Kind::kModulo);
      else
        return;
    }
  }

  // Refuses a literal 0, which is a mistake; a divisor that evaluates to 0 yields 0 at launch.
  void divisor(int depth) {
    const Cursor before = cursor_;
    factor(depth);
    refuse_zero(before);
  }

  void refuse_zero(const Cursor& before) const {
    if (steps_.back().kind == Kind::kConstant && steps_.back().operand == 0)
      before.fail("a divisor other than 0");
  }

  void factor(int depth) {
    if (cursor_.at_digit()) return put(Kind::kConstant, cursor_.count(0));
    if (cursor_.accept("-")) {
      put(Kind::kConstant, 0);
      if (depth == kMaxDepth) cursor_.fail("fewer signs");
      factor(depth + 1);
      return put(Kind::kSubtract);
    }
    if (cursor_.accept("(")) {
      sum(depth + 1);
      return cursor_.expect(")");
    }
    named(depth);
  }

  void named(int depth) {
    const std::string expected = known();
    const Cursor before = cursor_;
    const std::string word = cursor_.name(expected.c_str());
    constexpr std::pair<std::string_view, Kind> kFunctions[] = {
        {"ceil_div", Kind::kCeilDiv}, {"min", Kind::kMin}, {"max", Kind::kMax}};
    for (const auto& [name, kind] : kFunctions)
      if (word == name && cursor_.accept("(")) {
        sum(depth + 1);
        cursor_.expect(",");
        const Cursor second = cursor_;
        sum(depth + 1);
        if (kind == Kind::kCeilDiv) refuse_zero(second);
        cursor_.expect(")");
        return put(kind);
      }
    const auto at = std::find(names_.begin(), names_.end(), word);
    if (at == names_.end()) before.fail(expected);
    put(Kind::kValue, at - names_.begin());
  }

  std::string known() const {
    std::string s = "a number, a parenthesis, ceil_div, min, max";
    for (const std::string_view name : names_) s += text(", ", name);
    return s;
  }

  Cursor cursor_;
  const std::vector<std::string_view>& names_;
  std::vector<Step> steps_;
};

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1)
    return b == 0 ? 0 : static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t apply(Kind kind, std::int64_t a, std::int64_t b) {
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  switch (kind) {
    case Kind::kAdd:
      return static_cast<std::int64_t>(ua + ub);
    case Kind::kSubtract:
      return static_cast<std::int64_t>(ua - ub);
    case Kind::kMultiply:
      return static_cast<std::int64_t>(ua * ub);
    case Kind::kDivide:
      return floor_div(a, b);
    case Kind::kModulo:
      return static_cast<std::int64_t>(ua - ub * static_cast<std::uint64_t>(floor_div(a, b)));
    case Kind::kCeilDiv:
      return static_cast<std::int64_t>(
          0 - static_cast<std::uint64_t>(floor_div(static_cast<std::int64_t>(0 - ua), b)));
    case Kind::kMin:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

}  // namespace

Expression::Expression(std::string_view text, const std::vector<std::string_view>& names)
    : steps_(Parser(text, names).run()) {}

bool Expression::is_constant() const {
  return std::none_of(steps_.begin(), steps_.end(),
                      [](const Step& step) { return step.kind == Kind::kValue; });
}

std::int64_t Expression::evaluate(const std::int64_t* values) const {
  std::int64_t stack[kMaxSteps];
  int top = 0;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kConstant)
      stack[top++] = step.operand;
    else if (step.kind == Kind::kValue)
      stack[top++] = values[step.operand];
    else
      --top, stack[top - 1] = apply(step.kind, stack[top - 1], stack[top]);
  }
  return top > 0 ? stack[0] : 0;
}

}  // namespace dlblas
