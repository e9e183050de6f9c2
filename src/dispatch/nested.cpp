// An operator that calls others; see nested.hpp. A part goes through the stages of any call: its
// description is bound and validated to its Problem, its own selection decides, and the whole's
// kernel owns the plan. A call binds and validates its arguments; if they give the planned problem,
// it launches the kernel that it holds. Whatever could change a part's choice also bumps the
// generation of the whole (Operator::invalidate), so nothing is looked up again.
// Read next: dispatch/prepare.cpp.
#include "dispatch/nested.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "core/device.hpp"
#include "core/error.hpp"
#include "core/in_flight.hpp"
#include "core/lender.hpp"
#include "cuda/cuda.hpp"
#include "dispatch/decide.hpp"
#include "dispatch/errors.hpp"
#include "store/sha256.hpp"

namespace dlblas {
namespace {

/// A part's flags: those of the whole. But what an operator allows to be off is that of its own
/// sums, so f32 stays IEEE in its parts.
std::uint8_t part_flags(const Problem& whole) {
  return static_cast<std::uint8_t>(whole.flags & ~kAllowTf32);
}

/// The thread count that a part is selected for: as many as this process may use, even if the call
/// has fewer. Every thread count then selects the same part, which gives the same bits.
int threads_of_parts(int of_call) { return std::max(of_call, cpu_info().units); }

// A nested call in the form that the first stage takes. It points to the values.
class NestedArgs {
 public:
  NestedArgs(const Form& form, std::span<const Value> values, std::span<const Value> outputs,
             std::uint32_t flags) {
    if (values.size() > kMaxValues)
      errors::too_many_arguments(form, static_cast<int>(values.size()));
    const auto wanted = static_cast<std::size_t>(form.num_outputs);
    if (outputs.size() != wanted)
      errors::wrong_outputs(form, form.num_outputs, static_cast<int>(outputs.size()));
    std::int32_t named = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i].name || named > 0) names_[named++] = values[i].name;
      put(values[i], values_[i], tensors_[i]);
    }
    for (std::size_t i = 0; i < wanted; ++i) {
      if (outputs[i].kind != Value::Kind::kTensor)
        errors::wrong_outputs(form, form.num_outputs, static_cast<int>(i));
      describe(*outputs[i].tensor, outputs_[i]);
    }
    call_ = {sizeof(dlblas_args),
             values_,
             static_cast<std::int32_t>(values.size()),
             named,
             names_,
             wanted > 0 ? outputs_ : nullptr,
             form.num_outputs,
             flags};
  }
  NestedArgs(const NestedArgs&) = delete;
  NestedArgs& operator=(const NestedArgs&) = delete;
  const dlblas_args& call() const { return call_; }

 private:
  static constexpr std::size_t kMaxValues = kMaxTensors + kMaxScalars;

  static void describe(const TensorView& from, dlblas_tensor& to) {
    to = {from.data,
          {static_cast<std::int32_t>(from.device.type), from.device.index},
          from.rank,
          {dlpack_code_of(from.dtype), dlpack_bits_of(from.dtype), dlpack_lanes_of(from.dtype)},
          const_cast<std::int64_t*>(from.shape),
          const_cast<std::int64_t*>(from.strides),
          0};
  }
  static void put(const Value& from, dlblas_value& to, dlblas_tensor& tensor) {
    constexpr std::int32_t kKinds[] = {DLBLAS_NONE,  DLBLAS_TENSOR, DLBLAS_INT,
                                       DLBLAS_FLOAT, DLBLAS_BOOL,   DLBLAS_STRING};
    to.kind = kKinds[static_cast<int>(from.kind)];
    to.reserved = 0;
    if (from.kind == Value::Kind::kTensor) {
      describe(*from.tensor, tensor);
      to.as.tensor = &tensor;
    } else if (from.kind == Value::Kind::kFloat) {
      to.as.f = from.number;
    } else if (from.kind == Value::Kind::kWord) {
      to.as.s = from.word;
    } else {
      to.as.i = from.integer;
    }
  }

  dlblas_value values_[kMaxValues];
  dlblas_tensor tensors_[kMaxValues];
  const char* names_[kMaxValues];
  dlblas_tensor outputs_[kMaxResults];
  dlblas_args call_;
};

// Prefixes the part's name, unless the error has it already, as most do: "matmul: a has …".
std::string said_by(std::string_view part, std::string_view error) {
  return error.starts_with(text(part, ":")) ? std::string(error) : text(part, ": ", error);
}

