// CUDA text as an implementation: compiled by the same JIT as the library's kernels and launched
// with one parameter per tensor, letter and scalar. In: dlblas_cuda_text. Out:
// Implementation::sources and a step. Read next: jit/headers.hpp, device/own.cuh, docs/own.md.
#include <algorithm>
#include <bit>

#include "bindings/c/guard.hpp"
#include "bindings/c/own.hpp"
#include "core/error.hpp"
#include "cuda/cuda.hpp"
#include "jit/headers.hpp"
#include "jit/jit.hpp"
#include "store/sha256.hpp"

namespace dlblas {

namespace {

std::string_view element_of(DType dtype) {
  constexpr std::string_view kNames[] = {
      "float", "f16",           "bf16", "f8e4m3", "f8e5m2",        "signed char",  "int",
      "long",  "unsigned char", "bool", "double", "unsigned char", "unsigned char"};
  return dtype == DType::kAbsent ? "float" : kNames[static_cast<int>(dtype)];
}

// The source for one configuration and one set of dtypes: macros, element types, the user's text.
std::string text_of(const OwnImplementation& own, const Problem& problem, const Config& config) {
  std::string s;
  for (int i = 0; i < own.table.size(); ++i) {
    const Knob& knob = own.table.knobs()[static_cast<std::size_t>(i)];
    const auto at = std::find(knob.values.begin(), knob.values.end(), config.values[i]);
    s += knob.labels.empty()
             ? text("#define ", knob.name, " ", config.values[i], "\n")
             : text("#define ", knob.name, " ",
                    knob.labels[static_cast<std::size_t>(at - knob.values.begin())], "\n");
  }
  s += "#include \"device/own.cuh\"\nnamespace own {\n";
  for (std::size_t i = 0; i < own.op->schema.tensors.size(); ++i)
    s += text("using ", own.op->schema.tensors[i].name, " = ", element_of(problem.tensors[i].dtype),
              ";\n");
  return s + text("}\n#include \"", own.cuda.header, "\"\n");
}

std::vector<KernelSource> sources(const Query& q, const Config& config) {
  const OwnImplementation& own = own_of(q);
  const std::string all = text_of(own, q.problem, config);
  const std::string header = "own/" + sha256_hex(all).substr(0, 32) + ".cuh";
  jit::add_header(header, all);
  std::int64_t values[kMaxLetters + kMaxKnobs];
  std::copy_n(own.op->schema.sizes_of(q.problem).begin(), own.op->schema.letters.size(), values);
  std::copy_n(config.values.begin(), own.table.size(), values + own.op->schema.letters.size());
  // Evaluated at the bucket's upper end: if the expression grows with the size, no exact size needs
  // more.
  const std::int64_t shared = own.cuda.shared_bytes.evaluate(values);
  return {{header, own.cuda.entry,
           static_cast<std::int32_t>(std::clamp<std::int64_t>(shared, 0, 1 << 20))}};
}

Support supports(const Query& q) {
  const std::size_t count = own_of(q).op->schema.tensors.size();
  for (std::size_t i = 0; i < count; ++i)
    if (const TensorTraits& t = q.problem.tensors[i];
        t.dtype != DType::kAbsent && t.layout != Layout::kContiguous)
      return Support::no("CUDA text reads contiguous tensors only, and {} is not",
                         tensor(static_cast<int>(i)));
  return own_supports(q);
}

// One kernel argument: eight bytes hold any of them.
union Argument {
  const void* pointer;
  std::int64_t integer;
  float real;
  bool flag;
};

std::size_t pack(const Args& args, Argument* to) {
  const Schema& schema = *args.schema;
  std::size_t n = 0;
  const auto tensors = static_cast<int>(schema.tensors.size());
  for (int i = schema.num_inputs; i < tensors; ++i) to[n++].pointer = args.tensors[i].data;
  for (int i = 0; i < schema.num_inputs; ++i)
    to[n++].pointer = args.has(i) ? args.tensors[i].data : nullptr;
  for (std::size_t i = 0; i < schema.letters.size(); ++i) to[n++].integer = args.letters[i];
  for (std::size_t i = 0; i < schema.scalars.size(); ++i) {
    if (schema.scalars[i].letter >= 0) continue;  // came as its letter
    const ScalarValue& value = args.scalars[i];
    const ScalarType type = schema.scalars[i].type;
    if (type == ScalarType::kFloat)
      to[n++].real = static_cast<float>(value.f);
    else if (type == ScalarType::kBool)
      to[n++].flag = value.i != 0;
    else
      to[n++].integer = value.i;
  }
  return n;
}

constexpr std::int64_t kMaxGrid = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMaxBlock = 1024;
constexpr int kInvalidValue = 1;  // CUDA_ERROR_INVALID_VALUE

int run_kernel(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const OwnState& state = kernel.load<OwnState>();
  const OwnCuda& own = state.own->cuda;
  std::int64_t values[kMaxLetters + kMaxKnobs];
  const std::size_t letters = args.schema->letters.size();
  std::copy_n(args.letters, letters, values);
  std::copy_n(state.config, state.own->table.size(), values + letters);
  unsigned sizes[6];
  for (int i = 0; i < 6; ++i) {
    const std::int64_t n = (i < 3 ? own.grid[i] : own.block[i - 3]).evaluate(values);
    if (n < 1 || n > kMaxGrid) return kInvalidValue;
    sizes[i] = static_cast<unsigned>(n);
  }
  const std::int64_t shared = own.shared_bytes.evaluate(values);
  if (shared < 0 || shared > kMaxGrid) return kInvalidValue;
  Argument packed[kMaxTensors + kMaxLetters + kMaxScalars];
  void* pointers[std::size(packed)];
  const std::size_t count = pack(args, packed);
  for (std::size_t i = 0; i < count; ++i) pointers[i] = &packed[i];
  const cuda::Launch how{{sizes[0], sizes[1], sizes[2]},
                         {sizes[3], sizes[4], sizes[5]},
                         static_cast<unsigned>(shared)};
  return cuda::launch_list(*kernel.entries[0], how, pointers, context.stream);
}

Kernel prepare(const Query& q, const Config& config) {
  OwnState state{&own_of(q), {}};
  std::copy_n(config.values.begin(), kMaxKnobs, state.config);
  return make_kernel({run_kernel}, state);
}

// The range that CUDA accepts.
struct Range {
  std::int64_t least, most;
};

Expression parse(const OwnImplementation& own, const char* argument, const char* from,
                 const char* otherwise) {
  std::vector<std::string_view> names;
  for (const Letter& letter : own.op->schema.letters) names.push_back(letter.name);
  for (const Knob& knob : own.table.knobs()) names.push_back(knob.name);
  try {
    return Expression(from && *from ? from : otherwise, names);
  } catch (const Error& e) {
    throw Error(e.kind(),
                text(own.op->schema.name, ": ", argument, " of ", own.name, ": ", e.what()),
                {own.op->schema.name, argument, e.detail().expected, e.detail().got});
  }
}

// A constant expression is checked here, any other by each launch.
Expression read_expression(const OwnImplementation& own, const char* argument, Range range,
                           const char* from, const char* otherwise) {
  Expression made = parse(own, argument, from, otherwise);
  const std::int64_t value = made.is_constant() ? made.evaluate(nullptr) : range.least;
  if (value < range.least || value > range.most)
    refuse(ErrorKind::kArgument, own.op->schema.name,
           {argument, "is out of range", text(range.least, " to ", range.most), text(value)});
  return made;
}

// Dtypes of a problem: for each tensor, its `turn`-th allowed dtype, wrapping around.
Problem dtypes_of(const Schema& schema, int turn) {
  Problem p;
  for (std::size_t i = 0; i < schema.tensors.size(); ++i) {
    const TensorSpec& t = schema.tensors[i];
    if (t.like >= 0 && static_cast<std::size_t>(t.like) < i) {
      p.tensors[i].dtype = p.tensors[t.like].dtype;
      continue;
    }
    int left = turn % std::max(1, std::popcount(t.dtypes));
    for (int d = 0; d < kNumDTypes; ++d)
      if (t.dtypes >> d & 1u && left-- == 0) p.tensors[i].dtype = static_cast<DType>(d);
  }
  return p;
}

// Rewrites "own/<digest>.cuh(7): error: …": the line number is that of the user's text.
std::string in_words(const std::string& log, const std::string& header) {
  std::string all;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    std::string line = log.substr(at, end - at);
    at = end + 1;
    if (line.find("error: ") == line.npos) continue;
    const std::size_t own = line.find(header + "("), close = line.find(')', own);
    if (own != line.npos && close != line.npos)
      line = text("line ", line.substr(own + header.size() + 1, close - own - header.size() - 1),
                  line.substr(close + 1));
    all += all.empty() ? line : text("; ", line);
  }
  return all.empty() ? log : all;
}

// Where a compiler is available, refuses text that compiles for no dtypes and no knobs. Tries the
// first and the last configuration (others may not be valid combinations), with each tensor's
// first, second, … dtype, for Hopper and for the GPU present.
void check_text(const OwnImplementation& own) {
  constexpr int kTurns = 4, kHopper = 90;
  Config configs[2] = {};
  for (int i = 0; i < own.table.size(); ++i) {
    const Knob& knob = own.table.knobs()[static_cast<std::size_t>(i)];
    configs[0].values[i] = knob.values.front(), configs[1].values[i] = knob.values.back();
  }
  if (own.has_preset) configs[0] = own.preset;
  if (!own.listed.empty()) configs[0] = own.listed.front(), configs[1] = own.listed.back();
  std::string first;
  for (const bool here : {false, true}) {
    if (here && !cuda::unavailable().empty()) break;
    const int arch = here ? cuda::info(0).arch : kHopper;
    for (int turn = 0; turn < kTurns; ++turn) {
      for (const Config& config : configs) {
        const std::string all = text_of(own, dtypes_of(own.op->schema, turn), config);
        const std::string header = "own/" + sha256_hex(all).substr(0, 32) + ".cuh";
        jit::add_header(header, all);
        const std::string log = jit::front_end_errors({header, own.cuda.entry, 0}, arch);
        if (log.empty()) return;
        if (first.empty()) first = in_words(log, own.cuda.header);
      }
    }
  }
  refuse(ErrorKind::kCompile, own.op->schema.name,
         {"cuda", "does not compile", "CUDA text", text(own.name, ": ", first)});
}

// Everything that determines the machine code: the text, the library headers it includes, and how
// it is launched.
std::string digest_of(const OwnImplementation& own, const dlblas_cuda_text& from) {
  std::string all = text(own.cuda.entry, "\n");
  for (const jit::Header& h : jit::closure_of(own.cuda.header)) all += text(h.name, "\n", h.text);
  for (int i = 0; i < 3; ++i)
    all += text("\n", from.grid[i] ? from.grid[i] : "", "|", from.block[i] ? from.block[i] : "");
  return sha256_hex(all + "|" + (from.shared_bytes ? from.shared_bytes : "")).substr(0, 16);
}

}  // namespace

