// One schema string per operator: the only source of validation, C ABI marshalling, Python
// signatures, input generation and docs. Parsed once, at registration.
//
//   add_rms_norm(x: f[*T, C], weight: like(x)|f32|none[C], residual: like(x)[*T, C],
//                eps: float = 1e-6, *, weight_offset: float = 0 runtime,
//                cast_before_weight: bool = false key)
//       -> (y: like(x)[*T, C], residual_out: like(x)[*T, C]) where T: bucket(tokens)
//
// clang-format off
//   type      := classes '[' dims ']'  ('?' optional)  ('!' written)  ('~' fill)
//   classes   := class ('|' class)*
//   class     := f | f8 | i8 | index | <dtype name> | like(<tensor>) | <dtype scalar>
//              | like(<optional tensor>|<dtype>)   the dtype where the tensor is absent
//              | none                  optional, but usual: cases, commands and C++ parameters have it
//   dim       := '*' LETTER | ['1|'] size | size '|' size         the second is twice the first: D|2D
//   size      := INT | sum [('+' | '-') INT]
//   sum       := terms | term ('/' | '//') by | '(' terms ')' ('/' | '//') by
//                                          `/` rounds up, `//` must divide; by := INT | LETTER
//   terms     := term ('+' term)*          at most three
//   term      := [INT] LETTER ['*' LETTER] 2F, H*D, 2Hkv*D
//   scalar    := (int | float | bool | dim | "a"|"b"... | dtype(classes)) ('=' default)? mark?
//   mark      := key | runtime | key(set) | key(set=NUMBER)
//   fill      := (normal | positive | negative | zeros) ['if' NAME] | bits | permutation
//              | offsets ['<=' size]
//              | index ('<' | '<=') size ['|-1'] | (distinct | distinct_rows) '<' size ['|-1']
//              | lengths '<=' size
//   where     := LETTER ':' (exact | bucket(tokens) | free(size)) (',' ...)*
// clang-format on
//
// `*T` binds the product of all leading dimensions; `*` alone opens the keyword-only part. A
// dimension determines a letter once all its other letters are known, if it is linear in it: `H*D`
// gives D once H is known. `topk: dim` is an integer that gives the letter topk. `1|M` also accepts
// 1, and `D|2D` accepts D or 2D of letters that other tensors give: which of the two it is, is in
// the key. `free(B*W)` keeps a letter out of the key (pools of
// pages). Scalars default to `runtime` for float and to `key` otherwise; for `key(set)` the key
// holds only whether the value differs from its default. `x: f[T] ~ positive if probs`: normal
// where the key's bool probs is false. `-> ()`: no results, the operator writes inputs marked `!`.
// Read next: core/schema.cpp, core/dim.hpp, dispatch/validate.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dim.hpp"
#include "core/dtype.hpp"
#include "core/problem.hpp"

