// dlblas_register: turns a user's implementation into an Implementation of the registry, which from
// then on differs from a built-in one only by its flag. In: dlblas_implementation. Out: internal
// functions that call the user's, without a lock. Read next: bindings/c/own.hpp,
// bindings/c/register_cuda.cpp, docs/own.md.
#include <algorithm>
#include <cctype>
#include <memory>
#include <mutex>
#include <set>

#include "bindings/c/guard.hpp"
#include "bindings/c/own.hpp"
#include "core/error.hpp"

namespace dlblas {
namespace {

// ---- what the library calls --------------------------------------------------------------------

[[noreturn]] void step_failed(const OwnImplementation& own, const std::string& why) {
  throw Error(ErrorKind::kLaunch,
              text(own.op->schema.name, ": ", own.name, " failed; expected 0, got ", why),
              {own.op->schema.name, own.name, "0", why});
}

int run_step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const OwnState& state = kernel.load<OwnState>();
  const OwnImplementation& own = *state.own;
  const StepView view(args, state.config, own.table.size(), workspace);
  dlblas_context side = {};
  side.size = sizeof side;
  side.stream = context.stream;
  side.self = context.self;
  side.num_threads = context.num_threads;
  side.alloc = context.alloc;
  side.parallel_for = context.parallel_for;
  take_failure();
  const int code = own.c.step(view.get(), &side, own.c.user);
  if (code == 0) return 0;
  const std::string why = take_failure();
  step_failed(own, why.empty() ? text("code ", code) : why);
}

Kernel prepare(const Query& q, const Config& config) {
  const OwnImplementation& own = own_of(q);
  OwnState state{&own, {}};
  std::copy_n(config.values.begin(), kMaxKnobs, state.config);
  Kernel kernel = make_kernel({run_step}, state);
  if (own.c.workspace) {
    const ProblemView view(*own.op, q.problem);
    take_failure();
    const std::int64_t bytes = own.c.workspace(view.get(), config.values.data(), own.c.user);
    if (const std::string why = bytes < 0 ? take_failure() : ""; !why.empty())
      throw Error(ErrorKind::kLaunch,
                  text(own.op->schema.name, ": workspace of ", own.name,
                       " failed; expected 0 bytes or more, got ", why),
                  {own.op->schema.name, "workspace", "0 bytes or more", why});
    if (bytes < 0)
      throw Error(ErrorKind::kLaunch,
                  text(own.op->schema.name, ": ", own.name,
                       " has a workspace of the wrong size; expected 0 bytes or more, got ", bytes),
                  {own.op->schema.name, "workspace", "0 bytes or more", std::to_string(bytes)});
    kernel.workspace_bytes = static_cast<std::size_t>(bytes);
  }
  return kernel;
}

// Every prefix of a configuration must be a prefix in the list, which prunes the product early.
void constrain(const Query& q, Space& space) {
  const OwnImplementation& own = own_of(q);
  std::vector<std::string_view> names;
  for (const Knob& knob : own.table.knobs()) {
    names.push_back(knob.name);
    if (own.listed.empty()) continue;
    const auto length = static_cast<std::ptrdiff_t>(names.size());
    space.require("configs", names, [&own, length](const Config& config) {
      return std::binary_search(
          own.sorted.begin(), own.sorted.end(), config, [length](const Config& a, const Config& b) {
            return std::lexicographical_compare(a.values.begin(), a.values.begin() + length,
                                                b.values.begin(), b.values.begin() + length);
          });
    });
  }
  if (!own.c.allowed || names.empty()) return;
  const auto view = std::make_shared<ProblemView>(*own.op, q.problem);
  space.require("allowed", names, [&own, view](const Config& config) {
    return own.c.allowed(view->get(), config.values.data(), own.c.user) > 0;
  });
}

// How many configurations a call tries before giving up: at 2 µs per Python call, 10 ms.
constexpr std::int64_t kMaxAsked = 4096;
constexpr std::size_t kMaxKnown = 4096;  // problems

// Returns the default if valid, else the first valid one of the list, or of the product with the
// last knob fastest. `unsure` is set if some answer was neither yes nor no, to the message it came
// with.
std::optional<Config> find_valid(const OwnImplementation& own, const Problem& problem,
                                 std::optional<std::string>* unsure) {
  const ProblemView view(*own.op, problem);
  take_failure();
  const auto allowed = [&](const Config& config) {
    const std::int32_t answer = own.c.allowed(view.get(), config.values.data(), own.c.user);
    if (answer < 0 && !*unsure) *unsure = take_failure();
    return answer > 0;
  };
  if (allowed(own.preset)) return own.preset;
  const std::vector<Knob>& knobs = own.table.knobs();
  std::vector<std::size_t> at(knobs.size(), 0);
  Config config = own.preset;
  for (std::int64_t asked = 0; asked < kMaxAsked; ++asked) {
    const auto index = static_cast<std::size_t>(asked);
    if (!own.listed.empty()) {
      if (index == own.listed.size()) return {};
      config = own.listed[index];
    } else {
      for (std::size_t k = 0; k < knobs.size(); ++k) config.values[k] = knobs[k].values[at[k]];
    }
    if (allowed(config)) return config;
    std::size_t k = knobs.size();
    while (k > 0 && ++at[k - 1] == knobs[k - 1].values.size()) at[--k] = 0;
    if (k == 0 && own.listed.empty()) return {};
  }
  return {};
}

std::optional<Config> first_valid(const OwnImplementation& own, const Problem& problem,
                                  std::string* why = nullptr) {
  if (!own.c.allowed || own.table.size() == 0) return own.preset;
  FirstValid& first = own.first_valid;
  {
    const std::lock_guard lock(first.mutex);
    const auto at = first.known.find(problem);
    if (at != first.known.end()) return at->second;
  }
  std::optional<std::string> unsure;
  const std::optional<Config> found = find_valid(own, problem, &unsure);
  if (!found && unsure) {  // asked again by the next call
    if (why) *why = *unsure;
    return found;
  }
  const std::lock_guard lock(first.mutex);
  if (first.known.size() >= kMaxKnown) first.known.clear();
  first.known.emplace(problem, found);
  return found;
}

Config heuristic(const Query& q) {
  const OwnImplementation& own = own_of(q);
  return first_valid(own, q.problem).value_or(own.preset);
}

// ---- what the user passed: read, or refused with a message -------------------------------------

constexpr std::int64_t kMaxConfigs = std::int64_t{1} << 20;
constexpr std::int32_t kMaxValues = 1 << 12;  // each is compared with all

[[noreturn]] void refuse_own(const Operator& op, const Refusal& refusal) {
  refuse(ErrorKind::kArgument, op.schema.name, refusal);
}

bool is_identifier(std::string_view s) {
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s.front())) &&
         std::all_of(s.begin(), s.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// A record holds this as a line or as part of one: a line that cannot be read back loses the whole
// record.
constexpr std::size_t kMaxWord = 256;

bool is_word(std::string_view s) {
  return !s.empty() && s.size() <= kMaxWord &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) { return c > ' ' && c < 127; });
}

