// What quantising row programs read from a call: the largest value of q's type, and whether scales
// are powers of 2. Read next: ops/common/quant_scale.hpp.
#pragma once

#include "kernels/rows.hpp"
#include "ops/common/quant_ref.hpp"

namespace dlblas::quant {

/// Fills RowCall::f: kLargest, kPowers. `kScaleDtype` is the schema's scalar.
template <int kScaleDtype>
void fill_scales(const Args& args, RowCall& call) {
  call.f[0] = static_cast<float>(largest_of(args.result(0).dtype));
  call.f[1] = args.scalars[kScaleDtype].i != 0;
}

}  // namespace dlblas::quant
