// Solves for the letters of one call by matching tensor sizes and size arguments against the
// schema's dimensions. In: Args as `call` filled them. Out: args.letters, shapes of results, and
// for each tensor whether it fits; dispatch/errors.cpp words a mismatch.
// Read next: core/dim.hpp, dispatch/validate.cpp.
#pragma once

#include <cstdint>

#include "core/reach.hpp"
#include "core/tensor.hpp"

namespace dlblas {

/// How one tensor's dimensions match the schema's.
struct Fit {
  enum class Kind : std::uint8_t {
    kComplete,  // every dimension was bound or checked
    kWaits,     // some dimension has letters that are not known yet
    kRank,      // another number of dimensions
    kSize,      // dimension `axis` (of the schema's list) has another size
    kLeading,   // other leading dimensions than tensor `other`
    kRows,      // the leading dimensions multiply to `size`, and the letter has another one
    kNone,      // a result: the letters give dimension `axis` no size
    kHuge,      // a result: above kMaxElements elements
  };
  Kind kind = Kind::kComplete;
  std::int8_t axis = 0;
  std::int8_t other = -1;
  std::int64_t size = 0;
};

class LetterBinder {
 public:
  /// Binds the letters that scalars give.
  LetterBinder(const Schema& schema, Args& args);

  /// Binds or checks every dimension of a tensor. A dimension determines a letter when that is its
  /// only unknown; otherwise it waits, and the tensor must be bound again once more letters are
  /// known. A letter that is multiplied by 0 matters to no size: its dimension is checked without
  /// it, and another one may bind it.
  Fit bind(int tensor);
  /// Bit i: letter i is bound.
  std::uint32_t bound() const { return bound_; }
  /// Sets the shape and the strides of a result to be allocated; `*T` expands to the leading
  /// dimensions of the first tensor with it.
  Fit make_shape(int tensor);
  /// Bit i: the tensor's dimension i has the smaller of two sizes, 1 of `1|M` although M is not 1,
  /// D of `D|2D`. Needs all letters bound.
  std::uint8_t ones_of(int tensor) const;
  /// Bit i: tensor i may have such dimensions.
  std::uint32_t with_ones() const { return with_ones_; }
  /// Sets letters that nothing has bound to 0; they would stay uninitialised. They occur in absent
  /// optional tensors alone, or are multiplied by 0.
  void close();

 private:
  bool is_bound(int letter) const { return bound_ >> letter & 1u; }
  Fit bind_leading(int tensor, int letter, int leading_rank);
  Fit bind_dim(const DimExpr& d, int axis, std::int64_t n);  // of a size with arithmetic
  /// True if the dimension has its size although letters of it are open; these are then 0.
  bool settled(const DimExpr& d, std::uint32_t open);

  const Schema& schema_;
  Args& args_;
  std::uint32_t bound_ = 0;
  std::uint32_t starred_ = 0;  // bit i: letter i is `*T` of a tensor, leading_tensor_[i]
  std::uint32_t with_ones_ = 0;
  std::int8_t leading_tensor_[kMaxLetters];
};

}  // namespace dlblas
