// Your own implementation of an operator, or your own operator, in C++: in a program, or in a
// shared object that another program loads (DLBLAS_OWN). In: a name and plain functions. Out: a
// candidate that is queried, searched, checked against the oracle, timed and remembered like a
// built-in one. Read next: docs/own.md, dlblas.h (the C functions below this).
#ifndef DLBLAS_IMPLEMENTATION_HPP_
#define DLBLAS_IMPLEMENTATION_HPP_

#include <dlblas/dlblas.h>
#include <dlblas/cpp20.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <dlblas/context.hpp>
#include <dlblas/error.hpp>
#include <dlblas/tensor.hpp>

namespace dlblas {
inline namespace v1 {

/// What a choice may depend on: see dlblas_problem. Indices are in schema order, inputs before
/// results.
class ProblemRef {
 public:
  explicit ProblemRef(const dlblas_problem* problem) : problem_(problem) {}
  std::int64_t letter(int i) const { return problem_->letters[i]; }
  bool has(int tensor) const { return problem_->tensors[tensor].dtype.bits != 0; }
  bool is(int tensor, DType dtype) const {
    const dlblas_dtype code = detail::kDTypes[static_cast<int>(dtype)].code;
    const dlblas_dtype own = problem_->tensors[tensor].dtype;
    return own.code == code.code && own.bits == code.bits;
  }
  bool is_contiguous(int tensor) const {
    return problem_->tensors[tensor].layout == DLBLAS_CONTIGUOUS;
  }
  /// True if all present tensors are contiguous and of this dtype.
  bool all(DType dtype) const {
    for (int i = 0; i < problem_->num_inputs + problem_->num_results; ++i)
      if (has(i) && !(is(i, dtype) && is_contiguous(i))) return false;
    return true;
  }
  const dlblas_problem& operator*() const { return *problem_; }
  const dlblas_problem* operator->() const { return problem_; }

 private:
  const dlblas_problem* problem_;
};

/// One call as a step sees it: read the inputs, write the results. Letters hold exact sizes here.
class Step {
 public:
  Step(const dlblas_step_args* args, const dlblas_context* context)
      : args_(args), context_(context) {}
  bool has(int input) const { return args_->tensors[input].dtype.bits != 0; }
  const dlblas_tensor& tensor(int i) const { return args_->tensors[i]; }
  template <typename T>
  const T* input(int i) const {
    return static_cast<const T*>(args_->tensors[i].data);
  }
  /// An input that the schema marks with `!`.
  template <typename T>
  T* written(int i) const {
    return static_cast<T*>(args_->tensors[i].data);
  }
  template <typename T>
  T* result(int i) const {
    return static_cast<T*>(args_->tensors[args_->num_inputs + i].data);
  }
  std::int64_t letter(int i) const { return args_->letters[i]; }
  double number(int scalar) const { return args_->scalars[scalar].as.f; }
  std::int64_t integer(int scalar) const { return args_->scalars[scalar].as.i; }
  const char* text(int scalar) const { return args_->scalars[scalar].as.s; }
  std::int64_t knob(int i) const { return args_->config[i]; }
  void* workspace() const { return args_->workspace; }
  void* stream() const { return context_->stream; }
  int num_threads() const { return context_->num_threads; }
  /// Runs body(begin, end) over [begin, end) on the call's threads; returns when all is done. If
  /// the body throws, rethrows the first exception here.
  template <typename F>
  void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, F&& body) const {
    if (context_->num_threads <= 1 || end - begin <= grain) {
      if (begin < end) body(begin, end);
      return;
    }
    struct Work {
      std::remove_reference_t<F>& body;
      std::atomic_flag failed = {};
      std::exception_ptr thrown = {};
    } work{body};
    context_->parallel_for(
        context_->self, begin, end, grain,
        [](std::int64_t b, std::int64_t e, void* ctx) noexcept {
          auto& own = *static_cast<Work*>(ctx);
          try {
            own.body(b, e);
          } catch (...) {
            if (!own.failed.test_and_set()) own.thrown = std::current_exception();
          }
        },
        &work);
    if (work.thrown) std::rethrow_exception(work.thrown);
  }

 private:
  const dlblas_step_args* args_;
  const dlblas_context* context_;
};

/// One knob to search. `labels` is either empty or has one label per value.
struct Knob {
  std::string name;
  std::vector<std::int64_t> values;
  std::vector<std::string> labels = {};
};

/// An implementation. Its functions are plain function pointers (captureless lambdas convert); they
/// are called from any thread for as long as the process lives. An exception from `supports` counts
/// as a no, with the exception's text as the reason; one from another function fails the call with
/// that text.
struct OwnImplementation {
  std::string name;
  void (*run)(const Step&) = nullptr;
  /// nullptr for yes, else the reason for the no, as a literal.
  const char* (*supports)(const ProblemRef&) = nullptr;
  std::vector<Knob> knobs = {};
  std::vector<std::int64_t> preset = {};  // a value for each knob; empty: their first ones
  std::int64_t (*workspace)(const ProblemRef&, const std::int64_t* config) = nullptr;
  Device::Type device = Device::Type::kCpu;
  bool deterministic = false;
  bool repeatable = false;  // a deterministic one always is
  bool capturable = false;
  std::string source_hash = {};  // empty: the digest of the shared object that holds `run`
};

/// What an operator's judge receives. Written inputs are numbered after the results. value(r) and
/// magnitude(r) hold one row per entry of rows(), each as wide as the last dimension of result r.
class Judgement {
 public:
  explicit Judgement(const dlblas_judgement* judgement) : judgement_(judgement) {}
  /// Inputs as they were before the call.
  Step before() const { return Step(judgement_->before, &kNone); }
  /// Results and written inputs as the call left them; they may hold any bits.
  Step after() const { return Step(judgement_->after, &kNone); }
  std::span<const std::int64_t> rows() const {
    return {judgement_->rows, static_cast<std::size_t>(judgement_->num_rows)};
  }
  const double* value(int r) const { return judgement_->values[r]; }
  const double* magnitude(int r) const { return judgement_->magnitudes[r]; }
  const double* bound(int r) const { return judgement_->bounds[r]; }
  /// Marks the element of result r at this row-major index as wrong.
  void wrong(int r, std::int64_t index) const {
    std::int64_t& first = judgement_->first_wrong[r];
    if (judgement_->wrong[r]++ == 0 || index < first) first = index;
  }

