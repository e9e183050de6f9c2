// Layout, alignment and identity of tensor views; see tensor.hpp.  Read next: core/overlap.cpp.
#include "core/tensor.hpp"

#include <bit>

namespace dlblas {
bool same_memory(const TensorView& a, const TensorView& b) {
  bool same = a.data == b.data && a.rank == b.rank && a.dtype == b.dtype;
  for (int i = 0; same && i < a.rank; ++i)
    same = a.shape[i] == b.shape[i] && (a.strides[i] == b.strides[i] || a.shape[i] == 1);
  return same;
}

namespace {

/// Whether the last dimension but one is contiguous, and the last one is not.
bool is_transposed(const TensorView& t, bool of_matrices) {
  const int last = t.rank - 1;
  if (t.rank != 2 && !(t.rank == 3 && of_matrices)) return false;
  return t.shape[last] != 1 && t.strides[last] != 1 && t.strides[last] != 0 &&
         (t.strides[last - 1] == 1 || t.shape[last - 1] == 1);
}

}  // namespace

std::uint64_t pitch_bits(const TensorView& t, bool of_matrices) {
  const int last = t.rank - 1;
  const int inner = is_transposed(t, of_matrices) ? last - 1 : last;
  std::uint64_t bits = 0;
  for (int i = 0; i <= last; ++i)
    if (i != inner && t.shape[i] != 1) bits |= static_cast<std::uint64_t>(t.strides[i]);
  return bits * static_cast<std::uint64_t>(size_of(t.dtype));
}

TensorTraits traits_of(const TensorView& t, bool of_matrices, int inner) {
  TensorTraits traits{t.dtype, Layout::kContiguous, kAlignCap, 0};
  const std::uint64_t low_bits =
      reinterpret_cast<std::uintptr_t>(t.data) | (1u << kAlignCap) | pitch_bits(t, of_matrices);
  bool contiguous = true, broadcast = false, one_pitch = true;
  std::int64_t packed = 1, pitch = 0;  // pitch: what the next leading stride must be to flatten
  for (int i = t.rank - 1; i >= 0; --i) {
    const std::int64_t n = t.shape[i], stride = t.strides[i];
    if (n == 1) continue;
    contiguous &= stride == packed;
    broadcast |= stride == 0;
    packed *= n;
    if (i == t.rank - 1) continue;
    one_pitch &= pitch == 0 || stride == pitch;
    pitch = stride * n;
  }
  traits.align_log2 = static_cast<std::uint8_t>(std::countr_zero(low_bits));
  if (contiguous) return traits;
  const bool unit = t.rank == 0 || t.strides[t.rank - 1] == 1 || t.shape[t.rank - 1] == 1;
  if (broadcast)
    traits.layout = unit ? Layout::kRowsBroadcast : Layout::kBroadcast;
  else if (unit)
    traits.layout = one_pitch                                 ? Layout::kRowStrided
                    : inner > 1 && rows_of(t, inner).rank > 1 ? Layout::kTokensOuter
                                                              : Layout::kRowsOuter;
  else if (is_transposed(t, of_matrices))
    traits.layout = t.rank == 2 ? Layout::kTransposed : Layout::kMatricesTransposed;
  else
    traits.layout = Layout::kOther;
  return traits;
}

}  // namespace dlblas
