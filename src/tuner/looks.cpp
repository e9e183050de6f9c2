// What a candidate is looked at with beside the call that it is measured on: other values in part,
// other runtime scalars, other addresses with large values, another size of its key. One that keeps
// what its first call had (a packed copy, a descriptor, a static graph, by address or by shape) is
// wrong in one of them. See in_process.hpp.
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
      "other values, some of them large, at other addresses",
  };
  static_assert(std::size(kWords) == kNumLooks);
  return kWords[static_cast<int>(look)];
}

}  // namespace

// Built-in kernels leave their inputs alone: the harness sees to that. What a user's candidate
// wrote there would be every other one's input, and the oracle's.
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
  } catch (const std::exception&) {  // of the device: whoever runs next meets it
  }
}

bool InProcessMeasurer::show(const Plan& plan, Look look) {
  CallData& data = sets_.front();
  if (look == Look::kScalars && (keeps_scalars_ || !data.has_other_scalars())) return false;
  look_ = look;
  data.vary(problem_, seed_, look, large_);
  std::unique_ptr<Judge>& judge = other_judges_[static_cast<int>(look)];
  if (!judge) {  // what is kept from the first call shows in any row
    try {
      judge = make_judge(other_rows());
    } catch (const Error&) {  // a user's reference, of what does not go together
      if (look == Look::kScalars) keeps_scalars_ = true;
      if (look == Look::kScalars) return false;
      if (look != Look::kElsewhere || !large_) throw;
    }
    // Exponentials of gradients, say, where nothing holds them: no implementation can be asked.
    if (look == Look::kElsewhere && large_ && (!judge || !judge->fits(data.args()))) {
      large_ = false;
      judge.reset();
      return show(plan, look);
    }
  }
  auto& digests = digests_[static_cast<int>(look)];
  if (plan.implementation->flags.user && !digests) digests = data.digests();
  return true;
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
  return some_of(rows_, judge_->row_ms());
}

double InProcessMeasurer::others_ms() const {
  // A reference that makes all rows at once makes them again for each look.
  const std::size_t rows = op_.def.reference_is_whole ? rows_.size() : other_rows().size();
  double ms = 0;
  for (const Look look : {Look::kPart, Look::kScalars, Look::kElsewhere}) {
    const bool left_out =
        look == Look::kScalars && (keeps_scalars_ || !sets_.front().has_other_scalars());
    if (!left_out && !other_judges_[static_cast<int>(look)])
      ms += judge_->row_ms() * static_cast<double>(rows);
  }
  return ms;
}

std::string InProcessMeasurer::wrong_for_others(double& error) {
  const Args& args = sets_.front().args();
  const Verdict verdict = other_judges_[static_cast<int>(look_)]->compare(args);
  error = std::max(error, verdict.worst);
  if (verdict.wrong == 0) return {};
  if (judge_->compare(args).wrong == 0)
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
  // Inputs of indices that belong together cannot be drawn one by one.
  if (other == problem_ || first.index_inputs() > 1) return false;
  const double room = 2 * tensor_bytes(op_, other) + static_cast<double>(first.bytes());
  if (room > static_cast<double>(memory_->capacity())) return false;
  try {
    smaller_ = std::make_unique<Smaller>(op_, other, seed_, *memory_);
    smaller_->data.take_scalars(first);
    const Args& args = smaller_->data.args();
    std::vector<std::int64_t> rows = choose_rows(op_, other, args, seed_, kMaxCheckedElements);
    smaller_->judge = make_judge(other, args, some_of(rows, judge_->row_ms()), clock_);
    smaller_->digests = smaller_->data.digests();
  } catch (const std::bad_alloc&) {
    smaller_.reset();
  } catch (const Error&) {  // larger than the memory
    smaller_.reset();
  }
  return smaller_ != nullptr;
}

// One decision serves all sizes of a bucket: a tile at the end that is not whole shows here.
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
    data.take_scalars(sets_.front());
    return {Failure::kOutOfBounds, text("an input was written where ", sizes)};
  }
  const Verdict verdict = smaller_->judge->compare(data.args());
  if (verdict.wrong == 0) return {};
  return {Failure::kWrongResult,
          text(verdict.wrong, " of ", verdict.checked, " elements are wrong where ", sizes, ", ",
               first_place(op_.schema, verdict))};
}

}  // namespace dlblas
