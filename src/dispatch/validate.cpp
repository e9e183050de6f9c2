// Stage 2, validate: Args become a Problem; the letters are bound and every tensor is checked
// against the schema. In: Args of one call. Out: Problem (the key), args.letters (exact sizes),
// specs of the results to be made. Chooses nothing, allocates nothing; errors are worded in
// dispatch/complain.cpp. Flow: call > [validate] > select > compile > launch.  Read next:
// dispatch/select.cpp.
#include <bit>

#include "core/env.hpp"
#include "core/error.hpp"
#include "dispatch/complain.hpp"
#include "dispatch/dispatch.hpp"

namespace dlblas {
namespace {

struct Binder {
  const Schema& schema;
  Args& args;
  std::uint32_t bound = 0;    // bit i: letter i has its size
  std::uint32_t starred = 0;  // bit i: letter i is `*T` of a tensor, leading_tensor[i]
  std::int8_t leading_tensor[kMaxLetters];

  // Binds or checks one letter-bearing dimension of size n. Derived dimensions of unbound letters
  // wait.
  bool bind_dim(int tensor, int axis, const DimExpr& d, std::int64_t n) {
    if (d.letter < 0) {
      if (n != d.addend) complain::wrong_size(schema, args, tensor, axis, d.addend, bound);
      return true;
    }
    if (bound >> d.letter & 1u) {
      const std::int64_t expected = d.evaluate(args.letters);
      if (n != expected) complain::wrong_size(schema, args, tensor, axis, expected, bound);
      return true;
    }
    if (d.divisor != 1) return false;  // ceil(K / 128) binds nothing
    const std::int64_t rest = n - d.addend;
    if (rest < 0 || rest % d.coefficient != 0)
      complain::wrong_size(schema, args, tensor, axis, -1, bound);
    args.letters[d.letter] = rest / d.coefficient;
    bound |= 1u << d.letter;
    return true;
  }

  // Binds `*T`: the product of the leading dimensions, which every tensor with *T must share.
  void bind_leading(int tensor, const DimExpr& d, int leading_rank) {
    const TensorView& t = args.tensors[tensor];
    std::int64_t product = 1;
    for (int i = 0; i < leading_rank; ++i) product *= t.shape[i];
    if (starred >> d.letter & 1u) {
      const int like = leading_tensor[d.letter];
      const TensorView& first = args.tensors[like];
      bool same =
          first.rank - (static_cast<int>(schema.tensors[like].dims.size()) - 1) == leading_rank;
      for (int i = 0; same && i < leading_rank; ++i) same = t.shape[i] == first.shape[i];
      if (!same) complain::wrong_leading(schema, args, tensor, like);
      return;
    }
    if ((bound >> d.letter & 1u) && product != args.letters[d.letter])
      complain::wrong_product(schema, args, tensor, d, product, bound);
    args.letters[d.letter] = product;
    starred |= 1u << d.letter;
    leading_tensor[d.letter] = static_cast<std::int8_t>(tensor);
    bound |= 1u << d.letter;
  }

  // True when every dimension of the tensor was bound or checked.
  bool bind_tensor(int tensor) {
    const TensorSpec& spec = schema.tensors[tensor];
    const TensorView& t = args.tensors[tensor];
    const int rank = static_cast<int>(spec.dims.size());
    const bool leading = spec.has_leading();
    const int extra = t.rank - rank;  // leading dimensions beyond one
    if (leading ? extra < -1 : extra != 0) complain::wrong_rank(schema, args, tensor);
    if (leading) bind_leading(tensor, spec.dims[0], extra + 1);
    bool complete = true;
    for (int i = leading; i < rank; ++i)
      complete &= bind_dim(tensor, i, spec.dims[i], t.shape[i + extra]);
    return complete;
  }

  // A letter that only absent optional tensors bear is 0, not what the stack held.
  void close() {
    for (std::size_t i = 0; i < schema.letters.size(); ++i)
      if (!(bound >> i & 1u)) args.letters[i] = 0;
  }

  [[noreturn]] void complain_unbound(int tensor) {
    int letter = 0;
    for (const DimExpr& d : schema.tensors[tensor].dims)
      if (d.letter >= 0 && !(bound >> d.letter & 1u)) letter = d.letter;
    complain::unbound_letter(schema, args, tensor, letter);
  }