// Rethrows a part's error under the name of the operator that calls it.
[[noreturn]] void of_part(const Operator& whole, std::string_view part, const Error& error) {
  throw Error(error.kind(), text(whole.schema.name, ": part ", said_by(part, error.what())),
              {.op = whole.schema.name,
               .argument = std::string(part),
               .expected = error.detail().expected,
               .got = error.detail().got});
}

// Workspace of one call of a part. On a GPU, a context would keep it until the enclosing call ends,
// and the tuner's makes thousands.
class Scratch {
 public:
  Scratch(std::size_t bytes, const Context& part) : context_(part) {
    constexpr std::size_t kAlign = 256;
    if (bytes == 0) return;
    data_ = on_device() ? cuda::allocate(bytes, part.stream) : part.alloc(part.self, bytes, kAlign);
    if (!data_) throw std::bad_alloc();
  }
  ~Scratch() {
    if (on_device()) cuda::release(data_, context_.stream);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  bool on_device() const { return context_.device.type == DeviceType::kCuda; }
  const Context& context_;
  void* data_ = nullptr;
};

// A part's context on the CPU, where a part has ended when it returns: its allocations are freed
// then. A caller's own context keeps memory until the whole ends, and has room for few blocks: a
// whole may call a part for each matrix of a batch.
class PartContext final : public Lender {
 public:
  explicit PartContext(const Context& whole) : Lender(false), whole_(whole), context_(whole) {
    if (whole.device.type != DeviceType::kCpu) return;
    context_.self = this;
    context_.alloc = [](void* self, std::size_t bytes, std::size_t align) -> void* {
      const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + align - 1) / align * align;
      Blocks& blocks = static_cast<PartContext*>(self)->blocks();
      return blocks.emplace_back(std::aligned_alloc(align, rounded), &std::free).get();
    };
    context_.new_output = [](void* self, int index, TensorView* out) {
      const Context& of = static_cast<PartContext*>(self)->whole_;
      return of.new_output(of.self, index, out);
    };
    context_.parallel_for = [](void* self, std::int64_t begin, std::int64_t end, std::int64_t grain,
                               void (*fn)(std::int64_t, std::int64_t, void*), void* ctx) {
      const Context& of = static_cast<PartContext*>(self)->whole_;
      of.parallel_for(of.self, begin, end, grain, fn, ctx);
    };
  }
  PartContext(const PartContext&) = delete;
  PartContext& operator=(const PartContext&) = delete;
  const Context& get() const { return context_; }

 private:
  using Blocks = std::vector<std::unique_ptr<void, decltype(&std::free)>>;
  Blocks& blocks() {
    if (!blocks_) blocks_ = std::make_shared<Blocks>();
    return *blocks_;
  }
  std::shared_ptr<const void> hold() override { return blocks(), blocks_; }

  const Context& whole_;
  Context context_;
  std::shared_ptr<Blocks> blocks_;  // since the first; what a kept view holds, too
};

class NestedCall final : public Nested {
 public:
  NestedCall(const Operator& whole, DecidedPart part, const Kernel& kernel, std::size_t offset)
      : whole_(whole),
        form_(*part.form),
        plan_(std::move(part.plan)),
        kernel_(kernel),
        offset_(offset) {}

 private:
  using Values = std::span<const Value>;

  void call(std::initializer_list<Value> values, std::initializer_list<Value> outputs,
            const Context& context, void* workspace) const override {
    run({values.begin(), values.size()}, {outputs.begin(), outputs.size()}, context, workspace);
  }

  void run(Values values, Values outputs, const Context& context, void* workspace) const {
    try {
      const NestedArgs given(form_, values, outputs, part_flags(plan_->problem));
      Args args;
      if (const Problem problem = bound(given, context, args); problem == plan_->problem) {
        const PartContext part(context);
        launch_into(kernel_, args, part.get(), own(workspace));
      } else {
        const PartContext part(context);
        const InFlight in_flight;  // the tuner's runs are not
        const Kernel& other = compile(select(*form_.op, problem), context.stream);
        const Scratch scratch(other.workspace_bytes, part.get());
        launch_into(other, args, part.get(), scratch.data());
      }
    } catch (const Error& error) {
      of_part(whole_, form_.name, error);
    }
  }

