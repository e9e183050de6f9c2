// The gradients of partial_rotary_heads in q and kv: dq has q's last channels rotated back; dkv has
// the plain channels of the keys' gradient, then the values' gradient.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "ops/rope/latent_heads.hpp"

namespace dlblas::rope {

template <typename Target>
struct PartialRotaryHeadsBackward : LatentHeads<Target> {
  using Base = LatentHeads<Target>;
  using typename Base::Access, typename Base::Values;
  static constexpr Operand<0> kDout{};  // of q, of the keys
  static constexpr Operand<1> kDx{};    // dq, dkv
  static constexpr Operand<2> kDv{};    // of the values
  static constexpr Operand<3> kCos{};
  static constexpr Operand<4> kSin{};

  struct Loaded {
    RowWords<Target, kDout> low, high;
    RowWords<Target, kDv> v_low, v_high;
  };
  using Kept = Loaded;
  struct Columns {
    RowWords<Target, kCos> cos_low, cos_high;
    RowWords<Target, kSin> sin_low, sin_high;
  };

  DLBLAS_ROW void load_columns(Columns& columns, const Access& at) {
    const int halves = at.option(kHalves);
    Base::load_table(kCos, halves & kHalfCos, columns.cos_low, columns.cos_high, at);
    Base::load_table(kSin, halves & kHalfSin, columns.sin_low, columns.sin_high, at);
  }
  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    const int pairs = at.option(kTurned), plain = at.option(kPlain);
    const bool turns = Base::turns(at), second = at.there(kDv);
    in.low = in.high = at.zeros(kDout), in.v_low = in.v_high = at.zeros(kDv);
    if (!turns)
      in.low = at.load(kDout, -pairs);
    else if (!second)
      in.low = at.load(kDout, plain), in.high = at.load(kDout, plain + pairs);
    if (!second) return;
    in.v_low = at.load(kDv, turns ? plain : -pairs);
    if (turns) in.v_high = at.load(kDv, plain + pairs);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }

  template <typename Stats>
  DLBLAS_ROW void store(const Kept& kept, const Columns& columns, const Stats&, const Access& at) {
    const int pairs = at.option(kTurned), plain = at.option(kPlain);
    const int end = plain + at.option(kOfValues);
    const bool second = at.there(kDv);
    if (!Base::turns(at)) {
      at.store(kDx, values(kept.low), -pairs);
      if (second) at.store_before(kDx, values(kept.v_low), plain - pairs, end);
    } else if (second) {
      at.store_before(kDx, values(kept.v_low), 2 * plain, end);
      at.store_before(kDx, values(kept.v_high), 2 * plain + pairs, end);
    } else {
      const Values low = values(kept.low), high = values(kept.high);
      at.store_pairs(kDx, low * values(columns.cos_low) + high * values(columns.sin_high),
                     high * values(columns.cos_high) - low * values(columns.sin_low), plain);
    }
  }
};

}  // namespace dlblas::rope