  // The shape of a result that is to be made; `*T` expands to the first tensor's leading
  // dimensions.
  void make_result_shape(int tensor) {
    const TensorSpec& spec = schema.tensors[tensor];
    TensorView& t = args.tensors[tensor];
    t.rank = 0;
    for (const DimExpr& d : spec.dims) {
      if (d.letter >= 0 && !(bound >> d.letter & 1u))
        complain::unbound_letter(schema, args, tensor, d.letter);
      if (d.leading && (starred >> d.letter & 1u)) {
        const int like = leading_tensor[d.letter];
        const int leading_rank =
            args.tensors[like].rank - (static_cast<int>(schema.tensors[like].dims.size()) - 1);
        for (int i = 0; i < leading_rank; ++i) t.shape[t.rank++] = args.tensors[like].shape[i];
      } else {
        t.shape[t.rank++] = d.evaluate(args.letters);
      }
    }
    std::int64_t stride = 1;
    for (int i = t.rank - 1; i >= 0; --i) {
      t.strides[i] = stride;
      stride *= t.shape[i];
    }
  }
};

DTypeSet allowed_dtypes(const TensorSpec& spec, const Args& args) {
  if (spec.dtype_scalar >= 0 && args.scalars[spec.dtype_scalar].i >= 0)
    return set_of(static_cast<DType>(args.scalars[spec.dtype_scalar].i));
  return spec.dtypes | (spec.like >= 0 ? set_of(args.tensors[spec.like].dtype) : DTypeSet{0});
}

// An input that the operator modifies needs memory of its own, as a result does.
void check_written(const Schema& schema, const Args& args, int tensor) {
  const TensorView& t = args.tensors[tensor];
  if (overlaps_itself(t)) complain::self_overlap(schema, args, tensor);
  if (!t.data) return;  // explain takes tensors without memory
  for (int i = 0; i < schema.num_inputs; ++i)
    if (i != tensor && args.has(i) && args.tensors[i].data && overlap(t, args.tensors[i]))
      complain::overlap(schema, args, tensor, i);
}

// How result r lies to the inputs and the other results: 0, or 1 + the input whose memory it shares
// exactly.
std::uint8_t alias_of(const Operator& op, const Args& args, int r) {
  const Schema& schema = op.schema;
  const int self = schema.num_inputs + r;
  const TensorView& out = args.tensors[self];
  if (overlaps_itself(out)) complain::self_overlap(schema, args, self);
  std::uint8_t alias =
      args.inplace ? static_cast<std::uint8_t>(1 + args.inplace->result_source[r]) : 0;
  for (int i = 0; i < self; ++i) {
    if ((i < schema.num_inputs && !args.has(i)) || !args.tensors[i].data) continue;
    if (!overlap(out, args.tensors[i])) continue;
    const bool may_share = i < schema.num_inputs && (op.may_alias[r] >> i & 1u);
    if (!may_share || !same_memory(out, args.tensors[i])) complain::overlap(schema, args, self, i);
    alias = static_cast<std::uint8_t>(1 + i);
  }
  return alias;
}

// The sizes and scalars that a choice may depend on.
void fill_key(const Schema& schema, const Args& args, Problem& problem) {
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    problem.dims[i] = schema.letters[i].bucketed ? bucket_tokens(args.letters[i]) : args.letters[i];
  for (std::size_t i = 0; i < schema.scalars.size(); ++i) {
    const ScalarSpec& s = schema.scalars[i];
    if (s.key)
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
  Binder binder{schema, args, 0, 0, {}};
  int first = -1;             // the first tensor present: all share its device
  std::uint32_t waiting = 0;  // tensors with a derived dimension whose letter was not bound yet
  for (int i = 0; i < schema.num_inputs; ++i) {
    if (!args.has(i)) {
      problem.tensors[i].dtype = DType::kAbsent;
      continue;
    }
    const TensorView& t = args.tensors[i];
    if (!(allowed_dtypes(schema.tensors[i], args) & set_of(t.dtype)))
      complain::wrong_dtype(schema, args, i);
    if (first < 0)
      first = i;
    else if (!(t.device == args.tensors[first].device))
      complain::wrong_device(schema, args, i, first);
    if (!binder.bind_tensor(i)) waiting |= 1u << i;
    problem.tensors[i] = traits_of(t);
    if (schema.tensors[i].written) check_written(schema, args, i);
  }
  for (int i = 0; waiting >> i; ++i)
    if ((waiting >> i & 1u) && !binder.bind_tensor(i)) binder.complain_unbound(i);

  const Device device = first < 0 ? Device{} : args.tensors[first].device;
  if (device.type != DeviceType::kCpu && device.type != DeviceType::kCuda)
    complain::no_device(schema, args, first);
  for (int r = 0; r < schema.num_results; ++r) {
    const int i = schema.num_inputs + r;
    const TensorSpec& spec = schema.tensors[i];
    TensorView& t = args.tensors[i];
    const DTypeSet allowed = allowed_dtypes(spec, args);
    if (!t.data && !args.inplace) {
      binder.make_result_shape(i);
      t.dtype = static_cast<DType>(std::countr_zero(static_cast<unsigned>(allowed)));
      t.device = device;
      problem.tensors[i] = traits_of(t);  // of rows: a caller who brings it asks the same
      continue;
    }
    if (!(allowed & set_of(t.dtype))) complain::wrong_dtype(schema, args, i);
    if (!(t.device == device)) complain::wrong_device(schema, args, i, first);
    if (!binder.bind_tensor(i)) binder.complain_unbound(i);
    problem.tensors[i] = traits_of(t);
    problem.tensors[i].alias = alias_of(op, args, r);
  }
  binder.close();
  if (op.def.check) op.def.check(args);
  problem.device_type = device.type;
  problem.device_index = device.index;
  problem.threads = static_cast<std::uint16_t>(device.type == DeviceType::kCpu ? threads : 0);
  fill_key(schema, args, problem);
}

}  // namespace dlblas
