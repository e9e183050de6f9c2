// Few rows of x times columns of a packed weight, whose codes are unpacked in registers. Lanes are
// rows of the weight. Of 4-bit codes, a column's sixteen values, rounded to x's type, are made once
// per group; a permutation then looks up those of a vector of codes. Sums are f32: one chain per
// lane, then the lanes. Compiled once per instruction set. Read next: few_rows_config.hpp,
// few_rows_cpu.cpp.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cpu/simd.hpp"
#pragma GCC diagnostic pop
#include "ops/w4/few_rows_config.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

constexpr int kVectors = w4::kFewStep / kWidth;  // of sixteen values

using Words = uint32_t __attribute__((vector_size(4 * kWidth)));
using Floats = float __attribute__((vector_size(4 * kWidth)));

DLBLAS_INLINE Words load_words(const void* from) {
  Words w;
  __builtin_memcpy(&w, from, sizeof w);
  return w;
}
DLBLAS_INLINE Words splat_word(uint32_t w) { return w - Words{}; }
DLBLAS_INLINE Words lanes() {
  Words w;
  for (int i = 0; i < kWidth; ++i) w[i] = static_cast<uint32_t>(i);
  return w;
}

/// Elements of a, and then of b, at the places `at`. clang, which tools read this with, has no
/// shuffle by a variable.
template <typename V>
DLBLAS_INLINE V shuffled(V a, [[maybe_unused]] V b, Words at) {
#if defined(__clang__)
  V to = a;
  for (int i = 0; i < kWidth; ++i) to[i] = at[i] & kWidth ? b[at[i] % kWidth] : a[at[i] % kWidth];
  return to;
#else
  return __builtin_shuffle(a, b, at);
#endif
}
template <typename V>
DLBLAS_INLINE V shuffled(V a, Words at) {
#if defined(__clang__)
  return shuffled(a, a, at);
#else
  return __builtin_shuffle(a, at);
#endif
}

/// The sixteen values of a column's codes.
struct Table {
  Vec of[kVectors];

  /// Those of the low four bits of each word.
  DLBLAS_INLINE Vec at(Words codes) const {
    if constexpr (kVectors == 1)
      return (Vec)shuffled((Floats)of[0], codes);
    else
      return (Vec)shuffled((Floats)of[0], (Floats)of[kVectors - 1], codes);
  }
};

template <DType E>
DLBLAS_INLINE Table table_of(float zero, float scale) {
  Table t;
  DLBLAS_UNROLL for (int i = 0; i < kVectors; ++i) {
    const Floats q = __builtin_convertvector(lanes() + static_cast<uint32_t>(i * kWidth), Floats);
    t.of[i] = round<E>((Vec)((q - zero) * scale));
  }
  return t;
}

/// Sums of a column, kept between its groups.
template <int kRows>
struct Sums {
  Vec of[kRows];
};

template <DType E>
DLBLAS_INLINE void widen_row(const void* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store<DType::kF32>(to + i, load<E>(at<E>(from, i)));
  const int left = static_cast<int>(count - i);
  if (left > 0) store_partial<DType::kF32>(to + i, load_partial<E>(at<E>(from, i), left), left);
}

template <DType E>
void narrow_row(const float* from, int64_t count, void* to) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store<E>(at<E>(to, i), load<DType::kF32>(from + i));
  const int left = static_cast<int>(count - i);
  if (left > 0) store_partial<E>(at<E>(to, i), load_partial<DType::kF32>(from + i, left), left);
}

/// Factors of a group's columns: scales, and zeros by the place of column c's in its word.
template <DType E>
void load_factors(const w4::FewRowsTask& t, int64_t group, float* scale, float* zero) {
  widen_row<E>(at<E>(t.scales, group * t.scale_row + t.first), t.columns, scale);
  const auto* words =
      t.zeros ? static_cast<const uint32_t*>(t.zeros) + group * t.zero_row + t.first / 8 : nullptr;
  const bool awq = t.codes == w4::Codes::kAwq;
  for (int64_t c = 0; c < t.columns; ++c) {
    const int64_t place = awq ? c % 8 / 2 + c % 2 * 4 : c % 8;
    zero[c] =
        words
            ? static_cast<float>((words[c / 8] >> 4 * place & 15u) + static_cast<uint32_t>(t.plus))
            : 8.0f;
  }
}

template <int kRows>
DLBLAS_INLINE void add_products(Sums<kRows>& sums, Vec weight, const float* x, int64_t pitch) {
  DLBLAS_UNROLL for (int m = 0; m < kRows; ++m) sums.of[m] =
      fma(load<DType::kF32>(x + m * pitch), weight, sums.of[m]);
}

