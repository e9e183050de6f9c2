// Scales over tiles on CPUs: one implementation per instruction-set level. Rows are divided into
// chunks, each of which leaves one maximum per column; a tile of 128×128 elements is within one
// chunk, so its codes follow at once, from the caches. In: Problem, Config; Args. Out: Kernel;
// codes and scales. Flow: call > validate > [select] > [compile] > [launch]. Read next:
// tiles_simd.hpp.
#include <algorithm>
#include <bit>
#include <vector>

#include "core/element.hpp"
#include "core/source_hash.hpp"
#include "kernels/cpu_level.hpp"
#include "ops/common/quant_ref.hpp"
#include "ops/quant/tiles.hpp"

namespace dlblas::quant::tiles {
namespace {

struct Level {
  QuantTilesPasses (*passes)();
};
constexpr Level kBaseline = {baseline::quant_tiles_passes};
#if defined(__x86_64__)
constexpr Level kAvx2 = {avx2::quant_tiles_passes};
constexpr Level kAvx512 = {avx512::quant_tiles_passes};
#endif
constexpr QuantTile kTiles[] = {QuantTile::kTensor, QuantTile::kChannel, QuantTile::kBlock};

struct Config {
  int chunks = 64;  // of all rows, at most
};
const ConfigTable<Config>& table() {
  static const auto* knobs = new ConfigTable<Config>{field<&Config::chunks>("chunks", {16, 64})};
  return *knobs;
}

struct State {
  QuantTilesPasses passes;
  QuantTile tile;
  int chunks;
};

/// A tensor without gaps is taken as rows of this many elements, whatever its shape.
constexpr std::int64_t kFlatWidth = 4096;

/// One call, as its tasks see it.
class Job {
 public:
  Job(const Args& args, const State& state, void* workspace)
      : args_(args),
        state_(state),
        partials_(static_cast<float*>(workspace)),
        x_rows_(rows_of(x())),
        q_rows_(rows_of(q())),
        rows_(args.letters[kT]),
        width_(args.letters[kK]),
        total_(rows_ * width_) {
    flat_ = state.tile == QuantTile::kTensor && unit(x()) && unit(q()) && is_one_run(x_rows_) &&
            is_one_run(q_rows_);
    if (flat_)
      width_ = std::min(total_, kFlatWidth), rows_ = width_ ? (total_ + width_ - 1) / width_ : 0;
    chunk_ = state.tile == QuantTile::kBlock
                 ? kQuantBlock
                 : std::max<std::int64_t>(8, (rows_ + state.chunks - 1) / state.chunks);
  }
  std::int64_t chunks() const { return (rows_ + chunk_ - 1) / chunk_; }

  /// Finds the maxima of a chunk's columns; for 128×128 elements, writes scales and codes too.
  void find(std::int64_t chunk) const {
    float* most = partials_ + (blocks() ? 0 : chunk * width_);
    std::vector<float> own, scratch;
    if (blocks()) own.resize(static_cast<std::size_t>(width_)), most = own.data();
    std::fill(most, most + width_, 0.0f);
    for (std::int64_t t = chunk * chunk_; t < end_of(chunk); ++t) {
      const void* row = row_of_x(t, scratch);
      state_.passes.maxima(type(), row, count_of(t), most);
    }
    if (!blocks()) return;
    const std::int64_t place = rows_of(scale()).offset(chunk);
    for (std::int64_t c = 0; c < width_; c += kQuantBlock) {
      const std::int64_t end = std::min(width_, c + kQuantBlock);
      const float factor = write_scale(largest_in(most + c, end - c),
                                       place + c / kQuantBlock * last_stride(scale()));
      std::fill(most + c, most + end, factor);
    }
    write(chunk, most);
  }
  /// Computes scales from all chunks' maxima; leaves the codes' factors in the place of chunk 0's
  /// maxima.
  void fold() const {
    for (std::int64_t chunk = 1; chunk < chunks(); ++chunk)
      for (std::int64_t c = 0; c < width_; ++c)
        partials_[c] = larger(partials_[c], partials_[chunk * width_ + c]);
    if (chunks() == 0) std::fill(partials_, partials_ + width_, 0.0f);
    if (state_.tile == QuantTile::kTensor) {
      const float factor = write_scale(largest_in(partials_, width_), 0);
      std::fill(partials_, partials_ + width_, factor);
      return;
    }
    for (std::int64_t c = 0; c < width_; ++c)
      partials_[c] = write_scale(partials_[c], c * last_stride(scale()));
  }
  void write(std::int64_t chunk) const { write(chunk, partials_); }

