// One access of a row program on a CPU: loads and stores of any element type, at any stride, as
// f32. The usual cases (contiguous f32, f16, bf16) are inline; the rest and the ends of rows are
// function calls. In: the location of a row's operands (RowState). Out: vectors of f32.
// Compiled once per instruction set, like cpu/simd.hpp. Read next: cpu/row/walk.hpp.
#pragma once

#include "cpu/row/bytes.hpp"
#include "cpu/row/values.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// How an operand's elements are read or written, two vectors at a time.
enum class Way : uint8_t {
  kF32,
  kF32Paired,  // values by even and odd elements
  kF16,
  kBF16,     // always paired
  kBF16Any,  // stores of values that may bring a NaN of any payload, from f32
  kStreamF32,
  kStreamF16,
  kStreamBF16,
  kStreamBF16Any,
  kBytes,  // of any order of values
  kStreamBytes,
  kOther,
};

/// The types that loops are compiled for, as template values: those of elements that are read at
/// columns and of those that are written, all contiguous. So a loop keeps its accumulators and
/// constants in registers, and calls nothing. AnyTypes: a switch at each access.
template <DType kRead, DType kWritten, DType kVector = kRead>
struct RowTypes {
  static constexpr bool kKnown = true;
  static constexpr DType kIn = kRead, kOut = kWritten, kColumn = kVector;
  /// NaNs of f32 inputs may have any payload.
  static constexpr bool kShortNans = size_of(kIn) == 2 && size_of(kColumn) == 2;
  static constexpr bool kPaired =
      kIn == DType::kBF16 || (size_of(kIn) == 1 && kOut == DType::kBF16);
};
struct AnyTypes {
  static constexpr bool kKnown = false;
};
/// The type by which SIMD accesses of two and four bytes go: one-byte types use bf16's order.
constexpr DType wide_type(DType type) {
  return type == DType::kF32 ? DType::kF32 : type == DType::kF16 ? DType::kF16 : DType::kBF16;
}

struct RowTensor {
  char* data;      // of this row
  int64_t column;  // bytes from element to element
  DType type;
  Way load, store;
};
struct RowState {
  const RowCall& call;
  RowTensor operands[kMaxRowOperands];
  int64_t index;
  int64_t numbers[kMaxRowIndices];  // of the row in gathered operands
  bool paired;
  int64_t group;  // the one at work, where groups are reduced
  int32_t options[kMaxRowOptions];
  // The group that load_group() read last, and its first column.
  mutable uint32_t group_at, group_first;

  /// Index i's value for this row.
  DLBLAS_INLINE int64_t number(int i) const { return numbers[i]; }
  DLBLAS_INLINE int32_t option(int i) const { return options[i]; }
  template <int kIndex>
  DLBLAS_INLINE void store_value(Operand<kIndex>, float value) const;
  template <int kIndex>
  DLBLAS_INLINE float load_value(Operand<kIndex>) const;
  /// Element `column` of this row, or of a vector over columns.
  template <int kIndex>
  DLBLAS_INLINE float load_element(Operand<kIndex>, int64_t column) const;
  /// The one value of an f32 operand without dimensions; `absent` if the call has none.
  template <int kIndex>
  DLBLAS_INLINE float load_scalar(Operand<kIndex>, float absent) const {
    float value = absent;
    if (operands[kIndex].data) __builtin_memcpy(&value, operands[kIndex].data, 4);
    return value;
  }
  /// Element r of a result whose rows have another length than the program's, f32 or i32.
  template <int kIndex, typename E>
  DLBLAS_INLINE void put(Operand<kIndex>, int64_t r, E value) const {
    static_assert(sizeof(E) == 4);
    __builtin_memcpy(operands[kIndex].data + r * operands[kIndex].column, &value, 4);
  }
  template <int kIndex>
  DLBLAS_INLINE float got(Operand<kIndex>, int64_t r) const {
    float value;
    __builtin_memcpy(&value, operands[kIndex].data + r * operands[kIndex].column, 4);
    return value;
  }
};

/// Reorders two vectors into the order of load2<kBF16, kBF16>, and back.
DLBLAS_INLINE Values<2> to_pairs(const Values<2>& x) {
  float lanes[2 * kWidth];
  store<DType::kF32>(lanes, x.v[0]);
  store<DType::kF32>(lanes + kWidth, x.v[1]);
  const Pair p = load2<DType::kF32, DType::kBF16>(lanes);
  Values<2> r;
  r.v[0] = p.a, r.v[1] = p.b;
  return r;
}
DLBLAS_INLINE Values<2> from_pairs(const Values<2>& x) {
  float lanes[2 * kWidth];
  for (int i = 0; i < kWidth; ++i) lanes[2 * i] = x.v[0][i], lanes[2 * i + 1] = x.v[1][i];
  Values<2> r;
  r.v[0] = load<DType::kF32>(lanes), r.v[1] = load<DType::kF32>(lanes + kWidth);
  return r;
}

