// Tensors for any Problem, made from the schema's fills: what the tuner measures and checks on. The
// caller's data is never read, except for index-valued arguments (invented routing would not
// measure the caller's load). In: Operator, Problem, seed. Out: one call's Args over memory of our
// own, with guard zones around every tensor. Same seed, same bits, on any number of threads. Flow:
// tune > [inputs] > measure.  Read next: tuner/measure.hpp, tuner/looks.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "registry/registry.hpp"
#include "tuner/memory.hpp"

namespace dlblas {

/// One tensor in memory of its own: a guard zone, the elements (and the gaps between strided rows),
/// a guard zone. Guards and gaps are filled with kGuardByte, which reads as NaN in every float
/// type: a kernel that reads them gives a wrong result, and one that writes them is caught. The
/// memory outlives it.
class GuardedTensor {
 public:
  static constexpr int kGuardByte = 0xff;
  /// As wide as a tile: 256 rows of 256 elements of two bytes.
  static constexpr std::size_t kGuardBytes = std::size_t{1} << 17;
  /// For copies, which no candidate is checked on: enough to keep neighbours apart.
  static constexpr std::size_t kCopyGuardBytes = 256;
  /// How far the tensor may move.
  static constexpr std::size_t kRoomBytes = std::size_t{1} << 14;

  /// Lays out the shape in `view` by the traits' class and alignment; sets view's strides and data.
  GuardedTensor(TensorView& view, const TensorTraits& traits, Memory& memory);
  /// The same layout and elements in other memory of the same kind, between narrow guards.
  GuardedTensor(const GuardedTensor& other);
  ~GuardedTensor();
  GuardedTensor& operator=(const GuardedTensor&) = delete;

  const TensorView& view() const { return view_; }
  /// Bytes of the elements and the gaps between them, without the guards: what a call touches.
  std::size_t bytes() const { return touched_; }
  /// Copies the elements, and the gaps between them, from a tensor of the same layout.
  void restore(const GuardedTensor& pristine);
  /// Rewrites the guards before and after the elements.
  void mend_guards();
  void lend_to_children(bool lent) { memory_->lend_to_children(base_, size_, lent); }
  /// Moves the elements, with the guards around them, to `bytes` (a multiple of Memory::kAlign, at
  /// most kRoomBytes) after their first place. The contents must be made again. Not for copies.
  void move(std::size_t bytes);
  /// Pads rows, or columns, that are padded by more, or as at first. Here, too, the contents must
  /// be made again.
  void set_pitch(bool wider);
  /// As restore, but from a tensor in host memory.
  void copy_in(const GuardedTensor& host);
  /// Sets every byte to the guard, and every byte of an element to `pattern`.
  void poison(int pattern);
  /// Indices (row-major) of elements whose bytes all equal `pattern`.
  std::vector<std::int64_t> elements_equal_to(int pattern) const;
  /// True while nothing outside the elements was written.
  bool guards_intact() const;
  /// A digest of all bytes, guards included: it changes if one was written.
  std::uint64_t digest() const;

 private:
  std::size_t offset() const;  // of the first element
  std::byte* inner() const { return base_ + guard_; }
  std::size_t guard_after() const { return size_ - guard_ - inner_; }
  bool is_packed() const;

  Memory* memory_;
  TensorView view_;
  TensorTraits traits_;
  std::size_t guard_ = kGuardBytes;      // before
  std::size_t touched_ = 0, inner_ = 0;  // elements and gaps at the first pitch; and at the wider
  std::size_t size_ = 0;                 // two guards, what lies between, and room to move
  std::byte* base_ = nullptr;
};

/// Sets the strides of the layout class and the alignment, for the shape of `t`. `wider`: pads
/// rows, or columns, by another 64 bytes.
void set_strides(TensorView& t, Layout layout, int align_log2, bool wider = false);

/// Bytes of all tensors of one call; in double, since it is also called for impossible sizes.
double tensor_bytes(const Operator& op, const Problem& problem);
/// Throws Error(kTuning) that names these bytes and the memory there is.
[[noreturn]] void throw_no_memory(const Operator& op, const Problem& problem);

/// Another call of the same key: every bucketed letter is 1, 2, 4 or 8 below its bucket's end, as
/// layouts and alignments allow; the same call if there is no other.
Problem smaller_call(const Operator& op, const Problem& problem);

/// The caller's own call of the key, of `sizes` by letter: fewer tokens than their bucket's end.
/// The same problem where they are the end, or where tensors of this size would have another layout
/// or alignment.
Problem own_call(const Operator& op, const Problem& problem, const std::int64_t* sizes);

/// What a candidate is checked on: values, and what else differs from the first call.
enum class Look : std::uint8_t {
  kFirst,
  kPart,       // half of the values are others: a probe of a few elements may not see it
  kScalars,    // all values, and the runtime scalars
  kElsewhere,  // all values, of which some are large, every address, and pitches
};
inline constexpr int kNumLooks = 4;

/// What a look varies besides values, as far as the operator takes it.
struct Variety {
  double large = 96;        // kElsewhere: Filler::large; 0: none
  bool zero_row = true;     // kElsewhere: the last row of all that has tokens is zeros
  bool empty = true;        // kElsewhere: some lengths are 0, some groups empty
  bool own_indices = true;  // kElsewhere: the tuner's draw stands for what the caller lent
  // kScalars: which of its other values a user's scalar, or one of key(set), has.
  static constexpr std::int8_t kNone = 127;
  std::array<std::int8_t, kMaxScalars> scalars = {};
};

constexpr Variety nothing_else() {
  Variety v = {.large = 0, .zero_row = false, .empty = false, .own_indices = false};
  v.scalars.fill(Variety::kNone);
  return v;
}

/// All tensors of one call.
class CallData {
 public:
  /// `caller` (may be null) lends its index-valued tensors and its runtime scalars. Throws
  /// Error(kTuning) if the tensors are larger than the memory, std::bad_alloc if the system refuses
  /// less.
  CallData(const Operator& op, const Problem& problem, std::uint64_t seed, const Args* caller,
           Memory& memory);
  CallData(const CallData& other);

