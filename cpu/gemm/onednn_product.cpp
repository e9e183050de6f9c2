// See onednn_product.hpp.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/onednn.hpp.
#include "cpu/gemm/onednn_product.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>

#include "core/element.hpp"
#include "core/integers.hpp"
#include "cpu/onednn.hpp"

namespace dlblas {
namespace {

using Handle = OneDnn::Handle;
constexpr int kOperands = OneDnnProduct::kOperands;

/// What a primitive is built for.
struct Shape {
  std::int64_t m, n, k;
  std::int64_t strides[kOperands][2];
  std::int64_t types[kOperands];  // OneDnn::DataType; 0: absent
  std::int64_t eltwise, threads;
  float alpha;
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

/// 0: oneDNN has none, or the operand is absent.
int data_type(DType type) {
  switch (type) {
    case DType::kF32:
      return OneDnn::kF32;
    case DType::kF16:
      return OneDnn::kF16;
    case DType::kBF16:
      return OneDnn::kBF16;
    case DType::kI8:
      return OneDnn::kS8;
    case DType::kI32:
      return OneDnn::kS32;
    default:
      return 0;
  }
}

Owned attributes(const OneDnn& d, const Shape& s) {
  Owned attr = owned(d.primitive_attr_destroy, d.primitive_attr_create);
  if (!attr) return attr;
  d.primitive_attr_set_scratchpad_mode(attr.get(), OneDnn::kScratchpadUser);
  if (s.eltwise == 0) return attr;
  Owned ops = owned(d.post_ops_destroy, d.post_ops_create);
  if (!ops || d.post_ops_append_eltwise(ops.get(), static_cast<int>(s.eltwise), s.alpha, 0) != 0 ||
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
  const Owned attr = attributes(d, s);
  return owned(d.primitive_desc_destroy, [&](Handle* pd) {
    return attr ? d.matmul_primitive_desc_create(pd, d.engine, descriptors[OneDnnProduct::kA].get(),
                                                 descriptors[OneDnnProduct::kB].get(),
                                                 descriptors[OneDnnProduct::kBias].get(),
                                                 descriptors[OneDnnProduct::kOut].get(), attr.get())
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

bool execute(const Primitive& p, const OneDnnProduct& product, void* scratch) {
  const OneDnn& d = onednn();
  constexpr int kArgs[kOperands] = {OneDnn::kSrc, OneDnn::kWeights, OneDnn::kBias, OneDnn::kDst};
  std::array<Owned, kOperands> memories = {
      Owned(nullptr, d.memory_destroy), Owned(nullptr, d.memory_destroy),
      Owned(nullptr, d.memory_destroy), Owned(nullptr, d.memory_destroy)};
  OneDnn::ExecArg args[kOperands + 1];
  int count = 0;
  for (int i = 0; i < kOperands; ++i) {
    if (!p.descriptors[i]) continue;
    memories[i] = owned(d.memory_destroy, [&](Handle* h) {
      return d.memory_create(h, p.descriptors[i].get(), d.engine, product.operands[i].data);
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

Shape shape_of(const OneDnnProduct& p, int threads) {
  Shape s{p.m, p.n, p.k, {}, {}, p.eltwise, threads, p.alpha};
  for (int i = 0; i < kOperands; ++i) {
    const GemmMatrix& operand = p.operands[i];
    s.types[i] = data_type(operand.type);
    if (s.types[i] != 0) s.strides[i][0] = operand.row, s.strides[i][1] = operand.col;
  }
  return s;
}

}  // namespace

void set_typical(OneDnnProduct& product, int operand, const TensorTraits& traits) {
  const bool transposed = traits.layout == Layout::kTransposed && operand != OneDnnProduct::kBias;
  product.operands[operand] = {nullptr, transposed ? 1 : product.columns(operand),
                               transposed ? product.rows(operand) : 1, traits.dtype};
}

Support onednn_takes(const Problem& problem, std::initializer_list<int> tensors) {
  if (!onednn().support) return onednn().support;
  for (const int i : tensors) {
    const Layout layout = problem.tensors[i].layout;
    if (is_broadcast(layout) || layout == Layout::kOther)
      return Support::no("{} is contiguous in neither dimension: oneDNN would be slow", tensor(i));
  }
  return Support::yes();
}

Support onednn_supports(const OneDnnProduct& product, int threads) {
  const OneDnn& d = onednn();
  if (product.m == 0 || product.n == 0 || product.k == 0) return Support::no("a dimension is zero");
  const OneDnnThreads set(threads);
  auto descriptors = no_descriptors(d);
  const Owned description = describe(d, shape_of(product, threads), descriptors);
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

int onednn_multiply(OneDnnProduct p, const Context& context) {
  GemmMatrix& to = p.operands[OneDnnProduct::kOut];
  const GemmMatrix out = to;
  Staging staging;
  for (int i = 0; i < kOperands; ++i) staging.plan(p.operands[i], p.rows(i), p.columns(i));
  const OneDnnThreads threads(context.num_threads);
  const auto primitive = primitives().find(shape_of(p, threads.count()));
  if (!primitive->primitive) return kNoPrimitive;
  const std::size_t staged = static_cast<std::size_t>(staging.bytes());
  char* memory = nullptr;
  if (staged + primitive->scratch_bytes > 0) {
    memory = static_cast<char*>(context.alloc(context.self, staged + primitive->scratch_bytes, 64));
    if (!memory) return kNoMemory;
    staging.fill(memory, to);
  }
  void* const scratch = primitive->scratch_bytes > 0 ? memory + staged : nullptr;
  if (!execute(*primitive, p, scratch)) return kExecution;
  if (to.data != out.data) copy_matrix(to, out, p.m, p.n);
  return 0;
}

}  // namespace dlblas
