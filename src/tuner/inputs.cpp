// Input making; see inputs.hpp. Values come from a counter, not from a stream of draws, so threads
// may fill any part. 16 M normal draws take 0.1 s (bf16, two threads, Xeon, November 2026).
#include "tuner/inputs.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/element.hpp"
#include "core/error.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kBaseAlign = 64;

std::uint64_t mix(std::uint64_t x) {  // murmur's finaliser: enough for test data
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

// The sum of four uniform 16-bit numbers, scaled to variance 1: a bell cut off at 3.46 sigma.
double normal(std::uint64_t bits) {
  const auto sum = static_cast<double>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                       (bits >> 32 & 0xffff) + (bits >> 48));
  return (sum - 2 * 65535.0) * (1.7320508075688772 / 65535.0);
}

// The natural pitch of a row and the padding that makes a strided one: at least one cache line, and
// rows stay aligned as the class says.
std::int64_t padded(std::int64_t width, int size) {
  const std::int64_t unit = std::max<std::int64_t>(1, 16 / size);
  return (width + unit - 1) / unit * unit + 64 / size;
}

void set_strides(TensorView& t, Layout layout) {
  const int last = t.rank - 1;
  const int size = size_of(t.dtype);
  std::int64_t pitch = layout == Layout::kOther ? 2 : 1;  // every second element
  for (int i = last; i >= 0; --i) {
    t.strides[i] = pitch;
    pitch *= std::max<std::int64_t>(1, t.shape[i]);
    if (i == last && layout == Layout::kRowStrided) pitch = padded(pitch, size);
    // The gap lies between the outer two dimensions, so the leading ones do not flatten.
    if (i == 1 && i < last && layout == Layout::kRowsOuter) pitch = padded(pitch, size);
    if (i == last && last == 1 && layout == Layout::kRowsOuter) pitch = padded(pitch, size);
  }
  if (layout == Layout::kTransposed && t.rank == 2) {
    t.strides[0] = 1;
    t.strides[1] = std::max<std::int64_t>(1, t.shape[0]);
  }
  if (layout == Layout::kBroadcast)
    for (int i = 0; i < t.rank; ++i)
      if (t.shape[i] > 1) {
        t.strides[i] = 0;
        break;
      }
}

// Bytes from the aligned base: none when the rows alone give the alignment class, else as many.
std::size_t misalignment(const TensorView& t, int align_log2) {
  if (align_log2 >= 4) return 0;
  std::uint64_t low_bits = 16;
  for (int i = 0; i < t.rank - 1; ++i)
    if (t.shape[i] != 1) low_bits |= static_cast<std::uint64_t>(t.strides[i] * size_of(t.dtype));
  return std::countr_zero(low_bits) <= align_log2 ? 0 : std::size_t{1} << align_log2;
}

// A step coprime to n, near its golden section: i -> i * step mod n is a permutation.
std::int64_t coprime_step(std::int64_t n) {
  auto step = static_cast<std::int64_t>(static_cast<double>(n) * 0.618) | 1;
  while (std::gcd(step, n) != 1) ++step;
  return step;
}

struct Filler {
  Fill fill;
  DType dtype;
  std::uint64_t seed;
  std::int64_t limit;  // index<E>: below this; offsets: the last one
  std::int64_t numel, step;

  double value(std::int64_t i) const {
    const std::uint64_t bits = mix(seed + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ull);
    switch (fill) {
      case Fill::kZeros:
        return 0;
      case Fill::kIndex:
        return static_cast<double>(bits %
                                   static_cast<std::uint64_t>(std::max<std::int64_t>(1, limit)));
      case Fill::kOffsets:
        return numel < 2 ? 0 : static_cast<double>(limit * i / (numel - 1));
      case Fill::kPermutation:
        return static_cast<double>(static_cast<std::int64_t>(static_cast<unsigned __int128>(i) *
                                                             static_cast<std::uint64_t>(step) %
                                                             static_cast<std::uint64_t>(numel)));
      case Fill::kPositive:
        return std::abs(normal(bits)) + 0.125;
      case Fill::kNormal:
        break;
    }
    switch (dtype) {
      case DType::kF32:
      case DType::kF16:
      case DType::kBF16:
      case DType::kF64:
        return normal(bits);
      case DType::kI8:
        return std::nearbyint(32 * normal(bits));
      case DType::kBool:
        return static_cast<double>(bits & 1);
      default:
        return static_cast<double>(bits & 63);  // finite in f8, small in integers
    }
  }
};

