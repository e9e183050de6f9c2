// One access of a row program on a GPU: N neighbouring columns of one row in every operand. Handles
// masks, alignment, strides and cache hints, so that programs and kernels need not.
// In: the row's location (RowPlace), the thread's columns. Out: words in registers and stores.
// Read next: device/row/registers.cuh.
#pragma once

#include "device/guarded.cuh"
#include "device/row/reduce.cuh"

namespace dlblas {

template <RowTraits T>
struct RowCallOf {
  using Type = typename RowPick<T.nested, NestedRowCall, RowCall>::Type;
};

/// The row that a thread works on: its number, and its offset in each operand, in elements.
template <RowTraits T>
struct RowPlace {
  const RowCall& call;
  int64_t index;
  int64_t nested[kMaxRowOperands];       // used by nested calls alone
  int64_t numbers[kMaxRowIndices] = {};  // of its rows in gathered operands

  template <typename Call>
  __device__ RowPlace(const Call& c, int64_t i) : call(c), index(i) {
    if constexpr (T.nested) {
      const RowNest& nest = c.nest;
#pragma unroll
      for (int o = 0; o < kMaxRowOperands; ++o) nested[o] = 0;
      auto left = static_cast<uint32_t>(i);
      // The outermost dimension takes the rest: a single one, common for tokens, needs no division.
#pragma unroll 1
      for (int d = 0; d + 1 < nest.rank; ++d) {
        const uint32_t size = nest.sizes[d], next = left / size, at = left - next * size;
        left = next;
        step(nest, d, at);
      }
      if (nest.rank > 0) step(nest, nest.rank - 1, left);
    }
    if constexpr (T.shape.indices > 0) numbers[0] = load_number<0>();
    if constexpr (T.shape.indices > 1) numbers[1] = load_number<1>();
    if constexpr (T.shape.indices > 2) numbers[2] = load_number<2>();
  }
  /// True if an index that leaves rows out is negative here: nothing of the row is written.
  __device__ bool skipped() const {
    bool any = false;
#pragma unroll
    for (int i = 0; i < T.shape.indices; ++i)
      if (T.shape.leaves_out >> i & 1u) any |= numbers[i] < 0;
    return any;
  }
  /// Index i's value for this row. Selects, since an unknown array index would need local memory.
  __device__ int64_t number(int i) const {
    return i == 0 ? numbers[0] : i == 1 ? numbers[1] : numbers[2];
  }
  __device__ int32_t option(int i) const { return T.options[i]; }
  /// True if the gathered operand has a row for it.
  template <int kIndex>
  __device__ bool there() const {
    constexpr int kBy = T.shape.gathered_by[kIndex];
    if constexpr (T.shape.gathered >> kIndex & 1u) return numbers[kBy] >= 0;
    return true;
  }
  template <int kIndex>
  __device__ int64_t offset() const {
    if constexpr (T.shape.gathered >> kIndex & 1u)
      return gathered_offset<kIndex>();
    else if constexpr (T.nested)
      return nested[kIndex];
    else
      return index * call.operands[kIndex].row;
  }
  template <int kIndex>
  __device__ char* base() const {
    return static_cast<char*>(call.operands[kIndex].data) +
           offset<kIndex>() * size_of(T.types[kIndex]);
  }
  /// One value per row: `at.store_value(kLse, stats.lse)` in store_row.
  template <int kIndex>
  __device__ void store_value(Operand<kIndex>, float value) const {
    constexpr DType kType = T.types[kIndex];
    constexpr int kAlign = T.aligned ? 16 : 1;
    store_vec<kType, 1, detail::smaller(kAlign, size_of(kType))>(base<kIndex>(), 0,
                                                                 rounded<kType>(Values<1>(value)));
  }
  template <int kIndex>
  __device__ float load_value(Operand<kIndex>) const {
    constexpr DType kType = T.types[kIndex];
    return values(load_vec<kType, 1, (T.aligned ? size_of(kType) : 1)>(base<kIndex>(), 0)).v[0];
  }
  /// Element `column` of this row, or of a vector over columns.
  template <int kIndex>
  __device__ float load_element(Operand<kIndex>, int64_t column) const {
    constexpr DType kType = T.types[kIndex];
    const int64_t stride = T.strided ? call.operands[kIndex].column : 1;
    return values(load_vec<kType, 1, (T.aligned ? size_of(kType) : 1)>(base<kIndex>(),
                                                                       column * stride))
        .v[0];
  }
  /// The one value of an f32 operand without dimensions; `absent` if the call has none.
  template <int kIndex>
  __device__ float load_scalar(Operand<kIndex>, float absent) const {
    static_assert(T.types[kIndex] == DType::kF32);
    const void* from = call.operands[kIndex].data;
    if (from == nullptr) return absent;
    return values(load_vec<DType::kF32, 1, (T.aligned ? 4 : 1)>(from, 0)).v[0];
  }
  /// Element r of a result whose rows have another length than the program's, f32 or i32.
  template <int kIndex>
  __device__ void put(Operand<kIndex>, int r, float value) const {
    *spot<kIndex, float>(r) = value;
  }
  template <int kIndex>
  __device__ void put(Operand<kIndex>, int r, int32_t value) const {
    *spot<kIndex, int32_t>(r) = value;
  }
  /// What this thread wrote with put().
  template <int kIndex>
  __device__ float got(Operand<kIndex>, int r) const {
    return *spot<kIndex, float>(r);
  }
  template <int kIndex, typename E>
  __device__ E* spot(int r) const {
    static_assert(T.types[kIndex] == DType::kF32, "as wide as f32");
    return reinterpret_cast<E*>(base<kIndex>()) + r * call.operands[kIndex].column;
  }

