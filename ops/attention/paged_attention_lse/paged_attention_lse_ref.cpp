// The oracle of paged_attention_lse, in f64 and for any strides. A row of o is one head of a query,
// a row of lse one query. Read next: ops/attention/attend_oracle.hpp (errors),
// paged_attention_lse.cpp.
#include "ops/attention/attend_oracle.hpp"
#include "ops/attention/paged_attention_lse/paged_attention_lse.hpp"

namespace dlblas::attention::paged {
namespace {

double at(const TensorView& t, std::int64_t i) { return load_element(t, i * t.strides[0]); }
std::int64_t whole(const TensorView& t, std::int64_t i) {
  return static_cast<std::int64_t>(at(t, i));
}

/// A query, and the keys that it sees.
struct Sight {
  std::int64_t sequence = -1, first = 0, end = 0;
  std::int64_t all_first = 0, all_end = 0;  // what a row of its sequence sees
};

class Reference {
 public:
  explicit Reference(const Args& args) : args_(args), depth_(size(kD)), width_(size(kDv)) {}

  AttendedRow row(std::int64_t t, std::int64_t h) {
    const TensorView& q = args_.tensors[kQ];
    // Chunks of prefill round powers to 16 bits, as attention over unpaged keys does.
    AttendedRow row(q.dtype, width_, args_.has(kCuSeqlensQ) ? Powers::kOneAsIs : Powers::kTwo);
    const Sight sight = sight_of(t);
    if (sight.sequence < 0) return row;
    if (args_.has(kSinks)) row.add_sink(at(args_.tensors[kSinks], h));
    decode(sight.sequence, h / size(kG), sight.all_end);
    std::vector<double> query(static_cast<std::size_t>(depth_));
    for (std::int64_t d = 0; d < depth_; ++d)
      query[d] = load_element(q, t * q.strides[0] + h * q.strides[1] + d * q.strides[2]);
    const double factor = scale_of(args_) * scale(kKScale);
    for (std::int64_t n = sight.first; n < sight.end; ++n)
      row.add(query.data(), keys_.data() + n * depth_, depth_, factor, args_.scalars[kSoftcap].f,
              values_.data() + n * width_);
    for (std::int64_t n = sight.all_first; n < sight.all_end; ++n)
      if (n < sight.first || n >= sight.end) row.add_unseen(values_.data() + n * width_);
    return row;
  }
  double scale(int tensor) const {
    return args_.has(tensor) ? load_element(args_.tensors[tensor], 0) : 1;
  }

 private:
  std::int64_t size(int letter) const { return args_.letters[letter]; }

  Sight sight_of(std::int64_t t) const {
    Sight s;
    std::int64_t begin = t, end = t + 1;
    if (args_.has(kCuSeqlensQ)) {
      const TensorView& starts = args_.tensors[kCuSeqlensQ];
      for (std::int64_t b = 0; b < size(kB) && s.sequence < 0; ++b)
        if (whole(starts, b) <= t && t < whole(starts, b + 1))
          s.sequence = b, begin = whole(starts, b), end = whole(starts, b + 1);
    } else {
      s.sequence = t;
    }
    if (s.sequence < 0) return s;
    const std::int64_t length = std::clamp<std::int64_t>(whole(args_.tensors[kSeqLens], s.sequence),
                                                         0, pages_of(s.sequence) * size(kPage));
    const auto seen = [&](std::int64_t row, std::int64_t& first, std::int64_t& last) {
      const std::int64_t position = length - (end - begin) + (row - begin);
      const std::int64_t window = args_.scalars[kWindow].i;
      first = 0, last = length;
      if (args_.scalars[kCausal].i != 0) last = std::clamp<std::int64_t>(position + 1, 0, length);
      if (window < 0) return;
      first = std::max<std::int64_t>(0, position - window);
      last = std::min(last, std::max<std::int64_t>(0, position + window + 1));
    };
    std::int64_t unused = 0;
    seen(begin, s.all_first, unused);
    seen(end - 1, unused, s.all_end);
    seen(t, s.first, s.end);
    return s;
  }
  std::int64_t pages_of(std::int64_t b) const {
    if (!args_.has(kIndptr)) return size(kW);
    const TensorView& starts = args_.tensors[kIndptr];
    return std::max<std::int64_t>(0, whole(starts, b + 1) - whole(starts, b));
  }
  std::int64_t page(std::int64_t b, std::int64_t n) const {
    const TensorView& t = args_.tensors[kPageTable];
    const std::int64_t row = t.shape[0] == 1 ? 0 : b;
    if (args_.has(kIndptr)) n += whole(args_.tensors[kIndptr], b);
    return static_cast<std::int64_t>(load_element(t, row * t.strides[0] + n * t.strides[1]));
  }
  /// Decodes the keys and values of a head of a sequence, and keeps them for the next row. row()
  /// never reads slots that nothing sees.
  void decode(std::int64_t b, std::int64_t head, std::int64_t count) {
    if (b == sequence_ && head == head_ && count <= count_) return;
    sequence_ = b, head_ = head, count_ = count;
    keys_.resize(static_cast<std::size_t>(count * depth_));
    values_.resize(static_cast<std::size_t>(count * width_));
    for (std::int64_t n = 0; n < count; ++n)
      for (const int i : {kKCache, kVCache}) {
        const TensorView& t = args_.tensors[i];
        const std::int64_t id = page(b, n / size(kPage)), columns = i == kKCache ? depth_ : width_;
        if (id < 0 || id >= size(kP)) continue;  // of what no window reaches
        const std::int64_t first =
            id * t.strides[0] + n % size(kPage) * t.strides[1] + head * t.strides[2];
        double* to = (i == kKCache ? keys_ : values_).data() + n * columns;
        for (std::int64_t d = 0; d < columns; ++d)
          to[d] = load_element(t, first + d * t.strides[3]);
      }
  }

  const Args& args_;
  std::int64_t depth_, width_, sequence_ = -1, head_ = -1, count_ = 0;
  std::vector<double> keys_, values_;
};

}  // namespace

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  Reference of(args);
  const std::int64_t heads = args.letters[kHkv] * args.letters[kG], width = args.letters[kDv];
  const double scale = of.scale(kVScale);
  for (std::int64_t i = 0; i < num_rows; ++i) {
    if (heads > 0 && rows[i] < args.letters[kT] * heads)
      of.row(rows[i] / heads, rows[i] % heads)
          .output(scale, out[0].value + i * width, out[0].magnitude + i * width);
    if (rows[i] < args.letters[kT])
      for (std::int64_t h = 0; h < heads; ++h)
        of.row(rows[i], h).lse(out[1].value + i * heads + h, out[1].magnitude + i * heads + h);
  }
}

Bound bound(const Problem& problem, int result) {
  const FloatTraits out = float_traits(result == 0 ? problem.tensors[kQ].dtype : DType::kF32);
  return {.magnitude = 0.8 * kRounding,
          .value = result == 0 ? out.eps / 2 * (1 + 0x1p-20) : 0,
          .absolute = out.tiny + 0x1p-148};
}

}  // namespace dlblas::attention::paged
