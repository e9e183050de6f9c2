// Shared by the definitions of routers. Read next: ops/moe/topk_softmax/topk_softmax.cpp.
#pragma once

#include "core/error.hpp"
#include "kernels/rows.hpp"
#include "ops/moe/topk_ref.hpp"

namespace dlblas::moe {

/// Registers of a thread with 32 columns in ranks: at most 64 as compiled for sm_90; 86 if several
/// warps share a row.
inline std::int32_t topk_registers(const RowTraits& traits, const RowConfig& c) {
  const int columns = c.vectors * traits.n;
  if (!traits.full || columns > 32) return 48 + 10 * c.vectors;
  if (columns > 16 && c.threads > 32) return 88;
  return columns <= 16 && traits.types[kTopkLogits] != DType::kF32 ? 48 : 64;
}

/// A take costs one instruction per column of a thread and some 40 more, however many rows its warp
/// has. So: the fewest threads per row, 32 columns each, if they leave every scheduler two warps;
/// else 16 columns, since latency is then the chain of a row's takes; or one warp per row, whose
/// maximum is one instruction, if there are schedulers for all. Instructions per row and take for
/// bf16, E = 256, as compiled for sm_90: 8 threads 18, 16 threads 28, 32 threads 50.
inline std::vector<RowConfig> topk_wanted(const kernels::RowQuery& q) {
  std::vector<RowConfig> all;
  if (q.kind != kernels::RowKernelKind::kRegisters) return all;
  const auto want = [&](std::int64_t columns, std::int64_t least, int fewest) {
    for (const int threads : {4, 8, 16, 32}) {
      if (threads < fewest) continue;
      RowConfig c;
      c.threads = threads;
      c.vectors = kernels::row_vectors_for(q.accesses, threads);
      if (c.vectors == 0 || c.vectors * q.traits.n > columns || q.rows * threads < least) continue;
      for (c.rows = 128 / threads; c.rows * threads >= 32; c.rows /= 2) all.push_back(c);
    }
  };
  if (q.rows <= std::int64_t{4} * q.device.units) want(8, 0, 32);
  want(32, std::int64_t{224} * q.device.units, 4);
  want(16, 0, 4);
  want(32, 0, 4);
  return all;
}

inline constexpr kernels::RowTuning kTopkTuning = {topk_wanted, topk_registers, nullptr};

/// Sets all but family, schema and formula of an operator (logits, topk, renormalize) -> (weights,
/// ids).
template <typename Gates>
void add_topk(OperatorDef& def, std::string_view program) {
  def.letters = {"T", "E", "topk"};
  def.reference = topk_reference<Gates>;
  def.judge = topk_judge<Gates>;
  def.bound = [](const Problem&, int judged) {
    return judged == 1 ? Bound{} : Bound{.magnitude = kRounding, .absolute = 0x1p-123};
  };
  def.check = [](const Args& args) {
    const std::int64_t topk = args.letters[kTopkK], most = args.letters[kTopkE];
    if (topk <= most) return;
    const std::string expected = text("at most ", most, " experts");
    throw Error(ErrorKind::kArgument,
                text(args.schema->name, ": topk is too large; expected ", expected, ", got ", topk),
                {args.schema->name, "topk", expected, text(topk)});
  };
  def.work_per_row = [](const Problem& problem) {
    return 24.0 * static_cast<double>(problem.dims[kTopkE]);
  };
  kernels::RowOp op = {.program = program,
                       .width = "E",
                       .operands = {"logits", "weights", "ids"},
                       .reduces = true,
                       .selects = true,
                       .tuning = &kTopkTuning,
                       .fill = [](const Args& args, RowCall& call) {
                         call.n[0] = args.letters[kTopkK];
                         call.n[1] = args.scalars[kTopkRenormalize].i;
                       }};
  op.choose = [](const Problem& problem, std::int32_t* options) {
    options[0] = problem.scalars[0] != 0;  // renormalize
  };
  kernels::add_row_implementations(def, op);
}

}  // namespace dlblas::moe