namespace dlblas {

/// What a generated input holds. Index values stay within `FillSpec::limit`.
enum class Fill : std::uint8_t {
  kNormal,
  kPositive,
  kIndex,        // any below the limit (or up to it)
  kOffsets,      // from 0 up to the limit, ascending: where groups begin and end
  kPermutation,  // of all indices of the tensor
  kZeros,
  kDistinct,      // indices below the limit, each once, as long as there are so many
  kDistinctRows,  // the same in each row: the experts of a token
  kLengths,       // from 1 to the limit, the last one the limit
  kNegative,
  kBits,  // of integers, any: packed codes
};

struct FillSpec {
  Fill fill = Fill::kNormal;
  bool has_limit = false;
  bool inclusive = false;  // index<=E: the limit itself as well
  bool minus_one = false;  // |-1: some elements name nothing
  std::string condition;   // a key bool; "": always. Where it is false, kNormal
  DimExpr size;            // the limit
  std::int64_t limit(const std::int64_t* sizes) const {
    return std::max<std::int64_t>(0, size.evaluate(sizes));
  }
};

struct TensorSpec {
  std::string name;
  std::string type_text;     // as written, for messages and docs: "like(x)|f32[C]"
  DTypeSet dtypes = 0;       // fixed classes
  std::int8_t like = -1;     // index of the tensor whose dtype is also allowed, or -1
  DTypeSet like_absent = 0;  // allowed instead where that tensor is absent
  std::int8_t dtype_scalar =
      -1;  // results: index of the dtype scalar that decides when it is given, or -1
  std::vector<DimExpr> dims;
  bool optional = false;
  bool usual = false;    // optional by `none`: there unless a case or a command says otherwise
  bool written = false;  // an input that the operator modifies
  FillSpec fill;
  bool has_leading() const { return !dims.empty() && dims.front().leading; }
  /// Dimensions after `*T`; without it 1, those of a row.
  int inner() const { return has_leading() ? static_cast<int>(dims.size()) - 1 : 1; }
  bool has_matrices() const { return dims.size() == 3 && !has_leading(); }
};

enum class ScalarType : std::uint8_t { kInt, kFloat, kBool, kEnum, kDType };

struct ScalarValue {
  std::int64_t i = 0;  // int, bool, enum index, dtype code (-1: none)
  double f = 0;        // float
};

struct ScalarSpec {
  std::string name;
  ScalarType type = ScalarType::kFloat;
  std::vector<std::string> labels;  // enum
  DTypeSet dtypes = 0;              // dtype: the allowed ones; its default is `none`
  bool has_default = false;
  ScalarValue default_value;
  bool key = false;
  bool key_set = false;       // the key holds only whether it differs from its default
  ScalarValue set_value;      // key_set: a value that does, for the tuner
  std::int8_t key_slot = -1;  // index into Problem::scalars
  std::int8_t letter = -1;    // `topk: dim`: the letter that it gives
  bool is_set(const ScalarValue& v) const {
    return type == ScalarType::kFloat ? v.f != default_value.f : v.i != default_value.i;
  }
};

/// One argument, in call order: a tensor or a scalar.
struct Param {
  bool is_tensor = true;
  std::int8_t index = 0;  // into Schema::tensors or Schema::scalars
  bool keyword_only = false;
};

/// An in-place form: the functional parameters by name, each written one naming the result it
/// receives. Results that no argument receives are returned, as by the functional form.
struct InplaceForm {
  std::string name;  // "add_rms_norm_"
  std::string text;
  std::vector<Param> params;               // in this form's own order
  std::vector<std::int8_t> result_source;  // per result: the input tensor that receives it, or -1
  std::vector<std::int8_t> returned;       // results that no argument receives
};

struct Schema {
  std::string name;
  std::string text;
  std::vector<Param> params;
  std::vector<TensorSpec> tensors;  // inputs, then results
  std::vector<ScalarSpec> scalars;
  std::vector<Letter> letters;  // in order of first appearance
  /// One bit per input whose values address memory: a host call is refused if a value exceeds the
  /// bounds of its fill. All offsets, lengths and distinct slots; others as OperatorDef declares.
  std::uint32_t addresses = 0;
  std::int32_t num_inputs = 0;
  std::int32_t num_results = 0;
  /// What the oracle computes and a call's outcome is judged by: the results, then the inputs
  /// marked `!`. Indices into `tensors`.
  std::vector<std::int8_t> judged;
  std::uint32_t by_element = 0;  // a bit for each of `judged`: see OperatorDef::by_element
  std::string hash;              // 16 hex digits of the canonical text, part of the store's key

  std::string_view param_name(const Param& p) const {
    return p.is_tensor ? tensors[p.index].name : scalars[p.index].name;
  }
  int find_param(std::string_view name) const;   // index into params, or -1
  int find_letter(std::string_view name) const;  // or -1
  /// What an input is filled with; `scalars` null: all at their defaults.
  Fill fill_of(int tensor, const ScalarValue* scalars) const;
  /// The sizes of all letters of a Problem; for a pool, the size that the tuner allocates.
  std::array<std::int64_t, kMaxLetters> sizes_of(const Problem& problem) const;
  /// `[*T, 2F]`
  std::string print_dims(const TensorSpec& spec) const;
  int num_judged() const { return static_cast<int>(judged.size()); }
  bool writes_inputs() const { return num_judged() > num_results; }
};

/// Parses a schema; throws Error(kArgument) saying what was expected at which column.
Schema parse_schema(std::string_view text);
/// Parses an in-place form against its operator's schema:
/// `add_rms_norm_(x!y, residual!residual_out, weight, eps, *, weight_offset, cast_before_weight)`.
InplaceForm parse_inplace(std::string_view text, const Schema& schema);

}  // namespace dlblas