// A label appears as `knob=label` in a configuration's text.
bool is_label(std::string_view s) { return is_word(s) && s.find_first_of(",=") == s.npos; }

Knob read_knob(OwnImplementation& own, const dlblas_knob& from) {
  const std::string name = from.name ? from.name : "";
  if (!is_identifier(name)) refuse_own(*own.op, {"knobs", "has a bad name", "an identifier", name});
  // Expressions, macros and named arguments share one namespace.
  const Schema& schema = own.op->schema;
  const bool is_tensor = std::any_of(schema.tensors.begin(), schema.tensors.end(),
                                     [&](const TensorSpec& t) { return t.name == name; });
  if (is_tensor || schema.find_param(name) >= 0 || schema.find_letter(name) >= 0)
    refuse_own(*own.op, {"knobs", "has a name that is taken",
                         "none of the schema's tensors, scalars and letters", name});
  if (from.num_values > kMaxValues)
    refuse_own(*own.op, {"knobs", "has too many values", text("at most ", kMaxValues),
                         text(from.num_values, " of ", name)});
  if (!from.values || from.num_values < 1)
    refuse_own(*own.op, {"knobs", "has no values", "at least one value of " + name, "none"});
  Knob knob{own.words.emplace_back(name), {from.values, from.values + from.num_values}, {}};
  for (std::size_t i = 0; i < knob.values.size(); ++i)
    if (std::count(knob.values.begin(), knob.values.end(), knob.values[i]) != 1)
      refuse_own(*own.op, {"knobs", "has a value twice", "different values of " + name,
                           std::to_string(knob.values[i])});
  std::set<std::string> different;
  for (int i = 0; from.labels && i < from.num_values; ++i) {
    const std::string label = from.labels[i] ? from.labels[i] : "";
    if (!is_label(label))
      refuse_own(*own.op, {"knobs", "has a bad label", "a word without spaces, = and ,", label});
    if (!different.insert(label).second)  // one configuration's text for two
      refuse_own(*own.op, {"knobs", "has a label twice", "different labels of " + name, label});
    knob.labels.push_back(own.words.emplace_back(label));
  }
  return knob;
}

