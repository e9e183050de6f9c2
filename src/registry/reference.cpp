// The reference as an implementation: runs an operator's oracle over every row and rounds once.
// Writes into inputs are stored only after everything is computed, since any row may read them. It
// takes any dtype, layout and size, runs where nothing faster does, and is never searched. In:
// Args. Out: results. Flow: call > validate > select > compile > [launch].
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "core/element.hpp"
#include "core/log.hpp"
#include "device/whole.hpp"
#include "registry/registry.hpp"

namespace dlblas {
namespace {

struct State {
  const Operator* op;
};

std::int64_t row_width(const TensorView& t) { return t.rank == 0 ? 1 : t.shape[t.rank - 1]; }

std::int64_t row_count(const TensorView& t) { return t.rank == 0 ? 1 : rows_of(t).count; }

// Stores an i64 exactly where f64 cannot hold it.
void store(const TensorView& t, std::int64_t at, double value, double magnitude) {
  if (t.dtype != DType::kI64 || !is_split(value)) return store_element(t, at, value);
  const std::int64_t whole = whole_of(value, magnitude);
  std::memcpy(static_cast<char*>(t.data) + at * size_of(t.dtype), &whole, sizeof whole);
}

void store_rows(const TensorView& t, std::int64_t begin, std::int64_t count, const OracleOut& out) {
  const std::int64_t width = row_width(t);
  const std::int64_t stride = t.rank == 0 ? 0 : t.strides[t.rank - 1];
  const Rows map = rows_of(t);
  for (std::int64_t i = 0; i < count && begin + i < map.count; ++i)
    for (std::int64_t c = 0; c < width; ++c)
      if (const std::int64_t at = i * width + c; !(out.magnitude[at] < 0))  // may be NaN
        store(t, map.offset(begin + i) + c * stride, out.value[at], out.magnitude[at]);
}

/// Rows that are computed before they are stored: 64, or fewer if they are long.
std::int64_t rows_at_once(std::int64_t width) {
  constexpr std::int64_t kElements = std::int64_t{1} << 22;
  return std::clamp<std::int64_t>(kElements / std::max<std::int64_t>(1, width), 1, 64);
}

/// The widest row: it is in memory twice, in f64.
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 30;

Support supports(const Query& q) {
  if (q.problem.device_type != DeviceType::kCpu)
    return Support::no("runs on the CPU, and the tensors are on another device");
  const Schema& schema = Registry::process().by_id(q.problem.op).schema;
  for (int j = 0; j < schema.num_judged(); ++j) {
    const std::vector<DimExpr>& dims =
        schema.tensors[static_cast<std::size_t>(schema.judged[j])].dims;
    if (!dims.empty() && dims.back().evaluate(q.problem.dims) > kMaxWidth)
      return Support::no("rows of more than {} columns", kMaxWidth);
  }
  return Support::yes();
}

int run_reference(const Args& args, const Context&, const Kernel& kernel, void*) {
  const Operator& op = *kernel.load<State>().op;
  const int judged = op.schema.num_judged();
  std::int64_t num_rows = 0;
  for (int j = 0; j < judged; ++j)
    if (args.judges(j)) num_rows = std::max(num_rows, row_count(args.judged_rows(j)));
  const bool at_once = op.def.reference_is_whole || op.schema.writes_inputs();
  std::int64_t block = num_rows;
  if (!at_once)
    for (int j = 0; j < judged; ++j)
      if (args.judges(j)) block = std::min(block, rows_at_once(row_width(args.judged_rows(j))));
  OracleOut out[kMaxJudged] = {};
  std::unique_ptr<double[]> buffers[kMaxJudged];
  for (int j = 0; j < judged; ++j) {
    if (!args.judges(j)) continue;
    const std::int64_t width = row_width(args.judged_rows(j));
    buffers[j] = std::make_unique<double[]>(static_cast<std::size_t>(2 * block * width + 1));
    out[j] = {buffers[j].get(), buffers[j].get() + block * width};
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(block));
  for (std::int64_t begin = 0; begin < num_rows; begin += block) {
    const std::int64_t count = std::min(block, num_rows - begin);
    std::iota(rows.begin(), rows.begin() + count, begin);
    op.def.reference(args, rows.data(), count, out);
    for (int j = 0; j < judged; ++j)
      if (args.judges(j)) store_rows(args.judged_rows(j), begin, count, out[j]);
  }
  return 0;
}

}  // namespace

Implementation reference_implementation() {
  Implementation impl;
  impl.name = "reference";
  impl.flags = {.deterministic = true, .oracle = true};
  impl.supports = supports;
  impl.prepare = [](const Query& q, const Config&) {
    return make_kernel({run_reference}, State{&Registry::process().by_id(q.problem.op)});
  };
  return impl;
}

}  // namespace dlblas
