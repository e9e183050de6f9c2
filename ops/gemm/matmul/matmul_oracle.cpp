// Packs and launches matmul's device oracle; see matmul_oracle.cuh.
#include "ops/gemm/matmul/matmul_oracle.hpp"

#include "core/element.hpp"
#include "cuda/cuda.hpp"
#include "ops/gemm/matmul/matmul.hpp"
#include "ops/gemm/matmul/matmul_oracle_config.hpp"

namespace dlblas::gemm {
namespace {

constexpr unsigned kTile = MatmulOracleParams::kTile;

int launch_oracle(const cuda::Function& entry, const Args& args, const std::int64_t* rows,
                  std::int64_t num_rows, const OracleOut* out, void* stream) {
  const TensorView a = flat(args.tensors[kA]), b = args.tensors[kB];
  MatmulOracleParams p{};
  p.a = merged(a), p.b = merged(b);
  for (int i : {0, 1}) p.a_strides[i] = a.strides[i], p.b_strides[i] = b.strides[i];
  if (args.has(kBias)) {
    p.bias = merged(args.tensors[kBias]);
    p.bias_stride = args.tensors[kBias].strides[0];
  }
  p.rows = rows, p.num_rows = num_rows;
  p.n = args.letters[kN], p.k = args.letters[kK];
  p.rule = matmul_rule(a.dtype, p.k, static_cast<Activation>(args.scalars[kActivation].i));
  p.value = out->value, p.magnitude = out->magnitude;
  // At most 65,535 blocks along y: a million rows, more than a caller lists at a time.
  const cuda::Dim3 grid{static_cast<unsigned>((p.n + kTile - 1) / kTile),
                        static_cast<unsigned>((num_rows + kTile - 1) / kTile)};
  return cuda::launch(entry, {.grid = grid, .block = {kTile, kTile}}, p, stream);
}

}  // namespace

DeviceOracle matmul_device_oracle() {
  return {{"ops/gemm/matmul/matmul_oracle.cuh", "dlblas::gemm::matmul_oracle_rows", 0},
          &launch_oracle};
}

}  // namespace dlblas::gemm