void read_knobs(OwnImplementation& own, const dlblas_implementation& from) {
  if (from.num_knobs < 0 || from.num_knobs > kMaxKnobs || (from.num_knobs > 0 && !from.knobs))
    refuse_own(*own.op, {"knobs", "has a wrong number", text("at most ", kMaxKnobs),
                         std::to_string(from.num_knobs)});
  std::vector<Knob> knobs;
  for (int i = 0; i < from.num_knobs; ++i) {
    Knob knob = read_knob(own, from.knobs[i]);
    for (const Knob& other : knobs)
      if (other.name == knob.name)
        refuse_own(*own.op,
                   {"knobs", "has a name twice", "different names", std::string(knob.name)});
    knobs.push_back(std::move(knob));
  }
  own.table = KnobTable(std::move(knobs));
}

Config read_config(const OwnImplementation& own, const std::int64_t* values, const char* argument) {
  Config config;
  for (int i = 0; i < own.table.size(); ++i) config.values[config.count++] = values[i];
  if (!own.table.contains(config))
    refuse_own(*own.op, {argument, "has a value outside its knob's", "values of the knobs",
                         own.table.print(config)});
  return config;
}

void read_configs(OwnImplementation& own, const dlblas_implementation& from) {
  const int knobs = own.table.size();
  if (from.configs && knobs > 0) {
    if (from.num_configs < 1)
      refuse_own(*own.op, {"configs", "is empty", "at least one configuration", "none"});
    if (from.num_configs > kMaxConfigs)
      refuse_own(*own.op,
                 {"configs", "is too long", text("at most ", kMaxConfigs), text(from.num_configs)});
    for (int i = 0; i < from.num_configs; ++i)
      own.listed.push_back(
          read_config(own, from.configs + static_cast<std::ptrdiff_t>(i) * knobs, "configs"));
  }
  std::int64_t product = 1;
  for (const Knob& knob : own.table.knobs())
    product = std::min(kMaxConfigs + 1, product * static_cast<std::int64_t>(knob.values.size()));
  if (own.listed.empty() && product > kMaxConfigs)
    refuse_own(*own.op,
               {"knobs", "make too many configurations", text("at most ", kMaxConfigs), "more"});
  own.points = own.listed.empty() ? product : static_cast<std::int64_t>(own.listed.size());
  own.has_preset = from.preset && knobs > 0;
  if (own.has_preset) own.preset = read_config(own, from.preset, "preset");
  const auto listed = std::find(own.listed.begin(), own.listed.end(), own.preset);
  if (own.has_preset && !own.listed.empty() && listed == own.listed.end())
    refuse_own(*own.op, {"preset", "is not among the configurations", "one of configs",
                         own.table.print(own.preset)});
  if (own.has_preset) return;
  if (!own.listed.empty()) {
    own.preset = own.listed.front();
  } else {
    for (const Knob& knob : own.table.knobs())
      own.preset.values[own.preset.count++] = knob.values.front();
  }
}

void sort_listed(OwnImplementation& own) {  // `constrain` looks prefixes up
  own.sorted = own.listed;
  std::sort(own.sorted.begin(), own.sorted.end(),
            [](const Config& a, const Config& b) { return a.values < b.values; });
}

const Operator& check(dlblas_op_t handle, const dlblas_implementation* from) {
  if (!handle)
    refuse(ErrorKind::kArgument, "dlblas", {"op", "is null", "a handle of dlblas_op()", "NULL"});
  const Operator& op = *reinterpret_cast<const Form*>(handle)->op;
  if (!from || from->size < sizeof(dlblas_implementation))
    refuse_own(op, {"implementation", "has a wrong size", text(sizeof(dlblas_implementation)),
                    from ? text(from->size) : "NULL"});
  const std::string name = from->name ? from->name : "";
  if (!is_identifier(name)) refuse_own(op, {"name", "is no name", "an identifier", name});
  if (from->device != 1 && from->device != 2)
    refuse_own(op, {"device", "is unknown", "1 (CPU) or 2 (CUDA)", text(from->device)});
  if (!from->step == !from->cuda)
    refuse_own(op, {"step", from->step ? "is given beside CUDA text" : "is null",
                    "a step, or CUDA text", from->step ? "both" : "neither"});
  if (from->cuda && from->device != 2)
    refuse_own(op, {"device", "does not fit CUDA text", "2 (CUDA)", text(from->device)});
  constexpr std::uint32_t kKnown =
      DLBLAS_IS_DETERMINISTIC | DLBLAS_IS_CAPTURABLE | DLBLAS_IS_LOCAL | DLBLAS_IS_REPEATABLE;
  if (from->flags & ~kKnown)
    refuse_own(op, {"flags", "has an unknown bit", text("bits of ", kKnown), text(from->flags)});
  return op;
}

