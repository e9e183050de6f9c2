// What a row program is: an operator that maps or reduces rows, as a struct of functions. It says
// what an access loads, what of it is kept, what is reduced in which scope, and what is stored; it
// has no loops, barriers, masks or thread addresses. g++ compiles the same source once per
// instruction set (cpu/row/walk.hpp), NVRTC once per traits and configuration
// (device/row/registers.cuh, passes.cuh).
//
//   template <typename Target>
//   struct Scaled : RowProgram {                      // y = x / max |x|
//     static constexpr Operand<0> kX{};               // positions in RowCall::operands
//     static constexpr Operand<1> kY{};
//     static constexpr int kStages = 1;
//     static constexpr int kScopes[] = {kRowScope};
//     struct Loaded { RowWords<Target, kX> x; };      // what an access loads
//     using Kept = Loaded;                            // what it keeps between stages
//     struct Stats { float factor; };                 // what is known of a row
//     DLBLAS_ROW void load(Loaded& in, Access at) { in.x = at.load(kX); }
//     DLBLAS_ROW void keep(Kept& kept, const Loaded& in, Access) { kept = in; }
//     DLBLAS_ROW Max<Target> partial(Stage<0>) { return {}; }
//     DLBLAS_ROW void accumulate(Stage<0>, Max<Target>& max, Kept& kept, …) { max.add_abs(…); }
//     DLBLAS_ROW void finalize(Stage<0>, Stats& s, float max, const RowCall&) { … }
//     DLBLAS_ROW void store(const Kept& kept, const Columns&, const Stats& s, Access at) { … }
//   };
//
// Functions that a program must have: load, keep, store; per stage partial, accumulate, finalize.
// Optional ones, each with its constant in RowProgram: load_columns, store_row, finalize_group,
// reload, lost and finalize_wide, fold, select. Read next:
// ops/activation/silu_and_mul/silu_and_mul_program.hpp, ops/norm/softmax/.
#pragma once

#include "device/row/base.hpp"

// NVRTC compiles a program's header, which includes the kernels here.
#if defined(__CUDACC_RTC__)
#include "device/row/folded.cuh"
#endif
