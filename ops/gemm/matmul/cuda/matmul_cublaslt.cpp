// cuBLASLt's matmul as a rival on equal terms: same checks, same search, same oracle. Its heuristic
// list is the search space: knob `algo` indexes it.
// In: a Problem; at launch the exact sizes and strides. Out: a Kernel of one step. A Problem holds
// only M's bucket and no pitches: for other sizes cuBLASLt is asked once for its first choice, or,
// if a measurement chose another entry of the list, whether that algorithm supports them.
// cuBLASLt's matrices are column-major: the product is computed as outᵀ = bᵀ · aᵀ. A batch of
// products is one call, with strides between matrices.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: matmul_cublaslt.hpp,
// src/cuda/cublaslt.hpp.
#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "core/error.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cuda/cublaslt.hpp"
#include "cuda/cuda.hpp"
#include "ops/gemm/matmul/cuda/matmul_cublaslt.hpp"

namespace dlblas::gemm {
namespace {

using cuda::CublasLt;
constexpr int kListed = 8;
constexpr std::size_t kMaxWorkspace = std::size_t{32} << 20;

const ConfigTable<CublasLtConfig>& table() { return cublaslt_table(); }

int data_type(DType t) {
  constexpr int kTypes[] = {CublasLt::kF32, CublasLt::kF16, CublasLt::kBF16};
  return kTypes[static_cast<int>(t)];
}

/// Descriptors of one product; `valid` if cuBLASLt accepted them all.
struct Product {
  CublasLt::Description description;
  CublasLt::Layout b, a, out;
  bool valid;

  Product(const Operands& o, const LtBatch& batch, const MatmulTraits& s, LtCompute compute,
          const void* bias) {
    const CublasLt& lt = cuda::cublaslt();
    const auto lay_out = [&](CublasLt::Layout& layout, const Columns& c, DType type,
                             std::int64_t apart) {
      const auto set_layout = [&](int attribute, const auto& value) {
        return lt.layout_set(&layout, attribute, &value, sizeof value) == 0;
      };
      const auto count = static_cast<std::int32_t>(batch.count);
      return lt.layout_init(&layout, sizeof layout, data_type(type),
                            static_cast<std::uint64_t>(c.rows), static_cast<std::uint64_t>(c.cols),
                            c.pitch) == 0 &&
             (count == 1 ||
              (set_layout(CublasLt::kBatchCount, count) && set_layout(CublasLt::kApart, apart)));
    };
    const auto set = [&](int attribute, const auto& value) {
      return lt.description_set(&description, attribute, &value, sizeof value) == 0;
    };
    const std::int32_t trans_b = s.gemm.b_by_depth ? CublasLt::kTransposed : CublasLt::kPlain;
    const std::int32_t trans_a = s.gemm.a_by_depth ? CublasLt::kPlain : CublasLt::kTransposed;
    valid = lay_out(b, o.b, s.gemm.type, batch.b) && lay_out(a, o.a, s.gemm.type, batch.a) &&
            lay_out(out, o.out, s.epilogue.out, batch.out) &&
            lt.description_init(
                &description, sizeof description,
                compute == LtCompute::kTf32 ? CublasLt::kCompute32FFastTf32 : CublasLt::kCompute32F,
                CublasLt::kF32) == 0 &&
            set(CublasLt::kTransA, trans_b) && set(CublasLt::kTransB, trans_a);
    if (valid && s.epilogue.has_bias) {
      const std::uint32_t epilogue = CublasLt::kBias;
      const std::int32_t type = data_type(s.epilogue.bias);
      valid = set(CublasLt::kEpilogue, epilogue) && set(CublasLt::kBiasPointer, bias) &&
              set(CublasLt::kBiasType, type);
    }
  }
};

/// What an algorithm may depend on besides the Problem: M, the pitches of b, a, out, and the batch.
using Size = std::array<std::int64_t, 8>;
Size sizes_of(const Operands& o, const LtBatch& batch) {
  return {o.out.cols, o.b.pitch, o.a.pitch, o.out.pitch, batch.count, batch.b, batch.a, batch.out};
}

/// A kernel's state, until it is released.
struct LtState {
  MatmulTraits traits;
  LtCompute compute;
  std::uint32_t align[4];  // bytes, of a, b, bias, out: gemm::Tensor's order
  CublasLt::Handle handle;
  Size bucket;
  CublasLt::Choice choice;    // of the bucket's size
  bool first;                 // it is the first of the list
  std::size_t workspace = 0;  // bytes: what the sizes of the bucket want

