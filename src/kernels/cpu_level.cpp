// Names, refusals and bits of instruction-set levels; see cpu_level.hpp.
#include "kernels/cpu_level.hpp"

#include <string>

namespace dlblas::kernels {
namespace {

Support supports(const Query& q) {
  const CpuUser& user = q.user<CpuUser>();
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
  const bool is_widest =
      user.level.isa <= q.device.isa && static_cast<int>(q.device.isa) <= user.served_isa;
  if (!is_widest)
    return Support::no("has other bits than the widest instruction set that runs here");
  return user.same_bits ? user.same_bits(q) : Support::yes();
}

}  // namespace

std::vector<Implementation> per_level(const Implementation& base, const char* prefix,
                                      const std::vector<CpuLevel>& levels, const void* op) {
  std::vector<Implementation> all;
  int served_isa = static_cast<int>(Isa::kAvx512);
  for (const CpuLevel& level : levels) {
    Implementation impl = base;
    impl.name = (new std::string(prefix + std::string(name_of(level.isa))))->c_str();
    impl.source_hash = level.source_hash;
    if (level.knobs) impl.knobs = level.knobs;
    impl.user = new CpuUser{level, served_isa, op, base.supports, base.same_bits};
    impl.supports = supports;
    impl.same_bits = same_bits;
    served_isa = static_cast<int>(level.isa) - 1;
    all.push_back(impl);
  }
  return all;
}

}  // namespace dlblas::kernels