DLBLAS_INLINE Values<2> from_pair(Pair p) {
  Values<2> r;
  r.v[0] = p.a, r.v[1] = p.b;
  return r;
}

// By value: a row's state stays in registers if its address does not escape.
/// The first n ≤ kWidth elements from column `c` on, at any stride, of any type; zeros above.
DLBLAS_OUTLINE Vec load_some(RowTensor t, int64_t c, int n) {
  const int size = size_of(t.type);
  const char* from = t.data + c * t.column;
  char gathered[4 * kWidth];
  if (t.column != size) {
    for (int i = 0; i < n; ++i)
      __builtin_memcpy(gathered + i * size, from + i * t.column, static_cast<size_t>(size));
    from = gathered;
  }
  if (t.type == DType::kF32) return load_partial<DType::kF32>(from, n);
  if (t.type == DType::kF16) return load_partial<DType::kF16>(from, n);
  if (t.type == DType::kBF16) return load_partial<DType::kBF16>(from, n);
  return load_bytes_partial(t.type, from, n);
}
DLBLAS_OUTLINE void store_some(RowTensor t, int64_t c, Vec v, int n) {
  const int size = size_of(t.type);
  char* to = t.data + c * t.column;
  char scattered[4 * kWidth];
  char* place = t.column == size ? to : scattered;
  if (t.type == DType::kF32) {
    store_partial<DType::kF32>(place, v, n);
  } else if (t.type == DType::kF16) {
    store_partial<DType::kF16>(place, v, n);
  } else if (t.type == DType::kBF16) {
    store_partial<DType::kBF16>(place, v, n);
  } else {
    store_bytes_partial(t.type, place, v, n);
  }
  if (place != to)
    for (int i = 0; i < n; ++i)
      __builtin_memcpy(to + i * t.column, place + i * size, static_cast<size_t>(size));
}
DLBLAS_OUTLINE Values<2> load_other(RowTensor t, int64_t c, bool paired) {
  Values<2> r;
  r.v[0] = load_some(t, c, kWidth), r.v[1] = load_some(t, c + kWidth, kWidth);
  return paired ? to_pairs(r) : r;
}
// Unused by programs that only put().
[[maybe_unused]] DLBLAS_OUTLINE void store_other(RowTensor t, int64_t c, Vec a, Vec b,
                                                 bool paired) {
  const Values<2> x = from_pair({a, b});
  const Values<2> r = paired ? from_pairs(x) : x;
  store_some(t, c, r.v[0], kWidth), store_some(t, c + kWidth, r.v[1], kWidth);
}

/// One element as f32.
DLBLAS_INLINE float load_one(const RowTensor& t, int64_t at) {
  if (__builtin_expect(t.type != DType::kF32, 0)) return load_some(t, at, 1)[0];
  float value;
  __builtin_memcpy(&value, t.data + at * t.column, sizeof value);
  return value;
}
/// Values for `columns` columns in several groups of `width`, after `past` columns of the first.
[[maybe_unused]] DLBLAS_OUTLINE Pair load_groups(RowTensor t, uint32_t group, uint32_t past,
                                                 uint32_t width, int columns, bool paired) {
  float all[2 * kWidth] = {};
  for (int i = 0; i < columns; ++i)
    all[i] = load_one(t, group + (past + static_cast<uint32_t>(i)) / width);
  if (paired) return load2<DType::kF32, DType::kBF16>(all);
  return {load<DType::kF32>(all), load<DType::kF32>(all + kWidth)};
}

/// kVectors = 2: 2·kWidth columns inside the row. 1: `lanes` columns in order, at a row's end.
template <int kVectors, typename Types>
struct CpuAccess {
  const RowState& row;
  int64_t first;
  int lanes;
  bool first_pass;  // keep() stores in the first pass alone
  const RowCall& call = row.call;

  DLBLAS_INLINE int64_t column() const { return first; }
  DLBLAS_INLINE int32_t option(int i) const { return row.options[i]; }
  template <int kStage>
  DLBLAS_INLINE const RowUnpack& unpack(Stage<kStage>) const {
    return call.unpack[0];
  }

