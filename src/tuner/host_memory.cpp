// The tuner's operations on host memory; see memory.hpp.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/element.hpp"
#include "tuner/memory.hpp"

namespace dlblas {
namespace {

// Calls fn(first byte, number of elements, byte stride) for every row, in memory order when rows do
// not interleave.
template <typename F>
void for_each_row(const TensorView& t, F&& fn) {
  if (t.numel() == 0) return;
  const Rows rows = rows_of(t, t.rank == 0 ? 0 : 1);
  const int size = size_of(t.dtype);
  const std::int64_t width = t.rank == 0 ? 1 : t.shape[t.rank - 1];
  const std::int64_t stride = t.rank == 0 ? 1 : t.strides[t.rank - 1];
  for (std::int64_t row = 0; row < rows.count; ++row)
    fn(static_cast<std::byte*>(t.data) + rows.offset(row) * size, width, stride * size);
}

// True if some 16 bits of the range equal the pattern; simple enough for the compiler to vectorise.
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

TensorView fetch(const TensorView& t, Memory& memory, std::vector<std::byte>& kept, bool always) {
  if ((t.device.type == DeviceType::kCpu && !always) || t.numel() == 0 || !t.data) return t;
  std::int64_t first = 0, last = 0;
  for (int i = 0; i < t.rank; ++i) {
    const std::int64_t reach = (t.shape[i] - 1) * t.strides[i];
    (reach < 0 ? first : last) += reach;
  }
  const int size = size_of(t.dtype);
  kept.resize(static_cast<std::size_t>((last - first + 1) * size));
  memory.copy_out(kept.data(), static_cast<const std::byte*>(t.data) + first * size, kept.size());
  TensorView copy = t;
  copy.data = kept.data() - first * size;
  copy.device = {DeviceType::kCpu, 0};
  return copy;
}

HostCopy::HostCopy(const Args& args, Memory& memory, bool always) : args_(args) {
  for (std::size_t i = 0; i < args.schema->tensors.size(); ++i)
    if (static_cast<int>(i) >= args.schema->num_inputs || args.has(static_cast<int>(i)))
      args_.tensors[i] = fetch(args.tensors[i], memory, kept_[i], always);
}

std::byte* HostMemory::allocate(std::size_t bytes) {
  auto* memory =
      static_cast<std::byte*>(std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign));
  if (!memory) throw std::bad_alloc();
  return memory;
}

void HostMemory::release(std::byte* memory) noexcept {
  if (!held_) return std::free(memory);
  held_->emplace_back(memory, [](std::byte* block) { std::free(block); });
}

std::shared_ptr<const void> HostMemory::hold() {
  if (!held_) held_ = std::make_shared<Blocks>();
  return held_;
}

double HostMemory::capacity() const {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void HostMemory::set(void* to, int byte, std::size_t bytes) { std::memset(to, byte, bytes); }
void HostMemory::copy(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
void HostMemory::copy_in(void* to, const void* from_host, std::size_t bytes) {
  std::memcpy(to, from_host, bytes);
}
void HostMemory::copy_out(void* to_host, const void* from, std::size_t bytes) {
  std::memcpy(to_host, from, bytes);
}

bool HostMemory::all_equal(const void* at, int byte, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(at);
  // Compares the range with itself one byte further: at memory speed.
  return bytes == 0 || (*from == std::byte(byte) && std::memcmp(from, from + 1, bytes - 1) == 0);
}

// Only its whole pages: the others hold data that is not ours. Best effort: only the cost of faults
// is at stake.
void HostMemory::lend_to_children(std::byte* memory, std::size_t bytes, bool lent) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t begin = (at + page - 1) / page * page, end = (at + bytes) / page * page;
  if (begin < end)
    madvise(reinterpret_cast<void*>(begin), end - begin, lent ? MADV_DOFORK : MADV_DONTFORK);
}

void HostMemory::fill(const TensorView& t, const Filler& filler) {
  const Rows rows = rows_of(t, t.rank == 0 ? 0 : 1);
  const std::int64_t width = t.rank == 0 ? 1 : t.shape[t.rank - 1];
  const std::int64_t stride = t.rank == 0 ? 0 : t.strides[t.rank - 1];
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, width));
  context_.run(0, rows.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = rows.offset(row);
      for (std::int64_t c = 0; c < width; ++c)
        store_element(t, at + c * stride, filler.value(row * width + c));
    }
  });
}

void HostMemory::set_elements(const TensorView& t, int byte) {
  const auto size = static_cast<std::size_t>(size_of(t.dtype));
  for_each_row(t, [&](std::byte* at, std::int64_t width, std::int64_t step) {
    for (std::int64_t c = 0; c < width; ++c) std::memset(at + c * step, byte, size);
  });
}

std::vector<std::int64_t> HostMemory::elements_equal_to(const TensorView& t, int byte) {
  std::vector<std::int64_t> found;
  const auto size = static_cast<std::size_t>(size_of(t.dtype));
  std::byte like[8];
  std::memset(like, byte, sizeof like);
  std::int64_t index = 0;
  const auto scan = [&](const std::byte* at, std::int64_t count, std::int64_t step) {
    for (std::int64_t c = 0; c < count; ++c)
      if (std::memcmp(at + c * step, like, size) == 0) found.push_back(index + c);
  };
  // Nearly all blocks hold no such element: a scan for 16 bits of the pattern shows that at memory
  // speed.
  for_each_row(t, [&](const std::byte* at, std::int64_t width, std::int64_t step) {
    constexpr std::int64_t kBlock = 1024;
    const bool dense = step == static_cast<std::int64_t>(size) && size > 1;
    for (std::int64_t c = 0; c < width; c += kBlock) {
      const std::int64_t count = std::min(kBlock, width - c);
      if (!dense || may_contain(at + c * step, static_cast<std::size_t>(count) * size, byte)) {
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

}  // namespace dlblas
