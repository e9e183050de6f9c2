// A tensor between guard zones: its layout from the class in the Problem, and what a kernel did to
// it. See inputs.hpp.
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "tuner/inputs.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kBaseAlign = 64;

// The natural pitch of a row and the padding that makes a strided one: at least one cache line, and
// rows stay aligned as the class says.
std::int64_t padded(std::int64_t width, int size) {
  const std::int64_t unit = std::max<std::int64_t>(1, 16 / size);
  return (width + unit - 1) / unit * unit + 64 / size;
}

void set_strides(TensorView& t, Layout layout, int align_log2) {
  const int last = t.rank - 1;
  const int size = size_of(t.dtype);
  std::int64_t pitch = layout == Layout::kOther ? 2 : 1;  // every second element
  for (int i = last; i >= 0; --i) {
    t.strides[i] = pitch;
    pitch *= std::max<std::int64_t>(1, t.shape[i]);
    if (i == last && layout == Layout::kRowStrided) pitch = padded(pitch, size);
    // The gap lies between the outer two dimensions, so the leading ones do not flatten.
    if (i == 1 && i < last && layout == Layout::kRowsOuter) pitch = padded(pitch, size);
    if (i == last && last == 1 && layout == Layout::kRowsOuter) pitch = padded(pitch, size);
  }
  if (layout == Layout::kTransposed && t.rank == 2) {
    t.strides[0] = 1;
    const std::int64_t unit = std::max(1, (1 << align_log2) / size);  // columns as aligned as asked
    t.strides[1] = std::max<std::int64_t>(1, (t.shape[0] + unit - 1) / unit * unit);
  }
  if (layout == Layout::kBroadcast)
    for (int i = 0; i < t.rank; ++i)
      if (t.shape[i] > 1) {
        t.strides[i] = 0;
        break;
      }
}

// Bytes from the aligned base: none when the rows alone give the alignment class, else as many.
std::size_t misalignment(const TensorView& t, int align_log2) {
  if (align_log2 >= 4) return 0;
  const std::uint64_t low_bits = (1u << kAlignCap) | pitch_bits(t);
  return std::countr_zero(low_bits) <= align_log2 ? 0 : std::size_t{1} << align_log2;
}

// True when some 16 bits of the range are the pattern; simple enough for the compiler to vectorise.
bool may_contain(const std::byte* at, std::size_t bytes, int pattern) {
  const auto like = static_cast<std::uint16_t>(pattern * 0x0101);
  std::uint16_t found = 0;
  for (std::size_t i = 0; i + 2 <= bytes; i += 2) {
    std::uint16_t v;
    std::memcpy(&v, at + i, 2);
    found |= static_cast<std::uint16_t>(v == like);
  }
  return found != 0;
}

}  // namespace

GuardedTensor::GuardedTensor(TensorView& view, const TensorTraits& traits) {
  set_strides(view, traits.layout, traits.align_log2);
  std::int64_t last = 0;
  for (int i = 0; i < view.rank; ++i)
    last += std::max<std::int64_t>(0, view.shape[i] - 1) * view.strides[i];
  const std::size_t span = static_cast<std::size_t>((last + 1) * size_of(view.dtype));
  const std::size_t shift = misalignment(view, traits.align_log2);
  size_ = (2 * kGuardBytes + shift + span + kBaseAlign - 1) / kBaseAlign * kBaseAlign;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kBaseAlign, size_)));
  if (!memory_) throw std::bad_alloc();
  view.data = memory_.get() + kGuardBytes + shift;
  view_ = view;
  poison(kGuardByte);
}

GuardedTensor::GuardedTensor(const GuardedTensor& other) : view_(other.view_), size_(other.size_) {
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kBaseAlign, size_)));
  if (!memory_) throw std::bad_alloc();
  view_.data = memory_.get() + (static_cast<std::byte*>(other.view_.data) - other.memory_.get());
  restore(other);
}

void GuardedTensor::restore(const GuardedTensor& pristine) {
  std::memcpy(memory_.get(), pristine.memory_.get(), size_);
}

