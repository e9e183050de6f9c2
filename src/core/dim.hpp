// Sizes of dimensions as a schema writes them: `2F`, `H*D+2Hkv*D`, `K/group`, `K-1`, `1|M`,
// `D|2D`.
// In: sizes of the letters, in schema order. Out: the size of the dimension, or of the one letter
// that a dimension determines. Implemented here, and once more for symbolic sizes in
// python/dlblas/_dims.py. Read next: core/schema.hpp (the grammar), dispatch/validate.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace dlblas {

struct Letter;

inline constexpr int kMaxTerms = 3;
/// evaluate()'s result for a size beyond 64 bits, which no tensor can have.
inline constexpr std::int64_t kTooLarge = std::numeric_limits<std::int64_t>::max();
/// evaluate()'s result where there is no size: below 0, divided by 0, or `//` with a remainder.
inline constexpr std::int64_t kNoSize = -1;

/// `coefficient · letter`, or `coefficient · letter · times`.
struct DimTerm {
  std::int32_t coefficient = 1;
  std::int8_t letter = -1;  // index into Schema::letters
  std::int8_t times = -1;   // a second letter, or -1
};

/// One size: `(term + term + term) / divisor + addend`. `/` rounds up; `//` must divide.
struct DimExpr {
  DimTerm terms[kMaxTerms] = {};
  std::int8_t num_terms = 0;        // 0: the constant `addend`
  bool leading = false;             // `*T`: any number of leading dimensions, flattened
  bool may_be_one = false;          // `1|M`: an input may have 1 here instead
  bool may_be_half = false;         // `D|2D`: an input may have half as many here
  bool whole = false;               // `//`
  std::int8_t divisor_letter = -1;  // divides instead of `divisor`, or -1
  std::int8_t plain = -1;           // the letter, if it is one without any arithmetic
  std::uint32_t letters = 0;        // bit i: letter i occurs in it
  std::int32_t divisor = 1;
  std::int64_t addend = 0;  // may be negative: K-1

  static DimExpr of_letter(int letter) {
    DimExpr d;
    d.num_terms = 1;
    d.terms[0].letter = static_cast<std::int8_t>(letter);
    d.settle();
    return d;
  }
  static DimExpr of_constant(std::int64_t n) {
    DimExpr d;
    d.addend = n;
    return d;
  }

  bool is_constant() const { return num_terms == 0; }
  /// True if an input may have another size here, the `smaller` one.
  bool may_be_smaller() const { return may_be_one || may_be_half; }
  std::int64_t smaller(const std::int64_t* sizes) const {
    return may_be_one ? 1 : evaluate(sizes) / 2;
  }
  /// True for one product of letters whose coefficient is half of `whole`'s.
  bool is_half_of(const DimExpr& whole) const;
  /// Fills `plain` and `letters`, once the terms, the divisor and the addend are set.
  void settle();
  /// True if a size of this dimension determines `letter`, once the other letters are known.
  bool is_linear_in(int letter) const;
  /// True if the size is the same whatever the `open` letters are: each is multiplied by a letter
  /// of size 0, as G in `Hkv*G` where Hkv is 0. Reads only the other letters' sizes.
  bool ignores(std::uint32_t open, const std::int64_t* sizes) const;
  /// The size once the letters are known; kTooLarge or kNoSize where there is none. For `1|M` it is
  /// M's size, so 1 only where M is 1; for `D|2D` it is 2D's.
  std::int64_t evaluate(const std::int64_t* sizes) const {
    return plain >= 0 ? sizes[plain] : compute(sizes);
  }
  /// The size of `letter` that makes this dimension n, given the other letters.
  struct Solution {
    bool found = false;
    std::int64_t size = kNoSize;  // not found, and kNoSize: no size does
    std::int64_t step = 1;        // n - addend is a multiple of it where a size does
  };
  Solution solve(int letter, const std::int64_t* sizes, std::int64_t n) const;

  /// As a schema writes it, without the leading star.
  std::string print(const std::vector<Letter>& of) const;
  /// The same without the smaller size, and that size alone.
  std::string print_whole(const std::vector<Letter>& of) const;
  std::string print_smaller(const std::vector<Letter>& of) const;

 private:
  std::int64_t compute(const std::int64_t* sizes) const;
};

/// One letter of a schema.
struct Letter {
  std::string name;  // "T", "C", "Hkv", "topk"
  bool bucketed = false;
  bool pool = false;        // `free(B*W)`: no part of the key
  DimExpr pool_size;        // as many as the tuner makes
  std::int8_t scalar = -1;  // the argument `topk: dim` that gives it, or -1
};

}  // namespace dlblas
