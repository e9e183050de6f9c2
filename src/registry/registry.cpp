// Registration and lookup; see registry.hpp.
#include "registry/registry.hpp"

#include <algorithm>
#include <memory>

#include "core/error.hpp"
#include "core/fork.hpp"
#include "core/in_flight.hpp"
#include "core/spelling.hpp"
#include "registry/names.hpp"

namespace dlblas {

const Implementation* Operator::find(std::string_view name) const {
  for (const Implementation* impl : candidates())
    if (impl->name == name) return impl;
  return nullptr;
}

void Operator::add_dependent(const Operator& whole) const {
  const std::lock_guard lock(wholes_mutex_);
  if (std::find(wholes_.begin(), wholes_.end(), &whole) == wholes_.end()) wholes_.push_back(&whole);
}

void Operator::invalidate() const {
  std::vector<const Operator*> reached{this};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Operator& op = *reached[i];
    op.generation.fetch_add(1, std::memory_order_release);
    const std::lock_guard lock(op.wholes_mutex_);
    for (const Operator* whole : op.wholes_)
      if (std::find(reached.begin(), reached.end(), whole) == reached.end())
        reached.push_back(whole);
  }
}

Registry& Registry::process() {
  static Registry* registry = [] {  // leaks on purpose: calls may run after static destructors
    forked();  // from here on a fork is seen, before any call may start a thread
    auto* r = new Registry;
    register_all(*r);
    return r;
  }();
  return *registry;
}

namespace {

bool addresses_memory(const TensorSpec& tensor, const OperatorDef& def) {
  const Fill fill = tensor.fill.fill;
  return fill == Fill::kOffsets || fill == Fill::kLengths || fill == Fill::kDistinct ||
         std::ranges::find(def.addresses, tensor.name) != def.addresses.end();
}
void check_definition(const OperatorDef& def, const Schema& schema) {
  auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::kArgument, text(schema.name, ": registration ", what),
                {.op = schema.name});
  };
  if (!def.reference || !def.bound || !def.work_per_row)
    refuse("is incomplete; expected reference, bound and work_per_row, got a null function");
  if (!def.letters.empty()) {
    const bool same = std::equal(def.letters.begin(), def.letters.end(), schema.letters.begin(),
                                 schema.letters.end(),
                                 [](std::string_view a, const Letter& b) { return a == b.name; });
    if (!same)
      refuse("names other letters than its schema; expected them in order of first appearance");
  }
  for (const Implementation& impl : def.implementations) {
    if (!impl.name || !impl.supports || !impl.prepare)
      refuse("has an incomplete implementation; expected name, supports and prepare");
    if (impl.knobs && impl.knobs->size() > 0 && !impl.heuristic)
      refuse(text("of ", impl.name, " has knobs but no default; expected a heuristic"));
  }
}
}  // namespace

const Operator& Registry::add(OperatorDef def) {
  Schema schema = parse_schema(def.schema);
  check_definition(def, schema);
  std::vector<InplaceForm> inplace_forms;
  for (std::string_view form : def.inplace) inplace_forms.push_back(parse_inplace(form, schema));

  std::lock_guard lock(mutex_);
  std::vector<std::string_view> known;
  for (const Operator& op : operators_)
    for (const Form& form : op.forms) known.push_back(form.name);
  check_names(schema, inplace_forms, known);
  if (operators_.size() == kMaxOperators)
    throw Error(ErrorKind::kArgument,
                text(schema.name, ": registration has no room; expected at most ", kMaxOperators,
                     " operators, got one more"),
                {.op = schema.name});
  for (int i = 0; i < schema.num_inputs; ++i)
    if (addresses_memory(schema.tensors[i], def)) schema.addresses |= 1u << i;
  for (int j = 0; j < schema.num_judged(); ++j)
    if (std::ranges::find(def.by_element, schema.tensors[schema.judged[j]].name) !=
        def.by_element.end())
      schema.by_element |= 1u << j;
  Operator& op = operators_.emplace_back();  // everything that may be refused is behind us
  op.id = static_cast<std::uint16_t>(operators_.size());
  op.schema = std::move(schema);
  op.def = std::move(def);
  op.inplace_forms = std::move(inplace_forms);

  op.forms.push_back({&op, nullptr, &op.schema.params, op.schema.name, op.schema.num_results});
  for (const InplaceForm& form : op.inplace_forms) {
    op.forms.push_back(
        {&op, &form, &form.params, form.name, static_cast<int>(form.returned.size())});
    for (int r = 0; r < op.schema.num_results; ++r)
      if (form.result_source[r] >= 0) op.may_alias[r] |= 1u << form.result_source[r];
  }
  auto list = std::make_unique<List>();
  for (const Implementation& impl : op.def.implementations)
    list->push_back(&implementations_.emplace_back(impl));
  list->push_back(&implementations_.emplace_back(reference_implementation()));
  op.implementations.store(list.release(), std::memory_order_release);
  return op;
}

