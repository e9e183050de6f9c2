// Comparing on the device; see cuda_verifier.hpp.
#include "tuner/cuda_verifier.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "jit/jit.hpp"
#include "tuner/measure.hpp"

namespace dlblas {
namespace {

constexpr std::int64_t kBlockElements = 1 << 23;  // 128 MiB of oracle values at a time
constexpr unsigned kMaxBlocks = 1024;             // of tuner_compare; as many partial sums
constexpr int kElementsPerThread = 8;

void add(Tally& to, const ComparePart& part) {
  to.worst = std::max(to.worst, part.worst);
  to.distance += part.distance;
  to.norm += part.norm;
  to.least = std::min(to.least, part.least);
  to.most = std::max(to.most, part.most);
  if (part.wrong > 0 && (to.first_wrong < 0 || part.first_wrong < to.first_wrong))
    to.first_wrong = part.first_wrong;
  to.wrong += part.wrong;
  to.checked += part.checked;
  to.zeros += part.zeros;
  to.nans += part.nans;
  to.infinite += part.infinite;
}

// Tensors that a user verifies have passed no check_support: a GPU that reads an element at a
// misaligned address loses the context, and everything else with it.
void require_whole_elements(const Schema& schema, const Args& args) {
  for (int i = 0; i < static_cast<int>(schema.tensors.size()); ++i) {
    const TensorView& t = args.tensors[i];
    if ((i < schema.num_inputs && !args.has(i)) || !t.data) continue;
    const auto at = reinterpret_cast<std::uintptr_t>(t.data);
    const auto size = static_cast<std::uintptr_t>(size_of(t.dtype));
    if (at % size == 0) continue;
    const std::string expected = text("a multiple of ", size, " bytes");
    throw Error(ErrorKind::kUnsupported,
                text(schema.name, ": ", schema.tensors[i].name,
                     " lies at an address that a GPU cannot read; expected ", expected, ", got ",
                     at % size, " more; copy it"),
                {schema.name, schema.tensors[i].name, expected, text(at % size, " more")});
  }
}

}  // namespace

// Some rows of the oracle's values, in device memory.
class CudaVerifier::Block {
 public:
  Block(const CudaVerifier& verifier, const Args& args, std::vector<std::int64_t> rows)
      : verifier_(verifier), rows_(std::move(rows)), device_rows_(verifier.memory_, rows_.size()) {
    CudaMemory& memory = verifier_.memory_;
    memory.copy_in(device_rows_.get(), rows_.data(), rows_.size() * sizeof(std::int64_t));
    OracleOut out[kMaxJudged] = {};
    for (int j = 0; j < args.schema->num_judged(); ++j) {
      if (!args.judges(j)) continue;
      const std::size_t count =
          rows_.size() * static_cast<std::size_t>(row_width(args.judged_rows(j)));
      values_[j] = std::make_unique<CudaArray<double>>(memory, count);
      magnitudes_[j] = std::make_unique<CudaArray<double>>(memory, count);
      out[j] = {values_[j]->get(), magnitudes_[j]->get()};
    }
    verifier_.source_->compute(args, rows_, device_rows_.get(), out);
    cuda::synchronize(memory.stream());
  }

  const std::vector<std::int64_t>& rows() const { return rows_; }
  std::vector<double> magnitudes(int j, std::int64_t width) const {
    return fetched(*magnitudes_[j], rows_.size() * static_cast<std::size_t>(width));
  }

  bool fits(const TensorView& t, int judged) const {
    const auto count = static_cast<std::size_t>(num_rows_of(t) * row_width(t));
    return all_fit(fetched(*values_[judged], count).data(),
                   fetched(*magnitudes_[judged], count).data(), count, t.dtype);
  }

  void compare(const TensorView& t, int judged, Tally& tally) const {
    CudaMemory& memory = verifier_.memory_;
    const Bound bound = verifier_.op_.def.bound(verifier_.problem_, judged);
    CompareParams p{};
    p.out = merged(t);
    p.values = values_[judged]->get(), p.magnitudes = magnitudes_[judged]->get();
    p.rows = device_rows_.get();
    p.num_rows = static_cast<std::int64_t>(rows_.size());
    p.width = row_width(t);
    p.row_limit = row_count(t);
    p.bound_magnitude = bound.magnitude;
    p.bound_value = bound.value;
    p.bound_absolute = bound.absolute;
    const std::int64_t elements = p.num_rows * p.width;
    if (elements == 0) return;
    tally.seen += num_rows_of(t) * p.width;
    constexpr std::int64_t kPart = CompareParams::kThreads * kElementsPerThread;
    const auto blocks =
        static_cast<unsigned>(std::min<std::int64_t>(kMaxBlocks, (elements + kPart - 1) / kPart));
    const CudaArray<ComparePart> parts(memory, kMaxBlocks);
    p.parts = parts.get();
    const cuda::Function& function =
        jit::load({"device/tuner_compare.cuh", "dlblas::tuner_compare", 0}, memory.device());
    cuda::check(cuda::launch(function, {.grid = {blocks}, .block = {CompareParams::kThreads}}, p,
                             memory.stream()),
                "comparing with the oracle");
    std::vector<ComparePart> host(blocks);
    memory.copy_out(host.data(), parts.get(), blocks * sizeof(ComparePart));
    for (const ComparePart& part : host) add(tally, part);
  }

 private:
  // The chosen rows that this result has; the others belong to another result alone.
  std::int64_t num_rows_of(const TensorView& t) const {
    return std::lower_bound(rows_.begin(), rows_.end(), row_count(t)) - rows_.begin();
  }
  std::vector<double> fetched(const CudaArray<double>& from, std::size_t count) const {
    std::vector<double> host(count);
    verifier_.memory_.copy_out(host.data(), from.get(), count * sizeof(double));
    return host;
  }