  template <int kIndex>
  DLBLAS_INLINE Values<kVectors> load(Operand<kIndex>, int64_t shift = 0) const {
    return load_from(row.operands[kIndex], first + shift);
  }
  template <int kIndex>
  DLBLAS_INLINE Values<kVectors> load_column(Operand<kIndex>) const {
    const RowTensor& t = row.operands[kIndex];
    if constexpr (kVectors == 2 && Types::kKnown)
      if constexpr (Types::kColumn != Types::kIn)
        return from_pair(load2<wide_type(Types::kColumn), wide_type(Types::kIn)>(
            t.data + first * size_of(Types::kColumn)));
    return load_from(t, first);
  }
  /// The two elements that each column stands for (RowShape::span): 2i and 2i + 1 for column i, or
  /// those `shift` elements further right.
  template <int kIndex>
  DLBLAS_INLINE void load_pairs(Operand<kIndex>, Values<kVectors>& low, Values<kVectors>& high,
                                int64_t shift = 0) const {
    const RowTensor& t = row.operands[kIndex];
    const int64_t from = 2 * first + shift;
    if constexpr (kVectors == 1) {
      const int more = 2 * lanes - kWidth;
      const Vec a = load_some(t, from, more < 0 ? 2 * lanes : kWidth);
      const Pair p = unzip(a, more > 0 ? load_some(t, from + kWidth, more) : zero());
      low.v[0] = p.a, high.v[0] = p.b;
    } else {
      const Values<2> a = load_from(t, from), b = load_from(t, from + 2 * kWidth);
      // Values split into even and odd elements are pairs already: splits these into even and odd.
      const bool paired = in_pairs();
      const Pair p = paired ? unzip(a.v[0], b.v[0]) : unzip(a.v[0], a.v[1]);
      const Pair q = paired ? unzip(a.v[1], b.v[1]) : unzip(b.v[0], b.v[1]);
      low.v[0] = p.a, low.v[1] = paired ? p.b : q.a;
      high.v[0] = paired ? q.a : p.b, high.v[1] = q.b;
    }
  }
  template <int kIndex>
  DLBLAS_INLINE void store_pairs(Operand<kIndex>, const Values<kVectors>& low,
                                 const Values<kVectors>& high, int64_t shift = 0) const {
    const RowTensor& t = row.operands[kIndex];
    const int64_t to = 2 * first + shift;
    if constexpr (kVectors == 1) {
      const Pair p = zip(low.v[0], high.v[0]);
      const int more = 2 * lanes - kWidth;
      store_some(t, to, p.a, more < 0 ? 2 * lanes : kWidth);
      if (more > 0) store_some(t, to + kWidth, p.b, more);
    } else {
      const bool paired = in_pairs();
      const Pair p = paired ? zip(low.v[0], low.v[1]) : zip(low.v[0], high.v[0]);
      const Pair q = paired ? zip(high.v[0], high.v[1]) : zip(low.v[1], high.v[1]);
      store_to(t, to, from_pair({p.a, paired ? q.a : p.b}));
      store_to(t, to + 2 * kWidth, from_pair({paired ? p.b : q.a, q.b}));
    }
  }
  /// The one value of an operand without dimensions; `absent` if the call has none.
  template <int kIndex>
  DLBLAS_INLINE float load_scalar(Operand<kIndex> o, float absent) const {
    return row.load_scalar(o, absent);
  }
  /// Does this access have a row, or a head, of an operand that only second heads have, or that is
  /// gathered by a number that may be negative?
  template <int kIndex>
  DLBLAS_INLINE bool there(Operand<kIndex>) const {
    return row.operands[kIndex].data != nullptr;
  }
  /// `a` in columns before `column`, `b` from there on.
  DLBLAS_INLINE Values<kVectors> select_before(int64_t column, const Values<kVectors>& a,
                                               const Values<kVectors>& b) const {
    if (first + kVectors * kWidth <= column) return a;
    if (column <= first) return b;
    const auto before = static_cast<int>(column - first);
    const bool pairs = kVectors == 2 && in_pairs();
    Values<kVectors> r;
    for (int i = 0; i < kVectors; ++i) {
      const int mine = pairs ? (before + 1 - i) / 2 : before - i * kWidth;
      const int some = mine < 0 ? 0 : mine < kWidth ? mine : kWidth;
      r.v[i] = choose(lanes_below(some), a.v[i], b.v[i]);
    }
    return r;
  }
  /// This access of layer `layer` of a row, in an operand [*T, k, C].
  template <int kIndex>
  DLBLAS_INLINE Values<kVectors> load_layer(Operand<kIndex>, int64_t layer,
                                            int64_t shift = 0) const {
    RowTensor t = row.operands[kIndex];
    t.data += layer * call.operands[kIndex].head * size_of(t.type);
    return load_from(t, first + shift);
  }
  /// Like load where `column + shift` is before `end`, else zeros.
  template <int kIndex>
  DLBLAS_INLINE Values<kVectors> load_before(Operand<kIndex> o, int64_t shift, int64_t end) const {
    const int64_t from = first + shift, there = end - from;
    if (there >= (kVectors == 1 ? lanes : kVectors * kWidth)) return load(o, shift);
    if (there <= 0) return zeros(o);
    const RowTensor& t = row.operands[kIndex];
    Values<kVectors> r(0.0f);
    for (int i = 0; i < kVectors; ++i)
      if (there > i * kWidth)
        r.v[i] =
            load_some(t, from + i * kWidth,
                      static_cast<int>(there - i * kWidth < kWidth ? there - i * kWidth : kWidth));
    if constexpr (kVectors == 2)
      if (in_pairs()) return to_pairs(r);
    return r;
  }
  template <int kIndex>
  DLBLAS_INLINE void store_before(Operand<kIndex> o, const Values<kVectors>& x, int64_t shift,
                                  int64_t end) const {
    const int64_t from = first + shift, there = end - from;
    if (there >= (kVectors == 1 ? lanes : kVectors * kWidth)) return store(o, x, shift);
    if (there <= 0 || !first_pass) return;
    Values<kVectors> r = x;
    if constexpr (kVectors == 2)
      if (in_pairs()) r = from_pairs(x);
    for (int i = 0; i < kVectors; ++i)
      if (there > i * kWidth)
        store_some(row.operands[kIndex], from + i * kWidth, r.v[i],
                   static_cast<int>(there - i * kWidth < kWidth ? there - i * kWidth : kWidth));
  }
  /// The value of index i, an operand of integers [*T], for this row.
  DLBLAS_INLINE int64_t number(int i = 0) const { return row.numbers[i]; }
  /// Loads at an offset in elements from the operand's first.
  template <int kIndex>
  DLBLAS_INLINE Values<kVectors> load_at(Operand<kIndex>, int64_t offset) const {
    RowTensor t = row.operands[kIndex];
    t.data = static_cast<char*>(call.operands[kIndex].data) + offset * size_of(t.type);
    return load_from(t, 0);
  }
  template <int kIndex>
  DLBLAS_INLINE void store(Operand<kIndex>, const Values<kVectors>& x, int64_t shift = 0) const {
    if (first_pass) store_to(row.operands[kIndex], first + shift, x);
  }
  template <int kIndex>
  DLBLAS_INLINE void store_words(Operand<kIndex> o, const Values<kVectors>& x,
                                 int64_t shift = 0) const {
    store(o, x, shift);
  }
  template <int kIndex>
  DLBLAS_INLINE static Values<kVectors> zeros(Operand<kIndex>) {
    return Values<kVectors>(0.0f);
  }
  /// Will convert() copy memory, so that the program need not load it?
  template <int kTo, int kFrom>
  DLBLAS_INLINE bool copies(Operand<kTo>, Operand<kFrom>) const {
    const RowTensor &to = row.operands[kTo], &from = row.operands[kFrom];
    const int size = size_of(to.type);
    return kVectors == 2 && to.type == from.type && to.column == size && from.column == size &&
           size > 1;
  }
  /// Stores `x`, this access's values of another operand; copies memory if the types agree.
  template <int kTo, int kFrom>
  DLBLAS_INLINE void convert(Operand<kTo> o, Operand<kFrom> source,
                             const Values<kVectors>& x) const {
    if (!copies(o, source)) return store(o, x);
    const RowTensor& to = row.operands[kTo];
    const int size = size_of(to.type);
    const char* in = row.operands[kFrom].data + first * size;
    char* out = to.data + first * size;
    const bool past = to.store == Way::kStreamF32 || to.store == Way::kStreamF16 ||
                      to.store == Way::kStreamBF16 || to.store == Way::kStreamBF16Any;
    for (int i = 0; i < size / 2; ++i, in += 4 * kWidth, out += 4 * kWidth) {
      const Vec v = DLBLAS_ISA::load<DType::kF32>(in);  // any four bytes
      if (past)
        stream<DType::kF32>(out, v);
      else
        DLBLAS_ISA::store<DType::kF32>(out, v);
    }
  }
  template <int kIndex>
  DLBLAS_INLINE void store_at(Operand<kIndex>, int64_t offset, const Values<kVectors>& x) const {
    RowTensor t = row.operands[kIndex];
    t.data = static_cast<char*>(call.operands[kIndex].data) + offset * size_of(t.type);
    if (first_pass) store_to(t, 0, x);
  }
  /// This access's columns of row `number` of a gathered operand that is not paged.
  template <int kIndex>
  DLBLAS_INLINE Values<kVectors> load_row(Operand<kIndex>, int64_t number,
                                          int64_t shift = 0) const {
    RowTensor t = row.operands[kIndex];
    t.data = static_cast<char*>(call.operands[kIndex].data) +
             (number < 0 ? 0 : number) * call.operands[kIndex].row * size_of(t.type);
    return load_from(t, first + shift);
  }
  /// The row's value.
  template <int kIndex>
  DLBLAS_INLINE float load_value(Operand<kIndex>) const {
    return load_one(row.operands[kIndex], 0);
  }
  /// The values of the groups of columns in this access.
  template <int kIndex>
  DLBLAS_INLINE Values<kVectors> load_group(Operand<kIndex>) const {
    const RowTensor& t = row.operands[kIndex];
    const auto width = static_cast<uint32_t>(call.group), begin = static_cast<uint32_t>(first);
    if (begin - row.group_first >= width) {
      row.group_at = begin / width;
      row.group_first = row.group_at * width;
    }
    const uint32_t group = row.group_at, past = begin - row.group_first;
    const int columns = kVectors == 1 ? lanes : kVectors * kWidth;
    if (past + static_cast<uint32_t>(columns) <= width) return {load_one(t, group)};
    const Pair p = load_groups(t, group, past, width, columns, kVectors == 2 && row.paired);
    Values<kVectors> r;
    r.v[0] = p.a;
    if constexpr (kVectors == 2) r.v[1] = p.b;
    return r;
  }
  /// Stores a group's value, in the group's first access.
  template <int kIndex>
  DLBLAS_INLINE void store_group(Operand<kIndex>, float value) const {
    const RowTensor& t = row.operands[kIndex];
    if (first == row.group * call.group)
      __builtin_memcpy(t.data + row.group * t.column, &value, sizeof value);
  }
  /// a + b, rounded to the operand's type, which is also theirs.
  template <int kIndex>
  DLBLAS_INLINE Values<kVectors> add_rounded(Operand<kIndex> o, const Values<kVectors>& a,
                                             const Values<kVectors>& b) const {
    return round(o, a + b);
  }
  template <int kIndex>
  DLBLAS_INLINE Values<kVectors> round(Operand<kIndex>, const Values<kVectors>& x) const {
    Values<kVectors> r = x;
    DType type = row.operands[kIndex].type;
    if constexpr (Types::kKnown) type = Types::kOut;
    if (type == DType::kBF16)
      for (Vec& v : r.v) v = dlblas::DLBLAS_ISA::round<DType::kBF16>(v);
    else if (type == DType::kF16)
      for (Vec& v : r.v) v = dlblas::DLBLAS_ISA::round<DType::kF16>(v);
    return r;
  }