  /// Algorithms for the last few other sizes of the bucket; the oldest is replaced first.
  struct Known {
    Size size{-1, 0, 0, 0};
    CublasLt::Algorithm algorithm;
  };
  std::mutex mutex;
  std::array<Known, 32> known;
  std::size_t next = 0;
};

/// cuBLASLt's list for one product, best guess first. Split-K sums are reduced in f32 only: f16 or
/// bf16, which torch.mm allows, would round each part, and the operator promises one rounding, at
/// the store. This costs nothing where tiles fill the device, since K is whole there; few rows,
/// where K is split, have forms of our own.
std::vector<CublasLt::Choice> choices_of(const LtState& state, const Product& x,
                                         std::size_t workspace, int wanted) {
  const CublasLt& lt = cuda::cublaslt();
  CublasLt::Preference preference;
  const auto set = [&](int attribute, const auto& value) {
    return lt.preference_set(&preference, attribute, &value, sizeof value) == 0;
  };
  std::uint32_t schemes = CublasLt::kReduceInComputeType;
  if (state.traits.epilogue.out == DType::kF32) schemes |= CublasLt::kReduceInPlace;
  const std::uint64_t most = workspace;
  std::vector<CublasLt::Choice> list(static_cast<std::size_t>(wanted));
  int found = 0;
  const bool made = x.valid && lt.preference_init(&preference, sizeof preference) == 0 &&
                    set(CublasLt::kMaxWorkspace, most) &&
                    set(CublasLt::kReductionSchemes, schemes) &&
                    set(CublasLt::kMinAlignmentA, state.align[kB]) &&
                    set(CublasLt::kMinAlignmentB, state.align[kA]) &&
                    set(CublasLt::kMinAlignmentC, state.align[kOut]) &&
                    set(CublasLt::kMinAlignmentD, state.align[kOut]);
  if (!made || lt.choose(state.handle, &x.description, &x.b, &x.a, &x.out, &x.out, &preference,
                         wanted, list.data(), &found) != 0) {
    found = 0;
  }
  list.resize(static_cast<std::size_t>(found));
  list.erase(std::remove_if(list.begin(), list.end(),
                            [](const CublasLt::Choice& c) { return c.status != 0; }),
             list.end());
  return list;
}

/// Fills in everything but the choice. The device's context must be current.
void start_state(const Problem& p, LtCompute compute, LtState& state) {
  state.traits = matmul_traits(p);
  state.compute = compute;
  for (const int i : {kA, kB, kBias, kOut}) state.align[i] = 1u << p.tensors[i].align_log2;
  state.handle = cuda::cublaslt_handle(p.device_index);
}

/// The operands of the bucket's size: without gaps, or with the smallest that keep the alignment.
Operands bucket_operands(const Problem& p, const MatmulTraits& s) {
  const std::int64_t m = p.dims[kM], n = p.dims[kN], k = p.dims[kK];
  const auto columns = [&](int i, std::int64_t rows, std::int64_t cols) {
    const TensorTraits& t = p.tensors[i];
    const std::int64_t unit =
        t.layout == Layout::kContiguous ? 1 : std::max(1, (1 << t.align_log2) / size_of(t.dtype));
    return Columns{nullptr, rows, cols, cols <= 1 ? rows : round_up(rows, unit)};
  };
  return {s.gemm.b_by_depth ? columns(kB, k, n) : columns(kB, n, k),
          s.gemm.a_by_depth ? columns(kA, k, m) : columns(kA, m, k), columns(kOut, n, m)};
}

/// Matrices of the bucket's size, back to back.
LtBatch bucket_batch(const Operands& o, std::int64_t count) {
  if (count == 1) return {};
  return {count, o.a.cols * o.a.pitch, o.b.cols * o.b.pitch, o.out.cols * o.out.pitch};
}

/// The largest workspace that the first choices for a few of the bucket's sizes need.
std::size_t wanted_workspace(const Problem& p, std::int64_t count, const LtState& state) {
  constexpr int kSizes = 4;
  std::size_t most = state.choice.workspace_bytes;
  if (!state.first) return most;
  const auto* bias = reinterpret_cast<const void*>(std::uintptr_t{state.align[kBias]});
  Problem at = p;
  const std::int64_t before = bucket_before(p.dims[kM]), more = p.dims[kM] - before;
  for (int i = 0; i < kSizes && i < more; ++i) {
    at.dims[kM] = before + 1 + (more - 1) * i / kSizes;
    const Operands o = bucket_operands(at, state.traits);
    const Product x(o, bucket_batch(o, count), state.traits, state.compute, bias);
    for (const CublasLt::Choice& c : choices_of(state, x, kMaxWorkspace, 1))
      most = std::max(most, c.workspace_bytes);
  }
  return most;
}

/// The list for the bucket's size.
std::vector<CublasLt::Choice> bucket_choices(const Problem& p, std::int64_t count,
                                             const LtState& state) {
  const MatmulTraits& s = state.traits;
  // A pointer as aligned as the bias. cuBLASLt reads its value, never what it points to.
  const auto* bias = reinterpret_cast<const void*>(std::uintptr_t{state.align[kBias]});
  const Operands o = bucket_operands(p, s);
  return choices_of(state, Product(o, bucket_batch(o, count), s, state.compute, bias),
                    kMaxWorkspace, kListed);
}

/// Finds this size's algorithm; false if none supports it. Sizes in a bucket differ by up to half:
/// the bucket's first choice took 1.15 to 1.33 times as long as those of M = 147 … 387 themselves
/// (H200, 25 November 2026). In a capture, which must not load a kernel, an unknown size gets the
/// bucket's algorithm if that supports it.
bool algorithm_for(LtState& state, const Product& x, const Size& size, void* stream,
                   CublasLt::Algorithm& algorithm) {
  algorithm = state.choice.algorithm;
  if (size == state.bucket) return true;
  std::lock_guard lock(state.mutex);
  for (const LtState::Known& known : state.known) {
    if (known.size == size) return algorithm = known.algorithm, true;
  }
  const bool is_captured = cuda::capturing(stream);
  bool serves = false;
  if (!state.first || is_captured) {
    CublasLt::Choice checked;
    serves = cuda::cublaslt().check(state.handle, &x.description, &x.b, &x.a, &x.out, &x.out,
                                    &algorithm, &checked) == 0 &&
             checked.workspace_bytes <= state.workspace;
  }
  if (!serves) {
    const auto list = choices_of(state, x, state.workspace, 1);
    if (list.empty()) return false;
    algorithm = list[0].algorithm;
  }
  if (!is_captured || !state.first)
    state.known[state.next++ % state.known.size()] = {size, algorithm};
  return true;
}

/// cuda::error_text describes both kinds of code.
constexpr int code_of(int status) { return status == 0 ? 0 : cuda::kCublasStatus + status; }

/// The same matrix, `elements` further on.
Columns moved(Columns c, std::int64_t elements, DType type) {
  c.data = static_cast<const char*>(c.data) + elements * size_of(type);
  return c;
}

/// Copies each matrix; matrices are `from_apart` and `to_apart` elements apart.
void copy_batch(const Columns& from, std::int64_t from_apart, const Columns& to,
                std::int64_t to_apart, std::int64_t count, DType type, void* stream) {
  for (std::int64_t i = 0; i < count; ++i)
    copy_columns(moved(from, i * from_apart, type), moved(to, i * to_apart, type), type, stream);
}

/// Matrices that cuBLASLt takes: in place, or plain stand-ins.
Columns stand_in_batch(const Columns& c, std::int64_t count, std::int64_t& apart, DType type,
                       const Context& context) {
  if (c.fits() && (count == 1 || apart >= 0)) return c;
  Columns to = packed({nullptr, c.rows, c.cols * count, c.rows}, type, context);
  to.cols = c.cols, apart = c.cols * to.pitch;
  return to;
}

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  return cublaslt_multiply(kernel, matmul_gpu_params(args), {}, context, workspace);
}

/// The length of the list on this device; without a device, the maximum.
std::int64_t listed(const Problem& p, std::int64_t count, LtCompute compute) {
  if (!cuda::unavailable().empty()) return kListed;
  const cuda::CurrentDevice current(p.device_index);
  LtState state;
  start_state(p, compute, state);
  return static_cast<std::int64_t>(bucket_choices(p, count, state).size());
}

/// Bytes that a matrix spans.
std::size_t span_of(const Columns& c, DType type) {
  return static_cast<std::size_t>(((c.cols - 1) * c.pitch + c.rows) * size_of(type));
}

/// cuBLASLt loads a kernel at its first product, which must not happen inside a graph capture: one
/// product of zeros, all operands in the same scratch memory, loads it beforehand. The call reports
/// what fails here, and loads a product that needs more than kMaxScratch.
void multiply_once(const Problem& p, const LtState& state) {
  constexpr std::size_t kMaxScratch = std::size_t{1} << 30;
  const MatmulTraits& s = state.traits;
  const Operands o = bucket_operands(p, s);
  const std::size_t operands = std::max(
      {span_of(o.b, s.gemm.type), span_of(o.a, s.gemm.type), span_of(o.out, s.epilogue.out),
       span_of({nullptr, p.dims[kN], 1, p.dims[kN]}, DType::kF32)});
  const std::size_t aligned = (operands + 255) / 256 * 256;
  const std::size_t bytes = aligned + state.choice.workspace_bytes;
  if (bytes > kMaxScratch) return;
  const cuda::Stream stream;
  char* const zeros = static_cast<char*>(cuda::allocate(bytes, stream.get()));
  if (!zeros) return;
  cuda::fill_bytes(zeros, 0, bytes, stream.get());
  const Product x(o, {}, s, state.compute, zeros);  // of a batch, one
  const float one = 1, zero = 0;
  if (x.valid)
    cuda::cublaslt().multiply(state.handle, &x.description, &one, zeros, &x.b, zeros, &x.a, &zero,
                              zeros, &x.out, zeros, &x.out, &state.choice.algorithm,
                              zeros + aligned, state.choice.workspace_bytes, stream.get());
  cuda::release(zeros, stream.get());
  cuda::synchronize(stream.get());
}

template <LtCompute kCompute>
Implementation implementation(const char* name) {
  Implementation i;
  i.name = name;
  i.backend = DeviceType::kCuda;
  i.source_hash = source_hash<"ops/gemm/matmul/cuda/matmul_cublaslt.cpp">();
  i.version = cuda::cublaslt_version;
  i.flags.capturable = true;  // which algorithm serves differs by M: not deterministic
  i.knobs = &table();
  i.supports = [](const Query& q) { return cublaslt_supports(q.problem, 1, kCompute); };
  i.constrain = [](const Query& q, Space& space) {
    cublaslt_constrain(q.problem, 1, kCompute, space);
  };
  i.heuristic = [](const Query&) { return table().to_config({0}); };
  i.estimate = [](const Query& q, const Config& config) {
    return cublaslt_ms(q.problem, 1, kCompute, q.device, config);
  };
  i.prepare = [](const Query& q, const Config& config) {
    return cublaslt_kernel("matmul", q.problem, 1, kCompute, config, step);
  };
  return i;
}

}  // namespace

