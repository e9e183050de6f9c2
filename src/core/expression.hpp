// Integer expressions over named values, parsed once and evaluated at every launch: the grid of a
// user's kernel, written in its operator's letters. In: text and the names that may occur. Out: a
// value.
//
//   sum     := product (('+' | '-') product)*
//   product := factor (('*' | '/' | '%') factor)*         division rounds down, as for sizes;
//                                                         a literal 0 divisor is refused
//   factor  := INT | NAME | '-' factor | '(' sum ')'
//            | ('ceil_div' | 'min' | 'max') '(' sum ',' sum ')'
// Read next: bindings/c/register_cuda.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace dlblas {

class Expression {
 public:
  Expression() = default;
  /// Throws Error(kArgument) saying what was expected at which column.
  Expression(std::string_view text, const std::vector<std::string_view>& names);
  /// `values`: one for each name, in order. Division by zero yields 0; overflow wraps.
  std::int64_t evaluate(const std::int64_t* values) const;
  /// True if no name occurs in it, so that evaluating it needs no `values`.
  bool is_constant() const;

  enum class Kind : std::uint8_t {
    kConstant,
    kValue,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kModulo,
    kCeilDiv,
    kMin,
    kMax
  };
  struct Step {
    Kind kind;
    std::int64_t operand;  // a constant, or the index of a value
  };
  static constexpr int kMaxSteps = 64;

 private:
  std::vector<Step> steps_;  // in postfix order; as many values as steps at most wait at a time
};

}  // namespace dlblas
