// Rotation of pairs of channels, for the programs of this family: out_l = l·cos_l − h·sin_l,
// out_h = h·cos_h + l·sin_h, in f32, one rounding. A column is a pair; unless the call is in place,
// a head's pairs are followed by the channels that are only copied. In place is safe: an access
// reads its channels before it writes them, and no other access reads them, except for
// interleaved_to_half, whose heads are read whole first (RowOp::crosses).
// Read next: ops/rope/rope/rope_program.hpp, device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"
#include "ops/rope/style.hpp"

namespace dlblas::rope {

/// kPairs: pairs per head. kCopies: a head has channels after them. kStyle: a RotationStyle. The
/// fourth is an operator's own.
enum RotationOption : int { kPairs, kCopies, kStyle };

template <typename Target>
struct Rotation : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kOut{};
  static constexpr bool kHasHeads = true, kHasColumns = true, kColumnsAfterRow = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kX> low, high;
  };
  using Kept = Loaded;

  /// True if this access holds pairs to rotate.
  DLBLAS_ROW bool rotates(const Access& at) {
    return !at.option(kCopies) || at.column() < at.option(kPairs);
  }
  /// True if a pair's channels are adjacent, (2i, 2i + 1); else they are (i, i + pairs).
  DLBLAS_ROW bool reads_neighbours(const Access& at) { return at.option(kStyle) != kNeox; }
  DLBLAS_ROW bool writes_neighbours(const Access& at) { return at.option(kStyle) == kInterleaved; }
  /// A copied channel is kPairs to the right of its column.
  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    if (!rotates(at))
      in.low = in.high = at.load(kX, at.option(kPairs));
    else if (reads_neighbours(at))
      at.load_pairs(kX, in.low, in.high);
    else
      in.low = at.load(kX), in.high = at.load(kX, at.option(kPairs));
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  /// If the columns after the pairs are pairs, too: loads both channels of a column. They are
  /// adjacent if the style reads neighbours; else kPairs apart in rotated pairs, kCopies in the
  /// others.
  template <int kIndex, typename Words>
  DLBLAS_ROW void load_two(Operand<kIndex> o, Words& low, Words& high, const Access& at) {
    Target::part([&]() DLBLAS_ROW_LAMBDA {
      if (reads_neighbours(at)) return at.load_pairs(o, low, high);
      const bool turns = rotates(at);
      const int first = turns ? 0 : at.option(kPairs);
      low = at.load(o, first);
      high = at.load(o, first + at.option(turns ? kPairs : kCopies));
    });
  }
  template <int kIndex>
  DLBLAS_ROW void store_two(Operand<kIndex> o, const Values& low, const Values& high,
                            const Access& at) {
    Target::part([&]() DLBLAS_ROW_LAMBDA {
      const bool turns = rotates(at);
      if (turns ? writes_neighbours(at) : reads_neighbours(at)) return at.store_pairs(o, low, high);
      const int first = turns ? 0 : at.option(kPairs);
      at.store(o, low, first);
      at.store(o, high, first + at.option(turns ? kPairs : kCopies));
    });
  }

  DLBLAS_ROW void copy(const Kept& kept, const Access& at) {
    at.store(kOut, values(kept.high), at.option(kPairs));
  }
  DLBLAS_ROW void rotate(const Kept& kept, const Values& cos_low, const Values& sin_low,
                         const Values& cos_high, const Values& sin_high, const Access& at) {
    turn(values(kept.low), values(kept.high), cos_low, sin_low, cos_high, sin_high, at);
  }
  DLBLAS_ROW void turn(const Values& low, const Values& high, const Values& cos_low,
                       const Values& sin_low, const Values& cos_high, const Values& sin_high,
                       const Access& at) {
    put(low * cos_low - high * sin_low, high * cos_high + low * sin_high, at);
  }
  DLBLAS_ROW void put(const Values& low, const Values& high, const Access& at) {
    if (writes_neighbours(at)) {
      at.store_pairs(kOut, low, high);
    } else {
      at.store(kOut, low);
      at.store(kOut, high, at.option(kPairs));
    }
  }
};

}  // namespace dlblas::rope
