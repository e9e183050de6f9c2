// weight_panels: a linear layer's weight in the order in which the CPUs' products read it, the same
// for all instruction sets. In: a weight [N, K] of any strides. Out: its elements in panels
// (cpu/gemm/job.hpp). Read next: ../panels/panels.hpp, ../linear_panels/linear_panels.cpp.
#include <algorithm>
#include <cstring>

#include "core/element.hpp"
#include "core/integers.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/gemm/panels/panels.hpp"

namespace dlblas::gemm {
namespace {

enum Tensor : int { kWeight, kPanels };
enum Letter : int { kN, kK };

/// Every element of the listed rows of the result: the one of the weight that goes there.
void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  const TensorView& w = args.tensors[kWeight];
  const std::int64_t n = args.letters[kN], k = args.letters[kK];
  if (k == 0) return;
  std::vector<std::int64_t> slot(static_cast<std::size_t>(n), -1);
  for (std::int64_t r = 0; r < num_rows; ++r) slot[static_cast<std::size_t>(rows[r])] = r;
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t depth = 0; depth < k; ++depth) {
      const std::int64_t at = place_in_panels(w.dtype, n, k, row, depth);
      const std::int64_t r = slot[static_cast<std::size_t>(at / k)];
      if (r < 0) continue;
      out->value[r * k + at % k] = load_element(w, row * w.strides[0] + depth * w.strides[1]);
      out->magnitude[r * k + at % k] = 0;
    }
  }
}

/// One panel of all depths, or (from whole panels on) one row; E: an integer of an element's size.
template <typename E>
void pack_panel(const Args& args, std::int64_t j) {
  const TensorView& w = args.tensors[kWeight];
  const std::int64_t n = args.letters[kN], k = args.letters[kK];
  const auto* const from = static_cast<const char*>(w.data);
  auto* const to = static_cast<char*>(args.tensors[kPanels].data);
  const auto copy = [&](std::int64_t row, std::int64_t depth, std::int64_t place) {
    const std::int64_t element = row * w.strides[0] + depth * w.strides[1];
    std::memcpy(to + place * std::int64_t{sizeof(E)}, from + element * std::int64_t{sizeof(E)},
                sizeof(E));
  };
  if (j >= panel_columns(n)) {
    for (std::int64_t row = j; row < n; ++row)
      for (std::int64_t depth = 0; depth < k; ++depth) copy(row, depth, row * k + depth);
    return;
  }
  for (std::int64_t chunk = 0; chunk < k; chunk += kPanelChunk) {
    const std::int64_t start = panel_start(n, k, j, chunk);
    const std::int64_t depths = std::min<std::int64_t>(kPanelChunk, k - chunk);
    const bool pairs = has_panel_pairs(w.dtype) && depths == kPanelChunk;
    for (std::int64_t lane = 0; lane < kPanelColumns; ++lane)
      for (std::int64_t d = 0; d < depths; ++d)
        copy(j + lane, chunk + d,
             start + (pairs ? d / 2 * (2 * kPanelColumns) + 2 * lane + d % 2
                            : d * kPanelColumns + lane));
  }
}

struct NoState {};

int step(const Args& args, const Context& context, const Kernel&, void*) {
  const bool words = size_of(args.tensors[kWeight].dtype) == 4;
  void (*const pack)(const Args&, std::int64_t) =
      words ? pack_panel<std::uint32_t> : pack_panel<std::uint16_t>;
  const std::int64_t panels = ceil_div(args.letters[kN], std::int64_t{kPanelColumns});
  context.run(0, panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) pack(args, p * kPanelColumns);
  });
  return 0;
}

Implementation cpu() {
  Implementation impl;
  impl.name = "cpu";
  impl.source_hash = source_hash<"ops/gemm/weight_panels/weight_panels.cpp">();
  impl.flags.deterministic = true;
  impl.supports = [](const Query& q) {
    if (!is_whole(q.problem, kPanels, kN, kK))
      return Support::no("{} is not contiguous", tensor(kPanels));
    return Support::yes();
  };
  impl.estimate = [](const Query& q, const Config&) {
    const Problem& p = q.problem;
    const double bytes = 2.0 * static_cast<double>(p.dims[kN]) * static_cast<double>(p.dims[kK]) *
                         size_of(p.tensors[kWeight].dtype);
    constexpr double kScattered = 0.1;  // of memory's rate: 4096×4096, Zen 5, November 2026
    return 1e3 * bytes / (kScattered * memory_bytes_per_s(q.device)) + 0.005;
  };
  impl.prepare = [](const Query&, const Config&) { return make_kernel({step}, NoState{}); };
  return impl;
}

}  // namespace

OperatorDef weight_panels();
OperatorDef weight_panels() {
  OperatorDef def;
  def.family = "gemm";
  def.schema = "weight_panels(weight: f[N, K]) -> panels: like(weight)[N, K]";
  def.formula = "panels = the elements of weight, in another order";
  def.letters = {"N", "K"};
  def.reference = reference;
  def.reference_is_whole = true;
  def.bound = [](const Problem&, int) { return Bound{}; };
  def.work_per_row = [](const Problem& p) { return static_cast<double>(p.dims[kK]); };
  def.implementations.push_back(cpu());
  return def;
}

}  // namespace dlblas::gemm