void read_cuda_text(OwnImplementation& own, Implementation& impl) {
  const dlblas_cuda_text& from = *own.c.cuda;
  const auto no = [&](const char* argument, const char* problem, const std::string& expected,
                      const std::string& got) {
    refuse(ErrorKind::kArgument, own.op->schema.name, {argument, problem, expected, got});
  };
  if (from.size < sizeof(dlblas_cuda_text))
    no("cuda", "has a wrong size", text(sizeof(dlblas_cuda_text)), text(from.size));
  if (!from.text || !*from.text) no("cuda", "has no text", "CUDA source text", "nothing");
  if (!from.entry || !*from.entry) no("cuda", "has no entry", "a __global__ function", "nothing");
  if (own.c.workspace) no("workspace", "is not for CUDA text", "NULL", "a function");
  own.cuda.entry = from.entry;
  own.cuda.header = "own/" + sha256_hex(from.text).substr(0, 32) + ".cuh";
  jit::add_header(own.cuda.header, from.text);
  constexpr const char* kBlock[] = {"256", "1", "1"};
  for (int i = 0; i < 3; ++i) {
    own.cuda.grid[i] = read_expression(own, "grid", {1, kMaxGrid}, from.grid[i], "1");
    own.cuda.block[i] = read_expression(own, "block", {1, kMaxBlock}, from.block[i], kBlock[i]);
  }
  own.cuda.shared_bytes =
      read_expression(own, "shared_bytes", {0, kMaxGrid}, from.shared_bytes, "0");
  if (own.source_hash.empty()) own.source_hash = digest_of(own, from);
  check_text(own);
  impl.supports = supports;
  impl.prepare = prepare;
  impl.sources = sources;
}

}  // namespace dlblas
