// oneDNN's matmul as a rival on equal terms: same checks, same search, same oracle.
// In: a Problem; at launch the exact sizes and strides. Out: a Kernel of one step. A Problem holds
// only M's bucket, a primitive one exact M: the primitives of the last exact shapes are cached.
// oneDNN needs plain matrices with positive strides. Any other operand (a reversed or overlapping
// view has the same layout class) is copied for the call, which is slow but correct.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/onednn.hpp.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>

#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "cpu/onednn.hpp"
#include "ops/gemm/matmul/matmul.hpp"

namespace dlblas::gemm {
namespace {

using Handle = OneDnn::Handle;
constexpr int kOperands = 4;  // a, b, bias, out: gemm::Tensor's order
// oneDNN 3.2 sums each column in one f32 chain of K terms where columns are few, and always on CPUs
// without AVX-512. Equal terms round alike: 2^17 of them have an error of half of what the oracle
// allows, 2^18 of four times as much.
constexpr std::int64_t kMostTerms = 1 << 16;

/// What a primitive is built for.
struct Shape {
  std::int64_t m, n, k;
  std::int64_t strides[kOperands][2];
  std::int64_t types[kOperands];  // OneDnn::DataType; 0: absent
  std::int64_t activation, threads;
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// A handle, or null, that its matching function destroys.
using Owned = std::unique_ptr<void, int (*)(Handle)>;
template <typename Make>
Owned owned(int (*destroy)(Handle), Make&& make) {
  Handle h = nullptr;
  if (make(&h) != 0) h = nullptr;
  return Owned(h, destroy);
}

/// A primitive with the descriptors of its arguments.
struct Primitive {
  Shape shape;
  std::array<Owned, kOperands> descriptors;
  Owned description, primitive;  // primitive: null until made, or when oneDNN refused
  std::size_t scratch_bytes = 0;
};

int data_type(DType e) {
  constexpr int kTypes[] = {OneDnn::kF32, OneDnn::kF16, OneDnn::kBF16};
  return kTypes[static_cast<int>(e)];
}

Owned attributes(const OneDnn& d, Activation activation) {
  Owned attr = owned(d.primitive_attr_destroy, d.primitive_attr_create);
  if (!attr) return attr;
  d.primitive_attr_set_scratchpad_mode(attr.get(), OneDnn::kScratchpadUser);
  if (activation == Activation::kNone) return attr;
  const bool relu = activation == Activation::kRelu || activation == Activation::kLeakyRelu;
  const int algorithm = relu                              ? OneDnn::kRelu
                        : activation == Activation::kGelu ? OneDnn::kGeluErf
                                                          : OneDnn::kSwish;
  const float alpha = activation == Activation::kRelu        ? 0.0f
                      : activation == Activation::kLeakyRelu ? 0.01f
                                                             : 1.0f;
  Owned ops = owned(d.post_ops_destroy, d.post_ops_create);
  if (!ops || d.post_ops_append_eltwise(ops.get(), algorithm, alpha, 0) != 0 ||
      d.primitive_attr_set_post_ops(attr.get(), ops.get()) != 0) {
    attr.reset();
  }
  return attr;
}

/// The description of the matmul, without its code; null if oneDNN refuses.
Owned describe(const OneDnn& d, const Shape& s, std::array<Owned, kOperands>& descriptors) {
  const std::int64_t dims[kOperands][2] = {{s.m, s.k}, {s.k, s.n}, {1, s.n}, {s.m, s.n}};
  for (int i = 0; i < kOperands; ++i) {
    if (s.types[i] == 0) continue;
    descriptors[i] = owned(d.memory_desc_destroy, [&](Handle* md) {
      return d.memory_desc_create_with_strides(md, 2, dims[i], static_cast<int>(s.types[i]),
                                               s.strides[i]);
    });
    if (!descriptors[i]) return Owned(nullptr, d.primitive_desc_destroy);
  }
  const Owned attr = attributes(d, static_cast<Activation>(s.activation));
  return owned(d.primitive_desc_destroy, [&](Handle* pd) {
    return attr ? d.matmul_primitive_desc_create(pd, d.engine, descriptors[kA].get(),
                                                 descriptors[kB].get(), descriptors[kBias].get(),
                                                 descriptors[kOut].get(), attr.get())
                : OneDnn::kUnimplemented;
  });
}

std::array<Owned, kOperands> no_descriptors(const OneDnn& d) {
  const auto none = [&d] { return Owned(nullptr, d.memory_desc_destroy); };
  return {none(), none(), none(), none()};
}

std::shared_ptr<const Primitive> make_primitive(const Shape& shape) {
  const OneDnn& d = onednn();
  auto p = std::make_shared<Primitive>(Primitive{shape, no_descriptors(d),
                                                 Owned(nullptr, d.primitive_desc_destroy),
                                                 Owned(nullptr, d.primitive_destroy), 0});
  p->description = describe(d, shape, p->descriptors);
  if (!p->description) return p;
  p->primitive = owned(d.primitive_destroy,
                       [&](Handle* h) { return d.primitive_create(h, p->description.get()); });
  const Handle scratch = d.primitive_desc_query_md(p->description.get(), OneDnn::kScratchpadMd, 0);
  p->scratch_bytes = scratch ? d.memory_desc_get_size(scratch) : 0;
  return p;
}

/// The process-wide cache of primitives for the last exact shapes; the oldest is replaced first. A
/// primitive in use outlives its eviction. Rebuilding an evicted one is cheap: oneDNN caches the
/// code.
class Primitives {
 public:
  std::shared_ptr<const Primitive> find(const Shape& shape) {
    std::lock_guard lock(mutex_);
    for (const auto& p : kept_) {
      if (p && p->shape == shape) return p;
    }
    auto made = make_primitive(shape);
    kept_[next_++ % kept_.size()] = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::array<std::shared_ptr<const Primitive>, 32> kept_;
  std::size_t next_ = 0;
};

Primitives& primitives() {
  static auto* kept = new Primitives;  // leaks on purpose: calls may run after static destructors
  return *kept;
}

/// Copies element by element between two matrices of the same dtype.
void copy_matrix(const GemmMatrix& from, const GemmMatrix& to, std::int64_t rows,
                 std::int64_t cols) {
  const auto size = std::int64_t{size_of(from.type)};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      std::memcpy(static_cast<char*>(to.data) + (i * to.row + j * to.col) * size,
                  static_cast<const char*>(from.data) + (i * from.row + j * from.col) * size,
                  static_cast<std::size_t>(size));
    }
  }
}

/// True if oneDNN can take the matrix in place; strides of size-1 dimensions are set to fit.
bool is_plain(GemmMatrix& m, std::int64_t rows, std::int64_t cols) {
  if (rows == 1 && cols == 1) m.row = m.col = 1;
  if (cols == 1 && m.row == 1) m.col = rows;
  if (rows == 1 && m.col == 1) m.row = cols;
  return (m.col == 1 && m.row >= cols) || (m.row == 1 && m.col >= rows);
}

/// Contiguous stand-ins for the operands that oneDNN cannot take in place. All of a call's memory
/// is one block: a context's alloc may return the same memory every time.
class Staging {
 public:
  /// Plans a contiguous layout for the operand where it needs one; allocates nothing.
  void plan(GemmMatrix& m, std::int64_t rows, std::int64_t cols) {
    if (!m.data || is_plain(m, rows, cols)) return;
    items_[count_++] = {&m, m, rows, cols, bytes_};
    m.row = cols, m.col = 1;
    bytes_ += round_up(rows * cols * size_of(m.type), kLine);
  }
  std::int64_t bytes() const { return bytes_; }

