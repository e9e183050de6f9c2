// moe_sum: the sum of the outputs of a token's experts, in f32, from first to last, one rounding.
// Compiled by NVRTC and, per instruction set, by the build; see device/row/program.hpp.
#pragma once

#include "device/row/program.hpp"

namespace dlblas::moe {

template <typename Target>
struct MoeSum : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kY{};
  static constexpr int kLayers = 0;  // option, and RowCall::n where the option is 0
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    Values sum;
  };
  using Kept = Loaded;

  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    const int known = at.option(kLayers);
    const int layers = known > 0 ? known : static_cast<int>(at.call.n[kLayers]);
    in.sum = layers > 0 ? values(at.load_layer(kX, 0)) : Values(0.0f);
    for (int i = 1; i < layers; ++i) in.sum = in.sum + values(at.load_layer(kX, i));
  }
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) { kept = in; }
  DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats&, const Access& at) {
    at.store(kY, kept.sum);
  }
};

}  // namespace dlblas::moe
