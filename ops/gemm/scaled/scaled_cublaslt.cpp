// cuBLASLt's 8-bit products as a rival on equal terms: e4m3 with one scale per side, one per row
// and per column, or, on Hopper, one per 1×128 of a and per 128×128 of b; without fast
// accumulation. Its heuristic list is the search space: knob `algo` indexes it. In: a Problem; at
// launch the exact sizes and strides. Out: a Kernel of one step. cuBLASLt's matrices are
// column-major: the product is computed as outᵀ = bᵀ · aᵀ.
//
// With scales of blocks it reads those of a as [K/128][M], and those of b as [N/128][K/128], each
// of these rows padded to four; M must be a multiple of four. Scales that lie otherwise are
// arranged in the workspace first; of a call with other rows, a is copied and the result as well.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: src/cuda/cublaslt.hpp,
// ops/gemm/matmul/cuda/matmul_cublaslt.cpp.
#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cuda/cublaslt.hpp"
#include "cuda/cuda.hpp"
#include "ops/gemm/scaled/scaled_cuda.hpp"

namespace dlblas::gemm::scaled {
namespace {

using cuda::CublasLt;
constexpr int kListed = 8;
constexpr std::size_t kMaxWorkspace = std::size_t{32} << 20;
constexpr std::int64_t kRowsOf = 4;  // with scales of blocks, M is a multiple of this

struct Config {
  std::int32_t algo;
};
const ConfigTable<Config>& table() {
  static const auto* t =
      new ConfigTable<Config>{field<&Config::algo>("algo", {0, 1, 2, 3, 4, 5, 6, 7})};
  return *t;
}

/// The sizes of one product: a call's, or those of a Problem's bucket.
struct Sizes {
  std::int64_t m, n, k, a_pitch, b_pitch, out_pitch;
};
struct State {
  CublasLt::Handle handle;
  DType out;
  CublasLt::ScaleMode a_mode, b_mode;
  Sizes bucket;
  CublasLt::Algorithm algorithm;
  std::size_t workspace_bytes;
};
static_assert(sizeof(State) <= Kernel::kStateBytes);

/// Descriptors of one product; `valid` if cuBLASLt accepted them all.
struct Product {
  CublasLt::Description description;
  CublasLt::Layout b, a, out;
  bool valid;