 private:
  __device__ void step(const RowNest& nest, int d, uint32_t at) {
#pragma unroll
    for (int o = 0; o < kMaxRowOperands; ++o)
      nested[o] += static_cast<int64_t>(at) * nest.strides[o][d];
  }
  template <int kNumber>
  __device__ int64_t load_number() const {
    if constexpr (T.shape.index[kNumber] < 0) return 0;
    constexpr int kIndex = T.shape.index[kNumber] < 0 ? 0 : T.shape.index[kNumber];
    constexpr int kBytes = T.shape.index_bytes[kNumber];
    const int64_t offset = T.nested ? nested[kIndex] : index * call.operands[kIndex].row;
    const char* from = static_cast<const char*>(call.operands[kIndex].data) + offset * kBytes;
    if constexpr (T.aligned)
      return kBytes == 8 ? *reinterpret_cast<const int64_t*>(from)
                         : *reinterpret_cast<const int32_t*>(from);
    uint64_t bits = 0;
#pragma unroll
    for (int i = 0; i < kBytes; ++i)
      bits |= static_cast<uint64_t>(reinterpret_cast<const uint8_t*>(from)[i]) << (8 * i);
    return kBytes == 8 ? static_cast<int64_t>(bits) : static_cast<int32_t>(bits);
  }
  /// A negative number loads the first row.
  template <int kIndex>
  __device__ int64_t gathered_offset() const {
    const RowOperand& o = call.operands[kIndex];
    const int64_t number = numbers[T.shape.gathered_by[kIndex]];
    const uint64_t at = number < 0 ? 0 : static_cast<uint64_t>(number);
    if constexpr (T.shape.paged >> kIndex & 1u) {
      constexpr uint64_t kPage = T.shape.page == 0 ? 1 : T.shape.page;
      // Division by a constant.
      const uint64_t block = at / kPage, in_block = at - block * kPage;
      return static_cast<int64_t>(block) * o.block + static_cast<int64_t>(in_block) * o.row;
    }
    return static_cast<int64_t>(at) * o.row;
  }
};

/// kCache: how rows are read. kGuard: 16-byte accesses are predicated on being inside the row;
/// otherwise each access is a branch, which the compiler may interleave where there are many.
template <RowTraits T, Cache kCache, bool kEarly, bool kGuard>
struct RowAccess {
  static constexpr int N = T.n;
  const RowPlace<T>& row;
  int first;    // the thread's first column
  int step;     // of this access, known to the compiler
  bool holds;   // inside the row
  bool writes;  // inside the row, of a row that is there, for the first time
  const RowCall& call = row.call;

