// store_kv_cache: writes heads of k and v to the rows of paged caches that slots name. Values keep
// their bits if the types agree and nothing is scaled; f8 saturates.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::kv_cache {

enum StoreKvCacheOption : int { kScaled };

template <typename Target>
struct StoreKvCache : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kCache{};
  static constexpr Operand<2> kScale{};
  static constexpr bool kHasHeads = true;
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kX> x;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.x = at.option(kScaled) || !at.copies(kCache, kX) ? at.load(kX) : at.zeros(kX);
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    if (at.option(kScaled))
      at.store(kCache, quotient(values(kept.x), at.load_scalar(kScale, 1.0f)));
    else
      at.convert(kCache, kX, kept.x);
  }
};

}  // namespace dlblas::kv_cache