  void call_each(std::int64_t count, std::initializer_list<Value> values,
                 std::initializer_list<Value> outputs, std::initializer_list<std::int64_t> steps,
                 const Context& context, void* workspace) const override {
    if (count <= 0) return;
    constexpr std::size_t kMax = 2 * kMaxTensors + kMaxScalars;
    if (values.size() + outputs.size() > kMax)
      errors::too_many_arguments(form_, static_cast<int>(values.size()));
    TensorView views[kMax];
    Value given[kMax];
    std::copy(outputs.begin(), outputs.end(), std::copy(values.begin(), values.end(), given));
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (given[i].kind == Value::Kind::kTensor)
        views[i] = *given[i].tensor, given[i].tensor = &views[i];
    const Values ins{given, values.size()}, outs{given + values.size(), outputs.size()};
    const std::int64_t* const step = steps.begin();
    const auto move = [&](std::size_t i, TensorView& t, std::int64_t by) {
      t.data = static_cast<char*>(t.data) + by * step[i] * size_of(t.dtype);
    };
    Args args;
    try {
      const NestedArgs first(form_, ins, outs, part_flags(plan_->problem));
      if (bound(first, context, args) == plan_->problem) {
        std::int8_t place[kMax];  // of each value among the tensors
        places_of(ins, place);
        return divide(count, args, context, workspace, [&](Args& moved, std::int64_t by) {
          for (std::size_t i = 0; i < ins.size(); ++i)
            if (ins[i].kind == Value::Kind::kTensor) move(i, moved.tensors[place[i]], by);
          for (std::size_t i = 0; i < outs.size(); ++i)
            move(ins.size() + i,
                 moved.tensors[form_.op->schema.num_inputs + form_.result_of(static_cast<int>(i))],
                 by);
        });
      }
    } catch (const Error& error) {
      of_part(whole_, form_.name, error);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      run(ins, outs, context, workspace);
      for (std::size_t v = 0; v < steps.size(); ++v)
        if (given[v].kind == Value::Kind::kTensor) move(v, views[v], 1);
    }
  }

  Problem bound(const NestedArgs& given, const Context& context, Args& args) const {
    Problem problem;
    bind(form_, given.call(), args);
    validate(*form_.op, given.call(), threads_of_parts(context.num_threads), args, problem);
    const auto count = static_cast<int>(args.schema->tensors.size());
    for (int i = 0; i < count; ++i) {
      if (args.has(i) && !args.tensors[i].data && args.tensors[i].numel() > 0)
        errors::no_data(*args.schema, args, i);
    }
    return problem;
  }

  void places_of(Values values, std::int8_t* place) const {
    const std::vector<Param>& params = *form_.params;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto param = std::find_if(params.begin(), params.end(), [&](const Param& p) {
        return values[i].name ? form_.op->schema.param_name(p) == values[i].name
                              : &p == params.data() + i;
      });
      if (param->is_tensor) place[i] = param->index;
    }
  }

  // Calls of kernels of this library may run side by side, each thread with a workspace of its own.
  template <typename Move>
  void divide(std::int64_t count, const Args& args, const Context& context, void* workspace,
              const Move& move) const {
    constexpr std::int64_t kMin = 4;  // calls of a thread
    constexpr std::size_t kMaxBytes = 16 << 20, kAlign = 256;
    const std::size_t bytes = (kernel_.workspace_bytes + kAlign - 1) / kAlign * kAlign;
    const Implementation& impl = *plan_->implementation;
    const bool is_ours = !impl.version && !impl.parts && !impl.flags.user;
    const bool apart = context.num_threads > 1 && is_ours && count >= kMin * context.num_threads &&
                       bytes * static_cast<std::size_t>(context.num_threads) <= kMaxBytes;
    const auto run_some = [&](std::int64_t begin, std::int64_t end, const Context& by, void* own) {
      const PartContext part(by);
      Args moved = args;
      move(moved, begin);
      for (std::int64_t i = begin; i < end; ++i) {
        launch_into(kernel_, moved, part.get(), own);
        move(moved, 1);
      }
    };
    if (!apart) return run_some(0, count, context, own(workspace));
    const PartContext whole(context);
    const Scratch scratch(bytes * static_cast<std::size_t>(context.num_threads), whole.get());
    const std::int64_t parts = context.num_threads, share = (count + parts - 1) / parts;
    context.run(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
      Context alone = context;
      alone.num_threads = 1;
      for (std::int64_t i = begin; i < end; ++i) {
        auto* const its = static_cast<std::byte*>(scratch.data());
        run_some(std::min(count, i * share), std::min(count, (i + 1) * share), alone,
                 its ? its + static_cast<std::size_t>(i) * bytes : nullptr);
      }
    });
  }

  void* own(void* workspace) const {
    auto* const bytes = static_cast<std::byte*>(workspace);
    return bytes ? bytes + offset_ : nullptr;
  }

  const Operator& whole_;
  const Form& form_;
  const std::unique_ptr<const Plan> plan_;
  const Kernel& kernel_;  // the plan's
  const std::size_t offset_;
};

