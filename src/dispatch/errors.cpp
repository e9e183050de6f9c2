// Wording of argument errors; see errors.hpp. Cold by construction: nothing here runs on a good
// call.
#include "dispatch/errors.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/error.hpp"
#include "core/harmless.hpp"
#include "core/spelling.hpp"

namespace dlblas::errors {
namespace {

struct Words {
  ErrorKind kind;
  std::string op, argument, problem, expected, got;
  std::string advice = {};  // after the second semicolon; may be empty
};

[[noreturn]] void raise(const Words& w) {
  throw Error(w.kind,
              text(w.op, ": ", w.argument, " ", w.problem, "; expected ", w.expected, ", got ",
                   harmless(w.got), w.advice.empty() ? "" : "; ", w.advice),
              {w.op, w.argument, w.expected, w.got});
}

std::string print_shape(const TensorView& t) {
  std::string s = "(";
  for (int i = 0; i < t.rank; ++i) s += text(i ? ", " : "", t.shape[i]);
  return s + (t.rank == 1 ? ",)" : ")");
}

std::string print_value(const dlblas_value& v) {
  switch (v.kind) {
    case DLBLAS_NONE:
      return "nothing";
    case DLBLAS_TENSOR:
      return "a tensor";
    case DLBLAS_INT:
      return text("the integer ", v.as.i);
    case DLBLAS_FLOAT:
      return text("the float ", v.as.f);
    case DLBLAS_BOOL:
      return v.as.i ? "true" : "false";
    case DLBLAS_STRING:
      return v.as.s ? text("\"", v.as.s, "\"") : "a null string";
    default:
      return text("a value of unknown kind ", v.kind);
  }
}

std::string dtype_names(DTypeSet set) {
  std::string s;
  for (int i = 0; i < kNumDTypes; ++i)
    if (set >> i & 1u) s += text(s.empty() ? "" : ", ", name_of(static_cast<DType>(i)));
  return s;
}

std::string print_device(Device d) {
  const auto type = static_cast<int>(d.type);
  return type == 1   ? "cpu"
         : type == 2 ? text("cuda:", d.index)
                     : text("DLPack device type ", type, ":", d.index);
}

// `x [T=7, C=4096]`: a tensor with the sizes of its letters.
std::string print_sizes(const Schema& schema, const Args& args, int tensor, std::uint32_t bound) {
  std::string s = text(schema.tensors[tensor].name, " [");
  for (const DimExpr& d : schema.tensors[tensor].dims) {
    s += text(s.back() == '[' ? "" : ", ", d.print(schema.letters));
    if (!d.is_constant() && (d.letters & ~bound) == 0) s += text("=", d.evaluate(args.letters));
  }
  return s + "]";
}

// Where the letters come from: `x [T=7, C=4096]`, `the argument topk=8 and x [T=7]`. The source may
// be a later tensor: K/128 is checked once K is known. `itself`: or the tensor, by a dimension that
// is the letter.
std::string print_binding(const Schema& schema, const Args& args, int tensor, std::uint32_t letters,
                          std::uint32_t bound, bool itself = false) {
  std::string s;
  std::uint32_t shown = 0;  // tensors
  const auto add = [&](const std::string& source) { s += text(s.empty() ? "" : " and ", source); };
  const bool one = std::has_single_bit(letters);
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    if ((letters >> i & 1u) && schema.letters[i].scalar >= 0) {
      const std::string& name = schema.letters[i].name;
      add(one ? text("the argument ", name) : text("the argument ", name, "=", args.letters[i]));
      letters &= ~(1u << i);
    }
  const int last = std::max<int>(tensor, schema.num_inputs);
  for (const bool alone : {true, false})  // first where a letter stands alone in a dimension
    for (int i = 0; letters && i < last; ++i) {
      if (i == tensor && !(itself && alone)) continue;
      if (i < schema.num_inputs && !args.has(i)) continue;
      std::uint32_t gives = 0;
      for (const DimExpr& d : schema.tensors[i].dims)
        for (std::size_t k = 0; k < schema.letters.size(); ++k)
          if (d.is_linear_in(static_cast<int>(k)) && (!alone || std::has_single_bit(d.letters)))
            gives |= 1u << k;
      if (!(gives & letters)) continue;
      if (!(shown >> i & 1u)) add(print_sizes(schema, args, i, bound));
      shown |= 1u << i;
      letters &= ~gives;
    }
  return s.empty() ? "the arguments before it" : s;
}

// `, H=8, D=64`
std::string print_letters(const Schema& schema, const Args& args, std::uint32_t letters) {
  std::string s;
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    if (letters >> i & 1u) s += text(", ", schema.letters[i].name, "=", args.letters[i]);
  return s;
}

// The sizes allowed for a dimension with one open letter, or with several that it ignores.
std::string print_choice(const Schema& schema, const Args& args, int tensor, const DimExpr& d,
                         std::int64_t size, std::uint32_t bound) {
  const std::uint32_t open = d.letters & ~bound;
  const int letter = std::bit_width(open) - 1;
  std::int64_t sizes[kMaxLetters];
  std::copy_n(args.letters, schema.letters.size(), sizes);
  for (std::uint32_t left = open; left; left &= left - 1) sizes[std::countr_zero(left)] = 0;
  const std::int64_t least = d.evaluate(sizes), step = d.solve(letter, sizes, size).step;
  const std::uint32_t known = d.letters & bound;
  std::string given = print_letters(schema, args, known);
  if (known) given += " from " + print_binding(schema, args, tensor, known, bound, true);
  const std::string name = d.print(schema.letters) + given;
  if (least >= 0 && d.ignores(open, sizes)) return text(least, " (", name, ")");
  if (least >= 0 && size < least) return text("at least ", least, " (", name, ")");
  if (d.num_terms > 1 || d.addend != 0)
    return text(d.print(schema.letters), " with a whole ", schema.letters[letter].name, given);
  return text("a multiple of ", step, " (", name, ")");
}

// The size required of a dimension whose letters are known.
std::string print_expected(const Schema& schema, const Args& args, int tensor, const DimExpr& d,
                           std::uint32_t bound) {
  if (d.is_constant()) return std::to_string(d.addend);
  const std::int64_t size = d.evaluate(args.letters);
  const std::string name = d.print_whole(schema.letters);  // the smaller size was said before
  const std::string from = print_binding(schema, args, tensor, d.letters, bound);
  if (size == kTooLarge)
    return text(name, " below 2^63, with", print_letters(schema, args, d.letters).substr(1));
  if (size >= 0) return text(name, " = ", size, " from ", from);
  const std::string by =
      d.divisor_letter >= 0 ? schema.letters[d.divisor_letter].name : std::to_string(d.divisor);
  const bool zero = d.divisor_letter >= 0 && args.letters[d.divisor_letter] == 0;
  if (zero) return text(name, " with a ", by, " of at least 1, from ", from);
  if (d.whole) return text(name, " with a multiple of ", by, " before //, from ", from);
  return text(name, " of at least 0, from ", from);
}

// The form that was called, and its caller's name for a tensor: in place, a result has the name of
// the argument that receives it.
std::string form_name(const Schema& schema, const Args& args) {
  return args.inplace ? args.inplace->name : schema.name;
}
const std::string& tensor_name(const Schema& schema, const Args& args, int tensor) {
  const int result = tensor - schema.num_inputs;
  const bool received = result >= 0 && args.received(result);
  return schema.tensors[received ? args.inplace->result_source[result] : tensor].name;
}

std::string param_text(const Form& form, const Param& p) {
  return std::string(form.op->schema.param_name(p));
}

std::string hint(std::string_view given, const std::vector<std::string_view>& names) {
  const std::string said = did_you_mean(given, names);
  return said.empty() ? said : said.substr(2);  // raise() puts the semicolon
}

std::string param_list(const Form& form) {
  std::string s;
  for (const Param& p : *form.params)
    s += text(s.empty() ? "" : ", ", form.op->schema.param_name(p));
  return s;
}

}  // namespace

void bad_rank(const Form& form, std::string_view name, const dlblas_tensor& from) {
  const bool sizeless = from.ndim > 0 && from.ndim <= kMaxRank;
  raise({ErrorKind::kShape, std::string(form.name), std::string(name),
         text("has ", from.ndim, " dimensions", sizeless ? " and no shape" : ""),
         sizeless ? "their sizes" : text("0 to ", kMaxRank), sizeless ? "NULL" : text(from.ndim)});
}

void unknown_dtype(const Form& form, std::string_view name, int code, int bits) {
  raise({ErrorKind::kDType, std::string(form.name), std::string(name),
         "has a dtype the library does not know",
         dtype_names(static_cast<DTypeSet>((1u << kNumDTypes) - 1)),
         text("DLPack code ", code, " with ", bits, " bits")});
}

void negative_size(const Form& form, std::string_view name, std::int64_t size) {
  raise({ErrorKind::kShape, std::string(form.name), std::string(name), "has a negative size",
         "sizes of 0 and more", std::to_string(size)});
}

void too_large(const Form& form, std::string_view name) {
  raise({ErrorKind::kShape, std::string(form.name), std::string(name), "has too many elements",
         "at most 2^56", "more"});
}

void too_far(const Form& form, std::string_view name) {
  raise({ErrorKind::kShape, std::string(form.name), std::string(name),
         "has elements beyond the address space", "strides and an address of one block of memory",
         "others"});
}

void bad_device(const Form& form, std::string_view name, const dlblas_device& got) {
  const std::string words = text("DLPack device type ", got.type, ":", got.index);
  raise({ErrorKind::kDevice, std::string(form.name), std::string(name), "is on " + words,
         text("cpu (1:0) or cuda (2:0 to 2:", INT16_MAX, ")"), words});
}

void bad_scalar(const Form& form, const ScalarSpec& spec, const dlblas_value& got) {
  std::string expected;
  switch (spec.type) {
    case ScalarType::kInt:
      expected = spec.letter < 0 ? "an integer" : "a size from 0 to 2^56";
      break;
    case ScalarType::kFloat:
      expected = "a number";
      break;
    case ScalarType::kBool:
      expected = "true or false";
      break;
    case ScalarType::kDType:
      expected = text("one of ", dtype_names(spec.dtypes));
      break;
    case ScalarType::kEnum:
      for (const std::string& label : spec.labels)
        expected += text(expected.empty() ? "one of " : ", ", "\"", label, "\"");
  }
  std::string advice;
  if (spec.type == ScalarType::kEnum && got.kind == DLBLAS_STRING && got.as.s)
    advice = hint(got.as.s, {spec.labels.begin(), spec.labels.end()});
  raise({ErrorKind::kArgument, std::string(form.name), spec.name, "has a wrong value", expected,
         print_value(got), advice});
}

void not_a_tensor(const Form& form, const TensorSpec& spec, const dlblas_value& got) {
  raise({ErrorKind::kArgument, std::string(form.name), spec.name, "is not a tensor",
         text("a tensor ", spec.type_text), print_value(got)});
}

void unknown_argument(const Form& form, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Param& p : *form.params) names.push_back(form.op->schema.param_name(p));
  raise({ErrorKind::kArgument, std::string(form.name), std::string(name), "is not an argument",
         text("one of ", param_list(form)), std::string(name), hint(name, names)});
}

