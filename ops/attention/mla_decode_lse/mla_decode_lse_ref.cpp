// The oracle of mla_decode_lse, in f64 and for any strides. A row of o is one head of a token, a
// row of lse one token. Read next: ops/attention/attend_oracle.hpp (errors), mla_decode_lse.cpp.
#include "ops/attention/attend_oracle.hpp"
#include "ops/attention/mla_decode_lse/mla_decode_lse.hpp"

namespace dlblas::attention::mla {
namespace {

class Reference {
 public:
  explicit Reference(const Args& args)
      : args_(args), latent_(args.letters[kR]), depth_(latent_ + args.letters[kDr]) {}

  AttendedRow row(std::int64_t t, std::int64_t h) {
    AttendedRow row(args_.tensors[kQNope].dtype, latent_, Powers::kOne);
    const std::int64_t length = length_of(args_, t);
    decode(t, length);
    std::vector<double> query(static_cast<std::size_t>(depth_));
    for (std::int64_t d = 0; d < depth_; ++d) {
      const bool first = d < latent_;
      const TensorView& q = args_.tensors[first ? kQNope : kQPe];
      query[d] = scale_of_cache(args_, first ? kCkv : kKpe) *
                 load_element(q, t * q.strides[0] + h * q.strides[1] +
                                     (first ? d : d - latent_) * q.strides[2]);
    }
    for (std::int64_t n = 0; n < length; ++n)
      row.add(query.data(), keys_.data() + n * depth_, depth_, scale_of(args_), 0,
              keys_.data() + n * depth_);
    return row;
  }

 private:
  /// Decodes the keys of a sequence, and keeps them for the next row.
  void decode(std::int64_t t, std::int64_t length) {
    if (t == token_) return;
    token_ = t;
    keys_.resize(static_cast<std::size_t>(length * depth_));
    const std::int64_t page = args_.letters[kPage];
    for (std::int64_t n = 0; n < length; ++n)
      for (std::int64_t d = 0; d < depth_; ++d) {
        const bool first = d < latent_;
        const TensorView& c = args_.tensors[first ? kCkv : kKpe];
        keys_[n * depth_ + d] =
            load_element(c, page_of(args_, t, n) * c.strides[0] + n % page * c.strides[1] +
                                (first ? d : d - latent_) * c.strides[2]);
      }
  }

  const Args& args_;
  std::int64_t latent_, depth_, token_ = -1;
  std::vector<double> keys_;
};

}  // namespace

void reference(const Args& args, const std::int64_t* rows, std::int64_t num_rows, OracleOut* out) {
  Reference of(args);
  const std::int64_t heads = args.letters[kH], width = args.letters[kR];
  for (std::int64_t i = 0; i < num_rows; ++i) {
    if (heads > 0 && rows[i] < args.letters[kT] * heads)
      of.row(rows[i] / heads, rows[i] % heads)
          .output(scale_of_cache(args, kCkv), out[0].value + i * width,
                  out[0].magnitude + i * width);
    if (rows[i] < args.letters[kT])
      for (std::int64_t h = 0; h < heads; ++h)
        of.row(rows[i], h).lse(out[1].value + i * heads + h, out[1].magnitude + i * heads + h);
  }
}

Bound bound(const Problem& problem, int result) {
  const FloatTraits out = float_traits(result == 0 ? problem.tensors[kQNope].dtype : DType::kF32);
  return {.magnitude = 0.8 * kRounding,
          .value = result == 0 ? out.eps / 2 * (1 + 0x1p-20) : 0,
          .absolute = out.tiny + 0x1p-148};
}

}  // namespace dlblas::attention::mla
