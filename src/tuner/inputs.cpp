// Input generation; see inputs.hpp. Read next: inputs_scalars.cpp.
#include "tuner/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/digits.hpp"
#include "core/element.hpp"
#include "core/error.hpp"

namespace dlblas {
namespace {

std::int64_t offset_of(const TensorView& t, std::int64_t index) {
  std::int64_t at = 0;
  for (int i = t.rank - 1; i >= 0; --i) {
    at += index % t.shape[i] * t.strides[i];
    index /= t.shape[i];
  }
  return at;
}

// Copies the caller's indices, continued to the bucket's upper end: indices and lengths repeat,
// offsets stay at their last value (empty groups), a permutation continues as the identity,
// distinct indices with unused ones. The caller's pool may be larger than the tuner's (`free` in
// the schema): indices beyond it are folded into it, distinct ones onto unused ones.
void copy_indices(const TensorView& to, const TensorView& from, const Filler& filler) {
  const std::int64_t have = from.numel();
  const auto limit = static_cast<double>(filler.limit);
  const bool distinct = filler.fill == Fill::kDistinct;
  const auto inside = [&](double v) { return v < limit && (v >= 0 || filler.minus_one); };
  const auto given = [&](std::int64_t i) { return load_element(from, offset_of(from, i)); };
  std::set<double> taken;
  if (distinct)
    for (std::int64_t i = 0; i < have; ++i)
      if (inside(given(i))) taken.insert(given(i));
  double next = 0;
  const auto untaken = [&] {
    while (taken.count(next)) ++next;
    return next < limit ? next++ : filler.minus_one ? -1 : 0;
  };
  const auto folded = [&](double v) {
    switch (filler.fill) {
      case Fill::kPermutation:
        return v;
      case Fill::kOffsets:
      case Fill::kLengths:
        return std::clamp(v, 0.0, limit);
      default:
        return inside(v) ? v : std::fmod(std::abs(v), std::max(1.0, limit));
    }
  };
  for (std::int64_t i = 0, n = to.numel(); i < n && have > 0; ++i) {
    double value = 0;
    if (distinct)
      value = i < have && inside(given(i)) ? given(i) : untaken();
    else if (i < have)
      value = folded(given(i));
    else if (filler.fill == Fill::kPermutation)
      value = static_cast<double>(i);
    else
      value = folded(given(filler.fill != Fill::kOffsets ? i % have : have - 1));
    store_element(to, offset_of(to, i), value);
  }
}

// T = 24 becomes 2 · 12 where a tensor's leading dimensions must not flatten; a prime stays whole.
std::int64_t outer_part(std::int64_t n) {
  for (std::int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return d;
  return 1;
}

/// Dimension k of tensor i in a call of the problem.
std::int64_t size_of(const Schema& schema, const Problem& problem, std::size_t i, std::size_t k,
                     const std::int64_t* sizes) {
  const DimExpr& dim = schema.tensors[i].dims[k];
  return problem.ones[i] >> k & 1u ? dim.smaller(sizes) : dim.evaluate(sizes);
}

std::string gibibytes(double bytes) { return digits(bytes / 0x1p30, 4) + " GiB"; }

}  // namespace

double tensor_bytes(const Operator& op, const Problem& problem) {
  const auto sizes = op.schema.sizes_of(problem);
  double sum = 0;
  for (std::size_t i = 0; i < op.schema.tensors.size(); ++i) {
    const TensorTraits& traits = problem.tensors[i];
    if (traits.dtype == DType::kAbsent || traits.alias) continue;
    double bytes = size_of(traits.dtype);
    for (std::size_t k = 0; k < op.schema.tensors[i].dims.size(); ++k)
      bytes *= static_cast<double>(size_of(op.schema, problem, i, k, sizes.data()));
    sum += bytes;
  }
  return sum;
}

void throw_no_memory(const Operator& op, const Problem& problem) {
  const std::string expected =
      text("room for tensors of ", gibibytes(tensor_bytes(op, problem)), " and copies of them");
  const bool gpu = problem.device_type == DeviceType::kCuda;
  const double capacity = gpu ? static_cast<double>(device_info(problem.device()).memory_bytes)
                              : HostMemory(Context{}).capacity();
  const std::string got = (gpu ? "a GPU of " : "a machine of ") + gibibytes(capacity);
  throw Error(ErrorKind::kTuning,
              text(op.schema.name, ": call does not fit in memory while it is measured; expected ",
                   expected, ", got ", got, "; tune a smaller size"),
              {op.schema.name, "call", expected, got});
}

namespace {

/// Layout and alignment of every tensor of a call with these sizes.
std::array<TensorTraits, kMaxTensors> traits_at(const Operator& op, const Problem& problem) {
  std::array<TensorTraits, kMaxTensors> found{};
  const auto sizes = op.schema.sizes_of(problem);
  for (std::size_t i = 0; i < op.schema.tensors.size(); ++i) {
    const TensorTraits& traits = problem.tensors[i];
    if (traits.dtype == DType::kAbsent) continue;
    TensorView t{};
    t.dtype = traits.dtype;
    for (std::size_t k = 0; k < op.schema.tensors[i].dims.size(); ++k)
      t.shape[t.rank++] = size_of(op.schema, problem, i, k, sizes.data());
    set_strides(t, traits.layout, traits.align_log2);
    found[i] = traits_of(t, t.rank == 3);
  }
  return found;
}

bool same_places(const std::array<TensorTraits, kMaxTensors>& a,
                 const std::array<TensorTraits, kMaxTensors>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
    return x.layout == y.layout && x.align_log2 == y.align_log2;
  });
}

}  // namespace