void too_many_arguments(const Form& form, int given) {
  raise({ErrorKind::kArgument, std::string(form.name), "call", "has a wrong number of arguments",
         text("at most ", form.params->size(), " (", param_list(form), ")"),
         std::to_string(given)});
}

void wrong_outputs(const Form& form, int expected, int given) {
  raise({ErrorKind::kArgument, std::string(form.name), "outputs", "has a wrong number of tensors",
         text("at least ", expected), std::to_string(given)});
}

void given_twice(const Form& form, const Param& param) {
  raise({ErrorKind::kArgument, std::string(form.name), param_text(form, param), "is given twice",
         "one value", "two"});
}

void missing_argument(const Form& form, const Param& param) {
  const Schema& schema = form.op->schema;
  const std::string expected = param.is_tensor
                                   ? text("a tensor ", schema.tensors[param.index].type_text)
                                   : std::string("a value");
  raise({ErrorKind::kArgument, std::string(form.name), param_text(form, param), "is missing",
         expected, "nothing"});
}

void wrong_dtype(const Schema& schema, const Args& args, int tensor) {
  const TensorSpec& spec = schema.tensors[tensor];
  DTypeSet set = spec.dtypes;
  std::string like;
  if (spec.dtype_scalar >= 0 && args.scalars[spec.dtype_scalar].i >= 0) {
    set = set_of(static_cast<DType>(args.scalars[spec.dtype_scalar].i));
    like = text(" (", schema.scalars[spec.dtype_scalar].name, ")");
  } else if (spec.like >= 0) {
    const bool there = args.has(spec.like);
    set |= there ? set_of(args.tensors[spec.like].dtype) : spec.like_absent;
    like = text(" (like ", schema.tensors[spec.like].name, there ? ")" : ", absent)");
  }
  raise({ErrorKind::kDType, form_name(schema, args), tensor_name(schema, args, tensor),
         text("has dtype ", name_of(args.tensors[tensor].dtype)), dtype_names(set) + like,
         std::string(name_of(args.tensors[tensor].dtype)),
         args.tensors[tensor].dtype == DType::kF64  // what NumPy makes by itself
             ? "convert it: .astype(np.float32) in NumPy, .float() in torch"
             : ""});
}