const ConfigTable<CublasLtConfig>& cublaslt_table() {
  static const auto* t = new ConfigTable<CublasLtConfig>{
      field<&CublasLtConfig::algo>("algo", {0, 1, 2, 3, 4, 5, 6, 7})};
  return *t;
}

Support cublaslt_supports(const Problem& p, std::int64_t count, LtCompute compute) {
  if (compute == LtCompute::kTf32) {
    if (p.tensors[kA].dtype != DType::kF32) return Support::no("TF32 is a way to multiply f32");
    if (!(p.flags & kAllowTf32))
      return Support::no("rounds f32 to TF32; a call must allow that (dlblas.allow_tf32())");
  }
  if (!cuda::cublaslt().support) return cuda::cublaslt().support;
  const MatmulTraits s = matmul_traits(p);
  for (const int i : {kA, kB, kOut}) {
    const Layout layout = p.tensors[i].layout;
    if (is_broadcast(layout) || layout == Layout::kOther) {
      return Support::no("{} is contiguous in neither dimension", tensor(i));
    }
  }
  if (p.tensors[kOut].layout == Layout::kTransposed) {
    return Support::no("{} is contiguous along M", tensor(kOut));
  }
  if (const Support aligned = supports_alignment(p); !aligned) return aligned;
  if (p.dims[kM] == 0 || p.dims[kN] == 0 || p.dims[kK] == 0) {
    return Support::no("a dimension is zero");
  }
  if (s.epilogue.out != s.gemm.type && s.epilogue.out != DType::kF32) {
    return Support::no("cuBLASLt writes a's dtype or f32");
  }
  // Seen on H200 with cuBLAS 13 in seven of the eight algorithms listed: two roundings, and where
  // the sum cancels, a result without a correct digit.
  if (s.epilogue.has_bias && s.epilogue.out != DType::kF32) {
    return Support::no("cuBLASLt rounds the product before it adds the bias");
  }
  if (s.epilogue.has_bias && s.epilogue.bias != s.epilogue.out) {
    return Support::no("cuBLASLt adds only a bias of the result's dtype");
  }
  if (s.epilogue.has_bias && p.tensors[kBias].layout != Layout::kContiguous) {
    return Support::no("cuBLASLt reads only a contiguous bias");
  }
  if (s.epilogue.activation != Activation::kNone) {
    // relu is max(x, 0), which loses NaN; gelu is the tanh form, ours is erf; the others do not
    // exist.
    return Support::no("cuBLASLt lacks this activation as defined here (NaN, erf)");
  }
  if (Support sizes = supports_sizes(p); !sizes) return sizes;
  return listed(p, count, compute) > 0 ? Support::yes()
                                       : Support::no("cuBLASLt lists no algorithm for it");
}