Problem smaller_call(const Operator& op, const Problem& problem) {
  const auto wanted = traits_at(op, problem);
  for (const std::int64_t less : {1, 2, 4, 8}) {  // of all letters, where that may be
    Problem other = problem;
    for (std::size_t l = 0; l < op.schema.letters.size(); ++l)
      if (op.schema.letters[l].bucketed && problem.dims[l] - less > bucket_before(problem.dims[l]))
        other.dims[l] -= less;
    if (!(other == problem) && same_places(traits_at(op, other), wanted)) return other;
  }
  Problem other = problem;
  for (std::size_t l = 0; l < op.schema.letters.size(); ++l) {
    if (!op.schema.letters[l].bucketed) continue;
    const std::int64_t end = problem.dims[l];
    for (const std::int64_t less : {1, 2, 4, 8}) {
      other.dims[l] = end - less;
      if (other.dims[l] > bucket_before(end) && same_places(traits_at(op, other), wanted)) break;
      other.dims[l] = end;
    }
  }
  return other;
}

Problem own_call(const Operator& op, const Problem& problem, const std::int64_t* sizes) {
  Problem own = problem;
  for (std::size_t l = 0; l < op.schema.letters.size(); ++l) {
    const std::int64_t end = problem.dims[l];
    if (op.schema.letters[l].bucketed && sizes[l] > bucket_before(end) && sizes[l] < end)
      own.dims[l] = sizes[l];
  }
  return same_places(traits_at(op, own), traits_at(op, problem)) ? own : problem;
}

CallData::CallData(const Operator& op, const Problem& problem, std::uint64_t seed,
                   const Args* caller, Memory& memory)
    : op_(&op), memory_(&memory) {
  const Schema& schema = op.schema;
  // Checked first: the system may promise memory that it does not have, and kill the process later.
  if (tensor_bytes(op, problem) >= memory.capacity()) throw_no_memory(op, problem);
  make_shapes(problem, true);
  make_scalars(problem, caller);
  if (!takes_shapes(problem)) make_shapes(problem, false);
  std::uint32_t rewritten = 0;
  for (int i = 0; i < static_cast<int>(schema.tensors.size()); ++i) {
    if (!args_.has(i)) continue;
    TensorView& view = args_.tensors[i];
    if (const int alias = problem.tensors[i].alias) {
      view = args_.tensors[alias - 1];
      rewritten |= 1u << (alias - 1);
      continue;
    }
    tensors_[i] = std::make_unique<GuardedTensor>(view, problem.tensors[i], memory);
    if (i >= schema.num_inputs) continue;
    if (schema.tensors[i].written) rewritten |= 1u << i;
    make_input(i, problem, {seed}, caller);
  }
  for (int i = 0; i < schema.num_inputs; ++i)
    if (rewritten >> i & 1u)
      pristine_.push_back({i, std::make_unique<GuardedTensor>(*tensors_[i])});
}