void wrong_rank(const Schema& schema, const Args& args, int tensor) {
  const TensorSpec& spec = schema.tensors[tensor];
  const TensorView& t = args.tensors[tensor];
  const int least = static_cast<int>(spec.dims.size()) - (spec.has_leading() ? 1 : 0);
  raise({ErrorKind::kShape, form_name(schema, args), tensor_name(schema, args, tensor),
         text("has ", t.rank, t.rank == 1 ? " dimension" : " dimensions"),
         text(spec.has_leading() ? "at least " : "", least, " ", schema.print_dims(spec)),
         print_shape(t),
         t.rank > least && least >= 2 ? "make one call for each leading index" : ""});
}

void wrong_size(const Schema& schema, const Args& args, int tensor, int axis, std::uint32_t bound) {
  const TensorSpec& spec = schema.tensors[tensor];
  const TensorView& t = args.tensors[tensor];
  const DimExpr& d = spec.dims[axis];
  const std::int64_t size = t.shape[axis + t.rank - static_cast<int>(spec.dims.size())];
  const std::string what =
      t.rank == 1 ? text("has length ", size)
                  : text("has size ", size, " in dimension ", axis + t.rank - spec.dims.size());
  const bool open = (d.letters & ~bound) != 0;
  const std::string want =
      open ? print_choice(schema, args, tensor, d, size, bound)
           : text(d.may_be_smaller() ? text(d.smaller(args.letters), " or ") : std::string(),
                  print_expected(schema, args, tensor, d, bound));
  raise({ErrorKind::kShape, form_name(schema, args), tensor_name(schema, args, tensor), what, want,
         std::to_string(size)});
}

