// Shared by the definitions of the operators on heads before latent attention. Read next:
// partial_rotary_heads/partial_rotary_heads.cpp.
#pragma once

#include "core/error.hpp"
#include "kernels/rows.hpp"
#include "ops/rope/latent_heads.hpp"
#include "ops/rope/rotation_ops.hpp"

namespace dlblas::rope {

/// Checks that the values' channels fit in a head; throws Error(kShape).
inline void check_latent(const Args& args, int plain, int pairs, int of_values) {
  const std::int64_t most = args.letters[plain] + 2 * args.letters[pairs];
  if (args.letters[of_values] <= most) return;
  throw Error(ErrorKind::kShape,
              text(args.schema->name, ": values have more channels than heads; expected ", most,
                   " or fewer, got ", args.letters[of_values]),
              {.op = args.schema->name, .argument = args.schema->tensors[2].name});
}

/// Letters: Dn, Dh, Dv. Tensors: the tables.
template <int kDn, int kDh, int kDv, int kCosAt, int kSinAt>
void latent_heads(kernels::RowOp& op) {
  op.heads = [](const std::int64_t* letters, bool) {
    const std::int64_t pairs = letters[kDh], plain = letters[kDn];
    // Pairs are read as adjacent channels, after the plain ones.
    const std::int64_t before_pairs = plain % 2 == 0 ? plain / 2 : 1;
    return kernels::RowHeads{.width = pairs + plain,
                             .split = plain > 0 ? pairs : 0,
                             .shifts = pairs | letters[kDv] | before_pairs};
  };
  op.span = [](const Problem&) { return 2; };
  op.seldom_pairs = true;
  op.choose = [](const Problem& problem, std::int32_t* options) {
    options[kTurned] = static_cast<std::int32_t>(problem.dims[kDh]);
    options[kPlain] = static_cast<std::int32_t>(problem.dims[kDn]);
    options[kOfValues] = static_cast<std::int32_t>(problem.dims[kDv]);
    options[kHalves] = halves_of(problem, kCosAt, kSinAt);
  };
}

}  // namespace dlblas::rope
