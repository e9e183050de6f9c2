// Problems without tensors: the calls that an operator's schema allows on a CUDA device.
// In: an Operator. Out: Problems that differ in sizes, dtypes, layouts, alignment and options;
// besides sizes and dtypes only one property varies at a time, or there would be millions.
// Read next: tools/compile_all.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "registry/registry.hpp"

namespace dlblas::compile_all {

/// Sizes of a letter: bucket ends if it has buckets; else short, common, odd and very long ones.
inline std::vector<std::int64_t> sizes_of(const Letter& letter) {
  if (letter.bucketed) return {1, 16, 128, 4096, 16384};
  return {64, 128, 1000, 1001, 4096, 8192, 16384, 65536, 262144, 4194304};
}

/// Limits the tuples of sizes to `most`, spread over all of them; the seed shifts the choice.
struct Sizes {
  std::uint64_t most = 512, seed = 0;
};

inline std::vector<std::vector<std::int64_t>> sizes_of(const Schema& schema, const Sizes& wanted) {
  constexpr std::uint64_t kStep = 7919;  // a prime that divides no number of tuples
  std::uint64_t total = 1;
  for (const Letter& letter : schema.letters) total *= sizes_of(letter).size();
  std::vector<std::vector<std::int64_t>> tuples;
  for (std::uint64_t i = 0; i < std::min(total, wanted.most); ++i) {
    std::uint64_t at = (i + wanted.seed) % total * kStep % total;
    std::vector<std::int64_t>& tuple = tuples.emplace_back();
    for (const Letter& letter : schema.letters) {
      const std::vector<std::int64_t> sizes = sizes_of(letter);
      tuple.push_back(sizes[at % sizes.size()]);
      at /= sizes.size();
    }
  }
  return tuples;
}

inline DType first_of(DTypeSet set) {
  for (int t = 0; t < kNumDTypes; ++t)
    if (set & set_of(static_cast<DType>(t))) return static_cast<DType>(t);
  return DType::kF32;
}

/// A tensor's dtype when the call's is `dtype`; `other` picks a different one that its type allows.
inline DType dtype_of(const Schema& schema, const TensorSpec& spec, DType dtype, bool other) {
  if (spec.dtype_scalar >= 0) {
    const ScalarSpec& scalar = schema.scalars[static_cast<std::size_t>(spec.dtype_scalar)];
    if (scalar.default_value.i >= 0) return static_cast<DType>(scalar.default_value.i);
  }
  if (spec.like >= 0 && !(other && spec.dtypes)) {
    const TensorSpec& first = schema.tensors[static_cast<std::size_t>(spec.like)];
    return first.like >= 0 || first.dtypes & set_of(dtype) ? dtype : first_of(first.dtypes);
  }
  return spec.dtypes & set_of(dtype) && spec.like < 0 ? dtype : first_of(spec.dtypes);
}

/// A typical call: contiguous, aligned, only the usual optional tensors, defaults.
inline Problem plain_problem(const Operator& op, DType dtype, bool other = false) {
  const Schema& schema = op.schema;
  Problem p;
  p.op = op.id;
  p.device_type = DeviceType::kCuda;
  for (std::size_t i = 0; i < schema.tensors.size(); ++i) {
    const TensorSpec& spec = schema.tensors[i];
    const bool absent = spec.optional && !spec.usual;
    const DType t = absent ? DType::kAbsent : dtype_of(schema, spec, dtype, other);
    p.tensors[i] = {t, Layout::kContiguous, static_cast<std::uint8_t>(absent ? 0 : 4), 0};
  }
  for (const ScalarSpec& spec : schema.scalars)
    if (spec.key) p.scalars[spec.key_slot] = spec.default_value.i;
  return p;
}

/// The plain call, and calls that differ from it in one property.
inline std::vector<Problem> variants_of(const Operator& op, DType dtype) {
  const Schema& schema = op.schema;
  const Problem plain = plain_problem(op, dtype);
  std::vector<Problem> made = {plain, plain_problem(op, dtype, true)};
  const auto vary = [&](const std::function<void(Problem&)>& change) {
    Problem p = plain;
    change(p);
    if (std::find(made.begin(), made.end(), p) == made.end()) made.push_back(p);
  };
  vary([&](Problem& p) {  // as aligned as an element is
    for (TensorTraits& t : p.tensors)
      for (t.align_log2 = 0; t.dtype != DType::kAbsent && 2 << t.align_log2 <= size_of(t.dtype);)
        ++t.align_log2;
  });
  vary([&](Problem& p) { p.flags = kAllowTf32; });
  for (int i = 0; i < schema.num_inputs; ++i) {
    const TensorSpec& spec = schema.tensors[static_cast<std::size_t>(i)];
    if (spec.usual) {
      vary([&](Problem& p) { p.tensors[i] = {DType::kAbsent, Layout::kContiguous, 0, 0}; });
    } else if (spec.optional) {
      vary([&](Problem& p) {
        p.tensors[i] = {dtype_of(schema, spec, dtype, false), Layout::kContiguous, 4, 0};
      });
    } else if (spec.dims.size() == 2) {
      vary([&](Problem& p) { p.tensors[i].layout = Layout::kRowStrided; });
      if (!spec.has_leading()) vary([&](Problem& p) { p.tensors[i].layout = Layout::kTransposed; });
    } else if (spec.dims.size() == 3 && !spec.has_leading()) {
      vary([&](Problem& p) { p.tensors[i].layout = Layout::kMatricesTransposed; });
    } else if (i == 0 && spec.inner() > 1) {  // then all rows have strides of their own
      vary([&](Problem& p) { p.tensors[i].layout = Layout::kTokensOuter; });
    }
    for (std::size_t k = 0; k < spec.dims.size(); ++k)
      if (spec.dims[k].may_be_half)
        vary([&](Problem& p) { p.ones[i] = static_cast<std::uint8_t>(1u << k); });
  }
  for (const ScalarSpec& spec : schema.scalars) {
    if (!spec.key) continue;
    const auto set = [&](std::int64_t value) {
      vary([&](Problem& p) { p.scalars[spec.key_slot] = value; });
    };
    if (spec.type == ScalarType::kBool) set(!spec.default_value.i);
    for (std::size_t label = 0; label < spec.labels.size(); ++label)
      set(static_cast<std::int64_t>(label));
  }
  // In place: the plain call and its variants by choice, which may determine what must be read
  // first.
  const auto by_choice = [&](const Problem& p) {
    return std::memcmp(p.tensors, plain.tensors, sizeof p.tensors) == 0 && p.flags == plain.flags;
  };
  for (const InplaceForm& form : op.inplace_forms) {
    const std::vector<Problem> apart = made;
    for (Problem p : apart) {
      if (!by_choice(p)) continue;
      for (std::size_t r = 0; r < form.result_source.size(); ++r)
        p.tensors[schema.num_inputs + static_cast<int>(r)].alias =
            static_cast<std::uint8_t>(1 + form.result_source[r]);
      if (std::find(made.begin(), made.end(), p) == made.end()) made.push_back(p);
    }
  }
  return made;
}

/// The tensor whose dtype others follow: the first, unless its type is a single integer and others
/// follow a later one (packed words, where the scales determine the result's dtype).
inline const TensorSpec& leader_of(const Schema& schema) {
  if (schema.tensors.front().dtypes == set_of(DType::kI32))
    for (const TensorSpec& spec : schema.tensors)
      if (spec.like >= 0) return schema.tensors[static_cast<std::size_t>(spec.like)];
  return schema.tensors.front();
}

/// Every variant, in every dtype of the leader and every requested size.
inline std::vector<Problem> problems_of(const Operator& op, const Sizes& wanted = {}) {
  const TensorSpec& leader = leader_of(op.schema);
  std::vector<Problem> made;
  for (int t = 0; t < kNumDTypes; ++t) {
    if (!(leader.dtypes & set_of(static_cast<DType>(t)))) continue;
    for (const Problem& variant : variants_of(op, static_cast<DType>(t)))
      for (const std::vector<std::int64_t>& sizes : sizes_of(op.schema, wanted)) {
        made.push_back(variant);
        std::copy(sizes.begin(), sizes.end(), made.back().dims);
      }
  }
  return made;
}

}  // namespace dlblas::compile_all