 private:
  DLBLAS_INLINE bool in_pairs() const {
    if constexpr (Types::kKnown) return Types::kPaired;
    return row.paired;
  }
  template <DType kType, Nans kNans>
  static constexpr Way streamed_way() {
    return kType == DType::kF32    ? Way::kStreamF32
           : kType == DType::kF16  ? Way::kStreamF16
           : kNans == Nans::kShort ? Way::kStreamBF16
                                   : Way::kStreamBF16Any;
  }
  DLBLAS_INLINE Values<kVectors> load_from(const RowTensor& t, int64_t c) const {
    Values<kVectors> r;
    if constexpr (kVectors == 1) {
      r.v[0] = load_some(t, c, lanes);
      return r;
    } else if constexpr (Types::kKnown) {
      constexpr DType kType = Types::kIn;
      if constexpr (size_of(kType) == 1)
        return from_pair(load_bytes_as<kType>(t.data + c, Types::kPaired));
      else
        return from_pair(load2<wide_type(kType), wide_type(kType)>(t.data + c * size_of(kType)));
    } else {
      if (t.load == Way::kBF16 || t.load == Way::kBF16Any)
        return from_pair(load2<DType::kBF16, DType::kBF16>(t.data + c * 2));
      if (t.load == Way::kF32) return from_pair(load2<DType::kF32, DType::kF32>(t.data + c * 4));
      if (t.load == Way::kF32Paired)
        return from_pair(load2<DType::kF32, DType::kBF16>(t.data + c * 4));
#if defined(__AVX2__)
      if (t.load == Way::kF16) return from_pair(load2<DType::kF16, DType::kF16>(t.data + c * 2));
#endif
      if (t.load == Way::kBytes) return from_pair(load_bytes(t.type, t.data + c, row.paired));
      return load_other(t, c, row.paired);
    }
  }
  DLBLAS_INLINE void store_to(const RowTensor& t, int64_t c, const Values<kVectors>& x) const {
    if constexpr (kVectors == 1) {
      store_some(t, c, x.v[0], lanes);
    } else if constexpr (Types::kKnown) {
      constexpr DType kType = Types::kOut;
      constexpr Nans kNans = Types::kShortNans ? Nans::kShort : Nans::kAny;
      char* to = t.data + c * size_of(kType);
      if constexpr (size_of(kType) == 1)
        store_bytes_as<kType>(to, x.v[0], x.v[1], Types::kPaired, t.store == Way::kStreamBytes);
      else if (t.store == streamed_way<kType, kNans>())
        stream2<wide_type(kType), kNans>(to, {x.v[0], x.v[1]});
      else
        store2<wide_type(kType), kNans>(to, {x.v[0], x.v[1]});
    } else {
      const Pair p = {x.v[0], x.v[1]};
      if (t.store == Way::kBF16)
        store2<DType::kBF16, Nans::kShort>(t.data + c * 2, p);
      else if (t.store == Way::kStreamBF16)
        stream2<DType::kBF16, Nans::kShort>(t.data + c * 2, p);
      else if (t.store == Way::kF32)
        store2<DType::kF32>(t.data + c * 4, p);
      else if (t.store == Way::kStreamF32)
        stream2<DType::kF32>(t.data + c * 4, p);
      else if (t.store == Way::kBF16Any)
        store2<DType::kBF16>(t.data + c * 2, p);
      else if (t.store == Way::kStreamBF16Any)
        stream2<DType::kBF16>(t.data + c * 2, p);
#if defined(__AVX2__)
      else if (t.store == Way::kF16)
        store2<DType::kF16>(t.data + c * 2, p);
      else if (t.store == Way::kStreamF16)
        stream2<DType::kF16>(t.data + c * 2, p);
#endif
      else if (t.store == Way::kBytes || t.store == Way::kStreamBytes)
        store_bytes(t.type, t.data + c, p.a, p.b, row.paired, t.store == Way::kStreamBytes);
      else
        store_other(t, c, p.a, p.b, row.paired);
    }
  }
};

