// partial_rotary_heads: rotates q's last channels, and splits kv into keys, followed by the rotated
// k_pe, and values, followed by zeros. Takes q's heads, then kv's: everything is read once and
// written once. Compiled by NVRTC and, per instruction set, by the build; see
// device/row/program.hpp.
#pragma once

#include "ops/rope/latent_heads.hpp"

namespace dlblas::rope {

template <typename Target>
struct PartialRotaryHeads : LatentHeads<Target> {
  using Base = LatentHeads<Target>;
  using typename Base::Access, typename Base::Values;
  static constexpr Operand<0> kX{};    // q, kv
  static constexpr Operand<1> kOut{};  // of q, of the keys
  static constexpr Operand<2> kV{};    // of the values
  static constexpr Operand<3> kPe{};
  static constexpr Operand<4> kCos{};
  static constexpr Operand<5> kSin{};

  struct Loaded {
    RowWords<Target, kX> low, high, v_low, v_high;  // a pair or a plain channel; values beside it
  };
  using Kept = Loaded;
  struct Columns {
    RowWords<Target, kPe> low, high;
    RowWords<Target, kCos> cos_low, cos_high;
    RowWords<Target, kSin> sin_low, sin_high;
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    const int halves = at.option(kHalves);
    columns.low = columns.high = at.zeros(kPe);
    if (Base::turns(at)) at.load_pairs(kPe, columns.low, columns.high);
    Base::load_table(kCos, halves & kHalfCos, columns.cos_low, columns.cos_high, at);
    Base::load_table(kSin, halves & kHalfSin, columns.sin_low, columns.sin_high, at);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    const int pairs = at.option(kTurned), plain = at.option(kPlain);
    const int end = plain + at.option(kOfValues);
    in.low = in.high = in.v_low = in.v_high = at.zeros(kX);
    if (!Base::turns(at)) {
      in.low = at.load(kX, -pairs);
      if (at.there(kV)) in.v_low = at.load_before(kX, plain - pairs, end);
    } else if (at.there(kV)) {
      in.v_low = at.load_before(kX, 2 * plain, end);
      in.v_high = at.load_before(kX, 2 * plain + pairs, end);
    } else {
      at.load_pairs(kX, in.low, in.high, plain);
    }
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  template <typename Stats>
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats&, const Access& at) {
    const int pairs = at.option(kTurned), plain = at.option(kPlain);
    const bool second = at.there(kV);
    if (!Base::turns(at)) {
      at.store(kOut, values(kept.low), -pairs);
      if (second) at.store(kV, values(kept.v_low), -pairs);
      return;
    }
    Values low = values(kept.low), high = values(kept.high);
    if (second) low = values(columns.low), high = values(columns.high);
    at.store(kOut, low * values(columns.cos_low) - high * values(columns.sin_low), plain);
    at.store(kOut, high * values(columns.cos_high) + low * values(columns.sin_high), plain + pairs);
    if (!second) return;
    at.store(kV, values(kept.v_low), plain);
    at.store(kV, values(kept.v_high), plain + pairs);
  }
};

}  // namespace dlblas::rope
