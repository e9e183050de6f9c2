// One implementation per instruction-set level, over the same functions: a level has its name, its
// code and a source hash. For every operator, this decides whether a CPU runs a level, and which
// level serves calls that request the same bits. In: what the levels share, and their code. Out:
// implementations. Flow: call > validate > [select] > compile > launch.  Read next:
// core/implementation.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "core/implementation.hpp"
#include "core/rates.hpp"

namespace dlblas::kernels {

/// A unit that only some CPUs of a level have, and that accumulates in an order of its own.
enum class CpuUnit : std::uint8_t { kNone, kAvx512Bf16, kAmx };

/// An operator's code for one level; part of what Implementation::user points to (CpuUser).
struct CpuLevel {
  Isa isa;
  const char* source_hash;
  const void* code;                  // see code_of
  const KnobTable* knobs = nullptr;  // null: those of the implementation that the levels share
  CpuUnit unit = CpuUnit::kNone;     // what it needs beside the level
  /// For a unit: a row has the same bits in any batch and configuration, and refusals do not depend
  /// on the batch. It then serves calls that request the same bits, in place of the levels, whose
  /// `same_bits` says so (bits_beside_units).
  bool keeps_bits = false;
};

/// The implementations `<prefix>avx512`, `<prefix>avx2`, `<prefix>baseline`, as far as `levels`
/// (widest first) contains them; for units `<prefix>avx512bf16`, `<prefix>amx`. `base` is what they
/// share; its `supports` and `same_bits` look only at the problem and may be null. `op`
/// distinguishes operators over the same functions. Levels and `op` live as long as the process.
std::vector<Implementation> per_level(const Implementation& base, const char* prefix,
                                      const std::vector<CpuLevel>& levels,
                                      const void* op = nullptr);

/// The `same_bits` of levels beside units that keep bits and take all products of bf16: no, if `a`
/// is bf16 and this CPU has such a unit.
Support bits_beside_units(const Query& q, DType a);

/// What Implementation::user of per_level's implementations points to.
struct CpuUser {
  CpuLevel level;
  int served_isa;  // of CPUs, the widest level for which this one is the operator's widest
  const void* op;
  Support (*supports)(const Query&);
  Support (*same_bits)(const Query&);
};

/// CpuLevel::code of the implementation, as the family's type.
template <typename Code>
const Code& code_of(const Query& q) {
  return *static_cast<const Code*>(q.user<CpuUser>().level.code);
}
/// What one thread sustains at that level.
inline Rates rates_of(const Query& q) { return unit_rates(q.device, q.user<CpuUser>().level.isa); }
/// The `op` of per_level.
template <typename Op>
const Op& op_of(const Query& q) {
  return *static_cast<const Op*>(q.user<CpuUser>().op);
}

}  // namespace dlblas::kernels
