// An operator: schema, oracle, and the ordered list of its implementations (best guess first; last
// the reference, which is always there).
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
/// each. A magnitude of -1 marks an undefined element (a row of no group, padding): it is neither
/// compared nor stored, and need not be written. A row is one index of a result's flattened leading
/// dimensions; its width is the result's last dimension. On the host, magnitudes are 0 before the
/// call: a magnitude that the reference does not set means exact.
struct OracleOut {
  double* value;
  double* magnitude;
};

/// The oracle: plain f64 loops over `rows` (indices into the flattened leading dimensions, shared
/// by all judged tensors). Reads args.tensors[0 … num_inputs) only, as they were before the call;
/// writes out[j] for each tensor of Schema::judged: the results, then what the written inputs hold
/// after the call. out[j] of an absent one is null; rows that tensor j does not have are skipped.
using ReferenceFn = void (*)(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                             OracleOut* out);
using BoundFn = Bound (*)(const Problem& problem, int judged);

/// A judge's findings on one tensor of Schema::judged.
struct Finding {
  std::int64_t wrong = 0;
  std::int64_t first_wrong = -1;  // row-major index into the tensor; -1: it is not known which
  void add(std::int64_t index) {
    if (wrong++ == 0 || index < first_wrong) first_wrong = index;
  }
};

/// A judge's input. Rows and the places of the reference's values are as for ReferenceFn.
struct Judgement {
  const Args& before;  // the inputs as they were before the call; its results mean nothing
  const Args& after;   // results and written inputs as the call left them: any bits may be there
  const std::int64_t* rows;  // to be judged
  std::int64_t num_rows;
  const OracleOut* reference;  // of each of Schema::judged, what the reference says of the rows
  const Bound* bounds;         // of each, BoundFn's
};

/// Decides which elements are wrong, for results that |out − ref| ≤ bound cannot judge: ids with
/// ties, permutations, samples. For each tensor of Schema::judged, adds to found[j] the wrong
/// elements in the rows that it has; undefined elements are never wrong. Called from several
/// threads, each with other rows, or with all rows if the reference computes them at once. May
/// throw: an error of the judge, never a verdict.
using JudgeFn = void (*)(const Judgement& judgement, Finding* found);

/// The oracle as a kernel, for operators measured on a GPU: the reference's values and magnitudes,
/// written to device memory. It is checked against the reference before it judges
/// (tuner/cuda_verifier.cpp).
struct DeviceOracle {
  KernelSource source;  // an empty include: there is none, and the host's reference judges
  /// Launches `entry` over `num_rows` listed rows (device memory). Returns 0, or the driver's code.
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
  /// The tensors of Schema::judged that the oracle computes by element, each element a row: for one
  /// whose rows cost much more than the others', so that a few of its elements can be judged.
  std::vector<std::string_view> by_element;
  std::vector<std::string_view> addresses;  // index inputs that name rows of memory: positions
  ReferenceFn reference = nullptr;
  /// The reference computes all rows at once, however few are requested: it is then called once.
  bool reference_is_whole = false;
  /// Inputs are related, as an lse is to its logits: drawn separately, large values would give
  /// exponentials that no call has.
  bool inputs_related = false;
  /// A user's operator: its data, and what its reference is made of, which is part of the store's
  /// key. Null for built-in operators.
  void* user = nullptr;
  std::string (*reference_hash)(const OperatorDef&) = nullptr;
  BoundFn bound = nullptr;
  /// Replaces the comparison with the bound; null: an element outside its bound is wrong.
  JudgeFn judge = nullptr;
  DeviceOracle device_oracle = {};
  /// Validation beyond the schema; throws a typed Error. May be null.
  void (*check)(const Args&) = nullptr;
  /// Multiply-adds of the oracle for one row of the results: decides between whole output and
  /// sampled rows.
  double (*work_per_row)(const Problem&) = nullptr;
  std::vector<Implementation>
      implementations;  // ordered; the reference is appended by the registry
};

}  // namespace dlblas
