// Problem: everything that may affect which implementation and configuration a call gets, and
// nothing else. Compared and hashed bytewise, so every unused byte is zero. In: what `validate`
// read from the arguments. Out: the key of the fast map and of the store. Bucketed letters hold
// their bucket's upper end; exact sizes reach `launch` alone, through Args. Flow: call > [validate]
// > select.  Read next: core/schema.hpp, dispatch/validate.cpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/device.hpp"
#include "core/dtype.hpp"
#include "device/view.hpp"

namespace dlblas {

inline constexpr int kMaxTensors = 16;  // inputs and results of one operator
inline constexpr int kMaxResults = 6;
inline constexpr int kMaxJudged = 8;  // results and written inputs of one operator
inline constexpr int kMaxLetters = 12;
inline constexpr int kMaxScalars = 12;
inline constexpr int kMaxKeyScalars = 8;

/// A tensor's memory layout, as far as a choice may depend on it.
enum class Layout : std::uint8_t {
  kContiguous,     // row-major, no gaps
  kRowStrided,     // last dimension contiguous, rows at one constant stride
  kRowsOuter,      // last dimension contiguous, leading dimensions do not flatten to one stride
  kTransposed,     // 2-D with a contiguous first dimension
  kBroadcast,      // the last dimension, longer than 1, has stride 0
  kOther,          // anything else
  kRowsBroadcast,  // last dimension contiguous, some leading one longer than 1 has stride 0
  kMatricesTransposed,  // 3-D by the schema, the middle dimension contiguous: [E, K, N] as [E, N,
                        // K]
  kTokensOuter,  // [*T, H, D] by the schema, last dimension contiguous, those of *T at no one
                 // stride
};
inline bool is_broadcast(Layout layout) {
  return layout == Layout::kBroadcast || layout == Layout::kRowsBroadcast;
}

struct TensorTraits {
  DType dtype = DType::kF32;  // kAbsent: an optional tensor not given
  Layout layout = Layout::kContiguous;
  std::uint8_t align_log2 =
      0;                   // of the data pointer and of every row, in bytes; at most 4 (16 bytes)
  std::uint8_t alias = 0;  // results: 1 + index of the input whose memory this is (in place)
};

enum ProblemFlag : std::uint8_t {
  kDeterministic = 1,  // a row's bits depend on neither batch, threads nor tuning
  kAllowTf32 = 2,
  kRepeatable = 4,  // the same call has the same bits in every run; not part of a key
};

struct Problem {
  std::uint16_t op = 0;  // Operator::id
  DeviceType device_type = DeviceType::kCpu;
  std::uint8_t flags = 0;
  std::int16_t device_index = 0;
  std::uint16_t threads = 0;               // CPU: threads the context offers; CUDA: 0
  TensorTraits tensors[kMaxTensors] = {};  // inputs, then results, in schema order
  std::int64_t dims[kMaxLetters] = {};     // letters in schema order
  std::int64_t scalars[kMaxKeyScalars] =
      {};  // key scalars in schema order: int, bool, enum index, or float bits; key(set): 0 or 1
  std::uint8_t ones[kMaxTensors] = {};  // bit i of a tensor: its `1|M` at dimension i is 1, not M,
                                        // or its `D|2D` is D

  Device device() const { return {device_type, device_index}; }
  friend bool operator==(const Problem& a, const Problem& b) {
    return std::memcmp(&a, &b, sizeof(Problem)) == 0;
  }
  std::uint64_t hash() const;
};
static_assert(sizeof(Problem) == 248, "docs/architecture.md and docs/flow.md say so; at most 256");
static_assert(std::has_unique_object_representations_v<Problem>, "padding would be hashed");

inline std::uint64_t Problem::hash() const {
  std::uint64_t words[sizeof(Problem) / 8];
  std::memcpy(words, this, sizeof(Problem));
  // Two independent multiply-fold lanes (128-bit products): half the latency of one.
  std::uint64_t a = 0x9e3779b97f4a7c15ull, b = 0xd1b54a32d192ed03ull;
  auto fold = [](std::uint64_t x, std::uint64_t y) {
    const auto p = static_cast<unsigned __int128>(x) * y;
    return static_cast<std::uint64_t>(p) ^ static_cast<std::uint64_t>(p >> 64);
  };
  constexpr int kWords = sizeof(Problem) / 8;
  int i = 0;
  for (; i + 3 < kWords; i += 4) {
    a = fold(a ^ words[i], 0xa0761d6478bd642full ^ words[i + 1]);
    b = fold(b ^ words[i + 2], 0xe7037ed1a0b428dbull ^ words[i + 3]);
  }
  for (; i < kWords; ++i) a = fold(a ^ words[i], 0x8ebc6af09c88c6e3ull);
  return fold(a ^ 0x589965cc75374cc3ull, b ^ kWords);
}

/// Upper end of the bucket of a token count: 0, 1, 2, 4, 8, …, 64, then ×1.5 and ×1.33 in turn (96,
/// 128, 192, 256, …), so that a new batch size neither compiles nor misses.
constexpr std::int64_t bucket_tokens(std::int64_t n) {
  constexpr std::int64_t kLast = std::int64_t{1} << 62;
  if (n <= 1 || n > kLast) return n;  // above the last power of two there is no bucket to end
  std::int64_t power = 1;
  while (power < n) power *= 2;
  const std::int64_t three_quarters = power / 4 * 3;
  return power > 64 && n <= three_quarters ? three_quarters : power;
}

/// The end of the bucket before the one that ends at `end`; counts above it, up to `end`, share one
/// bucket.
constexpr std::int64_t bucket_before(std::int64_t end) {
  if (end <= 1 || bucket_tokens(end) != end) return end - 1;  // no bucket's end: alone
  const bool power = (end & (end - 1)) == 0;
  if (!power) return end / 3 * 2;
  return end > 64 ? end / 4 * 3 : end / 2;
}

}  // namespace dlblas
