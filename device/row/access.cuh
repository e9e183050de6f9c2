// One access of a row program on a GPU: N neighbouring columns of one row in every operand. Masks,
// alignment, strides and cache hints are handled here, so that programs and kernels do not.
// In: where the row lies (RowPlace), the thread's columns. Out: words in registers and stores.
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
  int64_t nested[kMaxRowOperands];  // used by nested calls alone

  template <typename Call>
  __device__ RowPlace(const Call& c, int64_t i) : call(c), index(i) {
    if constexpr (T.nested) {
      const RowNest& nest = c.nest;
#pragma unroll
      for (int o = 0; o < kMaxRowOperands; ++o) nested[o] = 0;
      auto left = static_cast<uint32_t>(i);
#pragma unroll 1
      for (int d = 0; d < nest.rank; ++d) {
        const uint32_t size = nest.sizes[d], next = left / size, at = left - next * size;
        left = next;
#pragma unroll
        for (int o = 0; o < kMaxRowOperands; ++o)
          nested[o] += static_cast<int64_t>(at) * nest.strides[o][d];
      }
    }
  }
  template <int kIndex>
  __device__ int64_t offset() const {
    if constexpr (T.nested)
      return nested[kIndex];
    else
      return index * call.operands[kIndex].row;
  }
  template <int kIndex>
  __device__ char* base() const {
    return static_cast<char*>(call.operands[kIndex].data) +
           offset<kIndex>() * size_of(T.types[kIndex]);
  }
  /// One value of a row: `at.store_value(kLse, stats.lse)` in store_row.
  template <int kIndex>
  __device__ void store_value(Operand<kIndex>, float value) const {
    constexpr FloatType kType = T.types[kIndex];
    constexpr int kAlign = T.aligned ? 16 : 1;
    store_vec<kType, 1, detail::smaller(kAlign, size_of(kType))>(base<kIndex>(), 0,
                                                                 rounded<kType>(Values<1>(value)));
  }
};

/// kCache: how rows are read. kGuard: accesses outside the row are predicated instead of branches;
/// a branch an access where there are many, so that the compiler may interleave them.
template <RowTraits T, Cache kCache, bool kEarly, bool kGuard>
struct RowAccess {
  static constexpr int N = T.n;
  const RowPlace<T>& row;
  int first;    // the thread's first column
  int step;     // of this access, known to the compiler
  bool holds;   // inside the row
  bool writes;  // inside the row, of a row that is there, for the first time
  const RowCall& call = row.call;

  __device__ int column() const { return first + step; }
  __device__ int32_t option(int i) const { return T.options[i]; }
  __device__ const RowUnpack& unpack(Stage<1>) const { return call.unpack[0]; }
  __device__ const RowUnpack& unpack(Stage<2>) const { return call.unpack[1]; }
  __device__ const RowUnpack& unpack(Stage<3>) const { return call.unpack[2]; }

