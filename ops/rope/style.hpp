// Which channels of a head are a pair, where it is read and where it is written: of programs,
// oracles and definitions. Read next: ops/rope/rotation.hpp, ops/rope/rotation_ref.hpp.
#pragma once

namespace dlblas::rope {

/// In the order of the schemas. Of the last, pairs are read as neighbours and written half of the
/// rotated channels apart.
enum RotationStyle : int { kNeox, kInterleaved, kInterleavedToHalf };

}  // namespace dlblas::rope