void put(std::unique_ptr<OwnImplementation> own, const Operator& op,
         const dlblas_implementation& from) {
  own->op = &op;
  own->name = from.name;
  read_knobs(*own, from);
  read_configs(*own, from);
  sort_listed(*own);
  Implementation impl;
  impl.user = own.get();
  if (from.source_hash)
    own->source_hash = from.source_hash;
  else if (from.step)
    own->source_hash =
        digest_of_object(from.source ? from.source : reinterpret_cast<const void*>(from.step));
  impl.prepare = prepare;
  if (from.cuda) read_cuda_text(*own, impl);
  if (from.source_hash) check_hash(op.schema.name, own->source_hash);
  if (own->source_hash.empty())
    refuse_own(op, {"source_hash", "is missing", "the digest of the source",
                    "a step in no readable shared object"});
  impl.name = own->name.c_str();
  impl.source_hash = own->source_hash.c_str();
  impl.backend = static_cast<DeviceType>(from.device);
  impl.min_arch = from.min_arch;
  if (from.max_arch > 0) impl.max_arch = from.max_arch;
  impl.flags.deterministic = from.flags & DLBLAS_IS_DETERMINISTIC;
  impl.flags.repeatable = from.flags & (DLBLAS_IS_DETERMINISTIC | DLBLAS_IS_REPEATABLE);
  impl.flags.capturable = from.flags & DLBLAS_IS_CAPTURABLE;
  impl.flags.local = from.flags & DLBLAS_IS_LOCAL;
  impl.flags.user = true;
  impl.knobs = &own->table;
  impl.release = [](const void* user) { delete static_cast<const OwnImplementation*>(user); };
  if (!impl.supports) impl.supports = own_supports;
  impl.constrain = constrain;
  impl.heuristic = heuristic;
  Registry::process().put_user_implementation(op, impl);
  own.release();  // the registry's
}

Support no_configuration(const OwnImplementation& own, const std::string& why) {
  const std::string which = own.points <= kMaxAsked
                                ? "no configuration"
                                : text("none of the first ", kMaxAsked, " configurations");
  return Support::no_in_words(
      text(which, " of its space is valid for this problem", why.empty() ? "" : ": ", why));
}

}  // namespace

void check_hash(const std::string& op, const std::string& hash) {
  if (!is_word(hash))
    refuse(ErrorKind::kArgument, op,
           {"source_hash", "is no word", text("1 to ", kMaxWord, " letters without spaces"), hash});
}

Support own_supports(const Query& q) {
  const OwnImplementation& own = own_of(q);
  if (own.c.supports) {
    const ProblemView view(*own.op, q.problem);
    if (const char* why = own.c.supports(view.get(), own.c.user))
      return Support::no_in_words(*why ? why : "its supports() said no without a reason");
  } else {  // one that never asks was written for tensors that are usually there
    const Schema& schema = own.op->schema;
    for (int i = 0; i < schema.num_inputs; ++i)
      if (schema.tensors[i].usual && q.problem.tensors[i].dtype == DType::kAbsent)
        return Support::no("{} is absent, and no supports() says that it may be", tensor(i));
  }
  std::string why;
  if (!first_valid(own, q.problem, &why)) return no_configuration(own, why);
  return Support::yes();
}

dlblas_status register_own(dlblas_op_t handle, const dlblas_implementation* from,
                           void (*release)(void* user)) {
  return guarded([&] {
    auto own = std::make_unique<OwnImplementation>();
    if (from && from->size >= sizeof(dlblas_implementation)) own->c = *from;
    own->release = release;
    const Operator& op = check(handle, from);
    put(std::move(own), op, *from);
  });
}

}  // namespace dlblas

extern "C" {

using namespace dlblas;

dlblas_status dlblas_register(dlblas_op_t handle, const dlblas_implementation* from) {
  return register_own(handle, from, nullptr);
}

dlblas_status dlblas_unregister(dlblas_op_t handle, const char* name) {
  return guarded([&] {
    if (!handle || !name)
      refuse(ErrorKind::kArgument, "dlblas",
             {handle ? "name" : "op", "is null", "a handle and a registered name", "NULL"});
    Registry::process().remove_user_implementation(*reinterpret_cast<const Form*>(handle)->op,
                                                   name);
  });
}

}  // extern "C"
