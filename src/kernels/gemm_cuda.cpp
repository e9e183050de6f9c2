// Kernel entries of matrix products; see gemm_cuda.hpp.
#include "kernels/gemm_cuda.hpp"

#include "core/error.hpp"

namespace dlblas::kernels {

const TraitsTable<GemmTraits>& gemm_traits_table() {
  using T = GemmTraits;
  static const auto* table =
      new TraitsTable<T>{"dlblas::GemmTraits",
                         {member<&T::type>("type"), member<&T::a_by_depth>("a_by_depth"),
                          member<&T::b_by_depth>("b_by_depth"), member<&T::a_whole>("a_whole"),
                          member<&T::b_whole>("b_whole"), member<&T::aligned>("aligned"),
                          member<&T::rows>("rows"), member<&T::span>("span")}};
  return *table;
}

std::string gemm_entry(std::string_view kernel, const GemmTraits& traits, std::string_view config,
                       std::string_view epilogue) {
  return text(kernel, "<", gemm_traits_table().literal(traits), ", ", config, ", ", epilogue, ">");
}

}  // namespace dlblas::kernels
