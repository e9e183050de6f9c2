// Stage 2, validate: Args become a Problem; the letters are bound and every tensor is checked
// against the schema. In: Args of one call. Out: Problem (the key), args.letters (exact sizes),
// specs of the results to be allocated. Chooses nothing, allocates nothing; errors are worded in
// dispatch/errors.cpp. Flow: call > [validate] > select > compile > launch.  Read next:
// dispatch/select.cpp.
#include <bit>

#include "core/env.hpp"
#include "core/error.hpp"
#include "core/letters.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/errors.hpp"

namespace dlblas {
namespace {

[[noreturn]] void throw_unbound(const Schema& schema, const Args& args, int tensor,
                                std::uint32_t bound) {
  std::uint32_t open = 0;
  for (const DimExpr& d : schema.tensors[tensor].dims)
    if (const std::uint32_t its = d.letters & ~bound; !d.ignores(its, args.letters)) open |= its;
  errors::unbound_letter(schema, args, tensor, std::bit_width(open) - 1);
}

// False: some dimension waits for its letters.
bool fits(const Schema& schema, const Args& args, int tensor, const Fit& fit, std::uint32_t bound) {
  switch (fit.kind) {
    case Fit::Kind::kComplete:
      return true;
    case Fit::Kind::kWaits:
      return false;
    case Fit::Kind::kRank:
      errors::wrong_rank(schema, args, tensor);
    case Fit::Kind::kLeading:
      errors::wrong_leading(schema, args, tensor, fit.other);
    case Fit::Kind::kRows:
      errors::wrong_product(schema, args, tensor, fit.size, bound);
    case Fit::Kind::kSize:
      errors::wrong_size(schema, args, tensor, fit.axis, bound);
    case Fit::Kind::kNone:
    case Fit::Kind::kHuge:
      errors::no_size(schema, args, tensor, fit.axis, bound);
  }
  return true;
}

DTypeSet allowed_dtypes(const TensorSpec& spec, const Args& args) {
  if (spec.dtype_scalar >= 0 && args.scalars[spec.dtype_scalar].i >= 0)
    return set_of(static_cast<DType>(args.scalars[spec.dtype_scalar].i));
  if (spec.like < 0) return spec.dtypes;
  const bool there = args.has(spec.like);
  return spec.dtypes | (there ? set_of(args.tensors[spec.like].dtype) : spec.like_absent);
}

// An input that the operator modifies needs memory of its own, as a result does.
void check_written(const Schema& schema, const Args& args, int tensor) {
  const TensorView& t = args.tensors[tensor];
  if (overlaps_itself(t)) errors::self_overlap(schema, args, tensor);
  if (!t.data) return;  // explain takes tensors without memory
  for (int i = 0; i < schema.num_inputs; ++i)
    if (i != tensor && args.has(i) && args.tensors[i].data && overlap(t, args.tensors[i]))
      errors::overlap(schema, args, tensor, i);
}

// The aliasing of result r: 0, or 1 + the input whose memory it shares exactly. Any other overlap
// is an error.
std::uint8_t alias_of(const Operator& op, const Args& args, int r) {
  const Schema& schema = op.schema;
  const int self = schema.num_inputs + r;
  const TensorView& out = args.tensors[self];
  if (overlaps_itself(out)) errors::self_overlap(schema, args, self);
  std::uint8_t alias =
      args.received(r) ? static_cast<std::uint8_t>(1 + args.inplace->result_source[r]) : 0;
  for (int i = 0; i < self; ++i) {
    if ((i < schema.num_inputs && !args.has(i)) || !args.tensors[i].data) continue;
    if (!overlap(out, args.tensors[i])) continue;
    const bool may_share = i < schema.num_inputs && (op.may_alias[r] >> i & 1u);
    if (!may_share || !same_memory(out, args.tensors[i])) errors::overlap(schema, args, self, i);
    alias = static_cast<std::uint8_t>(1 + i);
  }
  return alias;
}

// The sizes and scalars that a choice may depend on.
void fill_key(const Schema& schema, const Args& args, Problem& problem) {
  for (std::size_t i = 0; i < schema.letters.size(); ++i) {
    const Letter& letter = schema.letters[i];
    if (letter.pool) continue;  // no part of the key
    problem.dims[i] = letter.bucketed ? bucket_tokens(args.letters[i]) : args.letters[i];
  }
  for (std::size_t i = 0; i < schema.scalars.size(); ++i) {
    const ScalarSpec& s = schema.scalars[i];
    if (s.key_set)
      problem.scalars[s.key_slot] = s.is_set(args.scalars[i]);
    else if (s.key)
      problem.scalars[s.key_slot] = s.type == ScalarType::kFloat
                                        ? std::bit_cast<std::int64_t>(args.scalars[i].f)
                                        : args.scalars[i].i;
  }
}

}  // namespace

void validate(const Operator& op, const dlblas_args& call, int threads, Args& args,
              Problem& problem) {
  const Schema& schema = op.schema;
  problem.op = op.id;
  static const bool always_deterministic = env_flag(EnvVar::kDeterministic);
  problem.flags =
      static_cast<std::uint8_t>(call.flags | (always_deterministic ? kDeterministic : 0));
  LetterBinder binder(schema, args);
  const auto bind_tensor = [&](int i) {
    const Fit fit = binder.bind(i);
    return fit.kind == Fit::Kind::kComplete || fits(schema, args, i, fit, binder.bound());
  };
  int first = -1;             // the first tensor present: all share its device
  std::uint32_t waiting = 0;  // tensors with a derived dimension whose letter was not bound yet
  // Repeated as long as a round binds a letter. Runs before the next tensor is bound: earlier
  // tensors give the letters, later ones are checked against them and named in errors.
  const auto bind_waiting = [&] {
    for (std::uint32_t before = ~binder.bound(); waiting && before != binder.bound();) {
      before = binder.bound();
      for (int i = 0; waiting >> i; ++i)
        if ((waiting >> i & 1u) && bind_tensor(i)) waiting &= ~(1u << i);
    }
  };
  for (int i = 0; i < schema.num_inputs; ++i) {
    if (!args.has(i)) {
      problem.tensors[i].dtype = DType::kAbsent;
      continue;
    }
    const TensorView& t = args.tensors[i];
    if (!(allowed_dtypes(schema.tensors[i], args) & set_of(t.dtype)))
      errors::wrong_dtype(schema, args, i);
    if (first < 0)
      first = i;
    else if (!(t.device == args.tensors[first].device))
      errors::wrong_device(schema, args, i, first);
    const std::uint32_t before = binder.bound();
    if (!bind_tensor(i)) waiting |= 1u << i;
    if (waiting && before != binder.bound()) bind_waiting();
    const TensorSpec& spec = schema.tensors[i];
    problem.tensors[i] = traits_of(t, spec.has_matrices(), spec.inner());
    if (schema.tensors[i].written) check_written(schema, args, i);
  }
  if (waiting) throw_unbound(schema, args, std::countr_zero(waiting), binder.bound());

  const Device device = first < 0 ? Device{} : args.tensors[first].device;
  if (device.type != DeviceType::kCpu && device.type != DeviceType::kCuda)
    errors::no_device(schema, args, first);
  for (int r = 0; r < schema.num_results; ++r) {
    const int i = schema.num_inputs + r;
    const TensorSpec& spec = schema.tensors[i];
    TensorView& t = args.tensors[i];
    const DTypeSet allowed = allowed_dtypes(spec, args);
    if (!t.data && !args.received(r)) {
      if (!fits(schema, args, i, binder.make_shape(i), binder.bound()))
        throw_unbound(schema, args, i, binder.bound());
      t.dtype = static_cast<DType>(std::countr_zero(static_cast<unsigned>(allowed)));
      t.device = device;
      problem.tensors[i] =
          traits_of(t, false, spec.inner());  // of rows: a call with this tensor has the same key
      continue;
    }
    if (!(allowed & set_of(t.dtype))) errors::wrong_dtype(schema, args, i);
    if (!(t.device == device)) errors::wrong_device(schema, args, i, first);
    if (!bind_tensor(i)) throw_unbound(schema, args, i, binder.bound());
    problem.tensors[i] = traits_of(t, false, spec.inner());
    problem.tensors[i].alias = alias_of(op, args, r);
  }
  binder.close();
  for (int i = 0; binder.with_ones() >> i; ++i)
    if (binder.with_ones() >> i & 1u) problem.ones[i] = binder.ones_of(i);
  if (op.def.check) op.def.check(args);
  problem.device_type = device.type;
  problem.device_index = device.index;
  problem.threads = static_cast<std::uint16_t>(device.type == DeviceType::kCpu ? threads : 0);
  fill_key(schema, args, problem);
}

}  // namespace dlblas