  Product(const State& state, const Sizes& s, const void* a_scale, const void* b_scale) {
    const CublasLt& lt = cuda::cublaslt();
    const auto lay_out = [&](CublasLt::Layout& layout, int type, std::int64_t rows,
                             std::int64_t cols, std::int64_t pitch) {
      return lt.layout_init(&layout, sizeof layout, type, static_cast<std::uint64_t>(rows),
                            static_cast<std::uint64_t>(cols), cols > 1 ? pitch : rows) == 0;
    };
    const auto set = [&](int attribute, const auto& value) {
      return lt.description_set(&description, attribute, &value, sizeof value) == 0;
    };
    const int out_type = state.out == DType::kF32    ? CublasLt::kF32
                         : state.out == DType::kBF16 ? CublasLt::kBF16
                                                     : CublasLt::kF16;
    const std::int32_t turned = CublasLt::kTransposed, plain = CublasLt::kPlain;
    valid = lay_out(b, CublasLt::kF8E4M3, s.k, s.n, s.b_pitch) &&
            lay_out(a, CublasLt::kF8E4M3, s.k, s.m, s.a_pitch) &&
            lay_out(out, out_type, s.n, s.m, s.out_pitch) &&
            lt.description_init(&description, sizeof description, CublasLt::kCompute32F,
                                CublasLt::kF32) == 0 &&
            set(CublasLt::kTransA, turned) && set(CublasLt::kTransB, plain) &&
            set(CublasLt::kAScalePointer, b_scale) && set(CublasLt::kBScalePointer, a_scale);
    if (valid && state.a_mode != CublasLt::kScaleOfAll) {
      const std::int32_t of_a = state.a_mode, of_b = state.b_mode;
      valid = set(CublasLt::kAScaleMode, of_b) && set(CublasLt::kBScaleMode, of_a);
    }
  }
};

/// cuBLASLt's list for one product, best guess first. Split-K sums are reduced in f32 only.
std::vector<CublasLt::Choice> choices_of(const State& state, const Product& x,
                                         std::size_t workspace, int wanted) {
  const CublasLt& lt = cuda::cublaslt();
  CublasLt::Preference preference;
  const auto set = [&](int attribute, const auto& value) {
    return lt.preference_set(&preference, attribute, &value, sizeof value) == 0;
  };
  std::uint32_t schemes = CublasLt::kReduceInComputeType;
  if (state.out == DType::kF32) schemes |= CublasLt::kReduceInPlace;
  const std::uint64_t most = workspace;
  std::vector<CublasLt::Choice> list(static_cast<std::size_t>(wanted));
  int found = 0;
  const bool made = x.valid && lt.preference_init(&preference, sizeof preference) == 0 &&
                    set(CublasLt::kMaxWorkspace, most) && set(CublasLt::kReductionSchemes, schemes);
  if (!made || lt.choose(state.handle, &x.description, &x.b, &x.a, &x.out, &x.out, &preference,
                         wanted, list.data(), &found) != 0)
    found = 0;
  list.resize(static_cast<std::size_t>(found));
  list.erase(std::remove_if(list.begin(), list.end(),
                            [](const CublasLt::Choice& c) { return c.status != 0; }),
             list.end());
  return list;
}

/// A pointer aligned as scales are. cuBLASLt reads its value, never what it points to.
const void* somewhere() { return reinterpret_cast<const void*>(std::uintptr_t{256}); }

bool is_each(const Problem& p, int tensor, std::int64_t size) {
  return size > 1 && !is_broadcast(p.tensors[tensor].layout) && p.ones[tensor] == 0;
}

/// Fills in everything but the algorithm. The device's context must be current.
State start_state(const Problem& p, Scales scales) {
  State state{};
  state.handle = cuda::cublaslt_handle(p.device_index);
  state.out = p.tensors[kOut].dtype;
  if (scales == Scales::kBlock)
    state.a_mode = CublasLt::kScaleOfGroup, state.b_mode = CublasLt::kScaleOfBlock;
  else if (is_each(p, kBScale, p.dims[kN]))
    state.a_mode = state.b_mode = CublasLt::kScaleOfEach;
  const std::int64_t m = p.dims[kM], n = p.dims[kN], k = p.dims[kK];
  state.bucket = {m, n, k, k, k, n};
  return state;
}
std::vector<CublasLt::Choice> bucket_choices(const State& state) {
  return choices_of(state, Product(state, state.bucket, somewhere(), somewhere()), kMaxWorkspace,
                    kListed);
}
/// The length of the list on this device; without a device, the maximum.
std::int64_t listed(const Query& q) {
  if (!cuda::unavailable().empty()) return kListed;
  const cuda::CurrentDevice current(q.problem.device_index);
  return static_cast<std::int64_t>(
      bucket_choices(start_state(q.problem, scales_of(q.self.user))).size());
}

/// cuda::error_text describes both kinds of code.
constexpr int code_of(int status) { return status == 0 ? 0 : cuda::kCublasStatus + status; }

/// A product with its pointers resolved, by the bucket's algorithm if cuBLASLt lets it serve.
int multiply(const State& state, const ScaledParams& p, void* workspace, void* stream) {
  const CublasLt& lt = cuda::cublaslt();
  const Sizes s{p.m, p.n, p.k, p.a_row, p.b_col, p.out_row};
  const auto fits = [](std::int64_t rows, std::int64_t cols, std::int64_t pitch) {
    return cols <= 1 || (pitch >= rows && pitch < std::int64_t{1} << 31);
  };
  // Reversed and overlapping views have the layout class of plain ones.
  if (!fits(s.k, s.m, s.a_pitch) || !fits(s.k, s.n, s.b_pitch) || !fits(s.n, s.m, s.out_pitch))
    return code_of(CublasLt::kNotSupported);
  const Product x(state, s, p.a_scale, p.b_scale);
  if (!x.valid) return code_of(CublasLt::kNotSupported);
  CublasLt::Algorithm algorithm = state.algorithm;
  const Sizes& b = state.bucket;
  const bool same =
      s.m == b.m && s.a_pitch == b.a_pitch && s.b_pitch == b.b_pitch && s.out_pitch == b.out_pitch;
  CublasLt::Choice checked;
  if (!same && (lt.check(state.handle, &x.description, &x.b, &x.a, &x.out, &x.out, &algorithm,
                         &checked) != 0 ||
                checked.workspace_bytes > state.workspace_bytes)) {
    const auto list = choices_of(state, x, state.workspace_bytes, 1);
    if (list.empty()) return code_of(CublasLt::kNotSupported);
    algorithm = list[0].algorithm;
  }
  const float one = 1, zero = 0;
  return code_of(lt.multiply(state.handle, &x.description, &one, p.b, &x.b, p.a, &x.a, &zero, p.out,
                             &x.out, p.out, &x.out, &algorithm, workspace, state.workspace_bytes,
                             stream));
}

/// Where a's scales are copied to: after what the algorithm may write.
std::size_t room_for_rows(const State& state) { return (state.workspace_bytes + 255) / 256 * 256; }

int step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const State& state = kernel.load<State>();
  ScaledParams p = scaled_params(args, Scales::kChannel);
  // The Problem knows the alignment of each row of [M, 1], not that of the first.
  if (state.a_mode == CublasLt::kScaleOfEach &&
      reinterpret_cast<std::uintptr_t>(p.a_scale) % 16 != 0) {
    void* const to = static_cast<char*>(workspace) + room_for_rows(state);
    cuda::copy_on_device(to, p.a_scale, static_cast<std::size_t>(4 * p.m), context.stream);
    p.a_scale = static_cast<const float*>(to);
  }
  return multiply(state, p, workspace, context.stream);
}

/// Where the scales of blocks are arranged: after what the algorithm may write.
struct Room {
  std::size_t a, b, end;
  Room(const State& s, std::int64_t rows) {
    const std::int64_t groups = ceil_div(s.bucket.k, kGroup);
    const auto bytes = [](std::int64_t floats) {
      return static_cast<std::size_t>(round_up(4 * floats, 64));
    };
    a = (s.workspace_bytes + 255) / 256 * 256;
    b = a + bytes(groups * rows);
    end = b + bytes(ceil_div(s.bucket.n, kGroup) * round_up(groups, 4));
  }
};

/// Arranges the scales that do not lie as cuBLASLt reads them; p points to the arranged ones then.
int arrange(const Kernel& kernel, ScaledParams& p, std::int64_t rows, char* to_a, char* to_b,
            void* stream) {
  constexpr std::int64_t kTile = ScaledArrangeParams::kTile;
  const std::int64_t groups = ceil_div(p.k, kGroup), blocks = ceil_div(p.n, kGroup);
  const auto at_16 = [](const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  };
  const bool plain_a = p.m == rows && at_16(p.a_scale) && p.a_scale_row == 1 &&
                       (groups == 1 || p.a_scale_group == p.m);
  const bool plain_b = groups % 4 == 0 && at_16(p.b_scale) && p.b_scale_group == 1 &&
                       (blocks == 1 || p.b_scale_col == groups);
  if (plain_a && plain_b) return 0;
  const auto matrix = [](const void* from, std::int64_t inner, std::int64_t outer, std::int64_t in,
                         std::int64_t out, std::int64_t pitch, char* to) {
    return ScaledArrangeParams::Matrix{static_cast<const float*>(from), in,   out, inner, outer,
                                       reinterpret_cast<float*>(to),    pitch};
  };
  ScaledArrangeParams x{};
  const auto tiles = [](const ScaledArrangeParams::Matrix& m) {
    return ceil_div(m.pitch, kTile) * ceil_div(m.outer, kTile);
  };
  if (!plain_a) {
    x.a = matrix(p.a_scale, p.m, groups, p.a_scale_row, p.a_scale_group, rows, to_a);
    x.tiles_a = static_cast<std::uint32_t>(tiles(x.a));
    p.a_scale = to_a;
  }
  if (!plain_b) {
    x.b = matrix(p.b_scale, groups, blocks, p.b_scale_group, p.b_scale_col, round_up(groups, 4),
                 to_b);
    p.b_scale = to_b;
  }
  cuda::Launch how;
  how.grid.x = x.tiles_a + static_cast<unsigned>(plain_b ? 0 : tiles(x.b));
  how.block.x = ScaledArrangeParams::kThreads;
  return cuda::launch(*kernel.entries[0], how, x, stream);
}

int block_step(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  constexpr int kNoMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  const State& state = kernel.load<State>();
  ScaledParams p = scaled_params(args, Scales::kBlock);
  const std::int64_t rows = round_up(p.m, kRowsOf);
  auto* const own = static_cast<char*>(workspace);
  const Room room(state, state.bucket.m);
  if (const int code = arrange(kernel, p, rows, own + room.a, own + room.b, context.stream))
    return code;
  if (rows == p.m) return multiply(state, p, workspace, context.stream);
  // Up to three more rows, of zeros.
  if (p.m > 1 && (p.a_row != p.k || p.out_row != p.n)) return code_of(CublasLt::kNotSupported);
  const auto bytes = [](std::int64_t of) { return static_cast<std::size_t>(of); };
  const std::int64_t size = size_of(state.out);
  auto* const a = static_cast<char*>(context.alloc(context.self, bytes(rows * p.k), 64));
  auto* const out = static_cast<char*>(context.alloc(context.self, bytes(rows * p.n * size), 64));
  if (!a || !out) return kNoMemory;
  cuda::copy_on_device(a, p.a, bytes(p.m * p.k), context.stream);
  cuda::fill_bytes(a + p.m * p.k, 0, bytes((rows - p.m) * p.k), context.stream);
  ScaledParams more = p;
  more.a = a, more.a_row = p.k, more.out = out, more.out_row = p.n, more.m = rows;
  if (const int code = multiply(state, more, workspace, context.stream)) return code;
  cuda::copy_on_device(p.out, out, bytes(p.m * p.n * size), context.stream);
  return 0;
}

/// What only scales of blocks require.
Support supports_blocks(const Problem& p) {
  constexpr std::int64_t kFirst = 120900;
  const auto version = static_cast<std::int64_t>(cuda::cublaslt().version());
  if (version < kFirst)
    return Support::no("the cuBLASLt found, {}.{}, lacks block scales: 12.9 is needed",
                       version / 10000, version / 100 % 100);
  if (p.dims[kK] % kGroup != 0)
    return Support::no("K = {} is not a multiple of {}", p.dims[kK], kGroup);
  // M of the problem is the end of a bucket, of which some have one or two rows.
  if (p.dims[kM] % kRowsOf != 0)
    return Support::no("M = {}: cuBLASLt's block scales need a multiple of {}", p.dims[kM],
                       kRowsOf);
  for (const int i : {int{kAScale}, int{kBScale}})
    if (p.tensors[i].align_log2 < 2) return Support::no("{} is not aligned", tensor(i));
  return Support::yes();
}

Support supports_channels(const Problem& p) {
  const bool rows = is_each(p, kAScale, p.dims[kM]), columns = is_each(p, kBScale, p.dims[kN]);
  if (rows != columns && p.dims[kM] > 1)
    return Support::no("cuBLASLt does not combine such scales");
  for (const int i : {int{kAScale}, int{kBScale}}) {
    const bool aligned = columns && i == kBScale;  // a's are copied where they are not
    if (p.tensors[i].align_log2 < (aligned ? kAlignCap : 2) ||
        (columns && p.tensors[i].layout != Layout::kContiguous))
      return Support::no("{} is not contiguous from a multiple of {} bytes on", tensor(i),
                         aligned ? 16 : 4);
  }
  return Support::yes();
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  if (!cuda::cublaslt().support) return cuda::cublaslt().support;
  if (p.dims[kM] == 0 || p.dims[kN] == 0 || p.dims[kK] == 0)
    return Support::no("a dimension is zero");
  if (p.tensors[kA].dtype != DType::kF8E4M3) return Support::no("cuBLASLt's i8 has no scales");
  // Other pitches are not part of the key.
  const bool a_along = p.tensors[kA].layout == Layout::kContiguous;
  if (!a_along) return Support::no("{} has gaps, or is not contiguous along K", tensor(kA));
  if (p.tensors[kB].layout != Layout::kTransposed)
    return Support::no("{} is not contiguous along K", tensor(kB));
  if (p.tensors[kOut].layout != Layout::kContiguous)
    return Support::no("rows of {} have gaps", tensor(kOut));
  for (const int i : {int{kA}, int{kB}, int{kOut}})
    if (p.tensors[i].align_log2 < kAlignCap)
      return Support::no("rows of {} are aligned to {} bytes; 16 are needed", tensor(i),
                         std::int64_t{1} << p.tensors[i].align_log2);
  if (p.dims[kK] % 16 != 0 || p.dims[kN] % 16 != 0)
    return Support::no("K = {} and N = {} are no multiples of 16", p.dims[kK], p.dims[kN]);
  if (p.tensors[kBias].dtype != DType::kAbsent)
    return Support::no("cuBLASLt rounds the product before it adds the bias");
  const bool blocks = scales_of(q.self.user) == Scales::kBlock;
  if (const Support scales = blocks ? supports_blocks(p) : supports_channels(p); !scales)
    return scales;
  constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
  if (std::max({p.dims[kM], p.dims[kN], p.dims[kK]}) > kMax)
    return Support::no("a dimension is more than {}", kMax);
  return listed(q) > 0 ? Support::yes() : Support::no("cuBLASLt lists no algorithm for it");
}

void constrain(const Query& q, Space& space) {
  const std::int64_t count = cuda::cublaslt().support ? listed(q) : kListed;
  space.require(table(), "listed", {"algo"},
                [count](const Config& c) { return c.algo < std::max<std::int64_t>(1, count); });
}

double estimate(const Query& q, const dlblas::Config& config) {
  // Not measured yet: 1.75 times the rate of f16. With scales of blocks 1.4 times the roofline, so
  // that our own form serves until a search has measured both.
  const Problem& p = q.problem;
  const bool blocks = scales_of(q.self.user) == Scales::kBlock;
  const bool arranged = blocks && p.tensors[kAScale].layout != Layout::kTransposed;
  const double operations = 2 * static_cast<double>(p.dims[kM]) * static_cast<double>(p.dims[kN]) *
                            static_cast<double>(p.dims[kK]);
  return (blocks ? 1.4 : 1) * roofline_ms(q.device, bytes_of(p), operations / 1.75, DType::kBF16) +
         1e3 * (arranged ? 6.5e-6 : 4e-6) + 1e-6 * table().from_config(config).algo;
}

/// cuBLASLt loads a kernel at its first product, which must not happen inside a graph capture: one
/// product of zeros loads it beforehand.
void multiply_once(const State& state) {
  constexpr std::size_t kMaxScratch = std::size_t{1} << 30;
  const Sizes& s = state.bucket;
  const auto operands = static_cast<std::size_t>(
      std::max({s.m * s.k, s.n * s.k, s.m * s.n * size_of(state.out), 4 * s.m, 4 * s.n,
                4 * ceil_div(s.n, kGroup) * round_up(ceil_div(s.k, kGroup), 4)}));
  const std::size_t aligned = (operands + 255) / 256 * 256;
  const std::size_t bytes = aligned + state.workspace_bytes;
  if (bytes > kMaxScratch) return;
  const cuda::Stream stream;
  char* const zeros = static_cast<char*>(cuda::allocate(bytes, stream.get()));
  if (!zeros) return;
  cuda::fill_bytes(zeros, 0, bytes, stream.get());
  const Product x(state, s, zeros, zeros);
  const float one = 1, zero = 0;
  if (x.valid)
    cuda::cublaslt().multiply(state.handle, &x.description, &one, zeros, &x.b, zeros, &x.a, &zero,
                              zeros, &x.out, zeros, &x.out, &state.algorithm, zeros + aligned,
                              state.workspace_bytes, stream.get());
  cuda::release(zeros, stream.get());
  cuda::synchronize(stream.get());
}

Kernel prepare(const Query& q, const dlblas::Config& config) {
  const cuda::CurrentDevice current(q.problem.device_index);
  const Scales scales = scales_of(q.self.user);
  State state = start_state(q.problem, scales);
  const auto list = bucket_choices(state);
  const auto wanted = static_cast<std::size_t>(table().from_config(config).algo);
  const bool blocks = scales == Scales::kBlock;
  const char* const op = blocks ? "scaled_mm_block" : "scaled_mm_channel";
  if (wanted >= list.size())
    throw Error(ErrorKind::kCompile,
                text(op, ": cublaslt lists too few algorithms here; expected more than ", wanted,
                     ", got ", list.size(), "; choose a smaller algo, or another implementation"),
                {.op = op,
                 .argument = "algo",
                 .expected = text("more than ", wanted),
                 .got = text(list.size())});
  state.algorithm = list[wanted].algorithm;
  state.workspace_bytes = list[wanted].workspace_bytes;
  multiply_once(state);
  if (!blocks)
    return make_kernel({step}, state,
                       room_for_rows(state) + static_cast<std::size_t>(4 * state.bucket.m));
  return make_kernel({block_step}, state, Room(state, state.bucket.m).end);
}

std::vector<KernelSource> block_sources(const Query&, const dlblas::Config&) {
  return {{"ops/gemm/scaled/scaled_arrange.cuh",
           text("dlblas::gemm::scaled::scaled_arrange<", ScaledArrangeParams::kThreads, ">"), 0}};
}

}  // namespace

void append_cublaslt(std::vector<Implementation>& to, Scales scales) {
  const bool blocks = scales == Scales::kBlock;
  Implementation i;
  i.name = "cublaslt";
  i.backend = DeviceType::kCuda;
  i.min_arch = blocks ? 90 : 89;
  if (blocks) i.max_arch = 90, i.sources = block_sources;
  i.user = &kScalesOf[static_cast<int>(scales)];
  i.source_hash = source_hash<"ops/gemm/scaled/scaled_cublaslt.cpp">();
  i.version = cuda::cublaslt_version;
  i.flags.capturable = true;  // which algorithm serves differs by M: not deterministic
  i.knobs = &table();
  i.supports = supports;
  i.constrain = constrain;
  i.heuristic = [](const Query&) { return table().to_config({0}); };
  i.estimate = estimate;
  i.prepare = prepare;
  to.push_back(i);
}

}  // namespace dlblas::gemm::scaled
