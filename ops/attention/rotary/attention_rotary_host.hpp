// Attention over rotated q and k, on the host: the cost of the rotation, the launch that rotates k
// before cuda_wgmma, and the form composed of two operators.
// Read next: attention_rotary.cpp, flash_attention_rotary/flash_attention_rotary.cpp.
#pragma once

#include "core/nested.hpp"
#include "ops/attention/cuda/attention_cuda_host.hpp"

namespace dlblas::attention {

enum class Turned : int { kBoth, kKeys };

/// Bytes of rotated heads, packed, for the largest call of a problem.
std::size_t turned_bytes(const Problem& problem, const AttentionOp& op, Turned which);
/// Milliseconds of the launch that rotates them.
double rotation_ms(const Query& q, const AttentionOp& op, Turned which);
/// For cuda_mma: milliseconds to rotate the keys again for each tile of q that reads them.
double turned_keys_ms(const Query& q, const AttentionOp& op);

void set_tables(AttentionParams& p, const AttentionOp& op, const Args& args);
/// k of a call, packed, at `to`.
Heads packed_keys(const AttentionOp& op, const Args& args, void* to);
/// Launches turn_keys (attention_rotary_keys.cuh).
int launch_turn_keys(const cuda::Function& entry, const AttentionParams& p, void* to, void* stream);

/// "composed" or "cuda_composed": apply_rotary_pos_emb, then flash_attention_lse, each with its own
/// selection.
Implementation attention_composed(const AttentionOp& op, DeviceType backend);

}  // namespace dlblas::attention
