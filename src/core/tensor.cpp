// Which memory tensors touch; see tensor.hpp.
#include "core/tensor.hpp"

#include <bit>
#include <cstdlib>

namespace dlblas {
namespace {

// The byte range [first, last) that a tensor touches; empty tensors touch nothing.
struct Range {
  std::intptr_t first, last;
  bool meets(const Range& o) const {
    return first < o.last && o.first < last && first != last && o.first != o.last;
  }
};
Range range_of(const TensorView& t) {
  Range r{reinterpret_cast<std::intptr_t>(t.data), reinterpret_cast<std::intptr_t>(t.data)};
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] == 0) return {r.first, r.first};
    const std::int64_t reach = (t.shape[i] - 1) * t.strides[i] * size_of(t.dtype);
    (reach < 0 ? r.first : r.last) += reach;
  }
  r.last += size_of(t.dtype);
  return r;
}

// Two views of rows with one common pitch touch different columns: q and k inside one projection,
// say.
bool interleaved(const TensorView& a, const TensorView& b) {
  if (a.rank != b.rank || a.rank < 2 || a.dtype != b.dtype) return false;
  const Rows rows_a = rows_of(a), rows_b = rows_of(b);
  if (rows_a.rank != 1 || rows_b.rank != 1 || rows_a.stride != rows_b.stride || rows_a.stride <= 0)
    return false;
  if (a.strides[a.rank - 1] != 1 || b.strides[b.rank - 1] != 1) return false;
  const std::int64_t pitch = rows_a.stride * size_of(a.dtype);
  const std::int64_t apart =
      reinterpret_cast<std::intptr_t>(b.data) - reinterpret_cast<std::intptr_t>(a.data);
  const std::int64_t shift = ((apart % pitch) + pitch) % pitch;
  return shift >= a.shape[a.rank - 1] * size_of(a.dtype) &&
         shift + b.shape[b.rank - 1] * size_of(b.dtype) <= pitch;
}

}  // namespace

bool overlap(const TensorView& a, const TensorView& b) {
  return range_of(a).meets(range_of(b)) && !interleaved(a, b);
}

bool same_memory(const TensorView& a, const TensorView& b) {
  bool same = a.data == b.data && a.rank == b.rank && a.dtype == b.dtype;
  for (int i = 0; same && i < a.rank; ++i)
    same = a.shape[i] == b.shape[i] && (a.strides[i] == b.strides[i] || a.shape[i] == 1);
  return same;
}

// Sorted by stride, no dimension may reach into the next.
bool overlaps_itself(const TensorView& t) {
  std::int64_t reach = 1;
  std::uint32_t done = 0;
  for (int step = 0; step < t.rank; ++step) {
    int next = -1;
    for (int i = 0; i < t.rank; ++i)
      if (!(done >> i & 1u) && (next < 0 || std::abs(t.strides[i]) < std::abs(t.strides[next])))
        next = i;
    done |= 1u << next;
    if (t.shape[next] == 1) continue;
    if (std::abs(t.strides[next]) < reach) return t.numel() > 0;
    reach = std::abs(t.strides[next]) * (t.shape[next] - 1) + reach;
  }
  return false;
}

std::uint64_t pitch_bits(const TensorView& t) {
  const int last = t.rank - 1;
  const bool transposed = t.rank == 2 && t.shape[1] != 1 && t.strides[1] != 1 &&
                          t.strides[1] != 0 && (t.strides[0] == 1 || t.shape[0] == 1);
  const int inner = transposed ? 0 : last;
  std::uint64_t bits = 0;
  for (int i = 0; i <= last; ++i)
    if (i != inner && t.shape[i] != 1) bits |= static_cast<std::uint64_t>(t.strides[i]);
  return bits * static_cast<std::uint64_t>(size_of(t.dtype));
}

TensorTraits traits_of(const TensorView& t) {
  TensorTraits traits{t.dtype, Layout::kContiguous, kAlignCap, 0};
  const std::uint64_t low_bits =
      reinterpret_cast<std::uintptr_t>(t.data) | (1u << kAlignCap) | pitch_bits(t);
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
    traits.layout = Layout::kBroadcast;
  else if (unit)
    traits.layout = one_pitch ? Layout::kRowStrided : Layout::kRowsOuter;
  else if (t.rank == 2 && (t.strides[0] == 1 || t.shape[0] == 1))
    traits.layout = Layout::kTransposed;
  else
    traits.layout = Layout::kOther;
  return traits;
}

}  // namespace dlblas