void Registry::add_implementation(const Operator& op, const Implementation& implementation) {
  const List* replaced = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (op.find(implementation.name))
      throw Error(ErrorKind::kArgument,
                  text(op.schema.name, ": name is taken; expected a new implementation name, got ",
                       implementation.name),
                  {.op = op.schema.name, .argument = "name"});
    std::vector<const Implementation*> list = op.candidates();
    list.insert(list.end() - 1, &implementations_.emplace_back(implementation));
    replaced = publish(op, list);
  }
  retire(replaced);
}

const Registry::List* Registry::publish(const Operator& op, const List& list) {
  const List* replaced =
      const_cast<Operator&>(op).implementations.exchange(new List(list), std::memory_order_acq_rel);
  op.invalidate();
  return replaced;
}

namespace {
[[noreturn]] void refuse_name(const Operator& op, std::string_view name, const char* problem,
                              const char* expected) {
  throw Error(ErrorKind::kArgument,
              text(op.schema.name, ": name ", problem, "; expected ", expected, ", got ", name),
              {op.schema.name, "name", expected, std::string(name)});
}

void retire_implementation(const Implementation* known) {
  retire(const_cast<Implementation*>(known), [](void* object) {
    const auto* implementation = static_cast<const Implementation*>(object);
    if (implementation->release) implementation->release(implementation->user);
    delete implementation;
  });
}
}  // namespace

void Registry::put_user_implementation(const Operator& op, const Implementation& implementation) {
  const List* replaced = nullptr;
  const Implementation* known = nullptr;
  {
    std::lock_guard lock(mutex_);
    List list = op.candidates();
    known = op.find(implementation.name);
    if (known && !known->flags.user)
      refuse_name(op, implementation.name, "is taken by a built-in implementation",
                  "a name of your own");
    auto made = std::make_unique<Implementation>(implementation);
    if (known)
      *std::find(list.begin(), list.end(), known) = made.get();
    else
      list.insert(list.end() - 1, made.get());
    replaced = publish(op, list);
    made.release();  // the list's, until it is replaced
  }
  retire(replaced);
  if (known) retire_implementation(known);
}

void Registry::remove_user_implementation(const Operator& op, std::string_view name) {
  const List* replaced = nullptr;
  const Implementation* known = nullptr;
  {
    std::lock_guard lock(mutex_);
    known = op.find(name);
    if (!known || !known->flags.user)
      refuse_name(op, name, "is not a registered one", "an implementation that was registered");
    List list = op.candidates();
    list.erase(std::find(list.begin(), list.end(), known));
    replaced = publish(op, list);
  }
  retire(replaced);
  retire_implementation(known);
}

std::vector<const Operator*> Registry::operators() const {
  std::lock_guard lock(mutex_);
  std::vector<const Operator*> all;
  for (const Operator& op : operators_) all.push_back(&op);
  return all;
}

const Operator& Registry::by_id(std::uint16_t id) const {
  std::lock_guard lock(mutex_);
  return operators_[id - 1u];
}

const Form* Registry::find(std::string_view name) const {
  std::lock_guard lock(mutex_);
  for (const Operator& op : operators_)
    for (const Form& form : op.forms)
      if (form.name == name) return &form;
  return nullptr;
}

namespace {
// The nearest names, and how to see all: a hundred names would be no help.
std::string nearest_of(std::string_view name, std::vector<std::string_view> names) {
  constexpr std::size_t kMax = 8, kLongest = 64;
  const std::size_t all = names.size();
  const std::string_view word = name.substr(0, kLongest);
  std::stable_sort(names.begin(), names.end(), [&](std::string_view a, std::string_view b) {
    return edits(word, a) < edits(word, b);
  });
  names.resize(std::min(all, kMax));
  std::string listed;
  for (const std::string_view one : names) listed += text(listed.empty() ? "" : ", ", one);
  return all > kMax ? text(listed, ", … (", all, " names: dlblas list)") : listed;
}
}  // namespace

const Form& Registry::at(std::string_view name) const {
  if (const Form* form = find(name)) return *form;
  std::string known;
  std::vector<std::string_view> names;
  for (const Operator* op : operators())
    for (const Form& form : op->forms) {
      known += text(known.empty() ? "" : ", ", form.name);
      names.push_back(form.name);
    }
  throw Error(
      ErrorKind::kUnknownOperator,
      text(name, ": operator is unknown; expected one of ", nearest_of(name, names), ", got ", name,
           did_you_mean(name, names)),
      {.op = std::string(name), .argument = "name", .expected = known, .got = std::string(name)});
}

}  // namespace dlblas