  /// Within the row, or within the head where rows are heads.
  __device__ int column() const {
    if constexpr (kHeadWidth == 0) return first + step;
    return static_cast<int>(head_place().column);
  }
  __device__ int32_t option(int i) const { return T.options[i]; }
  __device__ const RowUnpack& unpack(Stage<1>) const { return call.unpack[0]; }
  __device__ const RowUnpack& unpack(Stage<2>) const { return call.unpack[1]; }
  __device__ const RowUnpack& unpack(Stage<3>) const { return call.unpack[2]; }

  /// This access's columns of a row operand, or those `shift` columns further right.
  template <int kIndex>
  __device__ Vec<T.types[kIndex], N> load(Operand<kIndex> o, int shift = 0) const {
    return load_from<T.types[kIndex], kCache>(place(o, base<kIndex>(), shift));
  }
  /// The two elements that each column stands for (RowShape::span): 2i and 2i + 1 for column i, or
  /// those `shift` elements further right.
  template <int kIndex>
  __device__ void load_pairs(Operand<kIndex>, Vec<T.types[kIndex], N>& low,
                             Vec<T.types[kIndex], N>& high, int shift = 0) const {
    constexpr DType kType = T.types[kIndex];
    const char* from = base<kIndex>();
    const int first = 2 * column() + shift;
    if constexpr (N == 1) {
      low = load_from<kType, kCache>(from + element<kIndex>(first));
      high = load_from<kType, kCache>(from + element<kIndex>(first + 1));
    } else {
      const auto both = load_from<kType, kCache, 2 * N>(from + element<kIndex>(first));
#pragma unroll
      for (int i = 0; i < Vec<kType, N>::kWords; ++i) {
        if constexpr (kType == DType::kF32) {
          low.words[i] = both.words[2 * i], high.words[i] = both.words[2 * i + 1];
        } else {
          static_assert(size_of(kType) == 2);
          low.words[i] = __byte_perm(both.words[2 * i], both.words[2 * i + 1], 0x5410);
          high.words[i] = __byte_perm(both.words[2 * i], both.words[2 * i + 1], 0x7632);
        }
      }
    }
  }
  template <int kIndex>
  __device__ void store_pairs(Operand<kIndex>, const Values<N>& low, const Values<N>& high,
                              int shift = 0) const {
    constexpr DType kType = T.types[kIndex];
    char* to = const_cast<char*>(base<kIndex>());
    const int first = 2 * column() + shift;
    if constexpr (N == 1) {
      store_to<kType>(to + element<kIndex>(first), rounded<kType>(low));
      store_to<kType>(to + element<kIndex>(first + 1), rounded<kType>(high));
    } else {
      Values<2 * N> both;
#pragma unroll
      for (int i = 0; i < N; ++i) both.v[2 * i] = low.v[i], both.v[2 * i + 1] = high.v[i];
      store_to<kType, 2 * N>(to + element<kIndex>(first), rounded<kType>(both));
    }
  }
  /// The one value of an operand without dimensions; `absent` if the call has none.
  template <int kIndex>
  __device__ float load_scalar(Operand<kIndex>, float absent) const {
    static_assert(T.types[kIndex] == DType::kF32);
    const char* from = base<kIndex>();
    if (from == nullptr) return absent;
    return values(load_vec<DType::kF32, 1, (T.aligned ? 4 : 1)>(from, 0)).v[0];
  }
  /// Does this access have a row, or a head, of an operand that only second heads have, or that is
  /// gathered by a number that may be negative?
  template <int kIndex>
  __device__ bool there(Operand<kIndex>) const {
    if constexpr (T.shape.second_only >> kIndex & 1u)
      if (head_place().head < static_cast<uint32_t>(T.shape.heads[0])) return false;
    return row.template there<kIndex>();
  }
  /// `a` in columns before `column`, `b` from there on.
  __device__ Values<N> select_before(int64_t column, const Values<N>& a, const Values<N>& b) const {
    const int64_t before = column - this->column();
    Values<N> r;
#pragma unroll
    for (int i = 0; i < N; ++i) r.v[i] = i < before ? a.v[i] : b.v[i];
    return r;
  }
  /// The same for a vector over columns, which all rows share, or all rows of a phase.
  template <int kIndex>
  __device__ Vec<T.types[kIndex], N> load_column(Operand<kIndex> o) const {
    constexpr Cache kColumn = kEarly ? Cache::kEarly : Cache::kDefault;
    const auto* base = static_cast<const char*>(call.operands[kIndex].data);
    if constexpr (T.periodic >> kIndex & 1u) base = row.template base<kIndex>();
    return load_from<T.types[kIndex], kColumn>(place(o, base, 0));
  }
  /// This access of layer `layer` of a row, in an operand [*T, k, C].
  template <int kIndex>
  __device__ Vec<T.types[kIndex], N> load_layer(Operand<kIndex> o, int layer, int shift = 0) const {
    constexpr DType kType = T.types[kIndex];
    const int64_t offset = layer * call.operands[kIndex].head * size_of(kType);
    return load_from<kType, kCache>(place(o, row.template base<kIndex>() + offset, shift));
  }
  /// Like load where `column + shift` is before `end`, else zeros. RowHeads::shifts lists all
  /// shifts used here.
  template <int kIndex>
  __device__ Vec<T.types[kIndex], N> load_before(Operand<kIndex> o, int shift, int end) const {
    if (column() + shift >= end) return zeros(o);
    return load(o, shift);
  }
  template <int kIndex>
  __device__ void store_before(Operand<kIndex> o, const Values<N>& v, int shift, int end) const {
    if (column() + shift < end) store(o, v, shift);
  }
  /// The value of index i, an operand of integers [*T], for this row.
  __device__ int64_t number(int i = 0) const { return row.number(i); }
  /// N elements at an offset that the program computes, in elements from the operand's first: rows
  /// of a table, a head of a token.
  template <int kIndex>
  __device__ Vec<T.types[kIndex], N> load_at(Operand<kIndex>, int64_t offset) const {
    return load_from<T.types[kIndex], Cache::kDefault>(
        static_cast<const char*>(call.operands[kIndex].data) + offset * size_of(T.types[kIndex]));
  }
  template <int kIndex>
  __device__ void store(Operand<kIndex> o, const Values<N>& v, int shift = 0) const {
    store_words(o, rounded<T.types[kIndex]>(v), shift);
  }
  template <int kIndex>
  __device__ void store_words(Operand<kIndex> o, const Vec<T.types[kIndex], N>& v,
                              int shift = 0) const {
    store_to<T.types[kIndex]>(const_cast<char*>(place(o, base<kIndex>(), shift)), v);
  }
  template <int kIndex>
  __device__ static Vec<T.types[kIndex], N> zeros(Operand<kIndex>) {
    return Vec<T.types[kIndex], N>::zero();
  }
  /// True if convert() copies memory, so that the program need not load it. Only on a CPU.
  template <int kTo, int kFrom>
  __device__ static constexpr bool copies(Operand<kTo>, Operand<kFrom>) {
    return false;
  }
  /// Stores `v`, this access's words of another operand; unconverted if the types agree.
  template <int kTo, int kFrom>
  __device__ void convert(Operand<kTo> to, Operand<kFrom>, const Vec<T.types[kFrom], N>& v) const {
    if constexpr (T.types[kFrom] == T.types[kTo])
      store_words(to, v);
    else
      store(to, values(v));
  }
  template <int kIndex>
  __device__ void store_at(Operand<kIndex>, int64_t offset, const Values<N>& v) const {
    constexpr DType kType = T.types[kIndex];
    store_to<kType>(static_cast<char*>(call.operands[kIndex].data) + offset * size_of(kType),
                    rounded<kType>(v));
  }
  /// The value for this access's group of columns. RowTraits::group is a multiple of N.
  template <int kIndex>
  __device__ Values<N> load_group(Operand<kIndex>) const {
    uint32_t group = 0;
    if constexpr (T.group > 0) group = static_cast<uint32_t>(column()) / T.group;
    return Values<N>(load_one<kIndex>(row.template base<kIndex>(), group_place<kIndex>(group)));
  }
  /// This access's columns of row `number` of a gathered operand that is not paged.
  template <int kIndex>
  __device__ Vec<T.types[kIndex], N> load_row(Operand<kIndex> o, int64_t number,
                                              int shift = 0) const {
    static_assert(!(T.shape.paged >> kIndex & 1u));
    constexpr DType kType = T.types[kIndex];
    const RowOperand& table = call.operands[kIndex];
    const int64_t offset = (number < 0 ? 0 : number) * table.row * size_of(kType);
    return load_from<kType, Cache::kDefault>(
        place(o, static_cast<const char*>(table.data) + offset, shift));
  }
  /// The row's value.
  template <int kIndex>
  __device__ float load_value(Operand<kIndex>) const {
    return load_one<kIndex>(row.template base<kIndex>(), 0);
  }
  /// Stores a group's value, by its first lane, with RowOperand::column elements between groups.
  template <int kIndex>
  __device__ void store_group(Operand<kIndex>, float value) const {
    static_assert(T.types[kIndex] == DType::kF32);
    // Unsigned 32 bits: a signed division in an address costs 30 instructions.
    const uint32_t group = static_cast<uint32_t>(first) / T.group + step / T.group;
    const bool leads = static_cast<uint32_t>(first) % T.group == 0 && step % T.group == 0 && writes;
    char* to = row.template base<kIndex>() + group_place<kIndex>(group) * 4;
    if constexpr (!T.aligned) {
      if (leads) store_vec<DType::kF32, 1, 1>(to, 0, rounded<DType::kF32>(Values<1>(value)));
    } else {
      asm volatile(
          "{\n .reg .pred p;\n setp.ne.s32 p, %2, 0;\n @p st.global.f32 [%0], %1;\n}" ::"l"(
              __cvta_generic_to_global(to)),
          "f"(value), "r"(static_cast<int>(leads))
          : "memory");
    }
  }
  /// a + b, rounded to the operand's type, which is also theirs.
  template <int kIndex>
  __device__ Vec<T.types[kIndex], N> add_rounded(Operand<kIndex>, const Vec<T.types[kIndex], N>& a,
                                                 const Vec<T.types[kIndex], N>& b) const {
    return dlblas::add_rounded<T.types[kIndex]>(a, b);
  }
  /// v rounded to the operand's type and back.
  template <int kIndex>
  __device__ Values<N> round(Operand<kIndex>, const Values<N>& v) const {
    return values(rounded<T.types[kIndex]>(v));
  }