/// Transposes kWidth × kWidth words.
DLBLAS_INLINE void transpose(Words (&v)[kWidth]) {
  DLBLAS_UNROLL for (int s = 1; s < kWidth; s *= 2) {
    Words first, second;
    for (int l = 0; l < kWidth; ++l) {
      const auto i = static_cast<uint32_t>(l), step = static_cast<uint32_t>(s);
      first[l] = i & step ? i - step + kWidth : i;
      second[l] = i & step ? i + kWidth : i + step;
    }
    DLBLAS_UNROLL for (int i = 0; i < kWidth; ++i) {
      if (i & s) continue;
      const Words a = v[i], b = v[i + s];
      v[i] = shuffled(a, b, first), v[i + s] = shuffled(a, b, second);
    }
  }
}

/// Words of `columns` word columns and `depth` rows, as [column, row].
void turn_words(const w4::FewRowsTask& t, int64_t k, int64_t depth, uint32_t* to) {
  const auto* from = static_cast<const uint32_t*>(t.words) + k * t.word_row + t.first / 8;
  const int64_t columns = t.columns / 8;
  int64_t c = 0;
  for (; c + kWidth <= columns; c += kWidth)
    for (int64_t r = 0; r < depth; r += kWidth) {
      Words v[kWidth];
      DLBLAS_UNROLL for (int i = 0; i < kWidth; ++i) v[i] =
          load_words(from + (r + i) * t.word_row + c);
      transpose(v);
      DLBLAS_UNROLL for (int i = 0; i < kWidth; ++i)
          __builtin_memcpy(to + (c + i) * w4::kFewDepth + r, &v[i], sizeof v[i]);
    }
  for (; c < columns; ++c)
    for (int64_t r = 0; r < depth; ++r) to[c * w4::kFewDepth + r] = from[r * t.word_row + c];
}

template <DType E, int kRows>
void few_rows_awq(const w4::FewRowsTask& t, Sums<kRows>* sums) {
  alignas(64) uint32_t words[w4::kFewColumns / 8 * w4::kFewDepth];
  alignas(64) float scale[w4::kFewColumns], zero[w4::kFewColumns];
  for (int64_t k = 0; k < t.depth;) {
    const int64_t group = k / t.group, end = (group + 1) * t.group;
    const int64_t depth = end - k < w4::kFewDepth ? end - k : w4::kFewDepth;
    if (k % t.group == 0) load_factors<E>(t, group, scale, zero);
    turn_words(t, k, depth, words);
    for (int64_t c = 0; c < t.columns; ++c) {
      const Table table = table_of<E>(zero[c], scale[c]);
      const auto shift = static_cast<uint32_t>(4 * (c % 8 / 2 + c % 2 * 4));
      const uint32_t* from = words + c / 8 * w4::kFewDepth;
      Sums<kRows> own = sums[c];
      for (int64_t r = 0; r < depth; r += kWidth)
        add_products(own, table.at(load_words(from + r) >> shift), t.x + k + r, t.depth);
      sums[c] = own;
    }
    k += depth;
  }
}

/// The shifts of a vector of GPTQ's codes: those of one word, or of two in turn.
DLBLAS_INLINE Words gptq_shifts() {
  Words w;
  for (int i = 0; i < kWidth; ++i) w[i] = static_cast<uint32_t>(4 * (i * 8 / kWidth));
  return w;
}
/// Copies words of rows [k, k + depth), so that those of a vector are adjacent: kWidth / 8 of each
/// column, [rows of words, column, words].
void gather_words(const w4::FewRowsTask& t, int64_t k, int64_t depth, uint32_t* to) {
  constexpr int kEach = kWidth / 8;
  const auto* from = static_cast<const uint32_t*>(t.words) + k / 8 * t.word_row + t.first;
  for (int64_t r = 0; r < depth / 8; r += kEach, to += w4::kFewColumns * kEach) {
    const uint32_t *const first = from + r * t.word_row, *const last = first + t.word_row;
    for (int64_t c = 0; c < t.columns; ++c) {
      to[c * kEach] = first[c];
      if constexpr (kEach == 2) to[c * kEach + 1] = last[c];
    }
  }
}

template <DType E, int kRows>
void few_rows_gptq(const w4::FewRowsTask& t, Sums<kRows>* sums) {
  alignas(64) uint32_t words[w4::kFewColumns * w4::kFewDepth / 8];
  alignas(64) float scale[w4::kFewColumns], zero[w4::kFewColumns];
  const Words shifts = gptq_shifts();
  for (int64_t k = 0; k < t.depth;) {
    const int64_t group = k / t.group, end = (group + 1) * t.group;
    const int64_t depth = end - k < w4::kFewDepth ? end - k : w4::kFewDepth;
    if (k % t.group == 0) load_factors<E>(t, group, scale, zero);
    gather_words(t, k, depth, words);
    for (int64_t c = 0; c < t.columns; ++c) {
      const Table table = table_of<E>(zero[c], scale[c]);
      const uint32_t* from = words + c * (kWidth / 8);
      Sums<kRows> own = sums[c];
      for (int64_t r = 0; r < depth; r += kWidth, from += w4::kFewColumns * (kWidth / 8)) {
#if defined(__AVX512F__)
        int64_t pair;
        __builtin_memcpy(&pair, from, sizeof pair);
        const auto both = (Words)_mm512_set1_epi64(pair);
#else
        const Words both = splat_word(*from);
#endif
        add_products(own, table.at(both >> shifts), t.x + k + r, t.depth);
      }
      sums[c] = own;
    }
    k += depth;
  }
}

