// See onednn_product.hpp.
// Flow: call > validate > [select] > [compile] > [launch].  Read next: cpu/onednn.hpp.
#include "cpu/gemm/onednn_product.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "core/element.hpp"
#include "core/integers.hpp"
#include "cpu/onednn.hpp"

namespace dlblas {
namespace {

using Handle = OneDnn::Handle;
constexpr int kOperands = OneDnnProduct::kOperands;

// oneDNN 3.2 sums each column in one f32 chain of K terms where columns are few, and always on CPUs
// without AVX-512. Equal terms round alike: 2^17 of them have an error of half of what the oracle
// allows, 2^18 of four times as much.
constexpr std::int64_t kMaxAdded = 1 << 16;
constexpr int kMaxPosts = OneDnnProduct::kMaxPosts;
constexpr int kMatrices = kOperands + kMaxPosts;  // operands, then those of the steps behind

/// A memory descriptor: `batch` matrices. With rank 2, dims[0] and strides[0] do not count.
struct Block {
  std::int64_t type = 0;  // OneDnn::DataType; 0: absent
  std::int64_t dims[3] = {}, strides[3] = {};
  friend bool operator==(const Block&, const Block&) = default;
};
struct Step {
  std::int64_t kind = 0, function = 0;
  float alpha = 0;
  friend bool operator==(const Step&, const Step&) = default;
};

/// What a primitive is built for.
struct Shape {
  int rank;  // 3: batched
  Block blocks[kMatrices];
  Step steps[kMaxPosts];
  std::int64_t threads;
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
  std::array<Owned, kMatrices> descriptors;
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

using Descriptors = std::array<Owned, kMatrices>;

/// Appends a step; false if oneDNN refuses.
bool append(const OneDnn& d, Handle ops, const Shape& s, int i, const Descriptors& descriptors) {
  const Step& step = s.steps[i];
  switch (static_cast<OneDnnPost::Kind>(step.kind)) {
    case OneDnnPost::kNone:
      return true;
    case OneDnnPost::kEltwise:
      return d.post_ops_append_eltwise(ops, static_cast<int>(step.function), step.alpha, 0) == 0;
    case OneDnnPost::kAddOut:
      return d.post_ops_append_sum(ops, 1, 0,
                                   static_cast<int>(s.blocks[OneDnnProduct::kOut].type)) == 0;
    case OneDnnPost::kMultiply:
    case OneDnnPost::kAdd:
      break;
  }
  const bool adds = step.kind == OneDnnPost::kAdd;
  return d.post_ops_append_binary(ops, adds ? OneDnn::kAdd : OneDnn::kMultiply,
                                  descriptors[static_cast<std::size_t>(kOperands + i)].get()) == 0;
}

Owned attributes(const OneDnn& d, const Shape& s, const Descriptors& descriptors) {
  Owned attr = owned(d.primitive_attr_destroy, d.primitive_attr_create);
  if (!attr) return attr;
  d.primitive_attr_set_scratchpad_mode(attr.get(), OneDnn::kScratchpadUser);
  if (s.steps[0].kind == OneDnnPost::kNone) return attr;
  Owned ops = owned(d.post_ops_destroy, d.post_ops_create);
  bool made = ops != nullptr;
  for (int i = 0; i < kMaxPosts && made; ++i) made = append(d, ops.get(), s, i, descriptors);
  if (!made || d.primitive_attr_set_post_ops(attr.get(), ops.get()) != 0) attr.reset();
  return attr;
}

/// The description of the matmul, without its code; null if oneDNN refuses.
Owned describe(const OneDnn& d, const Shape& s, Descriptors& descriptors) {
  const int skipped = 3 - s.rank;
  for (std::size_t i = 0; i < kMatrices; ++i) {
    const Block& block = s.blocks[i];
    if (block.type == 0) continue;
    descriptors[i] = owned(d.memory_desc_destroy, [&](Handle* md) {
      return d.memory_desc_create_with_strides(
          md, s.rank, block.dims + skipped, static_cast<int>(block.type), block.strides + skipped);
    });
    if (!descriptors[i]) return Owned(nullptr, d.primitive_desc_destroy);
  }
  const Owned attr = attributes(d, s, descriptors);
  return owned(d.primitive_desc_destroy, [&](Handle* pd) {
    return attr ? d.matmul_primitive_desc_create(pd, d.engine, descriptors[OneDnnProduct::kA].get(),
                                                 descriptors[OneDnnProduct::kB].get(),
                                                 descriptors[OneDnnProduct::kBias].get(),
                                                 descriptors[OneDnnProduct::kOut].get(), attr.get())
                : OneDnn::kUnimplemented;
  });
}

template <std::size_t... I>
Descriptors no_descriptors(int (*destroy)(Handle), std::index_sequence<I...>) {
  return {((void)I, Owned(nullptr, destroy))...};
}
Descriptors no_descriptors(int (*destroy)(Handle)) {
  return no_descriptors(destroy, std::make_index_sequence<kMatrices>());
}

std::shared_ptr<const Primitive> make_primitive(const Shape& shape) {
  const OneDnn& d = onednn();
  auto p = std::make_shared<Primitive>(Primitive{shape, no_descriptors(d.memory_desc_destroy),
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

/// Matrices at strides, `batch` of them.
struct Operand {
  GemmMatrix* matrix;
  std::int64_t* apart;
  std::int64_t batch, rows, columns;

  std::int64_t count() const { return *apart == 0 ? 1 : batch; }
};

/// Copies element by element between matrices of the same dtype and sizes.
void copy_matrices(const GemmMatrix& from, std::int64_t from_apart, const GemmMatrix& to,
                   std::int64_t to_apart, const Operand& size) {
  const auto bytes = std::int64_t{size_of(from.type)};
  for (std::int64_t b = 0; b < size.count(); ++b) {
    for (std::int64_t i = 0; i < size.rows; ++i) {
      for (std::int64_t j = 0; j < size.columns; ++j) {
        std::memcpy(static_cast<char*>(to.data) + (b * to_apart + i * to.row + j * to.col) * bytes,
                    static_cast<const char*>(from.data) +
                        (b * from_apart + i * from.row + j * from.col) * bytes,
                    static_cast<std::size_t>(bytes));
      }
    }
  }
}

/// True if oneDNN can take the matrices in place; strides of size-1 dimensions are set to fit.
bool is_plain(const Operand& o) {
  GemmMatrix& m = *o.matrix;
  const std::int64_t rows = o.rows, cols = o.columns;
  if (rows == 1 && cols == 1) m.row = m.col = 1;
  if (cols == 1 && m.row == 1) m.col = rows;
  if (rows == 1 && m.col == 1) m.row = cols;
  const bool by_rows = m.col == 1 && m.row >= cols, by_columns = m.row == 1 && m.col >= rows;
  if (!by_rows && !by_columns) return false;
  // The next matrix begins behind this one's last row, or behind its first (heads of a projection).
  const std::int64_t line = by_rows ? m.row : m.col, lines = by_rows ? rows : cols;
  const std::int64_t length = by_rows ? cols : rows;
  return o.count() == 1 || *o.apart >= line * lines ||
         (*o.apart >= length && (lines == 1 || line >= *o.apart * o.batch));
}

/// Contiguous stand-ins for the operands that oneDNN cannot take in place. All of a call's memory
/// is one block: a context's alloc may return the same memory every time.
class Staging {
 public:
  /// Plans a contiguous layout for the operand where it needs one; allocates nothing.
  void plan(const Operand& o) {
    if (o.matrix->data && !is_plain(o)) replace(o, o.columns, 1, o.rows * o.columns);
  }
  /// Plans rows and columns of one matrix at the strides of `like`.
  void plan_like(GemmMatrix& m, std::int64_t rows, std::int64_t columns, const GemmMatrix& like) {
    if (m.row == like.row && m.col == like.col) return;
    replace({&m, &none_, 1, rows, columns}, like.row, like.col,
            (rows - 1) * like.row + (columns - 1) * like.col + 1);
  }
  std::int64_t bytes() const { return bytes_; }

  /// Gives the stand-ins their memory, and copies to theirs what is read. `out`: the result, which
  /// is read if `adds_out`.
  void fill(char* memory, const GemmMatrix& out, bool adds_out) {
    for (int i = 0; i < count_; ++i) {
      Item& item = items_[i];
      GemmMatrix& to = *item.operand.matrix;
      to.data = memory + item.at;
      if (&to == &out && !adds_out) continue;
      copy_matrices(item.original, item.apart, to, *item.operand.apart, item.operand);
    }
  }
  /// Copies the result's stand-in, if it has one, to the result.
  void give_back(const GemmMatrix& out) const {
    for (int i = 0; i < count_; ++i) {
      const Item& item = items_[i];
      if (item.operand.matrix == &out)
        copy_matrices(out, *item.operand.apart, item.original, item.apart, item.operand);
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  struct Item {
    Operand operand;
    GemmMatrix original;
    std::int64_t apart, at;
  };
  void replace(const Operand& o, std::int64_t row, std::int64_t col, std::int64_t size) {
    items_[count_++] = {o, *o.matrix, *o.apart, bytes_};
    o.matrix->row = row, o.matrix->col = col;
    if (*o.apart != 0) *o.apart = size;
    bytes_ += round_up(o.count() * size * size_of(o.matrix->type), kLine);
  }

  Item items_[kMatrices];
  std::int64_t none_ = 0;  // of matrices without a batch
  int count_ = 0;
  std::int64_t bytes_ = 0;
};

bool execute(const Primitive& p, const OneDnnProduct& product, void* scratch) {
  const OneDnn& d = onednn();
  constexpr int kArgs[kOperands] = {OneDnn::kSrc, OneDnn::kWeights, OneDnn::kBias, OneDnn::kDst};
  Descriptors memories = no_descriptors(d.memory_destroy);
  OneDnn::ExecArg args[kMatrices + 1];
  int count = 0;
  for (int i = 0; i < kMatrices; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!p.descriptors[at]) continue;
    const bool operand = i < kOperands;
    const GemmMatrix& matrix = operand ? product.operands[i] : product.after[i - kOperands].with;
    memories[at] = owned(d.memory_destroy, [&](Handle* h) {
      return d.memory_create(h, p.descriptors[at].get(), d.engine, matrix.data);
    });
    if (!memories[at]) return false;
    const int post = OneDnn::kSrc1 | (i - kOperands + 1) * OneDnn::kPostOp;
    args[count++] = {operand ? kArgs[i] : post, memories[at].get()};
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

/// With a stride of 0 in a dimension that is longer, one value serves all of it.
std::int64_t size_at(std::int64_t stride, std::int64_t size) { return stride == 0 ? 1 : size; }

Shape shape_of(const OneDnnProduct& p, int threads) {
  Shape s{p.batch > 1 ? 3 : 2, {}, {}, threads};
  for (int i = 0; i < kOperands; ++i) {
    const GemmMatrix& operand = p.operands[i];
    Block& block = s.blocks[i];
    block.type = data_type(operand.type);
    if (block.type == 0) continue;
    const std::int64_t rows = p.rows(i), columns = p.columns(i), whole = rows * columns;
    block = {block.type,
             {size_at(p.apart[i], p.batch), rows, columns},
             {p.apart[i] == 0 ? whole : p.apart[i], operand.row, operand.col}};
  }
  for (int i = 0; i < kMaxPosts && p.after[i].kind != OneDnnPost::kNone; ++i) {
    const OneDnnPost& post = p.after[i];
    s.steps[i] = {post.kind, post.function, post.alpha};
    if (post.kind != OneDnnPost::kMultiply && post.kind != OneDnnPost::kAdd) continue;
    const std::int64_t rows = size_at(post.with.row, p.m), columns = size_at(post.with.col, p.n);
    const bool element = post.with.row != 0 && post.with.col != 0;
    s.blocks[kOperands + i] = {
        data_type(post.with.type),
        {1, rows, columns},
        {rows * columns, element ? post.with.row : columns, element ? post.with.col : 1}};
  }
  return s;
}

bool adds_out(const OneDnnProduct& p) {
  return std::any_of(std::begin(p.after), std::end(p.after),
                     [](const OneDnnPost& post) { return post.kind == OneDnnPost::kAddOut; });
}

/// Plans stand-ins for what oneDNN does not take as it is. A value per element lies as the result
/// does; those of rows or columns are contiguous.
void plan(OneDnnProduct& p, Staging& staging) {
  for (int i = 0; i < kOperands; ++i)
    staging.plan({&p.operands[i], &p.apart[i], p.batch, p.rows(i), p.columns(i)});
  for (OneDnnPost& post : p.after) {
    if (post.kind != OneDnnPost::kMultiply && post.kind != OneDnnPost::kAdd) continue;
    GemmMatrix& with = post.with;
    if (with.row != 0 && with.col != 0)
      staging.plan_like(with, p.m, p.n, p.operands[OneDnnProduct::kOut]);
    else if (with.row != 0)
      staging.plan_like(with, p.m, 1, {nullptr, 1, 0, with.type});
    else
      staging.plan_like(with, 1, p.n, {nullptr, 0, 1, with.type});
  }
}

}  // namespace

void set_typical(OneDnnProduct& product, int operand, const TensorTraits& traits) {
  const bool is_bias = operand == OneDnnProduct::kBias;
  const bool transposed = traits.layout == Layout::kTransposed && !is_bias;
  const std::int64_t rows = product.rows(operand), columns = product.columns(operand);
  product.operands[operand] = {nullptr, transposed ? 1 : columns, transposed ? rows : 1,
                               traits.dtype};
  product.apart[operand] = product.batch > 1 && !is_bias ? rows * columns : 0;
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

Support onednn_adds(std::int64_t k, const TensorTraits& a) {
  if (k > kMaxAdded)
    return Support::no("oneDNN may add up K in one chain: too inexact beyond {}", kMaxAdded);
  // Seen in 3.2 and 3.13, on a CPU with AVX-512 but without bf16 instructions.
  if (k % 2 != 0 && size_of(a.dtype) == 2) {
    return Support::no(
        "oneDNN takes two of a 16-bit K at a time: an Inf that ends an odd one "
        "becomes NaN");
  }
  return Support::yes();
}

Support onednn_supports(const OneDnnProduct& product, int threads) {
  const OneDnn& d = onednn();
  if (product.m == 0 || product.n == 0 || product.k == 0) return Support::no("a dimension is zero");
  const OneDnnThreads set(threads);
  auto descriptors = no_descriptors(d.memory_desc_destroy);
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
  const GemmMatrix& out = p.operands[OneDnnProduct::kOut];
  Staging staging;
  plan(p, staging);
  const OneDnnThreads threads(context.num_threads);
  const auto primitive = primitives().find(shape_of(p, threads.count()));
  if (!primitive->primitive) return kNoPrimitive;
  const std::size_t staged = static_cast<std::size_t>(staging.bytes());
  char* memory = nullptr;
  if (staged + primitive->scratch_bytes > 0) {
    memory = static_cast<char*>(context.alloc(context.self, staged + primitive->scratch_bytes, 64));
    if (!memory) return kNoMemory;
    staging.fill(memory, out, adds_out(p));
  }
  void* const scratch = primitive->scratch_bytes > 0 ? memory + staged : nullptr;
  if (!execute(*primitive, p, scratch)) return kExecution;
  staging.give_back(out);
  return 0;
}

}  // namespace dlblas