 private:
  static constexpr dlblas_context kNone = {};
  const dlblas_judgement* judgement_;
};

/// An operator. The reference writes the f64 values and magnitudes of the listed rows; the allowed
/// error is bound[0]·magnitude + bound[1]·|value| + bound[2]. With a judge, an element is right
/// unless the judge marks it wrong. An exception from one of these functions fails the request that
/// needed the operator's values, with the exception's text.
struct OwnOperator {
  std::string schema;
  void (*reference)(const Step&, std::span<const std::int64_t> rows, double* const* values,
                    double* const* magnitudes) = nullptr;
  void (*bound)(const ProblemRef&, int result, double* bound) = nullptr;  // null: by the schema
  void (*judge)(const Judgement&) = nullptr;                              // null: by the bound
  std::vector<std::string> inplace = {};
  std::string formula = {};
  std::string source_hash = {};
};

namespace detail {

/// Exceptions must not enter the library: turns one into a code and a message.
template <typename F>
std::int32_t fail_in_words(F&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const std::exception& e) {
    dlblas_fail(e.what());
  } catch (...) {
    dlblas_fail("an exception that is no std::exception");
  }
  return 1;
}

/// Reasons from supports() must outlive every call; few are distinct, so they are kept for good.
inline const char* for_good(const std::string& reason) {
  static std::mutex mutex;
  static auto* const kept = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return kept->insert(reason).first->c_str();
}

inline dlblas_op_t op_of(const char* name) {
  dlblas_op_t op = nullptr;
  check(dlblas_op(name, &op));
  return op;
}

inline const OwnImplementation& own_of(void* user) {
  return *static_cast<const OwnImplementation*>(user);
}

struct OwnFunctions {
  static std::int32_t run(const dlblas_step_args* args, const dlblas_context* context, void* user) {
    return fail_in_words([&] { own_of(user).run(Step(args, context)); });
  }
  static const char* supports(const dlblas_problem* problem, void* user) noexcept {
    try {
      return own_of(user).supports(ProblemRef(problem));
    } catch (const std::exception& e) {
      return for_good(std::string("its supports() threw ") + e.what());
    } catch (...) {
      return "its supports() threw an exception";
    }
  }
  static std::int64_t workspace(const dlblas_problem* problem, const std::int64_t* config,
                                void* user) noexcept {
    std::int64_t bytes = -1;
    fail_in_words([&] { bytes = own_of(user).workspace(ProblemRef(problem), config); });
    return bytes;
  }
  static std::int32_t reference(const dlblas_step_args* args, const std::int64_t* rows,
                                std::int64_t num_rows, double* const* values,
                                double* const* magnitudes, void* user) {
    const dlblas_context none = {};
    return fail_in_words([&] {
      static_cast<const OwnOperator*>(user)->reference(
          Step(args, &none), {rows, static_cast<std::size_t>(num_rows)}, values, magnitudes);
    });
  }
  static std::int32_t judge(const dlblas_judgement* judgement, void* user) {
    return fail_in_words(
        [&] { static_cast<const OwnOperator*>(user)->judge(Judgement(judgement)); });
  }
  static void bound(const dlblas_problem* problem, std::int32_t result, double* bound,
                    void* user) noexcept {
    const std::int32_t failed = fail_in_words(
        [&] { static_cast<const OwnOperator*>(user)->bound(ProblemRef(problem), result, bound); });
    if (failed) bound[0] = std::numeric_limits<double>::quiet_NaN();
  }
};

/// Knobs in C ABI form; they point into `own`.
struct KnobTable {
  std::vector<std::vector<const char*>> labels;
  std::vector<dlblas_knob> knobs;
  explicit KnobTable(const std::vector<Knob>& own) {
    for (const Knob& knob : own) {
      if (!knob.labels.empty() && knob.labels.size() != knob.values.size())
        raise(DLBLAS_ARGUMENT, "knobs", "has a wrong number of labels for " + knob.name,
              std::to_string(knob.values.size()), std::to_string(knob.labels.size()));
      std::vector<const char*>& words = labels.emplace_back();
      for (const std::string& label : knob.labels) words.push_back(label.c_str());
    }
    for (std::size_t i = 0; i < own.size(); ++i)
      knobs.push_back({own[i].name.c_str(), own[i].values.data(),
                       labels[i].empty() ? nullptr : labels[i].data(),
                       static_cast<std::int32_t>(own[i].values.size()), 0});
  }
};

inline dlblas_status own_entry(void (*body)()) noexcept {
  try {
    body();
    return DLBLAS_OK;
  } catch (const Error& e) {
    // Raised here or by the library, perhaps caught in between: keeps its texts together with its
    // status.
    const dlblas_error words = {sizeof words,   e.status(),           e.what(),
                                e.op().c_str(), e.argument().c_str(), e.expected().c_str(),
                                e.got().c_str()};
    return dlblas_keep_error(&words);
  } catch (const std::exception& e) {
    dlblas_fail(e.what());
  } catch (...) {
    dlblas_fail("dlblas_own: an exception that is no std::exception");
  }
  return DLBLAS_INTERNAL;
}

}  // namespace detail