void no_size(const Schema& schema, const Args& args, int tensor, int axis, std::uint32_t bound) {
  const DimExpr& d = schema.tensors[tensor].dims[axis];
  const std::int64_t size = d.evaluate(args.letters);
  const bool large = size >= 0;
  raise({ErrorKind::kShape, form_name(schema, args), tensor_name(schema, args, tensor),
         large ? "would have too many elements" : text("has no size in dimension ", axis),
         large ? "at most 2^56" : print_expected(schema, args, tensor, d, bound),
         large ? text("more", print_letters(schema, args, d.letters))
               : print_letters(schema, args, d.letters).substr(2)});
}

void wrong_leading(const Schema& schema, const Args& args, int tensor, int like) {
  raise({ErrorKind::kShape, form_name(schema, args), tensor_name(schema, args, tensor),
         "has other leading dimensions",
         text("those of ", schema.tensors[like].name, " ", print_shape(args.tensors[like])),
         print_shape(args.tensors[tensor])});
}

void wrong_product(const Schema& schema, const Args& args, int tensor, std::int64_t product,
                   std::uint32_t bound) {
  const DimExpr& d = schema.tensors[tensor].dims[0];
  raise({ErrorKind::kShape, form_name(schema, args), tensor_name(schema, args, tensor),
         text("has ", product, " rows in its leading dimensions"),
         text(d.print(schema.letters), " = ", d.evaluate(args.letters), " from ",
              print_binding(schema, args, tensor, d.letters, bound)),
         print_shape(args.tensors[tensor])});
}

void wrong_device(const Schema& schema, const Args& args, int tensor, int like) {
  raise(
      {ErrorKind::kDevice, form_name(schema, args), tensor_name(schema, args, tensor),
       text("is on ", print_device(args.tensors[tensor].device)),
       text(print_device(args.tensors[like].device), " (where ", schema.tensors[like].name, " is)"),
       print_device(args.tensors[tensor].device)});
}

void no_device(const Schema& schema, const Args& args, int tensor) {
  raise({ErrorKind::kDevice, form_name(schema, args), tensor_name(schema, args, tensor),
         text("is on ", print_device(args.tensors[tensor].device)), "cpu or cuda",
         print_device(args.tensors[tensor].device), "move the tensor to one of these"});
}

void self_overlap(const Schema& schema, const Args& args, int tensor) {
  raise({ErrorKind::kArgument, form_name(schema, args), tensor_name(schema, args, tensor),
         "overlaps itself", "a destination in which every element has its own memory",
         "a broadcast or overlapping view"});
}