void cublaslt_constrain(const Problem& p, std::int64_t count, LtCompute compute, Space& space) {
  const std::int64_t most = cuda::cublaslt().support ? listed(p, count, compute) : kListed;
  space.require(table(), "listed", {"algo"}, [most](const CublasLtConfig& c) {
    return c.algo < std::max<std::int64_t>(1, most);
  });
}

double cublaslt_ms(const Problem& p, std::int64_t count, LtCompute compute,
                   const DeviceInfo& device, const Config& config) {
  // cuBLAS through torch.mm on H200s, 21 and 26 November 2026: 700 to 800 TFLOP/s bf16 on large
  // shapes, less where K is short, since each tile's end costs time; 48 f32; memory's full rate
  // with 64 rows; 2.5 µs more where few tiles make it split K.
  // In TF32 tensor cores have half of bf16's rate.
  const bool tf32 = compute == LtCompute::kTf32;
  const DType dtype = tf32 ? DType::kBF16 : p.tensors[kA].dtype;
  const auto matrices = static_cast<double>(count);
  const double part =  // of what the device sustains
      tf32                   ? 0.5
      : dtype == DType::kF32 ? 0.915
                             : 1.05;
  const double operations = matrices * 2 * multiply_adds(p) / part;
  const auto tiles = matrices * static_cast<double>(ceil_div(p.dims[kM], 128)) *
                     static_cast<double>(ceil_div(p.dims[kN], 64));
  // One tile, if K is not split.
  const double whole =
      2 * static_cast<double>(p.dims[kK]) * 128 * 64 / (part * unit_rates(device).flops(dtype));
  const double split = tiles < 0.7 * device.units ? std::min(2.5e-6, whole) : 0;
  constexpr double kEnd = 1.6e-6;  // of a wave of tiles of 128 × 256
  const double ends = dtype == DType::kF32 ? 0 : kEnd * std::floor(tiles / (4.0 * device.units));
  // Where memory is the limit, it hides them.
  const double products = roofline_ms(device, 0, operations, dtype) + 1e3 * ends,
               memory = roofline_ms(device, matrices * matmul_bytes(p), 0, dtype);
  const double ms = std::max(products, memory) + 1e3 * (split + 3.2e-6);
  // A call's M may be anywhere in its bucket. cuBLASLt chooses an algorithm for each M, cuda_wgmma
  // tiles for the bucket's end and a few sizes below: it took 1.04 of cuBLAS's time at 29 random M,
  // 0.98 at ends of buckets (H200). Estimates for the end alone would hide this.
  constexpr std::int64_t kOneTile = 64;
  const std::int64_t m = p.dims[kM];
  const bool any = m > kOneTile && bucket_before(m) + 1 < m;
  return (any ? 0.95 : 1) * ms + 1e-6 * table().from_config(config).algo;
}