bool GuardedTensor::is_packed() const {
  std::int64_t last = 0;
  for (int i = 0; i < view_.rank; ++i)
    last += std::max<std::int64_t>(0, view_.shape[i] - 1) * view_.strides[i];
  return last + 1 == view_.numel();
}

template <typename F>
void GuardedTensor::for_each_row(F&& fn) const {
  if (view_.numel() == 0) return;
  const Rows rows = rows_of(view_, view_.rank == 0 ? 0 : 1);
  const int size = size_of(view_.dtype);
  const std::int64_t width = view_.rank == 0 ? 1 : view_.shape[view_.rank - 1];
  const std::int64_t stride = view_.rank == 0 ? 1 : view_.strides[view_.rank - 1];
  for (std::int64_t row = 0; row < rows.count; ++row)
    fn(static_cast<std::byte*>(view_.data) + rows.offset(row) * size, width, stride * size);
}

void GuardedTensor::poison(int pattern) {
  const auto size = static_cast<std::size_t>(size_of(view_.dtype));
  const std::size_t bytes = static_cast<std::size_t>(view_.numel()) * size;
  auto* const data = static_cast<std::byte*>(view_.data);
  if (is_packed()) {  // no gaps: one pass over the elements, whatever their order
    std::memset(memory_.get(), kGuardByte, static_cast<std::size_t>(data - memory_.get()));
    std::memset(data, pattern, bytes);
    std::memset(data + bytes, kGuardByte,
                static_cast<std::size_t>(memory_.get() + size_ - (data + bytes)));
    return;
  }
  std::memset(memory_.get(), kGuardByte, size_);
  if (pattern == kGuardByte) return;
  for_each_row([&](std::byte* at, std::int64_t width, std::int64_t step) {
    for (std::int64_t c = 0; c < width; ++c) std::memset(at + c * step, pattern, size);
  });
}

std::vector<std::int64_t> GuardedTensor::elements_equal_to(int pattern) const {
  std::vector<std::int64_t> found;
  const auto size = static_cast<std::size_t>(size_of(view_.dtype));
  std::byte like[8];
  std::memset(like, pattern, sizeof like);
  std::int64_t index = 0;
  const auto scan = [&](const std::byte* at, std::int64_t count, std::int64_t step) {
    for (std::int64_t c = 0; c < count; ++c)
      if (std::memcmp(at + c * step, like, size) == 0) found.push_back(index + c);
  };
  // Nearly all blocks hold no such element: words that share no 16 bits with the pattern say so at
  // memory speed.
  for_each_row([&](const std::byte* at, std::int64_t width, std::int64_t step) {
    constexpr std::int64_t kBlock = 1024;
    const bool dense = step == static_cast<std::int64_t>(size) && size > 1;
    for (std::int64_t c = 0; c < width; c += kBlock) {
      const std::int64_t count = std::min(kBlock, width - c);
      if (!dense || may_contain(at + c * step, static_cast<std::size_t>(count) * size, pattern)) {
        const std::int64_t row_begin = index;
        index += c;
        scan(at + c * step, count, step);
        index = row_begin;
      }
    }
    index += width;
  });
  return found;
}

bool GuardedTensor::guards_intact() const {
  const auto clean = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, std::max(from, to),
                       [](std::byte b) { return b == std::byte{kGuardByte}; });
  };
  const std::byte* end = memory_.get() + size_;
  const std::byte* data = static_cast<std::byte*>(view_.data);
  if (!clean(memory_.get(), data)) return false;
  const auto size = static_cast<std::int64_t>(size_of(view_.dtype));
  // Rows with unit stride ascend in memory (set_strides), so what lies between two is a gap.
  const std::byte* after = data;
  bool gaps = true;
  for_each_row([&](const std::byte* at, std::int64_t width, std::int64_t step) {
    if (step == size) gaps = gaps && clean(after, at);
    after = std::max(after, at + (width - 1) * step + size);
  });
  return gaps && clean(after, end);
}

}  // namespace dlblas
