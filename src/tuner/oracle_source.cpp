// Where a GPU's verifier gets the oracle's values; see cuda_verifier.hpp. A device oracle is code
// like any other: before it judges, it is compared with the reference on a small problem of its
// own.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>

#include "core/error.hpp"
#include "dispatch/dispatch.hpp"
#include "jit/jit.hpp"
#include "tuner/cuda_verifier.hpp"
#include "tuner/inputs.hpp"

namespace dlblas {
namespace {

class KernelOracle final : public OracleSource {
 public:
  KernelOracle(const Operator& op, CudaMemory& memory)
      : oracle_(op.def.device_oracle),
        entry_(jit::load(oracle_.source, memory.device())),
        stream_(memory.stream()) {}
  void compute(const Args& args, const std::vector<std::int64_t>& rows,
               const std::int64_t* device_rows, const OracleOut* out) override {
    if (rows.empty()) return;
    const auto count = static_cast<std::int64_t>(rows.size());
    cuda::check(oracle_.launch(entry_, args, device_rows, count, out, stream_),
                "running the device oracle");
  }

 private:
  const DeviceOracle& oracle_;
  const cuda::Function& entry_;
  void* const stream_;
};

// The reference on the host, on inputs fetched once.
class HostOracle final : public OracleSource {
 public:
  HostOracle(const Operator& op, const Problem& problem, const Args& args, const Context& context,
             CudaMemory& memory)
      : op_(op), problem_(problem), context_(context), memory_(memory), inputs_(args, memory) {}
  void compute(const Args&, const std::vector<std::int64_t>& rows, const std::int64_t*,
               const OracleOut* out) override {
    const Oracle oracle(op_, problem_, inputs_.args(), rows, context_);
    for (int j = 0; j < op_.schema.num_judged(); ++j) {
      if (!inputs_.args().judges(j)) continue;
      const std::size_t bytes = rows.size() *
                                static_cast<std::size_t>(row_width(inputs_.args().judged_rows(j))) *
                                sizeof(double);
      memory_.copy_in(out[j].value, oracle.values(j), bytes);
      memory_.copy_in(out[j].magnitude, oracle.magnitudes(j), bytes);
    }
  }

 private:
  const Operator& op_;
  const Problem problem_;
  const Context context_;
  CudaMemory& memory_;
  const HostCopy inputs_;
};

std::int64_t largest_tensor(const Operator& op, const Problem& problem) {
  std::int64_t most = 0;
  for (const TensorSpec& tensor : op.schema.tensors) {
    std::int64_t elements = 1;
    for (const DimExpr& d : tensor.dims)
      elements *= std::max<std::int64_t>(1, d.evaluate(problem.dims));
    most = std::max(most, elements);
  }
  return most;
}

// The problem with at most kMax per letter and kMaxElements per tensor (a cache has four letters):
// the same dtypes, layouts and scalars. Letters that `//` must divide stay as they are.
Problem small(const Operator& op, Problem problem) {
  constexpr std::int64_t kMax = 192, kMaxTokens = 24, kMaxElements = 1 << 21;
  std::uint32_t divided = 0;
  for (const TensorSpec& tensor : op.schema.tensors)
    for (const DimExpr& d : tensor.dims) divided |= d.whole ? d.letters : 0;
  for (std::size_t i = 0; i < op.schema.letters.size(); ++i)
    if (!(divided >> i & 1u))
      problem.dims[i] =
          std::min(problem.dims[i], op.schema.letters[i].bucketed ? kMaxTokens : kMax);
  while (largest_tensor(op, problem) > kMaxElements) {
    std::int64_t* most = nullptr;
    for (std::size_t i = 0; i < op.schema.letters.size(); ++i)
      if (!(divided >> i & 1u) && (!most || problem.dims[i] > *most)) most = &problem.dims[i];
    if (!most || *most <= 1) break;
    *most /= 2;
  }
  return problem;
}

// f64 sums in different orders agree far better than any bound requires; a value may differ visibly
// only where its magnitude shows that it is at a border of rounding.
constexpr double kAgree = 1e-9;

bool close(double a, double b, double size) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= kAgree * size;
}

/// Where the two disagree; "" if they agree.
std::string disagreement(const std::vector<double>& value, const std::vector<double>& magnitude,
                         const double* value_ref, const double* magnitude_ref, const Bound& bound) {
  std::size_t borders = 0;
  const auto told = [&](std::size_t i) {
    return text("at ", i, ": ", value_ref[i], " and ", magnitude_ref[i], " on the host, ", value[i],
                " and ", magnitude[i], " here");
  };
  std::string first;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (magnitude[i] < 0 && magnitude_ref[i] < 0) continue;  // undefined
    const double size = std::max(std::abs(value_ref[i]), magnitude_ref[i]);
    if (close(value[i], value_ref[i], size) && close(magnitude[i], magnitude_ref[i], size))
      continue;
    const double allowed = bound.magnitude * std::max(magnitude[i], magnitude_ref[i]) +
                           bound.value * std::abs(value_ref[i]) + bound.absolute;
    if (!(std::abs(value[i] - value_ref[i]) <= allowed)) return told(i);
    if (borders++ == 0) first = told(i);
  }
  return borders <= value.size() / 1000 ? "" : text(borders, " elements, the first ", first);
}

