// One implementation per instruction-set level, over the same functions: a level has its name, its
// code and a source hash. Whether a CPU runs it, and which level serves where a call asks for the
// same bits, is answered here for every operator. In: what the levels share, and their code. Out:
// implementations. Flow: call > validate > [select] > compile > launch.  Read next:
// core/implementation.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "core/implementation.hpp"
#include "core/rates.hpp"

namespace dlblas::kernels {

/// A unit that some CPUs of a level have, and that multiplies in an order of its own.
enum class CpuUnit : std::uint8_t { kNone, kAvx512Bf16, kAmx };

/// An operator's part of one level, and what Implementation::user points to there.
struct CpuLevel {
  Isa isa;
  const char* source_hash;
  const void* code;                  // see code_of
  const KnobTable* knobs = nullptr;  // null: those of the implementation that the levels share
  CpuUnit unit = CpuUnit::kNone;     // what it needs beside the level
  /// Of a unit: a row has the same bits in any batch and configuration, and what it refuses does
  /// not depend on the batch. Then it serves calls that ask for that, in the place of the levels,
  /// whose `same_bits` says so (bits_beside_units).
  bool keeps_bits = false;
};

/// The implementations `<prefix>avx512`, `<prefix>avx2`, `<prefix>baseline`, as far as `levels`,
/// widest first, has them; of units `<prefix>avx512bf16`, `<prefix>amx`. `base` is what they share;
/// its `supports` and `same_bits` speak of the problem alone and may be null. `op` tells operators
/// over the same functions apart. Levels and `op` live as long as the process.
std::vector<Implementation> per_level(const Implementation& base, const char* prefix,
                                      const std::vector<CpuLevel>& levels,
                                      const void* op = nullptr);

/// As `same_bits` of levels beside units that keep bits and multiply all products of bf16: no where
/// `a` is bf16 and this CPU has one.
Support bits_beside_units(const Query& q, DType a);

/// What per_level leaves behind Implementation::user.
struct CpuUser {
  CpuLevel level;
  int served_isa;  // of CPUs, the widest level for which this one is the operator's widest
  const void* op;
  Support (*supports)(const Query&);
  Support (*same_bits)(const Query&);
};

/// CpuLevel::code of the implementation, of the family's type.
template <typename Code>
const Code& code_of(const Query& q) {
  return *static_cast<const Code*>(q.user<CpuUser>().level.code);
}
/// What a thread sustains at that level.
inline Rates rates_of(const Query& q) { return unit_rates(q.device, q.user<CpuUser>().level.isa); }
/// The `op` of per_level.
template <typename Op>
const Op& op_of(const Query& q) {
  return *static_cast<const Op*>(q.user<CpuUser>().op);
}

}  // namespace dlblas::kernels
