// Attention over q and k that are rotated first, on the host: what rotation takes, the launch that
// rotates k before cuda_wgmma, and the form of two operators.
// Read next: attention_rotary.cpp, flash_attention_rotary/flash_attention_rotary.cpp.
#pragma once

#include "core/nested.hpp"
#include "ops/attention/attention_cuda_host.hpp"

namespace dlblas::attention {

enum class Turned : int { kBoth, kKeys };

/// Bytes of rotated heads, packed, for the largest call of a problem.
std::size_t turned_bytes(const Problem& problem, const AttentionOp& op, Turned which);
/// Milliseconds of the launch that makes them.
double rotation_ms(const Query& q, const AttentionOp& op, Turned which);
/// Of cuda_mma: what it takes to rotate keys again for each tile of q that meets them.
double turned_keys_ms(const Query& q, const AttentionOp& op);

void set_tables(AttentionParams& p, const AttentionOp& op, const Args& args);
/// k of a call, packed, at another place.
Heads packed_keys(const AttentionOp& op, const Args& args, void* to);
/// Launches turn_keys (attention_rotary_keys.cuh).
int launch_turn_keys(const cuda::Function& entry, const AttentionParams& p, void* to, void* stream);

/// "composed" or "cuda_composed": apply_rotary_pos_emb, then flash_attention_lse, by their own
/// choice.
Implementation attention_composed(const AttentionOp& op, DeviceType backend);

}  // namespace dlblas::attention