// The operators being decided on this thread, outermost first.
class Deciding {
 public:
  explicit Deciding(const Operator& op) { path().push_back(&op); }
  ~Deciding() { path().pop_back(); }
  Deciding(const Deciding&) = delete;
  Deciding& operator=(const Deciding&) = delete;

  static void refuse_cycle(const Operator& op) {
    if (std::find(path().begin(), path().end(), &op) == path().end()) return;
    std::string names;
    for (const Operator* at : path()) names += at->schema.name + " > ";
    throw Error(ErrorKind::kArgument,
                text(op.schema.name, ": parts lead back to it; expected operators that are no ",
                     "part of themselves, got ", names, op.schema.name),
                {.op = op.schema.name, .argument = "parts"});
  }

 private:
  static std::vector<const Operator*>& path() {
    static thread_local std::vector<const Operator*> operators;
    return operators;
  }
};

TensorView view_of(const PartValue& from, Device device) {
  TensorView view{};
  if (from.shape.size() > kMaxRank)
    throw Error(ErrorKind::kShape, text("a tensor has ", from.shape.size(),
                                        " dimensions; expected at most ", kMaxRank));
  view.dtype = from.dtype;
  view.device = device;
  view.rank = static_cast<std::int32_t>(from.shape.size());
  std::int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.shape[i] = from.shape[static_cast<std::size_t>(i)];
    view.strides[i] = stride;
    stride *= std::max<std::int64_t>(view.shape[i], 1);
  }
  return view;
}

// The parameter that a value binds to; `bind` has checked that there is one.
const Param& param_of(const Form& form, const std::vector<PartValue>& values, std::size_t i) {
  const std::vector<Param>& params = *form.params;
  if (!values[i].value.name) return params[i];
  return *std::find_if(params.begin(), params.end(), [&](const Param& p) {
    return form.op->schema.param_name(p) == values[i].value.name;
  });
}

// Tensors of the whole get the whole's layouts in the part's problem.
void lay(const Form& form, const Part& part, const Args& args, Problem& problem) {
  const auto lies = [&](const PartValue& value, int tensor) {
    if (!value.is_tensor || !value.lies) return;
    problem.tensors[tensor] = *value.lies;
    problem.tensors[tensor].alias = 0;
  };
  for (std::size_t i = 0; i < part.values.size(); ++i)
    if (const Param& param = param_of(form, part.values, i); param.is_tensor)
      lies(part.values[i], param.index);
  const int first = form.op->schema.num_inputs;
  for (int i = 0; i < form.num_outputs; ++i)
    lies(part.outputs[static_cast<std::size_t>(i)], first + form.result_of(i));
  for (int r = 0; r < form.op->schema.num_results; ++r) {
    if (!args.received(r)) continue;
    TensorTraits& received = problem.tensors[first + r];
    const std::uint8_t alias = received.alias;
    received = problem.tensors[form.inplace->result_source[r]];
    received.alias = alias;
  }
}

Problem problem_of(const Query& q, const Form& form, const Part& part) {
  std::vector<TensorView> views;
  views.reserve(part.values.size() + part.outputs.size());
  const auto values_of = [&](const std::vector<PartValue>& described) {
    std::vector<Value> values;
    for (const PartValue& from : described) {
      Value value = from.value;
      if (from.is_tensor) {
        value = views.emplace_back(view_of(from, q.problem.device()));
        value.name = from.value.name;
      }
      values.push_back(value);
    }
    return values;
  };
  const std::vector<Value> values = values_of(part.values), outputs = values_of(part.outputs);
  const NestedArgs given(form, values, outputs, part_flags(q.problem));
  Args args;
  Problem problem;
  bind(form, given.call(), args);
  validate(*form.op, given.call(), threads_of_parts(q.problem.threads), args, problem);
  lay(form, part, args, problem);
  return problem;
}

