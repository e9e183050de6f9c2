// Whether two views share an element; see tensor.hpp. In: strides, sizes, addresses. Out: exact
// wherever the search below ends within kMaxVisits steps, which covers every layout of a real
// program.
//
// Two views share a byte if that byte is at first_a plus a sum of a's steps and also at last_b
// minus a sum of b's steps: if a sum of steps, each taken from 0 up to a bounded number of times,
// equals last_b - first_a. In general this is the knapsack problem; contiguous runs fold into one
// term first, a gcd leaves few multiples to try, and two terms are settled by arithmetic.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "core/tensor.hpp"

namespace dlblas {
namespace {

constexpr int kMaxVisits = 1024;  // about 0.1 ms, before two tangled views count as sharing
constexpr std::int64_t kFar = std::int64_t{1} << 57;  // no memory reaches so far; sums do not wrap
__extension__ using Wide = __int128;

// step * x, for any x of 0 … most.
struct Term {
  std::int64_t step, most;
  std::int64_t reach() const { return step * most; }
};

struct Sum {
  static constexpr int kMaxTerms = 2 * kMaxRank + 1;
  Term terms[kMaxTerms];
  int size = 0;
  bool far = false;  // it has a term that reaches farther than memory

  void add(std::int64_t stride, std::int64_t most) {
    if (stride == 0 || most == 0) return;
    const std::int64_t step = std::abs(std::clamp(stride, -kFar, kFar));
    far |= most >= kFar / step;
    if (!far) terms[size++] = {step, most};
  }

  // Sorts by descending step and merges runs: 0, s, 2s, … m·s and a step that is a multiple of s,
  // at most (m + 1)·s, form one run, such as columns and the rows that continue them.
  void fold() {
    std::sort(terms, terms + size, [](Term a, Term b) { return a.step > b.step; });
    for (int i = size - 1; i > 0; --i)
      for (int k = i - 1; k >= 0; --k) {
        const std::int64_t ratio = terms[k].step / terms[i].step;
        if (terms[k].step % terms[i].step != 0 || ratio > terms[i].most + 1) continue;
        terms[i].most += ratio * terms[k].most;
        std::copy(terms + k + 1, terms + size--, terms + k);
        --i;
        k = i;  // the longer run may swallow what was too far before
      }
  }
};

// The x in 0 … most for which target - step * x is a multiple of `gcd` that the other terms may
// reach: first, first + stride, … last.
struct Multiples {
  std::int64_t first = 0, last = -1, stride = 1;
  std::int64_t count() const { return last < first ? 0 : (last - first) / stride + 1; }
};

// a * inverse_of(a, m) = 1 mod m; a and m share no factor.
std::int64_t inverse_of(std::int64_t a, std::int64_t m) {
  std::int64_t r0 = m, r1 = a % m, t0 = 0, t1 = 1;
  while (r1 != 0) {
    const std::int64_t q = r0 / r1;
    std::swap(r0, r1), r1 -= q * r0;
    std::swap(t0, t1), t1 -= q * t0;
  }
  return (t0 % m + m) % m;
}

Multiples multiples_of(const Term& term, std::int64_t target, std::int64_t gcd, std::int64_t rest) {
  const std::int64_t common = std::gcd(term.step, gcd);
  if (target % common != 0) return {};
  const std::int64_t least =
      target > rest ? (target - rest + term.step - 1) / term.step : 0;  // the rest must suffice
  Multiples m;
  m.stride = gcd / common;
  m.last = std::min(term.most, target / term.step);
  const auto congruent = static_cast<std::int64_t>(
      Wide{(target / common) % m.stride} * inverse_of(term.step / common, m.stride) % m.stride);
  m.first = least + ((congruent - least) % m.stride + m.stride) % m.stride;
  return m;
}

// True if terms [first, last) of a folded sum may reach the target. Tries the multiples of the
// first or of the last term, whichever are fewer, so that two terms need no search.
Sharing reaches(const Sum& sum, int first, int last, std::int64_t target, int* visits) {
  if (target == 0) return Sharing::kSome;
  if (first == last) return Sharing::kNone;
  if (++*visits > kMaxVisits) return Sharing::kUndecided;
  std::int64_t inner = 0, total = sum.terms[first].reach() +
                                  (last - first > 1 ? sum.terms[last - 1].reach() : 0);
  for (int i = first + 1; i < last - 1; ++i) {
    inner = std::gcd(inner, sum.terms[i].step);
    total += sum.terms[i].reach();
  }
  if (target > total) return Sharing::kNone;
  const Term &high = sum.terms[first], &low = sum.terms[last - 1];
  if (last - first == 1)
    return target % high.step == 0 ? Sharing::kSome : Sharing::kNone;  // within its reach
  const Multiples of_high =
      multiples_of(high, target, std::gcd(inner, low.step), total - high.reach());
  if (last - first == 2) return of_high.count() > 0 ? Sharing::kSome : Sharing::kNone;
  const Multiples of_low =
      multiples_of(low, target, std::gcd(inner, high.step), total - low.reach());
  const bool from_high = of_high.count() <= of_low.count();
  const Multiples& m = from_high ? of_high : of_low;
  for (std::int64_t x = m.first; x <= m.last; x += m.stride) {
    const Sharing found = from_high ? reaches(sum, first + 1, last, target - high.step * x, visits)
                                    : reaches(sum, first, last - 1, target - low.step * x, visits);
    if (found != Sharing::kNone) return found;
  }
  return Sharing::kNone;
}

Sharing reaches(Sum& sum, std::int64_t target) {
  sum.fold();
  int visits = 0;
  return reaches(sum, 0, sum.size, target, &visits);
}

// The byte range [first, last) that a tensor touches; empty tensors touch nothing.
struct Range {
  std::intptr_t first, last;
  bool far = false;
  bool meets(const Range& o) const { return first < o.last && o.first < last; }
};
Range range_of(const TensorView& t) {
  Range r{reinterpret_cast<std::intptr_t>(t.data), reinterpret_cast<std::intptr_t>(t.data)};
  const std::int64_t size = size_of(t.dtype);
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] == 0) return {0, 0};
    std::int64_t reach = 0;
    r.far |= __builtin_mul_overflow((t.shape[i] - 1) * size, t.strides[i], &reach) ||
             std::abs(reach) >= kFar;
    if (!r.far) (reach < 0 ? r.first : r.last) += reach;
  }
  r.last += size;
  return r;
}

}  // namespace

