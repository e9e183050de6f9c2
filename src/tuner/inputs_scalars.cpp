// The scalars of a generated call, and those that another call of the same key may have; see
// inputs.hpp.
#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.hpp"
#include "tuner/inputs.hpp"

namespace dlblas {

void CallData::make_scalars(const Problem& problem, const Args* caller) {
  const Schema& schema = op_->schema;
  for (int i = 0; i < kMaxScalars; ++i) args_.scalars[i] = ScalarValue{};
  for (std::size_t i = 0; i < schema.scalars.size(); ++i) {
    const ScalarSpec& spec = schema.scalars[i];
    ScalarValue& value = args_.scalars[i];
    if (spec.letter >= 0) {
      value.i = args_.letters[spec.letter];
    } else if (spec.key_set) {
      const bool set = problem.scalars[spec.key_slot] != 0;
      const bool lent = set && caller && spec.is_set(caller->scalars[i]);
      value = lent ? caller->scalars[i] : set ? spec.set_value : spec.default_value;
    } else if (spec.key) {
      value.i = problem.scalars[spec.key_slot];
      if (spec.type == ScalarType::kFloat) value = {0, std::bit_cast<double>(value.i)};
    } else if (caller) {
      value = caller->scalars[i];
    } else {
      value = spec.has_default ? spec.default_value : ScalarValue{1, 1.0};
    }
  }
  std::copy(std::begin(args_.scalars), std::end(args_.scalars), first_scalars_.begin());
}

namespace {

bool is_in_range(const Operator& op, const Args& args) {
  try {
    if (op.def.check) op.def.check(args);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// Values on the same side of the default, which a key(set) does not tell apart: between the default
// and `first`, or beyond.
std::vector<ScalarValue> beside(const ScalarSpec& spec, const ScalarValue& first) {
  const ScalarValue& base = spec.default_value;
  std::vector<ScalarValue> found = {{base.i + (first.i - base.i) / 2, (base.f + first.f) / 2},
                                    {first.i + (first.i > base.i ? 1 : -1), 2 * first.f - base.f}};
  std::erase_if(found, [&](const ScalarValue& v) { return !spec.is_set(v); });
  return found;
}

std::vector<ScalarValue> others(const ScalarSpec& spec, const ScalarValue& first) {
  std::vector<ScalarValue> found;
  switch (spec.type) {
    case ScalarType::kFloat:
      return {{first.i, 2 * first.f + 0.5}, {first.i, first.f != 0 ? first.f / 2 : -0.25}};
    case ScalarType::kBool:
      return {{first.i == 0, first.f}};
    case ScalarType::kInt:
      return {{first.i + 1, first.f}, {first.i - 1, first.f}};
    case ScalarType::kEnum:
      for (std::size_t label = 0; label < spec.labels.size(); ++label)
        if (const auto i = static_cast<std::int64_t>(label); i != first.i) found.push_back({i, 0});
      return found;
    case ScalarType::kDType:
      break;
  }
  return found;
}

}  // namespace

// A runtime scalar that was not at its default takes it; one that was takes another value.
std::vector<ScalarValue> CallData::choices_of(std::size_t scalar) const {
  const ScalarSpec& spec = op_->schema.scalars[scalar];
  const ScalarValue& first = first_scalars_[scalar];
  const bool set = spec.has_default && spec.is_set(first);
  if (spec.letter >= 0 || (spec.key && !spec.key_set)) return {};
  if (spec.key_set) return set ? beside(spec, first) : std::vector<ScalarValue>{};
  return set ? std::vector<ScalarValue>{spec.default_value} : others(spec, first);
}

bool CallData::is_plain(std::size_t scalar) const {
  const ScalarSpec& spec = op_->schema.scalars[scalar];
  if (spec.key_set) return false;
  return !op_->def.user || (spec.has_default && spec.is_set(first_scalars_[scalar]));
}

CallData::Scalars CallData::other_scalars(const Variety& variety) const {
  Args other = args_;
  std::copy(first_scalars_.begin(), first_scalars_.end(), other.scalars);
  for (std::size_t i = 0; i < op_->schema.scalars.size(); ++i) {
    const std::vector<ScalarValue> choices = choices_of(i);
    for (std::size_t at = is_plain(i) ? 0 : static_cast<std::size_t>(variety.scalars[i]);
         at < choices.size(); ++at) {
      other.scalars[i] = choices[at];
      if (is_in_range(*op_, other)) break;
      other.scalars[i] = first_scalars_[i];
    }
  }
  Scalars scalars;
  std::copy(std::begin(other.scalars), std::end(other.scalars), scalars.begin());
  return scalars;
}

bool CallData::has_other_scalars(const Variety& variety) const {
  const Scalars other = other_scalars(variety);
  for (std::size_t i = 0; i < op_->schema.scalars.size(); ++i) {
    const ScalarValue &a = other[i], &b = first_scalars_[i];
    if (a.i != b.i || std::memcmp(&a.f, &b.f, sizeof a.f) != 0) return true;
  }
  return false;
}

void CallData::take_scalars(const Scalars& from) {
  const Schema& schema = op_->schema;
  for (std::size_t i = 0; i < schema.scalars.size(); ++i) {
    const ScalarSpec& spec = schema.scalars[i];
    if (spec.letter < 0 && (!spec.key || spec.key_set)) args_.scalars[i] = from[i];
  }
}

}  // namespace dlblas