 private:
  const TensorView& x() const { return args_.tensors[kX]; }
  const TensorView& q() const { return args_.tensors[kQ]; }
  const TensorView& scale() const { return args_.tensors[kScale]; }
  bool blocks() const { return state_.tile == QuantTile::kBlock; }
  DType type() const { return unit(x()) ? x().dtype : DType::kF32; }
  static std::int64_t last_stride(const TensorView& t) {
    return t.shape[t.rank - 1] <= 1 ? 1 : t.strides[t.rank - 1];
  }
  static bool unit(const TensorView& t) { return last_stride(t) == 1; }
  bool is_one_run(const Rows& rows) const {
    return rows_ <= 1 || (rows.rank == 1 && rows.stride == width_);
  }
  std::int64_t end_of(std::int64_t chunk) const { return std::min(rows_, (chunk + 1) * chunk_); }
  std::int64_t count_of(std::int64_t t) const {
    return flat_ ? std::min(width_, total_ - t * width_) : width_;
  }
  std::int64_t offset(const Rows& rows, std::int64_t t) const {
    return flat_ ? t * width_ : rows.offset(t);
  }
  /// Row t as contiguous elements: in place, or gathered as f32.
  const void* row_of_x(std::int64_t t, std::vector<float>& scratch) const {
    const std::int64_t first = offset(x_rows_, t), stride = last_stride(x());
    if (stride == 1) return static_cast<const char*>(x().data) + first * size_of(x().dtype);
    scratch.resize(static_cast<std::size_t>(width_));
    for (std::int64_t c = 0; c < width_; ++c)
      scratch[static_cast<std::size_t>(c)] =
          static_cast<float>(load_element(x(), first + c * stride));
    return scratch.data();
  }
  void write(std::int64_t chunk, const float* factors) const {
    std::vector<float> scratch;
    std::vector<char> bytes;
    const std::int64_t stride = last_stride(q());
    if (stride != 1) bytes.resize(static_cast<std::size_t>(width_));
    for (std::int64_t t = chunk * chunk_; t < end_of(chunk); ++t) {
      const void* row = row_of_x(t, scratch);
      char* to = static_cast<char*>(q().data) + offset(q_rows_, t);
      state_.passes.codes(type(), q().dtype, row, count_of(t), factors,
                          stride == 1 ? to : bytes.data());
      for (std::int64_t c = 0; stride != 1 && c < width_; ++c)
        to[c * stride] = bytes[static_cast<std::size_t>(c)];
    }
  }
  static float larger(float a, float b) {
    return std::bit_cast<float>(
        std::max(std::bit_cast<std::int32_t>(a), std::bit_cast<std::int32_t>(b)));
  }
  static float largest_in(const float* most, std::int64_t count) {
    float all = 0;
    for (std::int64_t c = 0; c < count; ++c) all = larger(all, most[c]);
    return all;
  }
  /// Writes the scale for the largest magnitude `most`; returns the factor for the codes.
  float write_scale(float most, std::int64_t at) const {
    const auto step =
        static_cast<float>(scale_of(most, q().dtype, args_.scalars[kScaleDtype].i != 0));
    store_element(scale(), at, step);
    return 1 / step;
  }

  const Args& args_;
  const State& state_;
  float* partials_;
  Rows x_rows_, q_rows_;
  std::int64_t rows_, width_, total_, chunk_ = 0;
  bool flat_ = false;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto& state = kernel.load<State>();
  const Job job(args, state, workspace);
  context.run(0, job.chunks(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) job.find(chunk);
  });
  if (state.tile == QuantTile::kBlock) return 0;
  job.fold();
  context.run(0, job.chunks(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) job.write(chunk);
  });
  return 0;
}

Kernel prepare(const Query& q, const dlblas::Config& config) {
  const State state{kernels::code_of<Level>(q).passes(), kernels::op_of<QuantTile>(q),
                    table().from_config(config).chunks};
  std::int64_t floats = 0;
  if (state.tile != QuantTile::kBlock)
    floats = state.chunks * std::max(q.problem.dims[kK], kFlatWidth);
  return make_kernel({run}, state, static_cast<std::size_t>(floats) * sizeof(float));
}

double estimate(const Query& q, const dlblas::Config&) {
  const double elements =
      static_cast<double>(q.problem.dims[kT]) * static_cast<double>(q.problem.dims[kK]);
  const double bytes = elements * (2 * size_of(q.problem.tensors[kX].dtype) + 1);
  const double units = std::max<double>(1, q.problem.threads);
  return 1e3 * launch_s(q.device) +
         kernels::rates_of(q).roofline_ms(units, bytes, elements * 16, DType::kF32);
}

}  // namespace

std::vector<Implementation> cpu(QuantTile tile) {
  Implementation base;
  base.flags = {.deterministic = true};
  base.knobs = &table();
  base.supports = [](const Query&) { return Support::yes(); };
  base.heuristic = [](const Query&) { return table().to_config(Config{}); };
  base.estimate = estimate;
  base.prepare = prepare;
  return kernels::per_level(
      base, "cpu_",
      {
#if defined(__x86_64__)
        {Isa::kAvx512, source_hash<"ops/quant/tiles_avx512.cpp">(), &kAvx512},
            {Isa::kAvx2, source_hash<"ops/quant/tiles_avx2.cpp">(), &kAvx2},
#endif
            {Isa::kBaseline, source_hash<"ops/quant/tiles_baseline.cpp">(), &kBaseline},
      },
      &kTiles[static_cast<int>(tile)]);
}

}  // namespace dlblas::quant::tiles
