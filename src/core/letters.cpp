// See letters.hpp.
#include "core/letters.hpp"

#include <bit>

namespace dlblas {

LetterBinder::LetterBinder(const Schema& schema, Args& args) : schema_(schema), args_(args) {
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    if (const std::int8_t scalar = schema.letters[i].scalar; scalar >= 0) {
      args.letters[i] = args.scalars[scalar].i;
      bound_ |= 1u << i;
    }
}

Fit LetterBinder::bind(int tensor) {
  const TensorSpec& spec = schema_.tensors[static_cast<std::size_t>(tensor)];
  TensorView& t = args_.tensors[tensor];
  const int rank = static_cast<int>(spec.dims.size());
  if (rank == 0 && t.rank == 1 && t.shape[0] == 1) t.rank = 0;  // f32[] takes [1]
  const bool leading = spec.has_leading();
  const int extra = t.rank - rank;  // leading dimensions beyond one
  if (leading ? extra < -1 : extra != 0) return {.kind = Fit::Kind::kRank};
  if (leading)
    if (const Fit fit = bind_leading(tensor, spec.dims[0].terms[0].letter, extra + 1);
        fit.kind != Fit::Kind::kComplete)
      return fit;
  Fit all;
  for (int i = leading; i < rank; ++i) {
    const DimExpr& d = spec.dims[static_cast<std::size_t>(i)];
    const std::int64_t n = t.shape[i + extra];
    if (d.may_be_one && n == 1) {
      with_ones_ |= 1u << tensor;
      continue;
    }
    if (d.may_be_half) {  // either size fits the letters, which others give
      if ((d.letters & ~bound_) != 0) {
        all = {.kind = Fit::Kind::kWaits};
        continue;
      }
      if (n == d.smaller(args_.letters)) {
        with_ones_ |= 1u << tensor;
        continue;
      }
    }
    if (d.plain >= 0) {  // nearly all
      if (!is_bound(d.plain))
        args_.letters[d.plain] = n, bound_ |= 1u << d.plain;
      else if (args_.letters[d.plain] != n)
        return {.kind = Fit::Kind::kSize, .axis = static_cast<std::int8_t>(i)};
      continue;
    }
    const Fit fit = bind_dim(d, i, n);
    if (fit.kind == Fit::Kind::kSize) return fit;
    if (fit.kind != Fit::Kind::kComplete) all = fit;
  }
  return all;
}

// Binds the product of the leading dimensions; every tensor with this `*T` must have the same ones.
Fit LetterBinder::bind_leading(int tensor, int letter, int leading_rank) {
  const TensorView& t = args_.tensors[tensor];
  std::int64_t product = 1;
  for (int i = 0; i < leading_rank; ++i) product *= t.shape[i];
  if (starred_ >> letter & 1u) {
    const std::int8_t like = leading_tensor_[letter];
    const TensorView& first = args_.tensors[like];
    const auto plain =
        static_cast<int>(schema_.tensors[static_cast<std::size_t>(like)].dims.size());
    bool same = first.rank - (plain - 1) == leading_rank;
    for (int i = 0; same && i < leading_rank; ++i) same = t.shape[i] == first.shape[i];
    if (same) return {};
    return {.kind = Fit::Kind::kLeading, .other = like};
  }
  if (is_bound(letter) && product != args_.letters[letter])
    return {.kind = Fit::Kind::kRows, .size = product};
  args_.letters[letter] = product;
  starred_ |= 1u << letter;
  leading_tensor_[letter] = static_cast<std::int8_t>(tensor);
  bound_ |= 1u << letter;
  return {};
}

Fit LetterBinder::bind_dim(const DimExpr& d, int axis, std::int64_t n) {
  const Fit wrong{.kind = Fit::Kind::kSize, .axis = static_cast<std::int8_t>(axis)};
  const std::uint32_t open = d.letters & ~bound_;
  if (open == 0) return d.evaluate(args_.letters) == n ? Fit{} : wrong;
  const int letter = std::countr_zero(open);
  if ((open & (open - 1)) == 0 && d.is_linear_in(letter)) {
    const DimExpr::Solution found = d.solve(letter, args_.letters, n);
    if (found.found) {
      args_.letters[letter] = found.size;
      bound_ |= open;
      return {};
    }
    if (found.step != 0) return wrong;
  }
  if (!settled(d, open)) return {.kind = Fit::Kind::kWaits};
  return d.evaluate(args_.letters) == n ? Fit{} : wrong;
}

bool LetterBinder::settled(const DimExpr& d, std::uint32_t open) {
  if (!d.ignores(open, args_.letters)) return false;
  for (; open; open &= open - 1) args_.letters[std::countr_zero(open)] = 0;
  return true;
}

Fit LetterBinder::make_shape(int tensor) {
  TensorView& t = args_.tensors[tensor];
  t.rank = 0;
  std::int64_t elements = 1;  // a size of 0 counts as 1, as in `call`
  std::int8_t axis = 0;
  for (const DimExpr& d : schema_.tensors[static_cast<std::size_t>(tensor)].dims) {
    const std::uint32_t open = d.letters & ~bound_;
    if (open && !settled(d, open)) return {.kind = Fit::Kind::kWaits};
    if (d.leading && (starred_ >> d.terms[0].letter & 1u)) {
      const int like = leading_tensor_[d.terms[0].letter];
      const auto plain =
          static_cast<int>(schema_.tensors[static_cast<std::size_t>(like)].dims.size());
      const int leading_rank = args_.tensors[like].rank - (plain - 1);
      for (int i = 0; i < leading_rank; ++i) t.shape[t.rank++] = args_.tensors[like].shape[i];
      elements *= args_.letters[d.terms[0].letter] > 0 ? args_.letters[d.terms[0].letter] : 1;
    } else {
      const std::int64_t n = t.shape[t.rank++] = d.evaluate(args_.letters);
      if (n < 0) return {.kind = Fit::Kind::kNone, .axis = axis};
      if (__builtin_mul_overflow(elements, n > 0 ? n : 1, &elements) || elements > kMaxElements)
        return {.kind = Fit::Kind::kHuge, .axis = axis};
    }
    ++axis;
  }
  std::int64_t stride = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    t.strides[i] = stride;
    stride *= t.shape[i];
  }
  return {};
}

std::uint8_t LetterBinder::ones_of(int tensor) const {
  const TensorSpec& spec = schema_.tensors[static_cast<std::size_t>(tensor)];
  const int extra = args_.tensors[tensor].rank - static_cast<int>(spec.dims.size());
  unsigned ones = 0;
  for (std::size_t i = 0; i < spec.dims.size(); ++i) {
    const DimExpr& d = spec.dims[i];
    if (!d.may_be_smaller()) continue;
    const std::int64_t n = args_.tensors[tensor].shape[static_cast<int>(i) + extra];
    const bool known = (d.letters & ~bound_) == 0;
    if (d.may_be_half ? !known : n != 1) continue;
    if (!known || d.evaluate(args_.letters) != n) ones |= 1u << i;
  }
  return static_cast<std::uint8_t>(ones);
}

void LetterBinder::close() {
  for (std::size_t i = 0; i < schema_.letters.size(); ++i)
    if (!(bound_ >> i & 1u)) args_.letters[i] = 0;
}

}  // namespace dlblas