template <int kIndex>
DLBLAS_INLINE void RowState::store_value(Operand<kIndex>, float value) const {
  store_some(operands[kIndex], 0, broadcast(value), 1);
}
template <int kIndex>
DLBLAS_INLINE float RowState::load_value(Operand<kIndex>) const {
  return load_one(operands[kIndex], 0);
}
template <int kIndex>
DLBLAS_INLINE float RowState::load_element(Operand<kIndex>, int64_t column) const {
  return load_one(operands[kIndex], column);
}

/// What a program is compiled for on a CPU.
template <int kVectors, bool kKeep, typename Types>
struct CpuTarget {
  static constexpr int kElements = kVectors * kWidth;
  static constexpr bool kKeeps = kKeep, kInRegisters = false;
  static constexpr int kVariant = kKeep ? 0 : 1;  // rows are read again: in as few passes as can be
  using Access = CpuAccess<kVectors, Types>;
  using Row = RowState;
  using Values = dlblas::DLBLAS_ISA::Values<kVectors>;
  template <int kIndex>
  using Words = Values;
  using Math = CpuMath;
  using Total = double;
  template <int kIndex>
  using Scale = CpuScale;
  using Sum = SumPart;
  using Sums = SumsPart;
  using Max = MaxPart;
  using MaxSum = MaxSumPart;
  /// Runs a part of a program that occurs often in its code: a call where it switches on types.
  template <typename Body>
  DLBLAS_INLINE static void part(const Body& body) {
    if constexpr (Types::kKnown)
      body();
    else
      call(body);
  }

 private:
  template <typename Body>
  DLBLAS_OUTLINE static void call(const Body& body) {
    body();
  }
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
