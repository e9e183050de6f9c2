// A tensor between guard zones: its layout from the class in the Problem, and checks of what a
// kernel did to it. See inputs.hpp.
#include <algorithm>
#include <bit>
#include <cstring>

#include "tuner/inputs.hpp"

namespace dlblas {
namespace {

// The natural pitch of a row plus the padding of strided rows: at least one cache line, and rows
// keep the alignment of their class.
constexpr int kPadBytes = 64;
std::int64_t padded(std::int64_t width, int size) {
  const std::int64_t unit = std::max<std::int64_t>(1, 16 / size);
  return (width + unit - 1) / unit * unit + kPadBytes / size;
}

}  // namespace

void set_strides(TensorView& t, Layout layout, int align_log2, bool wider) {
  const int last = t.rank - 1;
  const int size = size_of(t.dtype);
  const std::int64_t more = wider ? kPadBytes / size : 0;
  std::int64_t pitch = layout == Layout::kOther ? 2 : 1;  // every second element
  for (int i = last; i >= 0; --i) {
    t.strides[i] = pitch;
    pitch *= std::max<std::int64_t>(1, t.shape[i]);
    if (i == last && layout == Layout::kRowStrided) pitch = padded(pitch, size) + more;
    // The gap lies between the outer two dimensions, so the leading ones do not flatten.
    if (i == 1 && i < last && (layout == Layout::kRowsOuter || layout == Layout::kTokensOuter))
      pitch = padded(pitch, size) + more;
    if (i == last && last == 1 && layout == Layout::kRowsOuter) pitch = padded(pitch, size) + more;
  }
  if ((layout == Layout::kTransposed && t.rank == 2) ||
      (layout == Layout::kMatricesTransposed && t.rank == 3)) {
    t.strides[last - 1] = 1;
    const std::int64_t unit = std::max(1, (1 << align_log2) / size);  // columns as aligned as asked
    t.strides[last] =
        std::max<std::int64_t>(1, (t.shape[last - 1] + unit - 1) / unit * unit) + more;
    if (last == 2) t.strides[0] = t.strides[2] * std::max<std::int64_t>(1, t.shape[2]);
  }
  if (layout == Layout::kBroadcast && last >= 0) t.strides[last] = 0;
  if (layout == Layout::kRowsBroadcast)
    for (int i = 0; i < last; ++i)
      if (t.shape[i] > 1) {
        t.strides[i] = 0;
        break;
      }
}

namespace {

// Bytes from the aligned base: 0 if the rows alone give the alignment class, else that alignment.
std::size_t misalignment(const TensorView& t, Layout layout, int align_log2) {
  if (align_log2 >= 4) return 0;
  const std::uint64_t low_bits =
      (1u << kAlignCap) | pitch_bits(t, layout == Layout::kMatricesTransposed);
  return std::countr_zero(low_bits) <= align_log2 ? 0 : std::size_t{1} << align_log2;
}

// Bytes from the first element to the end of the last one.
std::size_t span_of(const TensorView& t) {
  std::int64_t last = 0;
  for (int i = 0; i < t.rank; ++i) last += std::max<std::int64_t>(0, t.shape[i] - 1) * t.strides[i];
  return static_cast<std::size_t>((last + 1) * size_of(t.dtype));
}

// Four lanes of 64-bit words: runs at memory speed. `bytes` is a multiple of Memory::kAlign.
std::uint64_t digest_of(const std::byte* at, std::size_t bytes, std::uint64_t start) {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;
  std::uint64_t lanes[4] = {start, start + 1, start + 2, start + 3};
  for (std::size_t i = 0; i < bytes; i += sizeof lanes)
    for (std::size_t lane = 0; lane < 4; ++lane) {
      std::uint64_t word;
      std::memcpy(&word, at + i + lane * sizeof word, sizeof word);
      lanes[lane] = (std::rotl(lanes[lane], 23) ^ word) * kPrime;
    }
  return lanes[0] ^ std::rotl(lanes[1], 16) ^ std::rotl(lanes[2], 32) ^ std::rotl(lanes[3], 48);
}

}  // namespace

GuardedTensor::GuardedTensor(TensorView& view, const TensorTraits& traits, Memory& memory)
    : memory_(&memory), traits_(traits) {
  TensorView wider = view;
  set_strides(wider, traits.layout, traits.align_log2, true);
  set_strides(view, traits.layout, traits.align_log2);
  const std::size_t shift = misalignment(view, traits.layout, traits.align_log2);
  const auto rounded = [](std::size_t bytes) {
    return (bytes + Memory::kAlign - 1) / Memory::kAlign * Memory::kAlign;
  };
  touched_ = rounded(shift + span_of(view));
  inner_ = rounded(shift + span_of(wider));
  size_ = 2 * guard_ + inner_ + kRoomBytes;
  base_ = memory.allocate(size_);
  view.data = inner() + shift;
  view_ = view;
  poison(kGuardByte);
}

GuardedTensor::GuardedTensor(const GuardedTensor& other)
    : memory_(other.memory_),
      view_(other.view_),
      traits_(other.traits_),
      guard_(kCopyGuardBytes),
      touched_(other.touched_),
      inner_(other.inner_),
      size_(2 * guard_ + inner_) {
  base_ = memory_->allocate(size_);
  view_.data = inner() + (other.offset() - other.guard_);
  mend_guards();
  restore(other);
}

GuardedTensor::~GuardedTensor() { memory_->release(base_); }

std::size_t GuardedTensor::offset() const {
  return static_cast<std::size_t>(static_cast<std::byte*>(view_.data) - base_);
}

void GuardedTensor::restore(const GuardedTensor& pristine) {
  memory_->copy(inner(), pristine.inner(), inner_);
}

void GuardedTensor::move(std::size_t bytes) {
  const std::size_t before = offset() - guard_;  // of the alignment class, in any place
  guard_ = kGuardBytes + bytes;
  view_.data = inner() + before;
}

void GuardedTensor::set_pitch(bool wider) {
  set_strides(view_, traits_.layout, traits_.align_log2, wider);
}

void GuardedTensor::mend_guards() {
  memory_->set(base_, kGuardByte, guard_);
  memory_->set(inner() + inner_, kGuardByte, guard_after());
}

void GuardedTensor::copy_in(const GuardedTensor& host) {
  memory_->copy_in(inner(), host.inner(), inner_);
}

// Elements fill their range: no gaps, nothing broadcast.
bool GuardedTensor::is_packed() const {
  return span_of(view_) == static_cast<std::size_t>(view_.numel() * size_of(view_.dtype));
}

void GuardedTensor::poison(int pattern) {
  if (is_packed()) {  // no gaps: one pass over the elements, whatever their order
    const std::size_t before = offset(), bytes = span_of(view_);
    memory_->set(base_, kGuardByte, before);
    memory_->set(view_.data, pattern, bytes);
    memory_->set(base_ + before + bytes, kGuardByte, size_ - before - bytes);
    return;
  }
  memory_->set(base_, kGuardByte, size_);
  if (pattern != kGuardByte) memory_->set_elements(view_, pattern);
}

std::vector<std::int64_t> GuardedTensor::elements_equal_to(int pattern) const {
  return memory_->elements_equal_to(view_, pattern);
}

std::uint64_t GuardedTensor::digest() const {
  constexpr std::size_t kPart = std::size_t{1} << 20;
  std::vector<std::byte> part(std::min(kPart, size_));
  std::uint64_t digest = 0;
  for (std::size_t at = 0; at < size_; at += kPart) {
    const std::size_t bytes = std::min(kPart, size_ - at);
    memory_->copy_out(part.data(), base_ + at, bytes);
    digest = digest_of(part.data(), bytes, digest);
  }
  return digest;
}

bool GuardedTensor::guards_intact() const {
  if (is_packed()) {
    const std::size_t before = offset(), bytes = span_of(view_);
    return memory_->all_equal(base_, kGuardByte, before) &&
           memory_->all_equal(base_ + before + bytes, kGuardByte, size_ - before - bytes);
  }
  // A copy in which every element is a guard as well: any other byte in it was written.
  GuardedTensor copy(*this);
  memory_->set_elements(copy.view_, kGuardByte);
  return memory_->all_equal(base_, kGuardByte, guard_) &&
         memory_->all_equal(inner() + inner_, kGuardByte, guard_after()) &&
         memory_->all_equal(copy.inner(), kGuardByte, inner_);
}

}  // namespace dlblas