Filler CallData::filler_of(int tensor, const Problem& problem, const Values& values) const {
  const Schema& schema = op_->schema;
  // Each look has its own values.
  const bool first = values.look == Look::kFirst;
  const std::uint64_t seed =
      first ? values.seed : ~values.seed - static_cast<std::uint64_t>(values.look);
  Filler filler = make_filler(schema, tensor, schema.sizes_of(problem).data(),
                              args_.tensors[tensor], seed, args_.scalars);
  filler.first = tensor_seed(values.seed, tensor);
  filler.small = small_integers_;
  filler.in_part = values.look == Look::kPart;
  if (values.look != Look::kElsewhere) return filler;
  const bool tokens = has_rows_of_tokens(schema, tensor);
  const std::int64_t rows = filler.numel / filler.width;
  filler.large = values.variety.large;
  filler.large_rows = filler.large > 0 && tokens;
  if (values.variety.zero_row && tokens && rows > 1) filler.zero_row = rows - 1;
  filler.empty = values.variety.empty;
  const Fill fill = filler.fill;
  if (is_lent(tensor) && (fill == Fill::kLengths || fill == Fill::kOffsets))  // no other load
    filler.limit = std::min(filler.limit, static_cast<std::int64_t>(largest_lent(tensor)));
  return filler;
}

// Index-valued tensors are small, and the caller's may be in any memory: they are made on the host.
void CallData::make_input(int tensor, const Problem& problem, const Values& values,
                          const Args* caller) {
  const FillSpec& spec = op_->schema.tensors[tensor].fill;
  const TensorView& view = args_.tensors[tensor];
  const Filler filler = filler_of(tensor, problem, values);
  if (!holds_indices(spec.fill)) return memory_->fill(view, filler);
  HostMemory host{Context{}};
  TensorView made = view;
  const GuardedTensor staged(made, problem.tensors[tensor], host);
  if (caller && caller->has(tensor) && caller->tensors[tensor].data) {
    std::vector<std::byte> kept;
    copy_indices(made, fetch(caller->tensors[tensor], *memory_, kept), filler);
    tensors_[tensor]->copy_in(staged);
    lent_.push_back({tensor, std::make_unique<GuardedTensor>(*tensors_[tensor])});
    return;
  }
  host.fill(made, filler);
  tensors_[tensor]->copy_in(staged);
}

CallData::CallData(const CallData& other)
    : op_(other.op_),
      memory_(other.memory_),
      args_(other.args_),
      first_scalars_(other.first_scalars_),
      small_integers_(other.small_integers_) {
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
  for (const Pristine& p : other.lent_)
    lent_.push_back({p.tensor, std::make_unique<GuardedTensor>(*p.copy)});
}

/// A call with broadcast rows may have had one leading dimension, and an operator that requires
/// rows at one stride refuses two of which one is broadcast.
bool CallData::takes_shapes(const Problem& problem) const {
  if (!op_->def.check) return true;
  Args laid = args_;
  for (int i = 0; i < static_cast<int>(op_->schema.tensors.size()); ++i)
    if (laid.has(i))
      set_strides(laid.tensors[i], problem.tensors[i].layout, problem.tensors[i].align_log2);
  try {
    op_->def.check(laid);
  } catch (const Error&) {
    return false;
  }
  return true;
}

void CallData::make_shapes(const Problem& problem, bool split) {
  const Schema& schema = op_->schema;
  args_.schema = &schema;
  const int count = static_cast<int>(schema.tensors.size());
  const auto splits = [&](int i) {
    const Layout layout = problem.tensors[i].layout;
    const TensorSpec& spec = schema.tensors[i];
    // Of [*T, H, D], rows_outer says that one dimension T, or several as one, may lie apart.
    return spec.has_leading() &&
           (layout == Layout::kTokensOuter || layout == Layout::kRowsBroadcast ||
            (layout == Layout::kRowsOuter && spec.inner() == 1));
  };
  bool any = false;
  for (int i = 0; i < count; ++i) any |= splits(i);
  split = split && any;
  const auto sizes = schema.sizes_of(problem);
  std::copy(sizes.begin(), sizes.end(), args_.letters);
  for (int i = 0; i < kMaxTensors; ++i) args_.tensors[i] = TensorView{};
  for (int i = 0; i < count; ++i) {
    const DType dtype = problem.tensors[i].dtype;
    if (dtype == DType::kAbsent) continue;
    args_.present |= 1u << i;
    TensorView& t = args_.tensors[i];
    t.dtype = dtype;
    t.device = problem.device();
    for (std::size_t k = 0; k < schema.tensors[i].dims.size(); ++k) {
      const DimExpr& dim = schema.tensors[i].dims[k];
      std::int64_t n = size_of(schema, problem, static_cast<std::size_t>(i), k, sizes.data());
      if (dim.leading && split) {
        t.shape[t.rank++] = outer_part(n);
        n /= outer_part(n);
      }
      t.shape[t.rank++] = n;
    }
  }
}