Kernel cublaslt_kernel(const char* op, const Problem& p, std::int64_t count, LtCompute compute,
                       const Config& config, StepFn multiply) {
  const cuda::CurrentDevice current(p.device_index);
  auto* state = new LtState;
  start_state(p, compute, *state);
  const Operands bucket = bucket_operands(p, state->traits);
  state->bucket = sizes_of(bucket, bucket_batch(bucket, count));
  const auto list = bucket_choices(p, count, *state);
  const auto wanted = static_cast<std::size_t>(table().from_config(config).algo);
  if (wanted >= list.size()) {
    const std::size_t found = list.size();
    delete state;
    throw Error(
        ErrorKind::kCompile,
        text(op, ": cublaslt lists too few algorithms here; expected more than ", wanted, ", got ",
             found, "; choose a smaller algo, or another implementation"),
        {.op = op, .argument = "algo", .expected = text("more than ", wanted), .got = text(found)});
  }
  state->choice = list[wanted];
  state->first = wanted == 0;
  state->workspace = wanted_workspace(p, count, *state);
  multiply_once(p, *state);
  Kernel kernel = make_kernel({multiply}, state, state->workspace);
  kernel.release = [](const Kernel& k) { delete k.load<LtState*>(); };
  return kernel;
}

int cublaslt_multiply(const Kernel& kernel, const MatmulGpuParams& p, const LtBatch& batch,
                      const Context& context, void* workspace) {
  LtState& state = *kernel.load<LtState*>();
  const MatmulTraits& s = state.traits;
  const DType type = s.gemm.type, out_type = s.epilogue.out;
  const Operands given = operands_of(p, s.gemm);
  LtBatch now = batch;
  const Operands o = {stand_in_batch(given.b, batch.count, now.b, type, context),
                      stand_in_batch(given.a, batch.count, now.a, type, context),
                      stand_in_batch(given.out, batch.count, now.out, out_type, context)};
  if (!o.a.data || !o.b.data || !o.out.data) return kNoMemory;
  if (o.a.data != given.a.data)
    copy_batch(given.a, batch.a, o.a, now.a, batch.count, type, context.stream);
  if (o.b.data != given.b.data)
    copy_batch(given.b, batch.b, o.b, now.b, batch.count, type, context.stream);
  const Product x(o, now, s, state.compute, p.epilogue.bias);
  CublasLt::Algorithm algorithm;
  if (!x.valid || !algorithm_for(state, x, sizes_of(o, now), context.stream, algorithm))
    return code_of(CublasLt::kNotSupported);
  const float one = 1, zero = 0;
  auto* const out = const_cast<void*>(o.out.data);
  const int status = cuda::cublaslt().multiply(
      state.handle, &x.description, &one, o.b.data, &x.b, o.a.data, &x.a, &zero, out, &x.out, out,
      &x.out, &algorithm, workspace, state.workspace, context.stream);
  if (status == 0 && out != given.out.data)
    copy_batch(o.out, now.out, given.out, batch.out, batch.count, out_type, context.stream);
  return code_of(status);
}

void append_cublaslt(std::vector<Implementation>& to) {
  to.push_back(implementation<LtCompute::kIeee>("cublaslt"));
  to.push_back(implementation<LtCompute::kTf32>("cublaslt_tf32"));
}

}  // namespace dlblas::gemm