DecidedPart decide_part(const Query& q, const Operator& whole, const Part& part) {
  const Form& form = Registry::process().at(part.op);
  form.op->add_dependent(
      whole);  // before anything of it is read: what changes from here on is told
  Deciding::refuse_cycle(*form.op);
  return {&form, decide(*form.op, problem_of(q, form, part), Asker::kWhole)};
}

// The refusals in a table of candidates, separated by semicolons.
std::string reasons_of(std::string_view table) {
  std::string reasons;
  while (!table.empty()) {
    std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(table.size(), line.size() + 1));
    if (line.find(" no: ") == line.npos) continue;
    if (!reasons.empty()) reasons += "; ";
    bool space = true;  // columns are apart by many
    for (const char c : line) {
      if (c != ' ' || !space) reasons += c;
      space = c == ' ';
    }
  }
  return reasons;
}

const Operator& whole_of(const Query& q) { return Registry::process().by_id(q.problem.op); }

}  // namespace

std::vector<DecidedPart> decide_parts(const Query& q, const Config& config) {
  std::vector<DecidedPart> decided;
  if (!q.self.parts) return decided;
  const Operator& whole = whole_of(q);
  const Deciding deciding(whole);
  for (const Part& part : q.self.parts(q, config)) {
    try {
      decided.push_back(decide_part(q, whole, part));
    } catch (const Error& error) {
      of_part(whole, part.op, error);
    }
  }
  return decided;
}

Support parts_support(const Query& q) {
  if (!q.self.parts) return Support::yes();
  const Operator& whole = whole_of(q);
  const Deciding deciding(whole);
  std::vector<Part> parts;
  try {
    parts = q.self.parts(q, default_config(q));
  } catch (const std::exception& error) {  // of one candidate: the others are asked all the same
    return Support::no_in_words(text("its parts were not described: ", error.what()));
  }
  for (const Part& part : parts) {
    try {
      decide_part(q, whole, part);
    } catch (const Error& error) {
      std::string why = said_by(part.op, error.what());
      if (error.kind() == ErrorKind::kUnsupported)
        if (const std::string reasons = reasons_of(error.what()); !reasons.empty())
          why = text(part.op, ": ", reasons);
      return Support::no_in_words("its part " + why);
    }
  }
  return Support::yes();
}

std::vector<std::unique_ptr<const Nested>> prepare_parts(const Query& q, const Config& config,
                                                         void* stream, std::size_t offset,
                                                         std::size_t* most, bool* capturable) {
  const Operator& whole = whole_of(q);
  std::vector<std::unique_ptr<const Nested>> parts;
  *most = 0;
  for (DecidedPart& part : decide_parts(q, config)) {
    const Form& form = *part.form;
    try {
      const Kernel& kernel = compile(*part.plan, stream);
      *most = std::max(*most, kernel.workspace_bytes);
      *capturable &= part.plan->prepared.load(std::memory_order_acquire)->capturable;
      parts.push_back(std::make_unique<NestedCall>(whole, std::move(part), kernel, offset));
    } catch (const Error& error) {
      of_part(whole, form.name, error);
    }
  }
  return parts;
}

const std::string& Identity::of(const Config& config) {
  if (!q_.self.parts) return own_;
  std::string& made = with_parts_[q_.self.table().print(config)];
  if (!made.empty()) return made;
  std::string parts;
  try {
    for (const DecidedPart& part : decide_parts(q_, config)) {
      const Plan& plan = *part.plan;
      const Implementation& impl = *plan.implementation;
      Identity identity({plan.problem, q_.device, impl});
      parts += text(part.form->name, " ", impl.name, " ", identity.of(plan.config), " ",
                    impl.table().print(plan.config), "\n");
    }
  } catch (const Error&) {
    parts = "not served";
  }
  return made = text(own_, "-", sha256_hex(parts).substr(0, 16));
}

bool Identity::holds(const Record::Candidate& c) {
  if (c.implementation != q_.self.name || !c.source_hash.starts_with(own_)) return false;
  if (!q_.self.parts) return c.source_hash == own_;
  try {
    return c.source_hash == of(q_.self.table().parse(c.config, q_.self.name));
  } catch (const Error&) {  // the knobs are others by now
    return false;
  }
}

}  // namespace dlblas