void fill_tensor(const TensorView& t, const Filler& filler, const Context& context) {
  const Rows rows = rows_of(t, t.rank == 0 ? 0 : 1);
  const std::int64_t width = t.rank == 0 ? 1 : t.shape[t.rank - 1];
  const std::int64_t stride = t.rank == 0 ? 0 : t.strides[t.rank - 1];
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, width));
  context.run(0, rows.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = rows.offset(row);
      for (std::int64_t c = 0; c < width; ++c)
        store_element(t, at + c * stride, filler.value(row * width + c));
    }
  });
}

std::int64_t offset_of(const TensorView& t, std::int64_t index) {
  std::int64_t at = 0;
  for (int i = t.rank - 1; i >= 0; --i) {
    at += index % t.shape[i] * t.strides[i];
    index /= t.shape[i];
  }
  return at;
}

// True when some 16 bits of the range are the pattern; simple enough for the compiler to vectorise.
bool may_contain(const std::byte* at, std::size_t bytes, int pattern) {
  const auto like = static_cast<std::uint16_t>(pattern * 0x0101);
  std::uint16_t found = 0;
  for (std::size_t i = 0; i + 2 <= bytes; i += 2) {
    std::uint16_t v;
    std::memcpy(&v, at + i, 2);
    found |= static_cast<std::uint16_t>(v == like);
  }
  return found != 0;
}

bool holds_indices(Fill fill) {
  return fill == Fill::kIndex || fill == Fill::kOffsets || fill == Fill::kPermutation;
}

// The caller's indices, continued to the bucket's upper end: indices repeat, offsets stay at their
// last value (empty groups), a permutation goes on as the identity.
void copy_indices(const TensorView& to, const TensorView& from, Fill fill) {
  const std::int64_t have = from.numel();
  for (std::int64_t i = 0, n = to.numel(); i < n && have > 0; ++i) {
    double value = 0;
    if (i < have)
      value = load_element(from, offset_of(from, i));
    else if (fill == Fill::kPermutation)
      value = static_cast<double>(i);
    else
      value = load_element(from, offset_of(from, fill == Fill::kIndex ? i % have : have - 1));
    store_element(to, offset_of(to, i), value);
  }
}

// T = 24 becomes 2 · 12 where a tensor's leading dimensions must not flatten; a prime stays whole.
std::int64_t outer_part(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return d;
  return 1;
}

}  // namespace

GuardedTensor::GuardedTensor(TensorView& view, const TensorTraits& traits) {
  set_strides(view, traits.layout);
  std::int64_t last = 0;
  for (int i = 0; i < view.rank; ++i)
    last += std::max<std::int64_t>(0, view.shape[i] - 1) * view.strides[i];
  const std::size_t span = static_cast<std::size_t>((last + 1) * size_of(view.dtype));
  const std::size_t shift = misalignment(view, traits.align_log2);
  size_ = (2 * kGuardBytes + shift + span + kBaseAlign - 1) / kBaseAlign * kBaseAlign;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kBaseAlign, size_)));
  if (!memory_)
    throw Error(ErrorKind::kTuning,
                text("tune: inputs need ", size_, " bytes; expected memory, got none"));
  view.data = memory_.get() + kGuardBytes + shift;
  view_ = view;
  poison(kGuardByte);
}

GuardedTensor::GuardedTensor(const GuardedTensor& other) : view_(other.view_), size_(other.size_) {
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kBaseAlign, size_)));
  if (!memory_)
    throw Error(ErrorKind::kTuning,
                text("tune: inputs need ", size_, " bytes; expected memory, got none"));
  view_.data = memory_.get() + (static_cast<std::byte*>(other.view_.data) - other.memory_.get());
  restore(other);
}

void GuardedTensor::restore(const GuardedTensor& pristine) {
  std::memcpy(memory_.get(), pristine.memory_.get(), size_);
}

bool GuardedTensor::is_packed() const {
  std::int64_t last = 0;
  for (int i = 0; i < view_.rank; ++i)
    last += std::max<std::int64_t>(0, view_.shape[i] - 1) * view_.strides[i];
  return last + 1 == view_.numel();
}

template <typename F>
void GuardedTensor::for_each_row(F&& fn) const {
  if (view_.numel() == 0) return;
  const Rows rows = rows_of(view_, view_.rank == 0 ? 0 : 1);
  const int size = size_of(view_.dtype);
  const std::int64_t width = view_.rank == 0 ? 1 : view_.shape[view_.rank - 1];
  const std::int64_t stride = view_.rank == 0 ? 1 : view_.strides[view_.rank - 1];
  for (std::int64_t row = 0; row < rows.count; ++row)
    fn(static_cast<std::byte*>(view_.data) + rows.offset(row) * size, width, stride * size);
}

