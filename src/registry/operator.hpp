// An operator: schema, oracle, and the ordered list of its implementations (best guess first, the
// reference last, always there).
// In: what ops/<family>/<op>/<op>.cpp defines. Out: what dispatch, tuner and bindings look up.
// Read next: registry/registry.hpp, docs/add_an_operator.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/implementation.hpp"
#include "device/oracle/sum_error.hpp"

namespace dlblas {

/// Where the reference writes: f64 values and magnitudes of the listed rows, [num_rows, row width]
/// each. A magnitude of -1 says that the element is undefined (a row of no group, padding): it is
/// neither compared nor stored, and need not be written. A row is one index of a result's flattened
/// leading dimensions; its width is the result's last dimension. On the host magnitudes are 0
/// before the call: what a reference does not say is exact.
struct OracleOut {
  double* value;
  double* magnitude;
};

/// The oracle: plain f64 loops over `rows` (indices into the flattened leading dimensions, shared
/// by all that is judged). Reads args.tensors[0 … num_inputs) only, as they were before the call;
/// writes out[j] for each tensor of Schema::judged: the results, then what the written inputs hold
/// after the call. out[j] of an absent one is null; rows that tensor j does not have are left out.
using ReferenceFn = void (*)(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                             OracleOut* out);
using BoundFn = Bound (*)(const Problem& problem, int judged);

/// What a judge found in one of Schema::judged.
struct Finding {
  std::int64_t wrong = 0;
  std::int64_t first_wrong = -1;  // row-major index into the tensor; -1: it is not known which
  void add(std::int64_t index) {
    if (wrong++ == 0 || index < first_wrong) first_wrong = index;
  }
};

/// What a judge is shown. Rows and the places of the reference's values are as for ReferenceFn.
struct Judgement {
  const Args& before;  // the inputs as they were before the call; its results mean nothing
  const Args& after;   // results and written inputs as the call left them: any bits may be there
  const std::int64_t* rows;  // to be judged
  std::int64_t num_rows;
  const OracleOut* reference;  // of each of Schema::judged, what the reference says of the rows
  const Bound* bounds;         // of each, BoundFn's
};

/// Says which elements are wrong, for results that |out − ref| ≤ bound cannot judge: ids with ties,
/// permutations, samples. Adds to found[j] for each of Schema::judged what is wrong in the rows
/// that this tensor has; undefined elements are right. Called from several threads, for other rows
/// each, or, where the reference makes all rows at once, for all rows. May throw: an error of the
/// judge, never a verdict.
using JudgeFn = void (*)(const Judgement& judgement, Finding* found);

/// The oracle as a kernel, for operators measured on a GPU: the reference's values and magnitudes,
/// written to device memory. It is checked against the reference before it judges
/// (tuner/cuda_judge.cpp).
struct DeviceOracle {
  KernelSource source;  // an empty include: there is none, and the host's reference judges
  /// Launches `entry` over `num_rows` listed rows (device memory). 0, or the driver's code.
  int (*launch)(const cuda::Function& entry, const Args& args, const std::int64_t* rows,
                std::int64_t num_rows, const OracleOut* out, void* stream) = nullptr;
};

/// What a family hands to Registry::add.
struct OperatorDef {
  std::string_view family;  // "norm"
  std::string_view schema;
  std::vector<std::string_view> inplace;
  std::string_view
      formula;  // one line for docs and docstrings: "y = x · rsqrt(mean_C(x²) + eps) · weight"
  std::vector<std::string_view>
      letters;  // asserted against the schema, so the family's enums stay true
  /// What of Schema::judged the oracle makes by the element: each is a row. Where rows of one are
  /// much dearer than those of the others, so that a few of them can be judged.
  std::vector<std::string_view> by_element;
  std::vector<std::string_view> addresses;  // index inputs that name rows of memory: positions
  ReferenceFn reference = nullptr;
  /// The reference makes all rows at once, however few are asked for: it is then asked once.
  bool reference_is_whole = false;
  /// Inputs belong together, as the lse of these logits: of large values that are drawn for each,
  /// exponentials are such as no call has.
  bool inputs_related = false;
  /// A user's operator: its data, and what its reference is made of, which is part of the store's
  /// key. Null for built-in ones.
  void* user = nullptr;
  std::string (*reference_hash)(const OperatorDef&) = nullptr;
  BoundFn bound = nullptr;
  /// Instead of comparing with the bound; null: each element is within its bound, or wrong.
  JudgeFn judge = nullptr;
  DeviceOracle device_oracle = {};
  /// Validation beyond the schema; throws a typed Error. May be null.
  void (*check)(const Args&) = nullptr;
  /// Multiply-adds of the oracle for one row of the results: decides whole output or sampled rows.
  double (*work_per_row)(const Problem&) = nullptr;
  std::vector<Implementation>
      implementations;  // ordered; the reference is appended by the registry
};

}  // namespace dlblas