/// Adds an implementation to an operator, or replaces your own one of that name. Throws
/// ArgumentError, UnknownOperatorError.
inline void register_implementation(const char* op, OwnImplementation own) {
  auto* kept = new OwnImplementation(std::move(own));  // for the process: calls may be inside it
  const detail::KnobTable table(kept->knobs);
  if (!kept->preset.empty() && kept->preset.size() != kept->knobs.size())
    detail::raise(DLBLAS_ARGUMENT, "preset", "has a wrong length",
                  std::to_string(table.knobs.size()), std::to_string(kept->preset.size()));
  dlblas_implementation c = {};
  c.size = sizeof c;
  c.name = kept->name.c_str();
  c.source_hash = kept->source_hash.empty() ? nullptr : kept->source_hash.c_str();
  c.source = reinterpret_cast<const void*>(kept->run);
  c.device = static_cast<std::int32_t>(kept->device);
  c.flags = (kept->deterministic ? DLBLAS_IS_DETERMINISTIC : 0u) |
            (kept->repeatable ? DLBLAS_IS_REPEATABLE : 0u) |
            (kept->capturable ? DLBLAS_IS_CAPTURABLE : 0u);
  c.knobs = table.knobs.data();
  c.num_knobs = static_cast<std::int32_t>(table.knobs.size());
  c.preset = kept->preset.empty() ? nullptr : kept->preset.data();
  c.supports = kept->supports ? detail::OwnFunctions::supports : nullptr;
  c.workspace = kept->workspace ? detail::OwnFunctions::workspace : nullptr;
  c.step = kept->run ? detail::OwnFunctions::run : nullptr;
  c.user = kept;
  detail::check(dlblas_register(detail::op_of(op), &c));
}

/// Removes your implementation.
inline void unregister_implementation(const char* op, const char* name) {
  detail::check(dlblas_unregister(detail::op_of(op), name));
}

/// Adds an operator; registering the same schema again replaces its functions. Throws
/// ArgumentError.
inline void register_operator(OwnOperator own) {
  auto* kept = new OwnOperator(std::move(own));
  std::vector<const char*> inplace;
  for (const std::string& form : kept->inplace) inplace.push_back(form.c_str());
  dlblas_operator_def c = {};
  c.size = sizeof c;
  c.schema = kept->schema.c_str();
  c.inplace = inplace.data();
  c.num_inplace = static_cast<std::int32_t>(inplace.size());
  c.formula = kept->formula.c_str();
  c.source_hash = kept->source_hash.empty() ? nullptr : kept->source_hash.c_str();
  c.source = reinterpret_cast<const void*>(kept->reference);
  c.reference = kept->reference ? detail::OwnFunctions::reference : nullptr;
  c.bound = kept->bound ? detail::OwnFunctions::bound : nullptr;
  c.judge = kept->judge ? detail::OwnFunctions::judge : nullptr;
  c.user = kept;
  detail::check(dlblas_register_operator(&c, nullptr));
}

}  // namespace v1
}  // namespace dlblas

/// The body of a shared object's registration. Its loader runs it once: in Python
/// dlblas.own.load(path), elsewhere dlopen and a call to dlblas_own().
///   DLBLAS_OWN() { dlblas::register_implementation("rms_norm", {.name = "mine", .run = run}); }
#define DLBLAS_OWN()                                                                 \
  static void dlblas_own_body();                                                     \
  extern "C" __attribute__((visibility("default"))) dlblas_status dlblas_own(void) { \
    return ::dlblas::detail::own_entry(&dlblas_own_body);                            \
  }                                                                                  \
  static void dlblas_own_body()

#endif  // DLBLAS_IMPLEMENTATION_HPP_
