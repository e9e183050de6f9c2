// batched_scaled_mm as one scaled_mm_channel call per matrix, inside the operator: on CPUs the
// threads divide the matrices; on GPUs one launch follows the other. In: a Problem, later the Args
// of a call. Out: a Kernel of one step, whose part is scaled_mm_channel's chosen implementation.
// Numerics: those of scaled_mm_channel on each matrix, bit for bit.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: core/nested.hpp.
#include <algorithm>
#include <utility>

#include "core/nested.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/batched_scaled_mm/batched_scaled_mm.hpp"

namespace dlblas::gemm::scaled {
namespace {

constexpr const char* kTypes[] = {"f32", "f16", "bf16"};
const char* word_of(DType type) { return kTypes[static_cast<int>(type)]; }

/// One scale for all: of all rows, a view [M, 1] of stride 0; of all columns, [1].
TensorView scale_of(const TensorView& t, std::int64_t rows) {
  TensorView v = t;
  v.rank = 0;
  if (rows >= 0) v.shape[v.rank] = rows, v.strides[v.rank++] = 0;
  v.shape[v.rank] = 1, v.strides[v.rank++] = 1;
  return v;
}

std::vector<Part> parts(const Query& q, const Config&) {
  const Problem p = scaled_matrix_problem(q.problem);
  const std::int64_t m = p.dims[kM], k = p.dims[kK], n = p.dims[kN];
  std::vector<PartValue> values = {{p.tensors[kA], {m, k}},
                                   {p.tensors[kB], {k, n}},
                                   {p.tensors[kAScale], {m, 1}},
                                   {p.tensors[kBScale], {1}},
                                   {"out_dtype", word_of(p.tensors[kOut].dtype)}};
  if (p.tensors[kBias].dtype != DType::kAbsent)
    values.push_back({"bias", PartValue(p.tensors[kBias], {n})});
  return {{"scaled_mm_channel", std::move(values), {{p.tensors[kOut], {m, n}}}}};
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const std::int64_t count = args.letters[kBatch];
  if (count == 0) return 0;
  const Value type = {"out_dtype", word_of(args.tensors[kOut].dtype)};
  const Value bias = {"bias", argument(args, kBias)};
  const TensorView a_scale = scale_of(args.tensors[kAScale], args.letters[kBatchedM]);
  const TensorView b_scale = scale_of(args.tensors[kBScale], -1);
  const auto at = [&](int tensor, std::int64_t i) {
    return matrix_at(args.tensors[tensor], i, false);
  };
  if (context.device.type == DeviceType::kCpu) {
    const TensorView a = at(kA, 0), b = at(kB, 0), out = at(kOut, 0);
    kernel.part(0).each(count, {a, b, a_scale, b_scale, type, bias}, {out},
                        {batch_stride(args.tensors[kA]), batch_stride(args.tensors[kB]), 0, 0, 0, 0,
                         batch_stride(args.tensors[kOut])},
                        context, workspace);
    return 0;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const TensorView a = at(kA, i), b = at(kB, i), out = at(kOut, i);
    kernel.part(0)({a, b, a_scale, b_scale, type, bias}, {out}, context, workspace);
  }
  return 0;
}

}  // namespace

Args scaled_matrix_args(const Args& args, std::int64_t i) {
  Args one;
  one.schema = args.schema, one.present = args.present;
  for (const int t : {int{kA}, int{kB}, int{kOut}})
    one.tensors[t] = matrix_at(args.tensors[t], i, false);
  one.tensors[kAScale] = scale_of(args.tensors[kAScale], args.letters[kBatchedM]);
  one.tensors[kBScale] = scale_of(args.tensors[kBScale], -1);
  if (args.has(kBias)) one.tensors[kBias] = args.tensors[kBias];
  one.letters[kM] = args.letters[kBatchedM];
  one.letters[kK] = args.letters[kBatchedK];
  one.letters[kN] = args.letters[kBatchedN];
  one.scalars[0] = args.scalars[0];
  return one;
}

/// A plain matrix has a row stride; it may be broadcast over the batch or over its rows.
Problem scaled_matrix_problem(const Problem& p) {
  Problem one = p;
  one.dims[kM] = p.dims[kBatchedM], one.dims[kK] = p.dims[kBatchedK];
  one.dims[kN] = p.dims[kBatchedN];
  for (const int i : {int{kA}, int{kB}, int{kOut}}) {
    Layout& layout = one.tensors[i].layout;
    if (layout == Layout::kRowsOuter || layout == Layout::kRowsBroadcast)
      layout = Layout::kRowStrided;
    else if (layout == Layout::kMatricesTransposed)
      layout = Layout::kTransposed;
  }
  if (one.dims[kM] > 1) one.tensors[kAScale].layout = Layout::kRowsBroadcast;
  one.ones[kBScale] = 1;
  return one;
}

Implementation batched_scaled_each(DeviceType backend) {
  Implementation impl;
  const bool gpu = backend == DeviceType::kCuda;
  impl.name = gpu ? "cuda_each" : "cpu_each";
  impl.backend = backend;
  impl.min_arch = gpu ? 80 : 0;
  impl.source_hash = source_hash<"ops/gemm/batched_scaled_mm/batched_scaled_each.cpp">();
  impl.flags = {.deterministic = true, .capturable = true};
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.parts = parts;
  impl.prepare = [](const Query&, const Config&) { return make_kernel({run}, 0); };
  if (!gpu) return impl;
  // Consecutive launches hardly overlap.
  impl.estimate = [](const Query& q, const Config&) {
    constexpr double kEnds = 3.5e-3;  // of a launch; not measured yet
    const Problem p = scaled_matrix_problem(q.problem);
    const double products = 2.0 * static_cast<double>(p.dims[kM]) *
                            static_cast<double>(p.dims[kN]) * static_cast<double>(p.dims[kK]);
    return static_cast<double>(q.problem.dims[kBatch]) *
           (kEnds + roofline_ms(q.device, bytes_of(p), products, DType::kBF16));
  };
  return impl;
}

}  // namespace dlblas::gemm::scaled