DLBLAS_INLINE Vec load_codes(const int8_t* from) {
  const auto* at = reinterpret_cast<const __m128i_u*>(from);
#if defined(__AVX512F__)
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at)));
#else
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(at)));
#endif
}

/// kSums: the scale multiplies a column's sum, which the host does.
template <DType E, int kRows, bool kSums>
void few_rows_i8(const w4::FewRowsTask& t, Sums<kRows>* sums) {
  constexpr int kTogether = kRows > 4 ? 2 : 4;
  const auto* codes = static_cast<const int8_t*>(t.words) + t.first * t.word_row;
  const auto* scales = static_cast<const float*>(t.scales) + t.first * t.scale_row;
  for (int64_t c = 0; c < t.columns; c += kTogether) {
    int64_t column[kTogether];  // the last one again where there are fewer
    Sums<kRows> own[kTogether];
    DLBLAS_UNROLL for (int i = 0; i < kTogether; ++i) {
      column[i] = c + i < t.columns ? c + i : t.columns - 1;
      DLBLAS_UNROLL for (int m = 0; m < kRows; ++m) { own[i].of[m] = zero(); }
    }
    for (int64_t k = 0; k < t.depth;) {
      const int64_t group = k / t.group, end = (group + 1) * t.group;
      const int64_t last = end < t.depth ? end : t.depth;
      Vec scale[kTogether];
      DLBLAS_UNROLL for (int i = 0; i < kTogether; ++i) {
        if constexpr (!kSums) scale[i] = broadcast(scales[column[i] * t.scale_row + group]);
      }
      for (; k < last; k += kWidth) {
        DLBLAS_UNROLL for (int i = 0; i < kTogether; ++i) {
          Vec w = load_codes(codes + column[i] * t.word_row + k);
          if constexpr (!kSums) w = round<E>(mul(w, scale[i]));
          add_products(own[i], w, t.x + k, t.depth);
        }
      }
    }
    DLBLAS_UNROLL for (int i = 0; i < kTogether; ++i) { sums[column[i]] = own[i]; }
  }
}

template <DType E, int kRows>
void few_rows_of(const w4::FewRowsTask& t) {
  Sums<kRows> sums[w4::kFewColumns];
  for (int64_t c = 0; c < t.columns; ++c)
    for (int m = 0; m < kRows; ++m) sums[c].of[m] = zero();
  if (t.codes == w4::Codes::kAwq)
    few_rows_awq<E>(t, sums);
  else if (t.codes == w4::Codes::kGptq)
    few_rows_gptq<E>(t, sums);
  else if (t.scales_sums)
    few_rows_i8<E, kRows, true>(t, sums);
  else
    few_rows_i8<E, kRows, false>(t, sums);
  for (int m = 0; m < kRows; ++m)
    for (int64_t c = 0; c < t.columns; ++c)
      t.sums[m * w4::kFewColumns + c] = reduce_add(sums[c].of[m]);
}

template <DType E>
void few_rows_of_type(const w4::FewRowsTask& t) {
  switch (t.rows) {
    case 1:
      return few_rows_of<E, 1>(t);
    case 2:
      return few_rows_of<E, 2>(t);
    case 4:
      return few_rows_of<E, 4>(t);
    default:
      return few_rows_of<E, 8>(t);
  }
}

}  // namespace

void few_rows(const w4::FewRowsTask& task) {
  if (task.type == DType::kF16)
    few_rows_of_type<DType::kF16>(task);
  else
    few_rows_of_type<DType::kBF16>(task);
}

void few_rows_widen(w4::Codes codes, DType type, const void* x, int64_t count, float* to) {
  if (type == DType::kF16)
    widen_row<DType::kF16>(x, count, to);
  else
    widen_row<DType::kBF16>(x, count, to);
  if (codes != w4::Codes::kGptq || kWidth != 16) return;
  // A vector has the codes of two words in turn.
  for (int64_t k = 0; k < count; k += w4::kFewStep) {
    float own[w4::kFewStep];
    __builtin_memcpy(own, to + k, sizeof own);
    for (int i = 0; i < w4::kFewStep; ++i) to[k + i % 8 * 2 + i / 8] = own[i];
  }
}

void few_rows_narrow(const float* from, int64_t count, DType type, void* to) {
  if (type == DType::kF16)
    narrow_row<DType::kF16>(from, count, to);
  else
    narrow_row<DType::kBF16>(from, count, to);
}

}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
