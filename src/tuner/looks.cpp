// The other calls that a candidate is checked on, besides the one that it is measured on: partly
// other values, other runtime scalars, other addresses with large values, another size of its key.
// A candidate that caches its first call (a packed copy, a descriptor, a static graph, by address
// or by shape) is wrong in one of them. See in_process.hpp.
#include <algorithm>
#include <new>

#include "core/error.hpp"
#include "tuner/in_process.hpp"

namespace dlblas {
namespace {

constexpr std::string_view name_of(Look look) {
  constexpr std::string_view kWords[] = {
      "the first call",
      "other values at the same addresses",
      "other values and scalars at the same addresses",
      "other values, some of them large, zero or empty, at other addresses",
  };
  static_assert(std::size(kWords) == kNumLooks);
  return kWords[static_cast<int>(look)];
}

}  // namespace

// Built-in kernels do not write their inputs: the harness makes sure of that. What a user's
// candidate wrote there would be the input of every other candidate, and of the oracle.
void InProcessMeasurer::renew_inputs(const Plan& plan) {
  const bool user = plan.implementation->flags.user;
  CallData& data = sets_.front();
  new_check_ = true;
  end_look();
  if (user && !digests_[0]) digests_[0] = data.digests();
  if (doubtful_ && data.digests() != *digests_[0]) data.remake(problem_, seed_);
  doubtful_ = user;
}

void InProcessMeasurer::end_look() {
  if (look_ == Look::kFirst) return;
  sets_.front().remake(problem_, seed_);
  look_ = Look::kFirst;
}

// Samples follow, whose graphs hold the first addresses.
InProcessMeasurer::FirstAgain::~FirstAgain() {
  if (measurer.lost_) return;
  try {
    measurer.end_look();
  } catch (const std::exception&) {  // of the device: the next run meets it
  }
}

bool InProcessMeasurer::show(const Plan& plan, Look look) {
  CallData& data = sets_.front();
  if (look == Look::kScalars && keeps_scalars_) return false;
  if (!other_verifiers_[static_cast<int>(look)]) {
    if (!open_look(look)) return false;
  } else {
    look_ = look;
    data.vary(problem_, seed_, look, variety_);
  }
  auto& digests = digests_[static_cast<int>(look)];
  if (plan.implementation->flags.user && !digests) digests = data.digests();
  return true;
}

std::unique_ptr<Verifier> InProcessMeasurer::try_look(Look look, const Variety& variety) {
  look_ = look;
  sets_.front().vary(problem_, seed_, look, variety);
  try {
    return make_verifier(other_rows());  // what is kept from the first call shows in any row
  } catch (const Error&) {               // a user's reference, of what does not go together
    return nullptr;
  }
}

bool InProcessMeasurer::open_look(Look look) {
  if (look == Look::kScalars) return open_scalars();
  if (look == Look::kElsewhere) return open_elsewhere(), true;
  look_ = look;
  sets_.front().vary(problem_, seed_, look, variety_);
  other_verifiers_[static_cast<int>(look)] = make_verifier(other_rows());
  return true;
}

// Varies all scalars at once if the reference takes that. Only a user's defaults are known to go
// together: if the reference raises or has values out of range, scalars are tried one by one, and
// one that fails again keeps its value.
bool InProcessMeasurer::open_scalars() {
  CallData& data = sets_.front();
  std::unique_ptr<Verifier>& verifier = other_verifiers_[static_cast<int>(Look::kScalars)];
  const auto takes = [&](const Variety& variety) {
    verifier = try_look(Look::kScalars, variety);
    if (verifier && op_.def.user && !verifier->fits(data.args())) verifier.reset();
    return verifier != nullptr;
  };
  keeps_scalars_ = !data.has_other_scalars(variety_);
  if (keeps_scalars_ || takes(variety_)) return !keeps_scalars_;
  variety_.scalars.fill(Variety::kNone);
  for (std::size_t i = 0; i < op_.schema.scalars.size(); ++i)
    for (std::size_t choice = 0; choice < data.scalar_choices(i); ++choice) {
      Variety more = variety_;
      more.scalars[i] = static_cast<std::int8_t>(choice);
      if (!takes(more)) continue;
      variety_ = more;
      break;
    }
  if (data.has_other_scalars(variety_)) verifier = try_look(Look::kScalars, variety_);
  keeps_scalars_ = !data.has_other_scalars(variety_) || !verifier;
  return !keeps_scalars_;
}

// Varies everything at once if the operator takes that; else adds what it takes, one after the
// other. No implementation can be judged on values beyond the results' types (exponentials of
// gradients, say), nor on a NaN that a row of zeros produces.
void InProcessMeasurer::open_elsewhere() {
  CallData& data = sets_.front();
  std::unique_ptr<Verifier>& verifier = other_verifiers_[static_cast<int>(Look::kElsewhere)];
  const auto takes = [&](const Variety& variety) {
    verifier = try_look(Look::kElsewhere, variety);
    if (verifier && !verifier->fits(data.args())) verifier.reset();
    return verifier != nullptr;
  };
  if (takes(variety_)) return;
  const double large = variety_.large;
  const auto scalars = variety_.scalars;
  variety_ = nothing_else();
  variety_.scalars = scalars;
  const auto add = [&](const Variety& more) {
    if (!takes(more)) return false;
    variety_ = more;
    return true;
  };
  Variety more = variety_;
  if (more.own_indices = true; data.has_lent()) add(more);
  if (more = variety_, more.empty = true; data.has_groups()) add(more);
  more = variety_, more.zero_row = true;
  add(more);
  constexpr double kLess = 12;  // 12 to 16 sigma
  for (const double size : {large, kLess}) {
    more = variety_, more.large = size;
    if (large > 0 && add(more)) break;
  }
  data.vary(problem_, seed_, Look::kElsewhere, variety_);
  verifier = make_verifier(other_rows());
}

Check InProcessMeasurer::check_look(const Plan& plan, const Kernel& kernel, Look look,
                                    double& error) {
  if (!show(plan, look)) return {};
  Check found = run_guarded(plan, kernel, kPatterns[1]);
  if (found.failure != Failure::kNone) {
    found.note += text(", for ", name_of(look));
    return found;
  }
  if (std::string why = wrong_for_others(error); !why.empty())
    return {Failure::kWrongResult, std::move(why), error};
  return {};
}

std::vector<std::int64_t> InProcessMeasurer::other_rows() const {
  return some_of(rows_, verifier_->row_ms());
}

double InProcessMeasurer::others_ms() const {
  // A reference that computes all rows at once computes them again for each look.
  const std::size_t rows = op_.def.reference_is_whole ? rows_.size() : other_rows().size();
  double ms = 0;
  for (const Look look : {Look::kPart, Look::kScalars, Look::kElsewhere}) {
    const bool left_out =
        look == Look::kScalars && (keeps_scalars_ || !sets_.front().has_other_scalars());
    if (!left_out && !other_verifiers_[static_cast<int>(look)])
      ms += verifier_->row_ms() * static_cast<double>(rows);
  }
  return ms;
}

std::string InProcessMeasurer::wrong_for_others(double& error) {
  const Args& args = sets_.front().args();
  const Verdict verdict = other_verifiers_[static_cast<int>(look_)]->compare(args);
  error = std::max(error, verdict.worst);
  telling_ |= verdict.telling;
  if (verdict.wrong == 0) return {};
  if (verifier_->compare(args).wrong == 0)
    return text("gave the first call's result for ", name_of(look_));
  return text(verdict.wrong, " of ", verdict.checked, " elements are wrong for ", name_of(look_),
              ", ", first_place(op_.schema, verdict));
}

std::string InProcessMeasurer::written_input(const Plan& plan) {
  if (!plan.implementation->flags.user) return {};
  const auto now = sets_.front().digests();
  for (std::size_t i = 0; i < now.size(); ++i)
    if (now[i] != (*digests_[static_cast<int>(look_)])[i])
      return text("the input ", op_.schema.tensors[i].name, " was written");
  return {};
}

bool InProcessMeasurer::has_smaller() {
  if (asked_smaller_) return smaller_ != nullptr;
  asked_smaller_ = true;
  const Problem other = smaller_call(op_, problem_);
  const CallData& first = sets_.front();
  // Index inputs that belong together cannot be drawn one by one.
  if (other == problem_ || first.index_inputs() > 1) return false;
  const double room = 2 * tensor_bytes(op_, other) + static_cast<double>(first.bytes());
  if (room > static_cast<double>(memory_->capacity())) return false;
  try {
    smaller_ = std::make_unique<Smaller>(op_, other, seed_, *memory_);
    smaller_->data.follow(first, other, seed_);
    const Args& args = smaller_->data.args();
    std::vector<std::int64_t> rows = choose_rows(op_, other, args, seed_, kMaxCheckedElements);
    smaller_->verifier = make_verifier(other, args, some_of(rows, verifier_->row_ms()), clock_);
    smaller_->digests = smaller_->data.digests();
  } catch (const std::bad_alloc&) {
    smaller_.reset();
  } catch (const Error&) {  // larger than the memory
    smaller_.reset();
  }
  return smaller_ != nullptr;
}

// One decision serves all sizes of a bucket: a mistake in a partial tile at the end shows here.
Check InProcessMeasurer::check_smaller(const Kernel& kernel) {
  if (!has_smaller()) return {};
  CallData& data = smaller_->data;
  std::string sizes;
  for (std::size_t l = 0; l < op_.schema.letters.size(); ++l)
    if (smaller_->problem.dims[l] != problem_.dims[l])
      sizes += text(sizes.empty() ? "" : ", ", op_.schema.letters[l].name, " = ",
                    smaller_->problem.dims[l], " (its key is that of ", problem_.dims[l], ")");
  data.restore();
  data.poison_results(kPatterns[0]);
  Check found = try_run(kernel, data);
  if (found.failure == Failure::kOutOfMemory) return {};  // of two calls' tensors
  if (found.failure != Failure::kNone) {
    found.note += text(", where ", sizes);
    return found;
  }
  if (!data.guards_intact() || !workspace_intact())
    return {Failure::kOutOfBounds, text("bytes outside the results were written where ", sizes)};
  if (data.digests() != smaller_->digests) {
    data.remake(smaller_->problem, seed_);
    data.follow(sets_.front(), smaller_->problem, seed_);
    return {Failure::kOutOfBounds, text("an input was written where ", sizes)};
  }
  const Verdict verdict = smaller_->verifier->compare(data.args());
  telling_ |= verdict.telling;
  if (verdict.wrong == 0) return {};
  return {Failure::kWrongResult,
          text(verdict.wrong, " of ", verdict.checked, " elements are wrong where ", sizes, ", ",
               first_place(op_.schema, verdict))};
}

}  // namespace dlblas