Sharing sharing_of(const TensorView& a, const TensorView& b) {
  const Range range_a = range_of(a), range_b = range_of(b);
  if (range_a.first == range_a.last || range_b.first == range_b.last) return Sharing::kNone;
  if (range_a.far || range_b.far) return Sharing::kUndecided;
  if (!range_a.meets(range_b)) return Sharing::kNone;
  if (a.data == b.data) return Sharing::kSome;  // the first element of each
  Sum sum;
  sum.add(1, size_of(a.dtype) + size_of(b.dtype) - 2);
  for (const TensorView* t : {&a, &b})
    for (int i = 0; i < t->rank; ++i) sum.add(t->strides[i] * size_of(t->dtype), t->shape[i] - 1);
  return reaches(sum, range_b.last - 1 - range_a.first);
}

bool overlaps_itself(const TensorView& t) {
  Term dims[kMaxRank];  // of two indices or more, ascending steps
  int rank = 0;
  if (t.numel() == 0) return false;
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] == 1) continue;
    Sum sum;
    sum.add(t.strides[i], t.shape[i] - 1);
    if (sum.size == 0) return true;  // a broadcast, or farther than memory
    dims[rank++] = sum.terms[0];
  }
  for (int i = 1; i < rank; ++i)  // g++ 12 warns of std::sort on an array this short
    for (int j = i; j > 0 && dims[j].step < dims[j - 1].step; --j) std::swap(dims[j], dims[j - 1]);
  std::int64_t reach = 1;
  bool nested = true;  // no dimension reaches into the next, as mostly
  for (int i = 0; i < rank; ++i) {
    nested &= dims[i].step >= reach;
    reach += dims[i].reach();
  }
  if (nested) return false;
  // Two index tuples of one element differ by 1 + x in the longest dimension in which they differ,
  // and by -most … most in the shorter ones.
  for (int i = rank - 1; i > 0; --i) {
    Sum sum;
    sum.add(dims[i].step, dims[i].most - 1);
    std::int64_t target = -dims[i].step;
    for (int k = 0; k < i; ++k) {
      sum.add(dims[k].step, 2 * dims[k].most);
      target += dims[k].reach();
    }
    if (sum.far || (target >= 0 && reaches(sum, target) != Sharing::kNone)) return true;
  }
  return false;
}

}  // namespace dlblas