  const Args& args() const { return args_; }
  std::size_t bytes() const;
  /// Restores the inputs that a call writes, those of in-place results among them.
  void restore();
  /// Sets whether children that are forked from now on share its tensors.
  void lend_to_children(bool lent);
  bool has_written_inputs() const { return !pristine_.empty(); }
  /// Digests of the inputs that a call must leave as they are; 0 for every other tensor.
  std::array<std::uint64_t, kMaxTensors> digests() const;
  /// Makes the inputs again, at the first addresses, as the constructor did with `seed`.
  void remake(const Problem& problem, std::uint64_t seed);
  /// Makes every input for this look. `seed` as in the constructor. If the only index input was
  /// lent by the caller, that varies too (lengths and offsets: in another order); several stay,
  /// since they may belong together, except with Variety::own_indices. remake() and restore() bring
  /// the first values back.
  void vary(const Problem& problem, std::uint64_t seed, Look look, const Variety& variety = {});
  /// True if kScalars has other values than the first call.
  bool has_other_scalars(const Variety& variety = {}) const;
  /// How many values Variety::scalars can choose from for this scalar.
  std::size_t scalar_choices(std::size_t scalar) const { return choices_of(scalar).size(); }
  /// Makes integers without a role small, existing ones included.
  void use_small_integers(const Problem& problem, std::uint64_t seed);
  bool has_plain_integers() const;
  /// Takes the runtime scalars of another call, and its treatment of integers.
  void follow(const CallData& other, const Problem& problem, std::uint64_t seed);
  bool has_lent() const { return !lent_.empty(); }
  /// True if an input holds lengths or offsets.
  bool has_groups() const;
  /// The number of inputs that hold places in others: a single one can be drawn, several may belong
  /// together.
  int index_inputs() const;
  /// Poisons the results that have memory of their own, and rewrites all guards of what a call may
  /// write.
  void poison_results(int pattern);
  /// Null: the result is in place, in an input's memory.
  GuardedTensor* own_result(int r) const;
  /// Whether the guards of everything a call may write are intact.
  bool guards_intact() const;
  /// The memory of judged tensor j: its own, or that of the input that it shares in place. Null:
  /// absent.
  const GuardedTensor* judged(int j) const;

 private:
  struct Pristine {
    int tensor;
    std::unique_ptr<GuardedTensor> copy;
  };
  bool is_read_only(int tensor) const;
  bool is_lent(int tensor) const;
  /// `split`: splits leading dimensions in two if a tensor's rows do not have one stride.
  void make_shapes(const Problem& problem, bool split);
  bool takes_shapes(const Problem& problem) const;
  using Scalars = std::array<ScalarValue, kMaxScalars>;
  /// What determines an input's values.
  struct Values {
    std::uint64_t seed;
    Look look = Look::kFirst;
    Variety variety = {};
  };
  Filler filler_of(int tensor, const Problem& problem, const Values& values) const;
  void make_input(int tensor, const Problem& problem, const Values& values, const Args* caller);
  /// Puts every tensor at its first address and pitch, or each at others.
  void place(bool elsewhere);
  void set_pitches(bool wider);
  void make_scalars(const Problem& problem, const Args* caller);
  Scalars other_scalars(const Variety& variety) const;
  std::vector<ScalarValue> choices_of(std::size_t scalar) const;
  /// True if the reference need not be tried with another value: a built-in operator's scalar, or
  /// one that returns to its default.
  bool is_plain(std::size_t scalar) const;
  void take_scalars(const Scalars& from);
  void vary_order(const Pristine& lent, const Problem& problem);
  double largest_lent(int tensor) const;

  const Operator* op_;
  Memory* memory_;
  Args args_;
  std::unique_ptr<GuardedTensor> tensors_[kMaxTensors];  // null: absent, or a result in place
  std::vector<Pristine> pristine_;
  std::vector<Pristine> lent_;  // indices of the caller's, which cannot be made again
  Scalars first_scalars_ = {};  // kScalars has others
  bool small_integers_ = false;
};

}  // namespace dlblas