 private:
  static constexpr int kHeadWidth = T.shape.head_width;
  struct HeadPlace {
    uint32_t head, column;
  };
  /// One division and one remainder per thread: the compiler knows what `step` adds to them.
  __device__ HeadPlace head_place() const {
    constexpr uint32_t kWidth = kHeadWidth == 0 ? 1 : kHeadWidth;
    const uint32_t head = static_cast<uint32_t>(first) / kWidth;
    const uint32_t further = static_cast<uint32_t>(step) % kWidth;
    HeadPlace p = {head + static_cast<uint32_t>(step) / kWidth, first - head * kWidth + further};
    if (further != 0 && p.column >= kWidth) ++p.head, p.column -= kWidth;
    return p;
  }
  /// The start of the row in an operand, or of this access's head of it.
  template <int kIndex>
  __device__ const char* base() const {
    constexpr int kSecond = T.shape.second[kIndex];
    constexpr bool kHeaded = T.shape.headed >> kIndex & 1u;
    const char* from = row.template base<kIndex>();
    if constexpr (kSecond == 0 && !kHeaded) {
      return from;
    } else {
      uint32_t head = head_place().head;
      int64_t stride = call.operands[kIndex].head;
      if constexpr (T.shape.second_only >> kIndex & 1u)
        head -= static_cast<uint32_t>(T.shape.heads[0]);
      if constexpr (kSecond != 0) {
        const bool second = in_second<kIndex>();
        if (second) from = row.template base<kSecond>(), stride = call.operands[kSecond].head;
        if (second) head -= static_cast<uint32_t>(T.shape.heads[0]);
      }
      if constexpr (!kHeaded) return from;
      return from + static_cast<int64_t>(head) * stride * size_of(T.types[kIndex]);
    }
  }
  /// True if this access's head belongs to the operand that follows kIndex's (RowShape::second).
  template <int kIndex>
  __device__ bool in_second() const {
    if constexpr (T.shape.second[kIndex] == 0) return false;
    return head_place().head >= static_cast<uint32_t>(T.shape.heads[0]);
  }
  /// Byte offset of an element of the row or head.
  template <int kIndex>
  __device__ int64_t element(int64_t i) const {
    int64_t stride = 1;
    if constexpr (T.strided) {
      const bool second = in_second<kIndex>();
      stride = call.operands[second ? T.shape.second[kIndex] : kIndex].column;
    }
    return i * stride * size_of(T.types[kIndex]);
  }
  /// Offset of a group's value, in elements. Columns have unit stride except in the strided kernel.
  template <int kIndex>
  __device__ int64_t group_place(uint32_t group) const {
    return T.strided ? group * call.operands[kIndex].column : int64_t{group};
  }
  /// Element `at` of a row; 0 outside the row.
  template <int kIndex>
  __device__ float load_one(const char* base, int64_t at) const {
    constexpr DType kType = T.types[kIndex];
    constexpr int kBytes = size_of(kType);
    if (!T.full && !holds) return 0;
    return values(
               load_vec<kType, 1, (T.aligned ? kBytes : 1), Cache::kDefault>(base + at * kBytes, 0))
        .v[0];
  }
  template <int kIndex>
  __device__ const char* place(Operand<kIndex>, const char* base, int shift) const {
    constexpr int kBytes = size_of(T.types[kIndex]);
    if constexpr (kHeadWidth != 0)
      return base + element<kIndex>(column() + shift);
    else if constexpr (T.strided)
      return base + static_cast<int64_t>(column() + shift) * call.operands[kIndex].column * kBytes;
    else
      return base + static_cast<int64_t>(first) * kBytes +
             static_cast<int64_t>(step + shift) * kBytes;
  }
  template <DType kType, int kCount>
  static constexpr int kAlign = T.aligned ? detail::smaller(16, kCount* size_of(kType)) : 1;
  template <DType kType, int kCount>
  static constexpr bool kPredicated = kGuard&& kCount* size_of(kType) % 16 == 0;

