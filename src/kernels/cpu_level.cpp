// Names, refusals and same-bits rules of instruction-set levels; see cpu_level.hpp.
#include "kernels/cpu_level.hpp"

#include <string>

namespace dlblas::kernels {
namespace {

Support has_unit(const Query& q, CpuUnit unit) {
  if (unit == CpuUnit::kAmx && !q.device.amx)
    return Support::no(
        "needs AMX (tiles, BF16, INT8), which this CPU or its kernel lacks or DLBLAS_CPU_ISA rules "
        "out");
  if (unit == CpuUnit::kAvx512Bf16 && !q.device.avx512_bf16)
    return Support::no("needs AVX512_BF16, which this CPU lacks or DLBLAS_CPU_ISA rules out");
  return Support::yes();
}

std::string name_of(const CpuLevel& level) {
  if (level.unit == CpuUnit::kAmx) return "amx";
  if (level.unit == CpuUnit::kAvx512Bf16) return "avx512bf16";
  return std::string(dlblas::name_of(level.isa));
}

Support supports(const Query& q) {
  const CpuUser& user = q.user<CpuUser>();
  if (const Support has = has_unit(q, user.level.unit); !has) return has;
  if (user.level.isa > q.device.isa)
    return user.level.isa == Isa::kAvx512
               ? Support::no(
                     "needs AVX-512 (F, BW, VL, DQ), which this CPU lacks or DLBLAS_CPU_ISA rules "
                     "out")
               : Support::no(
                     "needs AVX2, FMA and F16C, which this CPU lacks or DLBLAS_CPU_ISA rules out");
  return user.supports ? user.supports(q) : Support::yes();
}

Support same_bits(const Query& q) {
  const CpuUser& user = q.user<CpuUser>();
  if (user.level.unit != CpuUnit::kNone) {
    if (!user.level.keeps_bits)
      return Support::no("adds up in another order than the instruction sets that all CPUs have");
    if (user.level.unit != CpuUnit::kAmx && q.device.amx)
      return Support::no("has other bits than AMX, which runs here");
    return Support::yes();
  }
  const bool is_widest =
      user.level.isa <= q.device.isa && static_cast<int>(q.device.isa) <= user.served_isa;
  if (!is_widest)
    return Support::no("has other bits than the widest instruction set that runs here");
  return user.same_bits ? user.same_bits(q) : Support::yes();
}

}  // namespace

Support bits_beside_units(const Query& q, DType a) {
  if (a == DType::kBF16 && (q.device.amx || q.device.avx512_bf16))
    return Support::no("has other bits than the unit for bf16 that runs here");
  return Support::yes();
}

std::vector<Implementation> per_level(const Implementation& base, const char* prefix,
                                      const std::vector<CpuLevel>& levels, const void* op) {
  std::vector<Implementation> all;
  int served_isa = static_cast<int>(Isa::kAvx512);
  for (const CpuLevel& level : levels) {
    Implementation impl = base;
    impl.name = (new std::string(prefix + name_of(level)))->c_str();
    impl.source_hash = level.source_hash;
    if (level.knobs) impl.knobs = level.knobs;
    impl.user = new CpuUser{level, served_isa, op, base.supports, base.same_bits};
    impl.supports = supports;
    impl.same_bits = same_bits;
    if (level.unit == CpuUnit::kNone) served_isa = static_cast<int>(level.isa) - 1;
    all.push_back(impl);
  }
  return all;
}

}  // namespace dlblas::kernels