  /// Gives the stand-ins their memory, and copies the inputs to theirs.
  void fill(char* memory, const GemmMatrix& out) {
    for (int i = 0; i < count_; ++i) {
      const Item& item = items_[i];
      item.matrix->data = memory + item.at;
      if (item.matrix != &out) copy_matrix(item.original, *item.matrix, item.rows, item.cols);
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  struct Item {
    GemmMatrix* matrix;
    GemmMatrix original;
    std::int64_t rows, cols, at;
  };
  Item items_[kOperands];
  int count_ = 0;
  std::int64_t bytes_ = 0;
};

Shape shape_of(const MatmulParams& p, int threads) {
  Shape s{p.m, p.n, p.k, {}, {}, static_cast<std::int64_t>(p.activation), threads};
  const GemmMatrix* operands[kOperands] = {&p.a, &p.b, &p.bias, &p.out};
  for (int i = 0; i < kOperands; ++i) {
    if (i == kBias && !p.bias.data) continue;
    s.types[i] = data_type(operands[i]->type);
    s.strides[i][0] = operands[i]->row, s.strides[i][1] = operands[i]->col;
  }
  return s;
}

bool execute(const Primitive& p, const MatmulParams& params, void* scratch) {
  const OneDnn& d = onednn();
  void* data[kOperands] = {params.a.data, params.b.data, params.bias.data, params.out.data};
  constexpr int kArgs[kOperands] = {OneDnn::kSrc, OneDnn::kWeights, OneDnn::kBias, OneDnn::kDst};
  std::array<Owned, kOperands> memories = {
      Owned(nullptr, d.memory_destroy), Owned(nullptr, d.memory_destroy),
      Owned(nullptr, d.memory_destroy), Owned(nullptr, d.memory_destroy)};
  OneDnn::ExecArg args[kOperands + 1];
  int count = 0;
  for (int i = 0; i < kOperands; ++i) {
    if (!p.descriptors[i]) continue;
    memories[i] = owned(d.memory_destroy, [&](Handle* h) {
      return d.memory_create(h, p.descriptors[i].get(), d.engine, data[i]);
    });
    if (!memories[i]) return false;
    args[count++] = {kArgs[i], memories[i].get()};
  }
  Owned scratch_memory(nullptr, d.memory_destroy);
  if (scratch) {
    const Handle md = d.primitive_desc_query_md(p.description.get(), OneDnn::kScratchpadMd, 0);
    scratch_memory = owned(d.memory_destroy,
                           [&](Handle* h) { return d.memory_create(h, md, d.engine, scratch); });
    if (!scratch_memory) return false;
    args[count++] = {OneDnn::kScratchpad, scratch_memory.get()};
  }
  constexpr unsigned kInOrder = 1;
  const Owned stream =
      owned(d.stream_destroy, [&](Handle* h) { return d.stream_create(h, d.engine, kInOrder); });
  return stream && d.primitive_execute(p.primitive.get(), stream.get(), count, args) == 0 &&
         d.stream_wait(stream.get()) == 0;
}

/// Codes of a failed step, for the typed error.
enum StepError : int { kNoMemory = 1, kNoPrimitive = 2, kExecution = 3 };

int step(const Args& args, const Context& context, const Kernel&, void*) {
  MatmulParams p = matmul_params(args);
  if (p.m == 0 || p.n == 0) return 0;
  const GemmMatrix out = p.out;
  p.bias.row = p.n;
  Staging staging;
  staging.plan(p.a, p.m, p.k);
  staging.plan(p.b, p.k, p.n);
  staging.plan(p.bias, 1, p.n);
  staging.plan(p.out, p.m, p.n);
  const OneDnnThreads threads(context.num_threads);
  const auto primitive = primitives().find(shape_of(p, threads.count()));
  if (!primitive->primitive) return kNoPrimitive;
  const std::size_t staged = static_cast<std::size_t>(staging.bytes());
  char* memory = nullptr;
  if (staged + primitive->scratch_bytes > 0) {
    memory = static_cast<char*>(context.alloc(context.self, staged + primitive->scratch_bytes, 64));
    if (!memory) return kNoMemory;
    staging.fill(memory, p.out);
  }
  void* const scratch = primitive->scratch_bytes > 0 ? memory + staged : nullptr;
  if (!execute(*primitive, p, scratch)) return kExecution;
  if (p.out.data != out.data) copy_matrix(p.out, out, p.m, p.n);
  return 0;
}

/// The shape that a Problem describes, for operands without gaps.
Shape typical_shape(const Problem& p) {
  const std::int64_t m = p.dims[kM], n = p.dims[kN], k = p.dims[kK];
  const std::int64_t dims[kOperands][2] = {{m, k}, {k, n}, {1, n}, {m, n}};
  Shape s{m, n, k, {}, {}, p.scalars[kActivation], std::max<int>(1, p.threads)};
  for (int i = 0; i < kOperands; ++i) {
    if (p.tensors[i].dtype == DType::kAbsent) continue;
    const bool transposed = p.tensors[i].layout == Layout::kTransposed && i != kBias;
    s.types[i] = data_type(p.tensors[i].dtype);
    s.strides[i][0] = transposed ? 1 : dims[i][1];
    s.strides[i][1] = transposed ? dims[i][0] : 1;
  }
  return s;
}

Support supports(const Query& q) {
  const Problem& p = q.problem;
  const OneDnn& d = onednn();
  if (!d.support) return d.support;
  for (const int i : {kA, kB, kOut}) {
    const Layout layout = p.tensors[i].layout;
    if (is_broadcast(layout) || layout == Layout::kOther) {
      return Support::no("{} is contiguous in neither dimension: oneDNN would be slow", tensor(i));
    }
  }
  if (p.dims[kM] == 0 || p.dims[kN] == 0 || p.dims[kK] == 0) {
    return Support::no("a dimension is zero");
  }
  if (p.dims[kK] > kMostTerms)
    return Support::no("oneDNN may add up K in one chain: too inexact beyond {}", kMostTerms);
  // Seen in 3.2 and 3.13, on a CPU with AVX-512 but without bf16 instructions.
  if (p.dims[kK] % 2 != 0 && size_of(p.tensors[kA].dtype) == 2) {
    return Support::no(
        "oneDNN takes two of a 16-bit K at a time: an Inf that ends an odd one "
        "becomes NaN");
  }
  // Seen in 3.2; the other activations keep both.
  if (p.scalars[kActivation] == static_cast<int>(Activation::kRelu)) {
    return Support::no("oneDNN's relu turns NaN into 0");
  }
  if (p.scalars[kActivation] == static_cast<int>(Activation::kGelu)) {
    return Support::no("oneDNN's gelu turns Inf into NaN");
  }
  const OneDnnThreads threads(std::max<int>(1, p.threads));
  auto descriptors = no_descriptors(d);
  const Owned description = describe(d, typical_shape(p), descriptors);
  if (!description) {
    return Support::no("oneDNN {}.{} has no matmul for these dtypes and layouts on this CPU",
                       d.version()->major, d.version()->minor);
  }
  const char* kind = "";
  d.primitive_desc_query(description.get(), OneDnn::kImplInfo, 0, &kind);
  if (std::strncmp(kind, "ref", 3) == 0) {
    return Support::no("oneDNN {}.{} has only its reference for these dtypes on this CPU",
                       d.version()->major, d.version()->minor);
  }
  return Support::yes();
}

double estimate(const Query& q, const Config&) {
  const Problem& p = q.problem;
  // The estimate of our own widest code: within 6 % for f32 on AMD Zen 4. bf16 ranges from half of
  // f32's speed to twice it, depending on the machine: measurement decides.
  const Rates rates = unit_rates(q.device, q.device.isa_hardware);
  const auto threads = static_cast<double>(std::max<int>(1, p.threads));
  return rates.roofline_ms(threads, bytes_of_b(p) / kPacking, 2 * multiply_adds(p), DType::kF32) +
         0.01;
}

struct NoState {};

Kernel prepare(const Query&, const Config&) { return make_kernel({step}, NoState{}); }

}  // namespace

void append_onednn(std::vector<Implementation>& to) {
  Implementation i;
  i.name = "onednn";
  i.source_hash = source_hash<"ops/gemm/matmul/cpu/matmul_onednn.cpp">();
  i.version = onednn_version;
  i.supports = supports;
  i.estimate = estimate;
  i.prepare = prepare;
  to.push_back(i);
}

}  // namespace dlblas::gemm