bool CallData::has_plain_integers() const {
  for (int i = 0; i < op_->schema.num_inputs; ++i) {
    const DType type = args_.tensors[i].dtype;
    const bool integers = type == DType::kU8 || type == DType::kI32 || type == DType::kI64;
    if (tensors_[i] && integers && op_->schema.tensors[i].fill.fill == Fill::kNormal) return true;
  }
  return false;
}

void CallData::use_small_integers(const Problem& problem, std::uint64_t seed) {
  small_integers_ = true;
  for (int i = 0; i < op_->schema.num_inputs; ++i)
    if (tensors_[i] && !is_lent(i)) make_input(i, problem, {seed}, nullptr);
  for (const Pristine& p : pristine_) p.copy->restore(*tensors_[p.tensor]);
}

void CallData::follow(const CallData& other, const Problem& problem, std::uint64_t seed) {
  take_scalars(other.first_scalars_);
  if (other.small_integers_) use_small_integers(problem, seed);
}

bool CallData::has_groups() const {
  for (int i = 0; i < op_->schema.num_inputs; ++i) {
    const Fill fill = op_->schema.tensors[i].fill.fill;
    if (tensors_[i] && (fill == Fill::kLengths || fill == Fill::kOffsets)) return true;
  }
  return false;
}

int CallData::index_inputs() const {
  int count = 0;
  for (int i = 0; i < op_->schema.num_inputs; ++i)
    count += tensors_[i] && holds_indices(op_->schema.tensors[i].fill.fill) ? 1 : 0;
  return count;
}

std::size_t CallData::bytes() const {
  std::size_t sum = 0;
  for (const auto& t : tensors_) sum += t ? t->bytes() : 0;
  return sum;
}

void CallData::restore() {
  for (const Pristine& p : pristine_) tensors_[p.tensor]->restore(*p.copy);
}

void CallData::lend_to_children(bool lent) {
  for (const auto& tensor : tensors_)
    if (tensor) tensor->lend_to_children(lent);
  for (const Pristine& p : pristine_) p.copy->lend_to_children(lent);
}

bool CallData::is_read_only(int tensor) const {
  return tensor < op_->schema.num_inputs && tensors_[tensor] &&
         std::none_of(pristine_.begin(), pristine_.end(),
                      [tensor](const Pristine& p) { return p.tensor == tensor; });
}

bool CallData::is_lent(int tensor) const {
  return std::any_of(lent_.begin(), lent_.end(),
                     [tensor](const Pristine& p) { return p.tensor == tensor; });
}

std::array<std::uint64_t, kMaxTensors> CallData::digests() const {
  std::array<std::uint64_t, kMaxTensors> found{};
  for (int i = 0; i < op_->schema.num_inputs; ++i)
    if (is_read_only(i)) found[static_cast<std::size_t>(i)] = tensors_[i]->digest();
  return found;
}

// Moves each by another distance, so that no two tensors keep theirs from each other. A multiple of
// 512 keeps the alignment of a GPU's allocation.
void CallData::place(bool elsewhere) {
  constexpr std::size_t kPage = 4096, kStep = 512;
  static_assert(kPage + kMaxTensors * kStep <= GuardedTensor::kRoomBytes);
  for (std::size_t i = 0; i < op_->schema.tensors.size(); ++i) {
    if (!tensors_[i]) continue;
    const void* const before = tensors_[i]->view().data;
    tensors_[i]->move(elsewhere ? kPage + (i + 1) * kStep : 0);
    for (std::size_t j = 0; j < op_->schema.tensors.size(); ++j)  // results in place follow
      if (args_.has(static_cast<int>(j)) && args_.tensors[j].data == before)
        args_.tensors[j].data = tensors_[i]->view().data;
  }
  set_pitches(elsewhere);
}

