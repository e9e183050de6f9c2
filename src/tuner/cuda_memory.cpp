// The tuner's operations on device memory; see cuda_memory.hpp.
#include "tuner/cuda_memory.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "core/error.hpp"
#include "jit/jit.hpp"

namespace dlblas {
namespace {

constexpr const char* kInputs = "device/tuner_inputs.cuh";
constexpr unsigned kThreads = 256;  // whole warps: find_equal gives each a word
static_assert(static_cast<int>(Fill::kPositive) == 1 && static_cast<int>(Fill::kZeros) == 5 &&
                  static_cast<int>(Fill::kNegative) == 9 && static_cast<int>(Fill::kBits) == 10,
              "device/tuner_inputs.cuh has these");

cuda::Launch spread(std::int64_t count, int units) {
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  const auto most = static_cast<std::int64_t>(units) * 16;
  return {.grid = {static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, most))},
          .block = {kThreads}};
}

}  // namespace

CudaMemory::CudaMemory(int device, void* caller_stream)
    : device_(cuda::info(device)), current_(device), counter_(sizeof(unsigned long long)) {
  cuda::synchronize(caller_stream);
}

// Nothing of ours may still run when the memory is freed.
CudaMemory::~CudaMemory() {
  try {
    cuda::synchronize(stream_.get());
  } catch (const Error&) {  // the context is lost, and its memory with it
  }
  if (!held_) return;
  for (auto& [at, buffer] : live_) held_->push_back(std::move(buffer));
  for (auto& [bytes, buffer] : spare_) held_->push_back(std::move(buffer));
}

std::shared_ptr<const void> CudaMemory::hold() {
  if (!held_) held_ = std::make_shared<std::vector<cuda::Buffer>>();
  return held_;
}

std::byte* CudaMemory::allocate(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  cuda::Buffer buffer;
  if (const auto found = spare_.find(bytes); found != spare_.end()) {
    buffer = std::move(found->second);
    spare_.erase(found);
  } else {
    try {
      buffer = cuda::Buffer(bytes);
    } catch (const Error&) {  // what was released may make room
      if (!held_) spare_.clear();
      if (bytes > cuda::free_memory()) throw std::bad_alloc();
      buffer = cuda::Buffer(bytes);
    }
  }
  auto* const memory = static_cast<std::byte*>(buffer.data());
  live_.emplace(memory, std::move(buffer));
  return memory;
}

void CudaMemory::release(std::byte* memory) noexcept {
  const auto found = live_.find(memory);
  if (found == live_.end()) return;
  const std::size_t bytes = found->second.bytes();
  spare_.emplace(bytes, std::move(found->second));
  live_.erase(found);
}

double CudaMemory::capacity() const {
  return static_cast<double>(std::min<std::uint64_t>(
      cuda::free_memory(), static_cast<std::uint64_t>(device_.memory_bytes)));
}

void CudaMemory::set(void* to, int byte, std::size_t bytes) {
  if (bytes > 0) cuda::fill_bytes(to, byte, bytes, stream());
}
void CudaMemory::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) cuda::copy_on_device(to, from, bytes, stream());
}
void CudaMemory::copy_in(void* to, const void* from_host, std::size_t bytes) {
  if (bytes > 0) cuda::copy_to_device(to, from_host, bytes, stream());
}
void CudaMemory::copy_out(void* to_host, const void* from, std::size_t bytes) {
  if (bytes > 0) cuda::copy_to_host(to_host, from, bytes, stream());
}

template <typename Params>
void CudaMemory::launch(const char* entry, std::int64_t count, const Params& params) {
  const cuda::Function& function = jit::load({kInputs, entry, 0}, device_);
  cuda::check(cuda::launch(function, spread(count, device_.units), params, stream()), entry);
}

bool CudaMemory::all_equal(const void* at, int byte, std::size_t bytes) {
  if (bytes == 0) return true;
  unsigned long long other = 0;
  set(counter_.data(), 0, sizeof other);
  TunerBytesParams p{};
  p.numel = static_cast<std::int64_t>(bytes);
  p.byte = byte;
  p.memory = static_cast<const unsigned char*>(at);
  p.count = static_cast<unsigned long long*>(counter_.data());
  launch("dlblas::tuner_count_other", p.numel, p);
  copy_out(&other, counter_.data(), sizeof other);
  return other == 0;
}

void CudaMemory::fill(const TensorView& t, const Filler& filler) {
  const TunerFillParams p{.t = merged(t),
                          .numel = t.numel(),
                          .seed = filler.seed,
                          .first = filler.first,
                          .width = std::max<std::int64_t>(1, filler.width),
                          .zero_row = filler.zero_row,
                          .large = filler.large,
                          .fill = static_cast<std::int32_t>(filler.fill),
                          .in_part = filler.in_part,
                          .large_rows = filler.large_rows,
                          .small = filler.small};
  if (p.numel > 0) launch("dlblas::tuner_fill", p.numel, p);
}

void CudaMemory::set_elements(const TensorView& t, int byte) {
  TunerBytesParams p{};
  p.t = merged(t);
  p.numel = t.numel();
  p.byte = byte;
  if (p.numel > 0) launch("dlblas::tuner_set_elements", p.numel, p);
}

std::vector<std::int64_t> CudaMemory::elements_equal_to(const TensorView& t, int byte) {
  TunerBytesParams p{};
  p.t = merged(t);
  p.numel = t.numel();
  p.byte = byte;
  if (p.numel == 0) return {};
  const auto num_words = static_cast<std::size_t>((p.numel + 31) / 32);
  const CudaArray<std::uint32_t> bits(*this, num_words);
  unsigned long long count = 0;
  set(counter_.data(), 0, sizeof count);
  p.bits = bits.get();
  p.count = static_cast<unsigned long long*>(counter_.data());
  launch("dlblas::tuner_find_equal", p.numel, p);
  copy_out(&count, counter_.data(), sizeof count);
  std::vector<std::int64_t> found;
  if (count == 0) return found;  // nearly always
  std::vector<std::uint32_t> words(num_words);
  copy_out(words.data(), bits.get(), num_words * sizeof(std::uint32_t));
  found.reserve(count);
  for (std::size_t w = 0; w < num_words; ++w)
    for (std::uint32_t word = words[w]; word != 0; word &= word - 1)
      found.push_back(static_cast<std::int64_t>(32 * w) + std::countr_zero(word));
  return found;
}

}  // namespace dlblas