  template <DType kType, Cache kHow, int kCount = N>
  __device__ Vec<kType, kCount> load_from(const void* at) const {
    constexpr int kBytes = kCount * size_of(kType);
    if constexpr (kPredicated<kType, kCount>) {
      Vec<kType, kCount> v;
#pragma unroll
      for (int i = 0; i < kBytes; i += 16)
        load_if<kHow>(T.full || holds, v.words + i / 4, static_cast<const char*>(at) + i);
      return v;
    } else {
      return T.full || holds ? load_vec<kType, kCount, kAlign<kType, kCount>, kHow>(at, 0)
                             : Vec<kType, kCount>::zero();
    }
  }
  template <DType kType, int kCount = N>
  __device__ void store_to(void* at, const Vec<kType, kCount>& v) const {
    constexpr int kBytes = kCount * size_of(kType);
    if constexpr (kPredicated<kType, kCount>) {
#pragma unroll
      for (int i = 0; i < kBytes; i += 16)
        store_if<Cache::kDefault>(writes, static_cast<char*>(at) + i, v.words + i / 4);
    } else {
      if (writes) store_vec<kType, kCount, kAlign<kType, kCount>>(at, 0, v);
    }
  }
};

/// What a program is compiled for on a GPU.
template <RowTraits T, RowConfig C, typename A, bool kKeep>
struct DeviceTarget {
  static constexpr int kElements = T.n;
  /// What accumulate() leaves in Kept stays for later stages; in registers, not in a buffer.
  static constexpr bool kKeeps = kKeep, kInRegisters = kKeep;
  /// The program's form to use, where it has several.
  static constexpr int kVariant = C.variant;
  using Access = A;
  using Row = RowPlace<T>;
  using Values = dlblas::Values<T.n>;
  template <int kCount>
  using ValuesOf = dlblas::Values<kCount>;
  template <int kIndex>
  using Words = Vec<T.types[kIndex], T.n>;
  using Math = DeviceMath;
  using Total = float;  // of a sum
  template <int kIndex>
  using Scale = RowScale<T.types[kIndex]>;
  using Sum = SumPart;
  using Sums = SumsPart;
  using Max = MaxPart;
  using MaxSum = MaxSumPart;
  /// Runs a part of a program; on CPUs a call where it occurs often in the code.
  template <typename Body>
  __device__ static __forceinline__ void part(const Body& body) {
    body();
  }
};

}  // namespace dlblas
