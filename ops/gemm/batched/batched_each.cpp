// A batched product as one matmul call per matrix: the CPU's way, and the best one on a GPU where
// each matrix fills the device. In: a Problem, later the Args of a call. Out: a Kernel of one step,
// whose part is matmul's chosen implementation.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: core/nested.hpp.
#include <algorithm>
#include <utility>

#include "core/nested.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "kernels/blocked_product.hpp"
#include "ops/gemm/batched/batched.hpp"

namespace dlblas::gemm {
namespace {

constexpr const char* kActivations[] = {"", "relu", "leaky_relu", "gelu", "silu"};
constexpr const char* kTypes[] = {"f32", "f16", "bf16"};

const char* word_of(DType type) { return kTypes[static_cast<int>(type)]; }

std::vector<Part> parts(const Query& q, const Config&) {
  const Problem p = matrix_problem(q.user<BatchedOp>(), q.problem);
  const std::int64_t m = p.dims[kM], k = p.dims[kK], n = p.dims[kN];
  std::vector<PartValue> values = {{p.tensors[kA], {m, k}},
                                   {p.tensors[kB], {k, n}},
                                   kActivations[p.scalars[kActivation]],
                                   {"out_dtype", word_of(p.tensors[kOut].dtype)}};
  if (p.tensors[kBias].dtype != DType::kAbsent)
    values.push_back({"bias", PartValue(p.tensors[kBias], {n})});
  return {{"matmul", std::move(values), {{p.tensors[kOut], {m, n}}}}};
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const BatchedOp& op = *kernel.load<const BatchedOp*>();
  const char* const activation = kActivations[args.scalars[kActivation].i];
  const Value type = {"out_dtype", word_of(args.tensors[kOut].dtype)};
  const TensorView a = matrix_at(args.tensors[kA], 0, false);
  const TensorView b = matrix_at(args.tensors[kB], 0, op.by_rows);
  const TensorView out = matrix_at(args.tensors[kOut], 0, false);
  const std::int64_t count = args.letters[kBatch];
  const std::int64_t apart[] = {batch_stride(args.tensors[kA]), batch_stride(args.tensors[kB]),
                                batch_stride(args.tensors[kOut])};
  if (context.device.type == DeviceType::kCpu) {
    const Value bias = argument(args, kBias);
    kernel.part(0).each(count, {a, b, activation, type, {"bias", bias}}, {out},
                        {apart[0], apart[1], 0, 0, 0, apart[2]}, context, workspace);
    return 0;
  }
  for (std::int64_t i = 0; i < args.letters[kBatch]; ++i) {
    const TensorView own_a = matrix_at(args.tensors[kA], i, false);
    const TensorView own_b = matrix_at(args.tensors[kB], i, op.by_rows);
    kernel.part(0)({own_a, own_b, activation, type, {"bias", argument(args, kBias)}},
                   {matrix_at(args.tensors[kOut], i, false)}, context, workspace);
  }
  return 0;
}

}  // namespace

double each_ms(const BatchedOp& op, const Query& q, double call) {
  const Problem p = matrix_problem(op, q.problem);
  const Rates rates = unit_rates(q.device);
  const double speed = kernels::multiplies_pairs(q.device, p.tensors[kA].dtype)
                           ? kernels::speed_of(kernels::Multiplier::kPairs)
                           : 1;
  const double one = std::max(2 * multiply_adds(p) / (speed * rates.f32_flops),
                              bytes_of_b(p) / rates.memory_bytes_per_s);
  const auto count = static_cast<double>(q.problem.dims[kBatch]);
  return count * (1e3 * one + call) / std::max<int>(1, q.problem.threads) + 0.005;
}

TensorView matrix_at(const TensorView& t, std::int64_t i, bool transposed) {
  TensorView m = t;
  m.rank = 2;
  m.data = static_cast<char*>(t.data) + i * batch_stride(t) * size_of(t.dtype);
  const int row = transposed ? 2 : 1, col = transposed ? 1 : 2;
  m.shape[0] = t.shape[row], m.strides[0] = t.strides[row];
  m.shape[1] = t.shape[col], m.strides[1] = t.strides[col];
  return m;
}

std::int64_t batch_stride(const TensorView& t) { return t.shape[0] > 1 ? t.strides[0] : 0; }

Args matrix_args(const BatchedOp& op, const Args& args, std::int64_t i) {
  Args one;
  one.schema = args.schema, one.present = args.present;
  one.tensors[kA] = matrix_at(args.tensors[kA], i, false);
  one.tensors[kB] = matrix_at(args.tensors[kB], i, op.by_rows);
  if (args.has(kBias)) one.tensors[kBias] = args.tensors[kBias];
  one.tensors[kOut] = matrix_at(args.tensors[kOut], i, false);
  one.letters[kM] = args.letters[kBatchedM];
  one.letters[kK] = args.letters[kBatchedK];
  one.letters[kN] = args.letters[kBatchedN];
  for (const int scalar : {int{kActivation}, int{kOutDtype}})
    one.scalars[scalar] = args.scalars[scalar];
  return one;
}

/// A plain matrix has a row stride. It may be broadcast over the batch or over its rows: kernels
/// that take a stride accept 0.
Problem matrix_problem(const BatchedOp& op, const Problem& p) {
  Problem one = p;
  one.dims[kM] = p.dims[kBatchedM], one.dims[kK] = p.dims[kBatchedK];
  one.dims[kN] = p.dims[kBatchedN];
  for (const int i : {int{kA}, int{kB}, int{kOut}}) {
    TensorTraits& t = one.tensors[i];
    const bool rows = t.layout == Layout::kRowsOuter || t.layout == Layout::kRowsBroadcast;
    if (rows) t.layout = Layout::kRowStrided;
    const bool plain = rows || t.layout == Layout::kRowStrided || t.layout == Layout::kContiguous;
    const bool turned = t.layout == Layout::kMatricesTransposed;
    if (turned) t.layout = Layout::kTransposed;
    if (i == kB && op.by_rows)
      t.layout = plain ? Layout::kTransposed : turned ? Layout::kRowStrided : Layout::kOther;
  }
  return one;
}

Implementation batched_each(const BatchedOp& op, DeviceType backend) {
  Implementation impl;
  const bool gpu = backend == DeviceType::kCuda;
  impl.name = gpu ? "cuda_each" : "cpu_each";
  impl.backend = backend;
  impl.min_arch = gpu ? 80 : 0;
  impl.source_hash = source_hash<"ops/gemm/batched/batched_each.cpp">();
  impl.flags = {.deterministic = true, .capturable = true};
  impl.user = &op;
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.parts = parts;
  impl.prepare = [](const Query& q, const Config&) {
    return make_kernel({run}, &q.user<BatchedOp>());
  };
  if (!gpu)
    impl.estimate = [](const Query& q, const Config&) { return each_ms(q.user<BatchedOp>(), q); };
  if (!gpu) return impl;
  impl.same_bits = [](const Query&) {
    return Support::no("adds up in another order than a launch for all matrices");
  };
  // Consecutive launches hardly overlap.
  impl.estimate = [](const Query& q, const Config&) {
    constexpr double kEnds = 3.5e-3;  // of a launch; not measured yet
    const Problem p = matrix_problem(q.user<BatchedOp>(), q.problem);
    const double rows = std::max(1.0, static_cast<double>(p.dims[kM]));
    const double factors = rows * static_cast<double>(p.dims[kK]) + multiply_adds(p) / rows;
    const DType type = p.tensors[kA].dtype;
    return static_cast<double>(q.problem.dims[kBatch]) *
           (kEnds + roofline_ms(q.device, factors * size_of(type), 2 * multiply_adds(p), type));
  };
  return impl;
}

}  // namespace dlblas::gemm
