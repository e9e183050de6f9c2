// dlblas_register_operator: a user's operator from a schema and a reference. In:
// dlblas_operator_def. Out: an Operator of the registry. Its oracle calls the user's reference; its
// bound is the user's, or derived from the schema. Read next: registry/operator.hpp, docs/own.md.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>

#include "bindings/c/guard.hpp"
#include "bindings/c/handle.hpp"
#include "bindings/c/own.hpp"
#include "core/element.hpp"
#include "core/error.hpp"
#include "core/in_flight.hpp"
#include "dispatch/dispatch.hpp"

namespace dlblas {
namespace {

// The functions of one registration; freed once replaced, when no call can still be inside.
struct OwnReference {
  dlblas_operator_def c = {};
  std::string hash;
  void (*release)(void* user) = nullptr;  // of c.user; null: the user's to keep

  OwnReference() = default;
  ~OwnReference() {
    if (release) release(c.user);
  }
  OwnReference(const OwnReference&) = delete;
  OwnReference& operator=(const OwnReference&) = delete;
};
// OperatorDef::user points to this.
struct OwnOperator {
  std::string schema, formula;
  std::vector<std::string> inplace;
  std::atomic<const OwnReference*> reference{nullptr};
};

const OwnReference& reference_of(const OperatorDef& def) {
  return *static_cast<const OwnOperator*>(def.user)->reference.load(std::memory_order_acquire);
}

// The destinations in the C ABI's form: two arrays.
struct Places {
  double *values[kMaxJudged] = {}, *magnitudes[kMaxJudged] = {};
  Places(const Args& args, const OracleOut* out) {
    for (int j = 0; j < args.schema->num_judged(); ++j)
      values[j] = out[j].value, magnitudes[j] = out[j].magnitude;
  }
};

// Throws on a nonzero code, with the message of the user's function.
void check_code(const std::string& op, const char* function, int code) {
  if (code == 0) return;
  std::string why = take_failure();
  if (why.empty()) why = text("code ", code);
  throw Error(ErrorKind::kLaunch, text(op, ": ", function, " failed; expected 0, got ", why),
              {op, function, "0", why});
}

void run_reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows,
                   OracleOut* out) {
  const std::string& name = args.schema->name;
  const OwnReference& own = reference_of(Registry::process().at(name).op->def);
  const Places places(args, out);
  const StepView view(args, nullptr, 0, nullptr);
  take_failure();
  check_code(
      name, "reference",
      own.c.reference(view.get(), rows, num_rows, places.values, places.magnitudes, own.c.user));
}

void run_judge(const Judgement& judgement, Finding* found) {
  const Schema& schema = *judgement.after.schema;
  const OwnReference& own = reference_of(Registry::process().at(schema.name).op->def);
  const Places places(judgement.after, judgement.reference);
  const StepView before(judgement.before, nullptr, 0, nullptr);
  const StepView after(judgement.after, nullptr, 0, nullptr);
  double bounds[kMaxJudged][3] = {};
  std::int64_t wrong[kMaxJudged] = {}, first_wrong[kMaxJudged];
  for (int j = 0; j < schema.num_judged(); ++j) {
    const Bound& bound = judgement.bounds[j];
    bounds[j][0] = bound.magnitude, bounds[j][1] = bound.value, bounds[j][2] = bound.absolute;
    first_wrong[j] = -1;
  }
  const dlblas_judgement shown = {
      sizeof shown,  before.get(),      after.get(), judgement.rows, judgement.num_rows,
      places.values, places.magnitudes, bounds,      wrong,          first_wrong};
  take_failure();
  check_code(schema.name, "judge", own.c.judge(&shown, own.c.user));
  for (int j = 0; j < schema.num_judged(); ++j) found[j] = {wrong[j], first_wrong[j]};
}

double elements_of(const Schema& schema, const Problem& problem, int begin, int end) {
  const auto sizes = schema.sizes_of(problem);
  double sum = 0;
  for (int i = begin; i < end; ++i) {
    double n = 1;
    for (const DimExpr& dim : schema.tensors[static_cast<std::size_t>(i)].dims)
      n *= static_cast<double>(dim.evaluate(sizes.data()));
    if (problem.tensors[i].dtype != DType::kAbsent) sum += n;
  }
  return sum;
}

// Upper bound on the terms summed into one element of a result: the product of all letters over the
// number of the result's elements, and at least the longest last dimension of an input.
double terms_of(const Schema& schema, const Problem& problem, int judged) {
  const auto sizes = schema.sizes_of(problem);
  double all = 1;
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    all *= std::max(1.0, static_cast<double>(sizes[i]));
  const int at = schema.judged[static_cast<std::size_t>(judged)];
  const double reduced = all / std::max(1.0, elements_of(schema, problem, at, at + 1));
  double longest = 1;  // a row's mean inside an element-wise result
  for (int i = 0; i < schema.num_inputs; ++i)
    if (const auto& dims = schema.tensors[static_cast<std::size_t>(i)].dims; !dims.empty())
      longest = std::max(longest, static_cast<double>(dims.back().evaluate(sizes.data())));
  return std::max(reduced, longest);
}

[[noreturn]] void bound_failed(const std::string& name, double part) {
  std::string why = take_failure();
  if (why.empty()) why = text(part);
  throw Error(ErrorKind::kLaunch,
              text(name, ": bound failed; expected three numbers from 0 on, got ", why),
              {name, "bound", "three numbers from 0 on", why});
}

// Integers, booleans and codes (a scale, or two numbers in one byte).
bool is_whole(DType t) {
  constexpr int kWhole = set_of(DType::kI8) | set_of(DType::kI32) | set_of(DType::kI64) |
                         set_of(DType::kU8) | set_of(DType::kBool) | set_of(DType::kF8E8M0) |
                         set_of(DType::kF4X2);
  return (kWhole & set_of(t)) != 0;
}

Bound bound_of(const Problem& problem, int judged) {
  const Operator& op = Registry::process().by_id(problem.op);
  const OwnReference& own = reference_of(op.def);
  if (own.c.bound) {
    const ProblemView view(op, problem);
    double bound[3] = {0, 0, 0};
    take_failure();
    own.c.bound(view.get(), judged, bound, own.c.user);
    for (const double part : bound)
      if (!(part >= 0)) bound_failed(op.schema.name, part);
    return {bound[0], bound[1], bound[2]};
  }
  const DType dtype = problem.tensors[op.schema.judged[static_cast<std::size_t>(judged)]].dtype;
  if (is_whole(dtype)) return {};  // an id that is off by one is another id
  const FloatTraits out = float_traits(dtype);
  const double sum_eps = dtype == DType::kF64 ? out.eps : float_traits(DType::kF32).eps;
  // Rounding errors of a sum grow like a random walk; no kernel of ours ever reached eight times
  // that. The terms are capped at 2^16: beyond it, the bound would hide the loss of rounding a
  // result to bf16.
  const double terms = std::min(terms_of(op.schema, problem, judged), 0x1p16);
  // Four roundings of half an epsilon each. For f8, one rounding is already an eighth of the value;
  // a kernel may round from a wider format first.
  const bool f8 = is_f8(dtype);
  return {8 * std::sqrt(terms) * sum_eps, (f8 ? 0.625 : 2) * out.eps, (f8 ? 0.625 : 4) * out.tiny};
}

double work_per_row(const Problem& problem) {
  const Operator& op = Registry::process().by_id(problem.op);
  const Schema& schema = op.schema;
  const auto sizes = schema.sizes_of(problem);
  double all = 1, rows = 1;
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    all *= std::max(1.0, static_cast<double>(sizes[i]));
  for (const std::int8_t j : schema.judged) {
    const auto& dims = schema.tensors[static_cast<std::size_t>(j)].dims;
    double n = 1;
    for (std::size_t i = 0; i + 1 < dims.size(); ++i)
      n *= static_cast<double>(dims[i].evaluate(sizes.data()));
    rows = std::max(rows, n);
  }
  return all / rows;
}

constexpr std::int32_t kMaxInplace = 64;
constexpr std::size_t kFirstSize = offsetof(dlblas_operator_def, judge);  // of the first headers

void check(const dlblas_operator_def* def) {
  const auto no = [](const char* argument, const char* problem, const std::string& expected,
                     const std::string& got) {
    refuse(ErrorKind::kArgument, "register_operator", {argument, problem, expected, got});
  };
  if (!def || def->size < kFirstSize)
    no("operator", "has a wrong size", text(sizeof(dlblas_operator_def)),
       def ? text(def->size) : "NULL");
  if (!def->schema) no("schema", "is null", "an operator's schema", "NULL");
  if (!def->reference) no("reference", "is null", "a function", "NULL");
  if (def->num_inplace < 0 || (def->num_inplace > 0 && !def->inplace))
    no("inplace", "is null", "the texts of in-place forms", "NULL");
  if (def->num_inplace > kMaxInplace)
    no("inplace", "is too long", text("at most ", kMaxInplace), text(def->num_inplace));
}

// The user's operator with this very schema, or null; add() refuses a different one of the same
// name.
const Operator* known_operator(const Schema& schema) {
  const Form* form = Registry::process().find(schema.name);
  if (!form || !form->op->def.user) return nullptr;
  if (form->op->schema.hash != schema.hash)
    refuse(ErrorKind::kArgument, schema.name,
           {"schema", "differs from the one registered under this name", form->op->schema.text,
            schema.text});
  return form->op;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& one : texts) all += (all.empty() ? "" : "; ") + one;
  return all.empty() ? "none" : all;
}