  const CudaVerifier& verifier_;
  const std::vector<std::int64_t> rows_;
  const CudaArray<std::int64_t> device_rows_;
  std::unique_ptr<CudaArray<double>> values_[kMaxJudged], magnitudes_[kMaxJudged];
};

CudaVerifier::CudaVerifier(const Operator& op, const Problem& problem, const Args& args,
                           std::vector<std::int64_t> rows, const Context& context,
                           std::int64_t (*clock)(), CudaMemory& memory)
    : op_(op),
      problem_(problem),
      memory_(memory),
      source_(make_oracle_source(op, problem, args, context, memory)) {
  const double count = static_cast<double>(std::max<std::size_t>(1, rows.size()));
  const std::int64_t begin = clock();
  chosen_ = std::make_unique<Block>(*this, args, std::move(rows));
  row_ms_ = static_cast<double>(clock() - begin) * 1e-6 / count;
}

CudaVerifier::~CudaVerifier() = default;

Verdict CudaVerifier::compare(const Args& after) {
  Verdict verdict;
  for (int j = 0; j < op_.schema.num_judged(); ++j) {
    if (!after.judges(j)) continue;
    Tally tally;
    chosen_->compare(after.judged_rows(j), j, tally);
    tally.finish(verdict, j);
  }
  return verdict;
}

bool CudaVerifier::fits(const Args& args) const {
  for (int j = 0; j < op_.schema.num_judged(); ++j)
    if (args.judges(j) && !chosen_->fits(args.judged_rows(j), j)) return false;
  return true;
}

std::vector<std::int64_t> CudaVerifier::disputed(const Args& one, const Args& other) {
  std::vector<std::uint8_t> flags(static_cast<std::size_t>(count_rows(one)));
  if (flags.empty()) return {};
  const CudaArray<std::uint8_t> device_flags(memory_, flags.size());
  memory_.set(device_flags.get(), 0, flags.size());
  const cuda::Function& function =
      jit::load({"device/tuner_dispute.cuh", "dlblas::tuner_dispute", 0}, memory_.device());
  for (int j = 0; j < op_.schema.num_judged(); ++j) {
    if (!one.judges(j) || one.judged(j).numel() == 0) continue;
    const TensorView t = one.judged_rows(j);
    const std::int64_t width = row_width(t);
    if (!largest_[j]) {  // once: the chosen rows of a wide result are a hundred megabytes
      const std::vector<double> largest =
          largest_of(chosen_->magnitudes(j, width).data(), chosen_->rows().size(), width);
      auto made = std::make_unique<CudaArray<double>>(memory_, largest.size());
      memory_.copy_in(made->get(), largest.data(), largest.size() * sizeof(double));
      largest_[j] = std::move(made);
    }
    const Bound bound = op_.def.bound(problem_, j);
    DisputeParams p{};
    p.one = merged(t), p.other = merged(other.judged_rows(j));
    p.largest = largest_[j]->get();
    p.numel = t.numel();
    p.width = width;
    p.bound_magnitude = bound.magnitude;
    p.bound_value = bound.value;
    p.bound_absolute = bound.absolute;
    p.flags = device_flags.get();
    constexpr std::int64_t kPart = DisputeParams::kThreads * kElementsPerThread;
    constexpr std::int64_t kMaxBlocks = 1 << 16;
    const auto blocks =
        static_cast<unsigned>(std::min<std::int64_t>(kMaxBlocks, (p.numel + kPart - 1) / kPart));
    cuda::check(cuda::launch(function, {.grid = {blocks}, .block = {DisputeParams::kThreads}}, p,
                             memory_.stream()),
                "comparing two results");
  }
  memory_.copy_out(flags.data(), device_flags.get(), flags.size());
  return set_in(flags);
}

std::vector<std::int64_t> CudaVerifier::defined(const Args& before, int j,
                                                const std::vector<std::int64_t>& elements) {
  const std::int64_t width = row_width(before.judged_rows(j));
  const Block block(*this, before, some_of(rows_with(elements, width), row_ms_));
  return defined_of(elements, block.rows(), width, block.magnitudes(j, width).data());
}

Verdict verify_on_device(const Operator& op, const Problem& problem, const Args& before,
                         const Args& after, const std::vector<std::int64_t>& rows,
                         const Context& context) {
  require_whole_elements(op.schema, before);
  require_whole_elements(op.schema, after);
  CudaMemory memory(problem.device_index, context.stream);
  if (op.def.judge)
    return verify(op, problem, HostCopy(before, memory).args(), HostCopy(after, memory).args(),
                  rows, context);
  CudaVerifier verifier(op, problem, before, rows, context, steady_nanoseconds, memory);
  return rows.empty() ? verifier.compare_whole(before, after) : verifier.compare(after);
}

Verdict CudaVerifier::compare_whole(const Args& before, const Args& after) {
  std::int64_t width = 1;
  for (int j = 0; j < op_.schema.num_judged(); ++j)
    if (after.judges(j)) width = std::max(width, row_width(after.judged_rows(j)));
  const std::int64_t at_once = std::max<std::int64_t>(16, kBlockElements / width);
  Tally tallies[kMaxJudged];
  for (std::int64_t begin = 0, count = count_rows(after); begin < count; begin += at_once) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(at_once, count - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    const Block block(*this, before, std::move(rows));
    for (int j = 0; j < op_.schema.num_judged(); ++j)
      if (after.judges(j)) block.compare(after.judged_rows(j), j, tallies[j]);
  }
  Verdict verdict;
  for (int j = 0; j < op_.schema.num_judged(); ++j)
    if (after.judges(j)) tallies[j].finish(verdict, j);
  return verdict;
}

}  // namespace dlblas