  /// This access's columns of a row operand, or those `shift` columns further right.
  template <int kIndex>
  __device__ Vec<T.types[kIndex], N> load(Operand<kIndex> o, int shift = 0) const {
    return load_from<T.types[kIndex], kCache>(place(o, row.template base<kIndex>(), shift));
  }
  /// The same of a vector over columns, which all rows share.
  template <int kIndex>
  __device__ Vec<T.types[kIndex], N> load_column(Operand<kIndex> o) const {
    constexpr Cache kColumn = kEarly ? Cache::kEarly : Cache::kDefault;
    const auto* base = static_cast<const char*>(call.operands[kIndex].data);
    return load_from<T.types[kIndex], kColumn>(place(o, base, 0));
  }
  /// N elements at an offset that the program knows, in elements from the operand's first: the rows
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
    store_to<T.types[kIndex]>(const_cast<char*>(place(o, row.template base<kIndex>(), shift)), v);
  }
  template <int kIndex>
  __device__ void store_at(Operand<kIndex>, int64_t offset, const Values<N>& v) const {
    constexpr FloatType kType = T.types[kIndex];
    store_to<kType>(static_cast<char*>(call.operands[kIndex].data) + offset * size_of(kType),
                    rounded<kType>(v));
  }
  /// The value of this access's group of columns. RowTraits::group is a multiple of N.
  template <int kIndex>
  __device__ Values<N> load_group(Operand<kIndex>) const {
    uint32_t group = 0;
    if constexpr (T.group > 0) group = static_cast<uint32_t>(column()) / T.group;
    return Values<N>(load_one<kIndex>(row.template base<kIndex>(), group_place<kIndex>(group)));
  }
  /// The row's value.
  template <int kIndex>
  __device__ float load_value(Operand<kIndex>) const {
    return load_one<kIndex>(row.template base<kIndex>(), 0);
  }
  /// A group's value, by its first lane, at RowOperand::column elements from group to group.
  template <int kIndex>
  __device__ void store_group(Operand<kIndex>, float value) const {
    static_assert(T.types[kIndex] == FloatType::kF32);
    // Unsigned and 32 bits: a signed division in an address costs 30 instructions.
    const uint32_t group = static_cast<uint32_t>(first) / T.group + step / T.group;
    const bool leads = static_cast<uint32_t>(first) % T.group == 0 && writes;
    char* to = row.template base<kIndex>() + group_place<kIndex>(group) * 4;
    if constexpr (!T.aligned) {
      if (leads)
        store_vec<FloatType::kF32, 1, 1>(to, 0, rounded<FloatType::kF32>(Values<1>(value)));
    } else {
      asm volatile(
          "{\n .reg .pred p;\n setp.ne.s32 p, %2, 0;\n @p st.global.f32 [%0], %1;\n}" ::"l"(
              __cvta_generic_to_global(to)),
          "f"(value), "r"(static_cast<int>(leads))
          : "memory");
    }
  }
  /// v rounded to the operand's type and back.
  template <int kIndex>
  __device__ Values<N> round(Operand<kIndex>, const Values<N>& v) const {
    return values(rounded<T.types[kIndex]>(v));
  }

 private:
  /// Where a group's value lies, in elements. Operands have unit columns but in the strided kernel.
  template <int kIndex>
  __device__ int64_t group_place(uint32_t group) const {
    return T.strided ? group * call.operands[kIndex].column : int64_t{group};
  }
  /// Element `at` from a row's first; 0 outside the row.
  template <int kIndex>
  __device__ float load_one(const char* base, int64_t at) const {
    constexpr FloatType kType = T.types[kIndex];
    constexpr int kBytes = size_of(kType);
    if (!T.full && !holds) return 0;
    return values(
               load_vec<kType, 1, (T.aligned ? kBytes : 1), Cache::kDefault>(base + at * kBytes, 0))
        .v[0];
  }
  template <int kIndex>
  __device__ const char* place(Operand<kIndex>, const char* base, int shift) const {
    constexpr int kBytes = size_of(T.types[kIndex]);
    if constexpr (T.strided)
      return base + static_cast<int64_t>(column() + shift) * call.operands[kIndex].column * kBytes;
    else
      return base + static_cast<int64_t>(first) * kBytes +
             static_cast<int64_t>(step + shift) * kBytes;
  }
  template <FloatType kType>
  static constexpr int kAlign = T.aligned ? detail::smaller(16, N* size_of(kType)) : 1;
  template <FloatType kType>
  static constexpr bool kPredicated = kGuard&& N* size_of(kType) % 16 == 0;

  template <FloatType kType, Cache kHow>
  __device__ Vec<kType, N> load_from(const void* at) const {
    constexpr int kBytes = N * size_of(kType);
    if constexpr (kPredicated<kType>) {
      Vec<kType, N> v;
#pragma unroll
      for (int i = 0; i < kBytes; i += 16)
        load_if<kHow>(T.full || holds, v.words + i / 4, static_cast<const char*>(at) + i);
      return v;
    } else {
      return T.full || holds ? load_vec<kType, N, kAlign<kType>, kHow>(at, 0)
                             : Vec<kType, N>::zero();
    }
  }
  template <FloatType kType>
  __device__ void store_to(void* at, const Vec<kType, N>& v) const {
    constexpr int kBytes = N * size_of(kType);
    if constexpr (kPredicated<kType>) {
#pragma unroll
      for (int i = 0; i < kBytes; i += 16)
        store_if<Cache::kDefault>(writes, static_cast<char*>(at) + i, v.words + i / 4);
    } else {
      if (writes) store_vec<kType, N, kAlign<kType>>(at, 0, v);
    }
  }
};

/// What a program is compiled for on a GPU.
template <RowTraits T, RowConfig C, typename A, bool kKeep>
struct DeviceTarget {
  static constexpr int kElements = T.n;
  /// What accumulate() leaves in Kept is there in later stages.
  static constexpr bool kKeeps = kKeep;
  /// Which of its forms the program takes, where it has several.
  static constexpr int kVariant = C.variant;
  using Access = A;
  using Row = RowPlace<T>;
  using Values = dlblas::Values<T.n>;
  template <int kIndex>
  using Words = Vec<T.types[kIndex], T.n>;
  using Math = DeviceMath;
  using Total = float;  // of a sum
  using Sum = SumPart;
  using Sums = SumsPart;
  using Max = MaxPart;
  using MaxSum = MaxSumPart;
};

}  // namespace dlblas
