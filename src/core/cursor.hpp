// A cursor over the text of a schema (or an expression): the grammar's tokens and its one error
// path. In: text with single spaces. Every function that accepts a token also skips the space after
// it. Read next: core/schema.cpp (the grammar's rules).
#pragma once

#include <cctype>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace dlblas {

class Cursor {
 public:
  /// `what` names the text in error messages.
  explicit Cursor(std::string_view text, const char* what = "schema") : what_(what), text_(text) {
    skip();
  }

  bool done() const { return at_ == text_.size(); }
  bool peek(std::string_view token) const { return text_.substr(at_).starts_with(token); }
  bool accept(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    skip();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(std::string(token));
  }
  bool at_name() const { return !done() && (std::isalpha(byte()) || byte() == '_'); }
  bool at_digit() const { return !done() && std::isdigit(byte()); }
  std::string name(const char* what) {
    if (!at_name()) fail(what);
    const std::size_t begin = at_;
    while (!done() && is_word(text_[at_])) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    skip();
    return word;
  }
  /// Accepts a whole word only: `key` does not match `keys`.
  bool accept_word(std::string_view word) {
    const std::size_t end = at_ + word.size();
    if (!peek(word) || (end < text_.size() && is_word(text_[end]))) return false;
    return accept(word);
  }
  /// A coefficient, a divisor, a size: small enough that no product of two of them overflows.
  std::int32_t count(std::int64_t least) {
    const std::size_t begin = at_;
    const std::int64_t v = integer();
    if (v >= least && v <= std::numeric_limits<std::int32_t>::max())
      return static_cast<std::int32_t>(v);
    at_ = begin;
    fail(text("an integer from ", least, " to ", std::numeric_limits<std::int32_t>::max()));
  }
  std::int64_t integer() {
    std::int64_t v = 0;
    const auto [end, failed] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (failed != std::errc{}) fail("an integer");
    advance_to(end);
    return v;
  }
  double number() {
    double v = 0;
    const auto [end, failed] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (failed != std::errc{}) fail("a number");
    advance_to(end);
    return v;
  }
  std::string quoted() {
    if (!peek("\"")) fail("a quoted value");
    const std::size_t end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos) fail("a closing quote");
    const std::string s(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    skip();
    return s;
  }
  std::size_t position() const { return at_; }
  std::string since(std::size_t begin) const {
    std::string s(text_.substr(begin, at_ - begin));
    while (!s.empty() && s.back() == ' ') s.pop_back();
    return s;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    const std::string got(done() ? "the end" : std::string(text_.substr(at_, 12)));
    throw Error(ErrorKind::kArgument,
                text(what_, ": text is malformed at column ", at_ + 1, "; expected ", expected,
                     ", got ", got, "; in ", text_),
                {.argument = what_, .expected = expected, .got = got});
  }

 private:
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  unsigned char byte() const { return static_cast<unsigned char>(text_[at_]); }
  void skip() {
    while (!done() && std::isspace(byte())) ++at_;
  }
  void advance_to(const char* end) {
    at_ = static_cast<std::size_t>(end - text_.data());
    skip();
  }
  const char* what_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace dlblas