void GuardedTensor::poison(int pattern) {
  const auto size = static_cast<std::size_t>(size_of(view_.dtype));
  const std::size_t bytes = static_cast<std::size_t>(view_.numel()) * size;
  auto* const data = static_cast<std::byte*>(view_.data);
  if (is_packed()) {  // no gaps: one pass over the elements, whatever their order
    std::memset(memory_.get(), kGuardByte, static_cast<std::size_t>(data - memory_.get()));
    std::memset(data, pattern, bytes);
    std::memset(data + bytes, kGuardByte,
                static_cast<std::size_t>(memory_.get() + size_ - (data + bytes)));
    return;
  }
  std::memset(memory_.get(), kGuardByte, size_);
  if (pattern == kGuardByte) return;
  for_each_row([&](std::byte* at, std::int64_t width, std::int64_t step) {
    for (std::int64_t c = 0; c < width; ++c) std::memset(at + c * step, pattern, size);
  });
}

std::vector<std::int64_t> GuardedTensor::elements_equal_to(int pattern) const {
  std::vector<std::int64_t> found;
  const auto size = static_cast<std::size_t>(size_of(view_.dtype));
  std::byte like[8];
  std::memset(like, pattern, sizeof like);
  std::int64_t index = 0;
  const auto scan = [&](const std::byte* at, std::int64_t count, std::int64_t step) {
    for (std::int64_t c = 0; c < count; ++c)
      if (std::memcmp(at + c * step, like, size) == 0) found.push_back(index + c);
  };
  // Nearly all blocks hold no such element: words that share no 16 bits with the pattern say so at
  // memory speed.
  for_each_row([&](const std::byte* at, std::int64_t width, std::int64_t step) {
    constexpr std::int64_t kBlock = 1024;
    const bool dense = step == static_cast<std::int64_t>(size) && size > 1;
    for (std::int64_t c = 0; c < width; c += kBlock) {
      const std::int64_t count = std::min(kBlock, width - c);
      if (!dense || may_contain(at + c * step, static_cast<std::size_t>(count) * size, pattern)) {
        const std::int64_t row_begin = index;
        index += c;
        scan(at + c * step, count, step);
        index = row_begin;
      }
    }
    index += width;
  });
  return found;
}

bool GuardedTensor::guards_intact() const {
  const auto clean = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, std::max(from, to),
                       [](std::byte b) { return b == std::byte{kGuardByte}; });
  };
  const std::byte* end = memory_.get() + size_;
  const std::byte* data = static_cast<std::byte*>(view_.data);
  if (!clean(memory_.get(), data)) return false;
  const auto size = static_cast<std::int64_t>(size_of(view_.dtype));
  // Rows with unit stride ascend in memory (set_strides), so what lies between two is a gap.
  const std::byte* after = data;
  bool gaps = true;
  for_each_row([&](const std::byte* at, std::int64_t width, std::int64_t step) {
    if (step == size) gaps = gaps && clean(after, at);
    after = std::max(after, at + (width - 1) * step + size);
  });
  return gaps && clean(after, end);
}

CallData::CallData(const Operator& op, const Problem& problem, std::uint64_t seed,
                   const Args* caller, const Context& context)
    : op_(&op) {
  const Schema& schema = op.schema;
  make_shapes(problem);
  make_scalars(problem, caller);
  std::int64_t tokens = problem.dims[0];  // what offsets end at: the bucketed letter
  for (std::size_t i = schema.letters.size(); i-- > 0;)
    if (schema.letters[i].bucketed) tokens = problem.dims[i];
  std::uint32_t rewritten = 0;
  for (int i = 0; i < static_cast<int>(schema.tensors.size()); ++i) {
    if (!args_.has(i)) continue;
    TensorView& view = args_.tensors[i];
    if (const int alias = problem.tensors[i].alias) {
      view = args_.tensors[alias - 1];
      rewritten |= 1u << (alias - 1);
      continue;
    }
    tensors_[i] = std::make_unique<GuardedTensor>(view, problem.tensors[i]);
    if (i >= schema.num_inputs) continue;
    const TensorSpec& spec = schema.tensors[i];
    if (spec.written) rewritten |= 1u << i;
    if (caller && caller->has(i) && caller->tensors[i].data && holds_indices(spec.fill)) {
      copy_indices(view, caller->tensors[i], spec.fill);
      continue;
    }
    const std::int64_t limit = spec.fill_letter >= 0 ? problem.dims[spec.fill_letter] : tokens;
    const std::int64_t numel = view.numel();
    const Filler filler{spec.fill, view.dtype, mix(seed ^ (std::uint64_t(i + 1) << 56)),
                        limit,     numel,      numel > 0 ? coprime_step(numel) : 1};
    fill_tensor(view, filler, context);
  }
  for (int i = 0; i < schema.num_inputs; ++i)
    if (rewritten >> i & 1u)
      pristine_.push_back({i, std::make_unique<GuardedTensor>(*tensors_[i])});
}

