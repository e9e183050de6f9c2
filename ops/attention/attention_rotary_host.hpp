// Attention over q and k that are rotated first, on the host: the rotation as a part of a kernel's
// steps (apply_rotary_pos_emb by its own choice), what it takes, and the form of two launches.
// Read next: attention_rotary.cpp, flash_attention_rotary/flash_attention_rotary.cpp.
#pragma once

#include "core/nested.hpp"
#include "ops/attention/attention_cuda_host.hpp"

namespace dlblas::attention {

/// What the first launch rotates.
enum class Turned : int { kBoth, kKeys };

/// The part that rotates; its results are packed.
Part rotation_part(const Query& q, const AttentionOp& op, Turned which);
/// Bytes of the results, for the largest call of a problem.
std::size_t turned_bytes(const Problem& problem, const AttentionOp& op, Turned which);
/// Rotated q and k of a call, packed; of keys alone, q has no heads.
struct TurnedHeads {
  TensorView q, k;
};
/// Where they lie in a workspace.
TurnedHeads turned_heads(const AttentionOp& op, const Args& args, Turned which, void* to);
/// Runs part 0 of a kernel.
void rotate(const AttentionOp& op, const Args& args, const TurnedHeads& to, const Context& context,
            const Kernel& kernel, void* workspace);
/// Milliseconds of that launch.
double rotation_ms(const Query& q, const AttentionOp& op, Turned which);

/// Of cuda_mma: what it takes to rotate keys again for each tile of q that meets them.
double turned_keys_ms(const Query& q, const AttentionOp& op);
void set_tables(AttentionParams& p, const AttentionOp& op, const Args& args);

/// "composed" or "cuda_composed": the rotation, then flash_attention_lse, by their own choice.
Implementation attention_composed(const AttentionOp& op, DeviceType backend);

}  // namespace dlblas::attention
