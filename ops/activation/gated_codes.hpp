// Gated products of rows with 8-bit results: y = gate(g) · u of x = [g | u], in f32 and never
// rounded, then codes y / scale. An access keeps y, so it is computed once. Read next: gates.hpp,
// ops/common/quant_scale.hpp, silu_and_mul_quant_token/silu_and_mul_quant_token_program.hpp.
#pragma once

#include "ops/activation/gates.hpp"
#include "ops/common/quant_scale.hpp"

namespace dlblas::activation {

template <typename Target, typename Gate>
struct GatedCodes : RowProgram {
  static constexpr Operand<0> kX{};
  static constexpr Operand<1> kQ{};
  static constexpr Operand<2> kScale{};
  enum Scalars { kLargest };  // RowCall::f
  // On a CPU, i8 selects its store at run time: separate loops would double the code.
  static constexpr bool kByteResults = true, kIntegerResults = false;
  using Access = typename Target::Access;
  using Values = typename Target::Values;

  struct Loaded {
    RowWords<Target, kX> gate, up;
  };
  DLBLAS_ROW void load(Loaded& in, const Access& at) {
    in.gate = at.load(kX);
    in.up = at.load(kX, at.call.width);
  }
  template <typename Kept>
  DLBLAS_ROW void keep(Kept& kept, const Loaded& in, const Access&) {
    kept.y = Gate::value(values(in.gate)) * values(in.up);
  }
};

/// One scale per row.
template <typename Target, typename Gate>
struct GatedCodesToken : GatedCodes<Target, Gate> {
  using Base = GatedCodes<Target, Gate>;
  using Base::kQ, Base::kScale, Base::kLargest;
  using typename Base::Access, typename Base::Values;
  using Max = typename Target::Max;
  using Math = typename Target::Math;
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kRowScope};
  static constexpr bool kHasRowResults = true, kZeroNeutral = true;
  static constexpr bool kRemembers = Target::kKeeps;

  struct Kept {
    Values y;
  };
  struct Stats {
    float scale, factor;
  };

  DLBLAS_ROW Max partial(Stage<0>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, Max& max, const Kept& kept, const RowProgram::Columns&,
                             const Stats&, const Access&) {
    max.add_abs(kept.y);
  }
  DLBLAS_ROW void finalize(Stage<0>, Stats& stats, float amax, const RowCall& call) {
    stats.scale = quant::QuantScale<Math>::of(amax, call.f[kLargest]);
    stats.factor = Math::reciprocal(stats.scale);
  }
  DLBLAS_ROW void store_row(const Stats& stats, const typename Target::Row& row) {
    row.store_value(kScale, stats.scale);
  }
  DLBLAS_ROW void store(const Kept& kept, const RowProgram::Columns&, const Stats& stats,
                        const Access& at) {
    at.store(kQ, kept.y * Values(stats.factor));
  }
};

/// One scale per group of columns.
template <typename Target, typename Gate>
struct GatedCodesGroup : GatedCodes<Target, Gate> {
  using Base = GatedCodes<Target, Gate>;
  using Base::kQ, Base::kScale, Base::kLargest;
  using typename Base::Access, typename Base::Values;
  using Max = typename Target::Max;
  using Math = typename Target::Math;
  static constexpr int kStages = 1;
  static constexpr int kScopes[] = {kGroupScope};

  struct Kept {
    Values y;
    float factor;
  };

  DLBLAS_ROW Max partial(Stage<0>) { return {}; }
  DLBLAS_ROW void accumulate(Stage<0>, Max& max, const Kept& kept, const RowProgram::Columns&,
                             const RowProgram::Stats&, const Access&) {
    max.add_abs(kept.y);
  }
  DLBLAS_ROW void finalize_group(Stage<0>, Kept& kept, float amax, const Access& at) {
    const float scale = quant::QuantScale<Math>::of(amax, at.call.f[kLargest]);
    kept.factor = Math::reciprocal(scale);
    at.store_group(kScale, scale);
  }
  DLBLAS_ROW void store(const Kept& kept, const RowProgram::Columns&, const RowProgram::Stats&,
                        const Access& at) {
    at.store(kQ, kept.y * Values(kept.factor));
  }
};

/// With a given scale. A quotient, because the reciprocal of a denormal scale would be infinite.
template <typename Target, typename Gate>
struct GatedCodesStatic : GatedCodes<Target, Gate> {
  using Base = GatedCodes<Target, Gate>;
  using typename Base::Access, typename Base::Values;
  struct Kept {
    Values y;
  };
  DLBLAS_ROW void store(const Kept& kept, const RowProgram::Columns&, const RowProgram::Stats&,
                        const Access& at) {
    at.store(Base::kQ, near_quotient(kept.y, at.load_scalar(Base::kScale, 1.0f)));
  }
};

}  // namespace dlblas::activation
