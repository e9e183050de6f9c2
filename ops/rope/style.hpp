// Which channels of a head form a pair, as read and as written; shared by programs, oracles and
// definitions. Read next: ops/rope/rotation.hpp, ops/rope/rotation_ref.hpp.
#pragma once

namespace dlblas::rope {

/// In the order of the schemas. The last one reads pairs as neighbours and writes them half of the
/// rotated channels apart.
enum RotationStyle : int { kNeox, kInterleaved, kInterleavedToHalf };

/// Which tables have half the columns, which serve both channels of a pair.
enum HalfTables : int { kHalfCos = 1, kHalfSin = 2 };

}  // namespace dlblas::rope