// A second registration replaces the reference, its bound and its judge. What callers and torch
// have already seen must not change: it may be omitted, but not differ.
void check_repetition(const Operator& known, const dlblas_operator_def& from) {
  const auto& own = *static_cast<const OwnOperator*>(known.def.user);
  const auto no = [&](const char* argument, const std::string& expected, const std::string& got) {
    refuse(ErrorKind::kArgument, known.schema.name,
           {argument, "differs from the one registered with this operator", expected, got});
  };
  const std::string formula = from.formula ? from.formula : "";
  if (!formula.empty() && formula != own.formula)
    no("formula", own.formula.empty() ? "none" : own.formula, formula);
  std::vector<std::string> forms, given;
  for (const InplaceForm& form : known.inplace_forms) forms.push_back(form.text);
  for (int i = 0; i < from.num_inplace; ++i)
    given.push_back(parse_inplace(from.inplace[i] ? from.inplace[i] : "", known.schema).text);
  if (!given.empty() && given != forms) no("inplace", joined(forms), joined(given));
  if ((from.whole != 0) != known.def.reference_is_whole)
    no("whole", known.def.reference_is_whole ? "1" : "0", text(from.whole));
  if ((from.judge != nullptr) != (known.def.judge != nullptr))
    no("judge", known.def.judge ? "one" : "none", from.judge ? "one" : "none");
}