void overlap(const Schema& schema, const Args& args, int result, int other) {
  const std::string& name = tensor_name(schema, args, other);
  const bool input = result < schema.num_inputs ||
                     args.received(result - schema.num_inputs);  // one that the operator writes
  const bool known = sharing_of(args.tensors[result], args.tensors[other]) == Sharing::kSome;
  raise({ErrorKind::kArgument, form_name(schema, args), tensor_name(schema, args, result),
         text(known ? "overlaps " : "may overlap ", name), "memory of its own",
         known ? text("memory shared with ", name)
               : text("strides that cross those of ", name, " in too many ways to tell"),
         input ? "give a copy of one of them" : "give another out, or call an in-place form"});
}

void unbound_letter(const Schema& schema, const Args& args, int tensor, int letter) {
  raise({ErrorKind::kArgument, form_name(schema, args), tensor_name(schema, args, tensor),
         "has an unknown size", text("an argument that gives ", schema.letters[letter].name),
         "none", "give out, or the optional argument"});
}

void cold_under_capture(const std::string& op, const std::string& implementation) {
  raise({ErrorKind::kCompile, op, "call", "is captured into a graph before its kernel is loaded",
         text("a kernel of ", implementation, " that is ready"), "one that has to be compiled",
         text("call dlblas.warmup(\"", op,
              "\", …) with these arguments, or the operator once, before the "
              "capture")});
}

void no_data(const Schema& schema, const Args& args, int tensor) {
  raise({ErrorKind::kArgument, form_name(schema, args), tensor_name(schema, args, tensor),
         "has no memory", "a data pointer", "NULL"});
}

void out_of_bounds(const Schema& schema, const Args& args, int tensor, std::int64_t at,
                   std::int64_t value, std::int64_t least, std::int64_t most) {
  const bool any_negative = least < 0;
  const bool any_more = most == std::numeric_limits<std::int64_t>::max();
  const bool none = most < std::max<std::int64_t>(0, least);  // what it counts or indexes is empty
  raise({ErrorKind::kArgument, form_name(schema, args), tensor_name(schema, args, tensor),
         text("is out of bounds at element ", at),
         any_more               ? text(least, " or more")
         : none && any_negative ? "a negative number (there is nothing to index)"
         : none                 ? "no element (there is nothing to index)"
         : any_negative         ? text("at most ", most)
                                : text(least, " to ", most),
         text(value)});
}

void other_memory(const Schema& schema, const Args& args, int r, const TensorView& asked) {
  const TensorView& made = args.result(r);
  const auto strides = [](const TensorView& t) {
    std::string s = "strides (";
    for (int i = 0; i < t.rank; ++i) s += text(i ? ", " : "", t.strides[i]);
    return s + ")";
  };
  const bool moved = strides(made) == strides(asked);
  raise({ErrorKind::kArgument, form_name(schema, args),
         tensor_name(schema, args, schema.num_inputs + r),
         "is not in the memory that was asked of new_output",
         moved ? text("an address that is a multiple of ", 1 << traits_of(asked).align_log2)
               : strides(asked),
         moved ? text("a multiple of ", 1 << traits_of(made).align_log2) : strides(made),
         "pass such a result as an output instead"});
}

[[noreturn]] static void no_memory_for(const Schema& schema, const Args& args,
                                       const std::string& what, std::size_t bytes) {
  const bool gpu = args.tensors[0].device.type == DeviceType::kCuda;
  raise({ErrorKind::kLaunch, form_name(schema, args), what, "could not be allocated",
         text(bytes, " bytes"), "none",
         text("free memory of the ", gpu ? "GPU" : "host", ", or call with smaller tensors")});
}

void no_memory(const Schema& schema, const Args& args, int r) {
  const TensorView& t = args.result(r);
  no_memory_for(schema, args, tensor_name(schema, args, schema.num_inputs + r),
                static_cast<std::size_t>(t.numel()) * static_cast<std::size_t>(size_of(t.dtype)));
}

void no_workspace(const Schema& schema, const Args& args, std::size_t bytes) {
  no_memory_for(schema, args, "workspace", bytes);
}

void nothing_fits(const std::string& op, const std::string& table) {
  throw Error(
      ErrorKind::kUnsupported,
      text(op, ": call has no implementation; expected one candidate that supports it, got\n",
           table),
      {op, "call", "one candidate that supports it", "none"});
}

}  // namespace dlblas::errors