// Throws Error(kInternal) when kernel and reference disagree.
void check_against_reference(const Operator& op, const Problem& problem, const Context& context,
                             CudaMemory& memory) {
  const CallData data(op, problem, 1, nullptr, memory);
  const HostCopy inputs(data.args(), memory);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count_rows(data.args())));
  std::iota(rows.begin(), rows.end(), 0);
  const CudaArray<std::int64_t> device_rows(memory, rows.size());
  memory.copy_in(device_rows.get(), rows.data(), rows.size() * sizeof(std::int64_t));
  const Oracle reference(op, problem, inputs.args(), rows, context);
  std::unique_ptr<CudaArray<double>> arrays[kMaxJudged][2];
  OracleOut out[kMaxJudged] = {};
  const auto elements = [&](int j) {
    return rows.size() * static_cast<std::size_t>(row_width(data.args().judged_rows(j)));
  };
  for (int j = 0; j < op.schema.num_judged(); ++j) {
    if (!data.args().judges(j)) continue;
    for (auto& array : arrays[j]) array = std::make_unique<CudaArray<double>>(memory, elements(j));
    out[j] = {arrays[j][0]->get(), arrays[j][1]->get()};
  }
  KernelOracle(op, memory).compute(data.args(), rows, device_rows.get(), out);
  for (int j = 0; j < op.schema.num_judged(); ++j) {
    if (!data.args().judges(j)) continue;
    const TensorView judged = data.args().judged_rows(j);
    // Rows that this tensor does not have are left out: they may hold anything.
    const auto count = static_cast<std::size_t>(row_count(judged) * row_width(judged));
    std::vector<double> value(count), magnitude(count);
    memory.copy_out(value.data(), out[j].value, count * sizeof(double));
    memory.copy_out(magnitude.data(), out[j].magnitude, count * sizeof(double));
    const std::string found = disagreement(value, magnitude, reference.values(j),
                                           reference.magnitudes(j), op.def.bound(problem, j));
    if (!found.empty())
      throw Error(
          ErrorKind::kInternal,
          text(op.schema.name, ": device oracle disagrees with the reference on ",
               print_problem(op, problem), "; expected the same values and sizes, got others, ",
               found, "; please report it"),
          {.op = std::string(op.schema.name)});
  }
}

// Once per operator, dtypes, layouts and scalars.
void check_once(const Operator& op, const Problem& problem, const Context& context,
                CudaMemory& memory) {
  static auto* const mutex = new std::mutex;
  static auto* const checked = new std::set<std::uint64_t>;
  const Problem sample = small(op, problem);
  {
    const std::lock_guard lock(*mutex);
    if (checked->count(sample.hash())) return;
  }
  check_against_reference(op, sample, context, memory);
  const std::lock_guard lock(*mutex);
  checked->insert(sample.hash());
}

}  // namespace

std::unique_ptr<OracleSource> make_oracle_source(const Operator& op, const Problem& problem,
                                                 const Args& args, const Context& context,
                                                 CudaMemory& memory) {
  if (op.def.device_oracle.source.include.empty())
    return std::make_unique<HostOracle>(op, problem, args, context, memory);
  check_once(op, problem, context, memory);
  return std::make_unique<KernelOracle>(op, memory);
}

}  // namespace dlblas