// A key fixes that rows are padded, and their alignment: not the pitch. Copies of what a call
// writes, and of lent indices, have the first pitch.
void CallData::set_pitches(bool wider) {
  const Schema& schema = op_->schema;
  for (int i = 0; i < static_cast<int>(schema.tensors.size()); ++i) {
    const bool result = i >= schema.num_inputs;
    if (!tensors_[i] ||
        (!result && (!is_read_only(i) || holds_indices(schema.tensors[i].fill.fill))))
      continue;
    tensors_[i]->set_pitch(wider);
    std::copy_n(tensors_[i]->view().strides, kMaxRank, args_.tensors[i].strides);
  }
  if (!wider || !op_->def.check) return;
  try {
    op_->def.check(args_);
  } catch (const Error&) {  // the operator wants two tensors alike
    set_pitches(false);
  }
}

void CallData::remake(const Problem& problem, std::uint64_t seed) {
  place(false);
  std::copy(first_scalars_.begin(), first_scalars_.end(), args_.scalars);
  for (int i = 0; i < op_->schema.num_inputs; ++i) {
    if (!is_read_only(i) || is_lent(i)) continue;
    tensors_[i]->poison(GuardedTensor::kGuardByte);
    make_input(i, problem, {seed}, nullptr);
  }
  for (const Pristine& p : lent_) {
    if (!is_read_only(p.tensor)) continue;
    tensors_[p.tensor]->mend_guards();
    tensors_[p.tensor]->restore(*p.copy);
  }
}

void CallData::vary(const Problem& problem, std::uint64_t seed, Look look, const Variety& variety) {
  const bool own = look == Look::kElsewhere && variety.own_indices;
  place(look == Look::kElsewhere);
  for (int i = 0; i < op_->schema.num_inputs; ++i) {
    if (!tensors_[i]) continue;
    const auto lent =
        std::find_if(lent_.begin(), lent_.end(), [i](const Pristine& p) { return p.tensor == i; });
    tensors_[i]->poison(GuardedTensor::kGuardByte);
    if (lent != lent_.end() && index_inputs() > 1 && !own) {
      tensors_[i]->restore(*lent->copy);
      continue;
    }
    const Fill fill = op_->schema.tensors[i].fill.fill;
    if (lent != lent_.end() && !own && (fill == Fill::kLengths || fill == Fill::kOffsets))
      vary_order(*lent, problem);
    else
      make_input(i, problem, {seed, look, variety}, nullptr);
  }
  take_scalars(look == Look::kScalars ? other_scalars(variety) : first_scalars_);
}

double CallData::largest_lent(int tensor) const {
  const auto lent = std::find_if(lent_.begin(), lent_.end(),
                                 [=](const Pristine& p) { return p.tensor == tensor; });
  std::vector<std::byte> kept;
  const TensorView from = fetch(lent->copy->view(), *memory_, kept);
  double most = 0;
  for (std::int64_t i = 0, n = from.numel(); i < n; ++i)
    most = std::max(most, load_element(from, offset_of(from, i)));
  return most;
}

// Reverses the order: new draws could be any load, even more than the caller has.
void CallData::vary_order(const Pristine& lent, const Problem& problem) {
  const int tensor = lent.tensor;
  HostMemory host{Context{}};
  TensorView made = args_.tensors[tensor];
  const GuardedTensor staged(made, problem.tensors[tensor], host);
  std::vector<std::byte> kept;
  const TensorView from = fetch(lent.copy->view(), *memory_, kept);
  const std::int64_t count = from.numel();
  const auto first = [&](std::int64_t i) { return load_element(from, offset_of(from, i)); };
  const bool offsets = op_->schema.tensors[tensor].fill.fill == Fill::kOffsets;
  for (std::int64_t i = 0; i < count; ++i) {
    const double mirrored = first(count - 1 - i);
    store_element(made, offset_of(made, i),
                  offsets ? first(0) + first(count - 1) - mirrored : mirrored);
  }
  tensors_[tensor]->copy_in(staged);
}

GuardedTensor* CallData::own_result(int r) const {
  return tensors_[op_->schema.num_inputs + r].get();
}

const GuardedTensor* CallData::judged(int j) const {
  if (!args_.judges(j)) return nullptr;
  for (const auto& t : tensors_)
    if (t && t->view().data == args_.judged(j).data) return t.get();
  return nullptr;
}

void CallData::poison_results(int pattern) {
  for (int r = 0; r < op_->schema.num_results; ++r)
    if (GuardedTensor* t = own_result(r)) t->poison(pattern);
  for (const Pristine& p : pristine_) tensors_[p.tensor]->mend_guards();
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
