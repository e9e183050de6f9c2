// See problem_text.hpp.
#include "dispatch/problem_text.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include "core/error.hpp"
#include "cuda/cuda.hpp"

namespace dlblas {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 48;
constexpr std::int64_t kMaxThreads = 1024;

std::string_view value_of(const Fields& fields, std::string_view name) {
  for (const auto& field : fields)
    if (field.name == name) return field.value;
  return {};
}

[[noreturn]] void refuse(const std::string& op, const char* field, const std::string& expected,
                         std::string_view got) {
  throw Error(ErrorKind::kArgument,
              text(op, ": key's ", field, " is malformed; expected ", expected, ", got \"", got,
                   "\"; have it written by dlblas.missed()"),
              {op, field, expected, std::string(got)});
}

std::optional<std::int64_t> number(std::string_view word) {
  std::int64_t n = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (failed != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return n;
}

std::string_view take_word(std::string_view& rest, char separator) {
  const std::string_view word = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return word;
}

// Takes `name=` off the front.
bool take_name(std::string_view& rest, std::string_view name) {
  if (!rest.starts_with(name) || !rest.substr(name.size()).starts_with('=')) return false;
  rest.remove_prefix(name.size() + 1);
  return true;
}

class Reader {
 public:
  Reader(const Operator& op, const Fields& fields) : op_(op), schema_(op.schema), fields_(fields) {}

  Problem read() {
    read_dims();
    read_tensors();
    read_scalars();
    problem_.op = op_.id;
    problem_.flags =
        static_cast<std::uint8_t>(integer("flags", 0, kDeterministic | kAllowTf32, "0 to 3", "0"));
    read_device();
    return checked();
  }

 private:
  [[noreturn]] void bad(const char* field, const std::string& expected) const {
    refuse(schema_.name, field, expected, value_of(fields_, field));
  }

  std::int64_t integer(const char* field, std::int64_t least, std::int64_t most,
                       const char* expected, std::string_view absent) const {
    std::string_view word = value_of(fields_, field);
    if (word.empty()) word = absent;
    const auto n = number(word);
    if (!n || *n < least || *n > most) bad(field, expected);
    return *n;
  }

  void read_dims() {
    std::string_view rest = value_of(fields_, "dims");
    std::string expected;
    for (const Letter& letter : schema_.letters)
      if (!letter.pool) expected += text(expected.empty() ? "" : " ", letter.name, "=…");
    for (std::size_t i = 0; i < schema_.letters.size(); ++i) {
      if (schema_.letters[i].pool) continue;
      std::string_view word = take_word(rest, ' ');
      const auto n = take_name(word, schema_.letters[i].name) ? number(word) : std::nullopt;
      if (!n || *n < 0 || *n > kLargest) bad("dims", expected);
      problem_.dims[i] = *n;
    }
    if (!rest.empty()) bad("dims", expected);
  }

  void read_tensors() {
    std::string_view rest = value_of(fields_, "tensors");
    for (std::size_t i = 0; i < schema_.tensors.size(); ++i)
      read_tensor(static_cast<int>(i), take_word(rest, ' '));
    if (!rest.empty()) bad("tensors", "one entry per tensor");
  }

  // `x:f32:row_strided:16`, then `:ones=1M` and `:in=x` where they apply; `bias:absent`.
  void read_tensor(int i, std::string_view entry) {
    const TensorSpec& spec = schema_.tensors[i];
    TensorTraits& t = problem_.tensors[i];
    const std::string expected = text(spec.name, ":dtype:layout:alignment");
    if (take_word(entry, ':') != spec.name) bad("tensors", expected);
    const std::string_view dtype = take_word(entry, ':');
    int code = 0;
    while (code < kNumDTypes && name_of(static_cast<DType>(code)) != dtype) ++code;
    t.dtype = static_cast<DType>(code);
    if (dtype == name_of(DType::kAbsent)) {
      if (!spec.optional) bad("tensors", expected);
      t.dtype = DType::kAbsent;
      return;
    }
    const std::string_view layout = take_word(entry, ':');
    int kind = 0;
    while (kind <= kLastLayout && name_of(static_cast<Layout>(kind)) != layout) ++kind;
    const auto align = number(take_word(entry, ':'));
    if (code == kNumDTypes || kind > kLastLayout || !align || *align < 1 || *align > 16 ||
        !std::has_single_bit(static_cast<std::uint64_t>(*align)))
      bad("tensors", expected);
    t.layout = static_cast<Layout>(kind);
    t.align_log2 = static_cast<std::uint8_t>(std::countr_zero(static_cast<unsigned>(*align)));
    if (take_name(entry, "ones")) read_ones(i, take_word(entry, ':'));
    if (take_name(entry, "in")) t.alias = input_of(i, take_word(entry, ':'));
    if (!entry.empty()) bad("tensors", expected);
  }

  void read_ones(int tensor, std::string_view letters) {
    const auto& dims = schema_.tensors[tensor].dims;
    for (std::size_t k = 0; k < dims.size(); ++k) {
      if (!dims[k].may_be_smaller()) continue;
      if (letters.empty()) bad("tensors", "1 or M for each dimension that may be smaller");
      if (letters.front() == '1') ones_[tensor] |= static_cast<std::uint8_t>(1u << k);
      letters.remove_prefix(1);
    }
  }

  // 1 + the index of the input that an in-place result shares, which must be allowed.
  std::uint8_t input_of(int tensor, std::string_view name) {
    const int r = tensor - schema_.num_inputs;
    for (int i = 0; r >= 0 && i < schema_.num_inputs; ++i)
      if (schema_.tensors[i].name == name && (op_.may_alias[r] >> i & 1u))
        return static_cast<std::uint8_t>(i + 1);
    bad("tensors", "in=, for a result, an input that may hold it");
  }

  std::int64_t read_scalar(const ScalarSpec& spec, std::string_view& rest) {
    if (spec.type == ScalarType::kEnum && !spec.key_set) {
      for (std::size_t i = 0; i < spec.labels.size(); ++i) {
        const std::string quoted = text('"', spec.labels[i], '"');
        if (!rest.starts_with(quoted)) continue;
        rest.remove_prefix(std::min(rest.size(), quoted.size() + 1));
        return static_cast<std::int64_t>(i);
      }
      bad("scalars", text(spec.name, " of its labels, in quotes"));
    }
    std::string_view word = take_word(rest, ' ');
    if (spec.key_set && (word == "set" || word == "default")) return word == "set";
    if (spec.key_set) bad("scalars", text(spec.name, "=set or default"));
    if (spec.type == ScalarType::kBool && (word == "true" || word == "false"))
      return word == "true";
    if (spec.type == ScalarType::kDType) {
      if (word == "none") return -1;
      for (int t = 0; t < kNumDTypes; ++t)
        if (name_of(static_cast<DType>(t)) == word && (spec.dtypes >> t & 1u)) return t;
    }
    if (spec.type == ScalarType::kFloat && word.starts_with("bits:")) word.remove_prefix(5);
    const auto n = number(word);
    if (!n || spec.type == ScalarType::kBool || spec.type == ScalarType::kDType)
      bad("scalars", text(spec.name, "=a value of its kind"));
    return *n;
  }

  void read_scalars() {
    std::string_view rest = value_of(fields_, "scalars");
    for (const ScalarSpec& spec : schema_.scalars) {
      if (!spec.key) continue;
      if (!take_name(rest, spec.name)) bad("scalars", text(spec.name, "=…"));
      problem_.scalars[spec.key_slot] = read_scalar(spec, rest);
    }
    if (!rest.empty()) bad("scalars", "those of the schema that are in the key, in its order");
  }

  void read_device() {
    std::string_view device = value_of(fields_, "device");
    if (device.empty() || device == "cpu") {
      problem_.threads = static_cast<std::uint16_t>(
          integer("threads", 1, kMaxThreads, "1 to 1024", std::to_string(cpu_info().units)));
      return;
    }
    const auto index = take_word(device, ':') == "cuda" ? number(device) : std::nullopt;
    if (!index || *index < 0 || *index >= cuda::device_count())
      bad("device", text("cpu, or one of the ", cuda::device_count(), " GPUs of this machine"));
    problem_.device_type = DeviceType::kCuda;
    problem_.device_index = static_cast<std::int16_t>(*index);
  }

  // Puts the arguments of such a call, without memory, through validate: letters, dtypes, sizes.
  Problem checked() const {
    Args args;
    args.schema = &schema_;
    const auto sizes = schema_.sizes_of(problem_);
    const int count = static_cast<int>(schema_.tensors.size());
    for (int i = 0; i < kMaxTensors; ++i) args.tensors[i] = TensorView{};
    for (int i = 0; i < count; ++i) {
      if (problem_.tensors[i].dtype == DType::kAbsent) continue;
      args.present |= 1u << i;
      if (i < schema_.num_inputs) args.tensors[i] = view_of(i, sizes.data());
    }
    for (std::size_t i = 0; i < schema_.scalars.size(); ++i) args.scalars[i] = scalar_of(i);
    dlblas_args call{};
    call.flags = problem_.flags;
    Problem made;
    validate(op_, call, problem_.threads, args, made);
    made.device_type = problem_.device_type;
    made.device_index = problem_.device_index;
    made.threads = problem_.threads;
    for (int i = 0; i < count; ++i) {
      const TensorTraits& t = problem_.tensors[i];
      const bool other = t.dtype != made.tensors[i].dtype;
      if (i >= schema_.num_inputs && other && !(schema_.tensors[i].dtypes & set_of(t.dtype)))
        bad("tensors", text(schema_.tensors[i].name, " of a dtype that the schema allows"));
      made.tensors[i] = t;
      if (!may_have(i, t.layout))
        bad("tensors", text(schema_.tensors[i].name, " in a layout that its rank has"));
    }
    return made;
  }

  bool may_have(int tensor, Layout layout) const {
    const TensorSpec& spec = schema_.tensors[tensor];
    if (layout == Layout::kTransposed) return spec.dims.size() == 2;
    if (layout == Layout::kTokensOuter) return spec.inner() > 1;
    return layout != Layout::kMatricesTransposed ||
           (tensor < schema_.num_inputs && spec.has_matrices());
  }

  TensorView view_of(int tensor, const std::int64_t* sizes) const {
    const auto& dims = schema_.tensors[tensor].dims;
    TensorView t{};
    t.dtype = problem_.tensors[tensor].dtype;
    t.device = problem_.device();
    t.rank = static_cast<std::int32_t>(dims.size());
    std::int64_t step = 1;
    for (int k = t.rank - 1; k >= 0; --k) {
      const auto at = static_cast<std::size_t>(k);
      t.shape[k] = ones_[tensor] >> k & 1u ? dims[at].smaller(sizes)
                                           : std::max<std::int64_t>(dims[at].evaluate(sizes), 0);
      t.strides[k] = step;
      if (t.shape[k] > 0 && step > kLargest / t.shape[k])
        bad("dims", text("sizes that memory can hold for ", schema_.tensors[tensor].name));
      step *= std::max<std::int64_t>(t.shape[k], 1);
    }
    return t;
  }

  // The same values as the tuner makes (tuner/inputs.cpp).
  ScalarValue scalar_of(std::size_t i) const {
    const ScalarSpec& spec = schema_.scalars[i];
    if (spec.letter >= 0) return {problem_.dims[spec.letter], 0};
    const std::int64_t kept = spec.key ? problem_.scalars[spec.key_slot] : 0;
    if (spec.key_set) return kept ? spec.set_value : spec.default_value;
    if (spec.key)
      return spec.type == ScalarType::kFloat ? ScalarValue{0, std::bit_cast<double>(kept)}
                                             : ScalarValue{kept, 0};
    return spec.has_default ? spec.default_value : ScalarValue{1, 1.0};
  }

  const Operator& op_;
  const Schema& schema_;
  const Fields& fields_;
  Problem problem_;
  std::uint8_t ones_[kMaxTensors] = {};
};

}  // namespace

Fields problem_fields(const Operator& op, const Problem& problem) {
  Fields fields{{"op", op.schema.name}};
  const Fields key = store_key(op, problem);
  for (const char* name : {"schema", "dims", "tensors", "scalars", "flags"})
    fields.push_back({name, std::string(value_of(key, name))});
  const bool gpu = problem.device_type == DeviceType::kCuda;
  fields.push_back({"device", gpu ? text("cuda:", problem.device_index) : "cpu"});
  if (!gpu) fields.push_back({"threads", std::to_string(problem.threads)});
  return fields;
}

Problem read_problem(const Fields& fields, const Operator** op) {
  constexpr std::string_view kNames[] = {"op",      "schema", "dims",   "tensors",
                                         "scalars", "flags",  "device", "threads"};
  const std::string name(value_of(fields, "op"));
  const Operator& found = *Registry::process().at(name).op;
  for (const auto& field : fields)
    if (std::find(std::begin(kNames), std::end(kNames), field.name) == std::end(kNames))
      refuse(name, "field", "op, schema, dims, tensors, scalars, flags, device, threads",
             field.name);
  const std::string_view schema = value_of(fields, "schema");
  if (!schema.empty() && schema != found.schema.hash)
    refuse(name, "schema", text(found.schema.hash, ", of this version's operator"), schema);
  *op = &found;
  return Reader(found, fields).read();
}

}  // namespace dlblas