CallData::CallData(const CallData& other) : op_(other.op_), args_(other.args_) {
  const Schema& schema = op_->schema;
  for (int i = 0; i < static_cast<int>(schema.tensors.size()); ++i) {
    if (!other.tensors_[i]) continue;
    tensors_[i] = std::make_unique<GuardedTensor>(*other.tensors_[i]);
    for (int j = 0; j < static_cast<int>(schema.tensors.size()); ++j)  // results in place follow
      if (args_.has(j) && other.args_.tensors[j].data == other.args_.tensors[i].data)
        args_.tensors[j].data = tensors_[i]->view().data;
  }
  for (const Pristine& p : other.pristine_)
    pristine_.push_back({p.tensor, std::make_unique<GuardedTensor>(*p.copy)});
}

void CallData::make_shapes(const Problem& problem) {
  const Schema& schema = op_->schema;
  args_.schema = &schema;
  const int count = static_cast<int>(schema.tensors.size());
  bool split = false;
  for (int i = 0; i < count; ++i)
    split |= schema.tensors[i].has_leading() && problem.tensors[i].layout == Layout::kRowsOuter;
  std::copy(std::begin(problem.dims), std::end(problem.dims), args_.letters);
  for (int i = 0; i < kMaxTensors; ++i) args_.tensors[i] = TensorView{};
  for (int i = 0; i < count; ++i) {
    const DType dtype = problem.tensors[i].dtype;
    if (dtype == DType::kAbsent) continue;
    args_.present |= 1u << i;
    TensorView& t = args_.tensors[i];
    t.dtype = dtype;
    t.device = problem.device();
    for (const DimExpr& dim : schema.tensors[i].dims) {
      std::int64_t n = dim.evaluate(problem.dims);
      if (dim.leading && split) {
        t.shape[t.rank++] = outer_part(n);
        n /= outer_part(n);
      }
      t.shape[t.rank++] = n;
    }
  }
}

void CallData::make_scalars(const Problem& problem, const Args* caller) {
  const Schema& schema = op_->schema;
  for (int i = 0; i < kMaxScalars; ++i) args_.scalars[i] = ScalarValue{};
  for (std::size_t i = 0; i < schema.scalars.size(); ++i) {
    const ScalarSpec& spec = schema.scalars[i];
    ScalarValue& value = args_.scalars[i];
    if (spec.key) {
      value.i = problem.scalars[spec.key_slot];
      if (spec.type == ScalarType::kFloat) value = {0, std::bit_cast<double>(value.i)};
    } else if (spec.has_default) {
      value = spec.default_value;
    } else {
      value = caller ? caller->scalars[i] : ScalarValue{1, 1.0};
    }
  }
}

std::size_t CallData::bytes() const {
  std::size_t sum = 0;
  for (const auto& t : tensors_) sum += t ? t->bytes() : 0;
  return sum;
}

void CallData::restore() {
  for (const Pristine& p : pristine_) tensors_[p.tensor]->restore(*p.copy);
}

std::vector<GuardedTensor*> CallData::own_results() {
  std::vector<GuardedTensor*> results;
  for (int r = 0; r < op_->schema.num_results; ++r)
    if (auto& t = tensors_[op_->schema.num_inputs + r]) results.push_back(t.get());
  return results;
}

void CallData::poison_results(int pattern) {
  for (GuardedTensor* t : own_results()) t->poison(pattern);
}

bool CallData::guards_intact() const {
  for (int r = 0; r < op_->schema.num_results; ++r) {
    const auto& t = tensors_[op_->schema.num_inputs + r];
    if (t && !t->guards_intact()) return false;
  }
  return std::all_of(pristine_.begin(), pristine_.end(),
                     [this](const Pristine& p) { return tensors_[p.tensor]->guards_intact(); });
}

}  // namespace dlblas