const Operator& put(std::unique_ptr<OwnReference> reference) {
  const dlblas_operator_def& from = reference->c;
  static std::mutex mutex;  // one registration at a time; none calls back
  const std::lock_guard lock(mutex);
  const void* source = from.source ? from.source : reinterpret_cast<const void*>(from.reference);
  reference->hash = from.source_hash ? from.source_hash : digest_of_object(source);
  if (from.source_hash) check_hash("register_operator", reference->hash);
  if (const Operator* known = known_operator(parse_schema(from.schema))) {
    check_repetition(*known, from);
    auto* own = static_cast<OwnOperator*>(known->def.user);
    retire(own->reference.exchange(reference.release(), std::memory_order_acq_rel));
    forget(*known);
    return *known;
  }
  auto own = std::make_unique<OwnOperator>();
  own->schema = from.schema;
  own->formula = from.formula ? from.formula : "";
  for (int i = 0; i < from.num_inplace; ++i)
    own->inplace.emplace_back(from.inplace[i] ? from.inplace[i] : "");
  own->reference.store(reference.get(), std::memory_order_release);
  OperatorDef def;
  def.family = "own";
  def.schema = own->schema;
  def.inplace.assign(own->inplace.begin(), own->inplace.end());
  def.formula = own->formula;
  def.reference = run_reference;
  def.reference_is_whole = from.whole != 0;
  def.user = own.get();
  def.reference_hash = [](const OperatorDef& d) { return reference_of(d).hash; };
  def.bound = bound_of;
  if (from.judge) def.judge = run_judge;
  def.work_per_row = work_per_row;
  const Operator& op = Registry::process().add(std::move(def));  // may refuse the name
  own.release();
  reference.release();
  return op;
}

}  // namespace

dlblas_status register_own_operator(const dlblas_operator_def* def, dlblas_op_t* op,
                                    void (*release)(void* user)) {
  return guarded([&] {
    auto reference = std::make_unique<OwnReference>();
    if (def && def->size >= kFirstSize)  // the rest of a smaller one is zero
      std::memcpy(&reference->c, def, std::min(def->size, sizeof reference->c));
    reference->release = release;
    check(def);
    const Operator& made = put(std::move(reference));
    if (op) *op = handle_of(made.forms.front());
  });
}

}  // namespace dlblas

extern "C" dlblas_status dlblas_register_operator(const dlblas_operator_def* def, dlblas_op_t* op) {
  return dlblas::register_own_operator(def, op, nullptr);
}
