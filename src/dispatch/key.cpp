// A Problem as text: the store's key, and the one-line form that messages and tables show.
// The key holds everything the choice may depend on, device facts included, so that a record never
// serves another machine, another thread count or another schema.
#include "core/error.hpp"
#include "dispatch/dispatch.hpp"

namespace dlblas {
namespace {

std::string print_scalar(const ScalarSpec& spec, std::int64_t value) {
  if (spec.key_set) return value ? "set" : "default";
  switch (spec.type) {
    case ScalarType::kBool:
      return value ? "true" : "false";
    case ScalarType::kEnum:
      return text('"', spec.labels[static_cast<std::size_t>(value)], '"');
    case ScalarType::kDType:
      return value < 0 ? "none" : std::string(dlblas::name_of(static_cast<DType>(value)));
    case ScalarType::kFloat:
      return text("bits:", value);
    default:
      return std::to_string(value);
  }
}

std::string print_dims(const Schema& schema, const Problem& problem) {
  std::string s;
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    if (!schema.letters[i].pool)
      s += text(s.empty() ? "" : " ", schema.letters[i].name, "=", problem.dims[i]);
  return s;
}

// `1` for each dimension `1|M` or `D|2D` that has the smaller size and `M` for the others:
// `:ones=1M`; empty where none has.
std::string print_ones(const TensorSpec& spec, unsigned ones) {
  std::string s;
  for (std::size_t i = 0; ones && i < spec.dims.size(); ++i)
    if (spec.dims[i].may_be_smaller()) s += ones >> i & 1u ? '1' : 'M';
  return s.empty() ? s : ":ones=" + s;
}

// `x:f32:contiguous:16`; absent optional tensors are `x:absent`, results in place name their input.
std::string print_tensors(const Schema& schema, const Problem& problem) {
  std::string s;
  for (std::size_t i = 0; i < schema.tensors.size(); ++i) {
    const TensorTraits& t = problem.tensors[i];
    s += text(i ? " " : "", schema.tensors[i].name, ":", dlblas::name_of(t.dtype));
    if (t.dtype == DType::kAbsent) continue;
    s += text(":", name_of(t.layout), ":", 1 << t.align_log2);
    s += print_ones(schema.tensors[i], problem.ones[i]);
    if (t.alias) s += text(":in=", schema.tensors[t.alias - 1].name);
  }
  return s;
}

std::string print_scalars(const Schema& schema, const Problem& problem) {
  std::string s;
  for (const ScalarSpec& spec : schema.scalars)
    if (spec.key)
      s += text(s.empty() ? "" : " ", spec.name, "=",
                print_scalar(spec, problem.scalars[spec.key_slot]));
  return s;
}

}  // namespace

std::string_view name_of(Layout layout) {
  constexpr std::string_view kNames[] = {"contiguous",     "row_strided",         "rows_outer",
                                         "transposed",     "broadcast",           "other",
                                         "rows_broadcast", "matrices_transposed", "tokens_outer"};
  return kNames[static_cast<int>(layout)];
}

Fields store_key(const Operator& op, const Problem& problem) {
  const DeviceInfo& device = device_info(problem.device());
  Fields key{{"op", op.schema.name},
             {"schema", op.schema.hash},
             {"dims", print_dims(op.schema, problem)},
             {"tensors", print_tensors(op.schema, problem)},
             {"scalars", print_scalars(op.schema, problem)},
             {"flags", std::to_string(problem.flags & ~(kCapturing | kRepeatable))},
             {"device.model", device.model}};
  if (op.def.reference_hash) key.push_back({"reference", op.def.reference_hash(op.def)});
  if (problem.device_type == DeviceType::kCpu) {
    key.push_back({"device.isa", std::string(name_of(device.isa))});
    key.push_back({"device.threads", std::to_string(problem.threads)});
  } else {
    key.push_back({"device.arch", std::to_string(device.arch)});
    key.push_back({"device.units", std::to_string(device.units)});
  }
  sort_fields(key);
  return key;
}

std::string log_fields(const Operator& op, const Problem& problem) {
  const Device device = problem.device();
  std::string_view dtype = "-";
  for (std::size_t i = op.schema.tensors.size(); i-- > 0;)
    if (problem.tensors[i].dtype != DType::kAbsent)
      dtype = dlblas::name_of(problem.tensors[i].dtype);
  return text(print_dims(op.schema, problem), ",", dtype, ",",
              device.type == DeviceType::kCuda ? text("cuda:", device.index) : "cpu");
}

std::string print_problem(const Operator& op, const Problem& problem) {
  const std::string scalars = print_scalars(op.schema, problem);
  std::string dtypes;
  for (std::size_t i = 0; i < op.schema.tensors.size(); ++i) {
    const TensorTraits& t = problem.tensors[i];
    const bool plain =
        t.layout == Layout::kContiguous && t.align_log2 == 4 && !t.alias && !problem.ones[i];
    dtypes += text(i ? ", " : "", op.schema.tensors[i].name, " ", dlblas::name_of(t.dtype));
    if (t.dtype == DType::kAbsent || plain) continue;
    if (t.layout != Layout::kContiguous) dtypes += text(" ", name_of(t.layout));
    for (std::size_t k = 0; k < op.schema.tensors[i].dims.size(); ++k)
      if (problem.ones[i] >> k & 1u)
        dtypes += text(" ", op.schema.tensors[i].dims[k].print_smaller(op.schema.letters), " for ",
                       op.schema.tensors[i].dims[k].print_whole(op.schema.letters));
    if (t.align_log2 != 4) dtypes += text(" aligned to ", 1 << t.align_log2);
    if (t.alias) dtypes += text(" in ", op.schema.tensors[t.alias - 1].name);
  }
  std::string s = text("[", print_dims(op.schema, problem), "] ", dtypes);
  if (!scalars.empty()) s += text("; ", scalars);
  if (problem.device_type == DeviceType::kCpu)
    s += text("; ", problem.threads, problem.threads == 1 ? " thread" : " threads");
  if (problem.flags & kDeterministic) s += "; deterministic";
  if (problem.flags & kRepeatable) s += "; repeatable";
  if (problem.flags & kAllowTf32) s += "; TF32 allowed";
  return s;
}

}  // namespace dlblas
