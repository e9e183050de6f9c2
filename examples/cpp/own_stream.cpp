// A program that lends its own memory, threads and CUDA stream to dlblas: the calls allocate
// nothing from the library, and all work runs in the order of the program's stream, so it can be
// captured into a CUDA graph. Without a GPU the same program runs on the CPU and says so. Prints
// each step; ends with "ok", or with exit code 1 and the reason. Read next: cuda_driver.hpp,
// docs/cpp.md.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlblas/dlblas.hpp>

#include "cuda_driver.hpp"

namespace {

constexpr std::int64_t kT = 512, kC = 1024;  // rows, and their width
constexpr std::size_t kBytes = sizeof(float) * kT * kC;

/// Provides what dlblas requests from the program. One block is handed out piece by piece without
/// driver calls, so it also works during graph capture. A real program would take pieces back.
class Host {
 public:
  explicit Host(const Gpu* gpu)
      : gpu_(gpu), block_(static_cast<char*>(gpu ? gpu->allocate(kSize) : std::malloc(kSize))) {}

  void* alloc(std::size_t bytes, std::size_t align) {
    ++workspaces;
    return take(bytes, align);
  }
  void* new_output(const dlblas::NewOutput& spec) {
    ++results;
    return take(spec.bytes, 256);
  }
  void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, dlblas::Body body) {
    ++loops;
    const std::int64_t middle = begin + (end - begin) / 2;
    if (end - begin <= grain) return body(begin, end);
    std::thread other([&] { body(begin, middle); });
    body(middle, end);
    other.join();
  }

  /// Null when the block is used up: dlblas turns that into a LaunchError.
  void* take(std::size_t bytes, std::size_t align) {
    const std::size_t start = (used_ + align - 1) / align * align;
    if (!block_ || start + bytes > kSize) return nullptr;
    used_ = start + bytes;
    return block_ + start;
  }
  float* floats(const std::vector<float>& values) {
    auto* memory = static_cast<float*>(take(values.size() * sizeof(float), 256));
    if (!memory) throw std::runtime_error("the block is used up");
    write(memory, values);
    return memory;
  }
  void write(float* to, const std::vector<float>& values) const {
    const std::size_t bytes = values.size() * sizeof(float);
    gpu_ ? gpu_->copy_in(to, values.data(), bytes)
         : static_cast<void>(std::memcpy(to, values.data(), bytes));
  }
  std::vector<float> read(const void* from) const {
    std::vector<float> values(kT * kC);
    gpu_ ? gpu_->copy_out(values.data(), from, kBytes)
         : static_cast<void>(std::memcpy(values.data(), from, kBytes));
    return values;
  }

  int results = 0, workspaces = 0, loops = 0;

 private:
  static constexpr std::size_t kSize = std::size_t{64} << 20;
  const Gpu* gpu_;
  char* block_;
  std::size_t used_ = 0;
};

std::vector<float> numbers(std::size_t count, int seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] =
        static_cast<float>(static_cast<int>(i * 31 + static_cast<std::size_t>(seed)) % 101 - 50) /
        16;
  return values;
}

/// Throws unless y = x / sqrt(mean(x²) + 1e-6) · weight, row by row.
void check(const char* what, const std::vector<float>& y, const std::vector<float>& x,
           const std::vector<float>& weight) {
  for (std::size_t row = 0; row < x.size(); row += kC) {
    double squares = 0;
    for (std::size_t c = 0; c < kC; ++c) squares += static_cast<double>(x[row + c]) * x[row + c];
    const double scale = 1 / std::sqrt(squares / kC + 1e-6);
    for (std::size_t c = 0; c < kC; ++c)
      if (!(std::fabs(y[row + c] - x[row + c] * scale * weight[c]) <= 1e-4))
        throw std::runtime_error(std::string(what) + " is wrong");
  }
  std::printf("%s: right\n", what);
}

void run(const Gpu* gpu) {
  Host host(gpu);
  const dlblas::Device device = gpu ? dlblas::Device::cuda(0) : dlblas::Device();
  const dlblas::Context context(host, /*num_threads=*/2, gpu ? gpu->stream() : nullptr);
  const std::vector<float> x = numbers(kT * kC, 1), x2 = numbers(kT * kC, 7), w = numbers(kC, 3);
  float* const x_memory = host.floats(x);
  const dlblas::TensorRef rows = dlblas::TensorRef(x_memory, {kT, kC}).on(device);
  const dlblas::TensorRef weight = dlblas::TensorRef(host.floats(w), {kC}).on(device);

  const dlblas::Operator rms_norm("rms_norm");
  const dlblas::Tensor made = rms_norm({rows, weight}, {}, context);
  check("a new result, in memory of the program's", host.read(made.data()), x, w);

  const auto out = dlblas::OutRef(host.floats(x), {kT, kC}).on(device);
  rms_norm({rows, weight}, {}, {out}, context);
  check("into a destination", host.read(out.data()), x, w);

  try {
    rms_norm({rows, dlblas::TensorRef(x_memory, {kC - 1}).on(device)}, {}, context);
    throw std::runtime_error("a weight of the wrong length was accepted");
  } catch (const dlblas::ShapeMismatchError& error) {
    std::printf("as it should be, refused: %s\n", error.what());
  }

  std::printf("\n%s\n",
              rms_norm.explain({rows, weight}, {}, dlblas::Format::kTable, context).c_str());

  dlblas::TuneOptions options;
  options.seconds = 1;
  dlblas::get_op(rms_norm, {rows, weight}, {}, options, context);
  std::printf("tuned: %lld configurations measured (0 when an earlier run has)\n",
              static_cast<long long>(dlblas::counters().measured));

  if (!gpu) {
    std::printf("no GPU, so nothing is captured into a graph\n");
  } else {
    rms_norm.warmup({rows, weight}, {}, context);  // compiled and loaded: a capture may not wait
    void* const graph = gpu->capture([&] { rms_norm({rows, weight}, {}, {out}, context); });
    host.write(x_memory, x2);  // the graph reads what is there when it runs
    gpu->replay(graph);
    check("a replayed graph", host.read(out.data()), x2, w);
  }
  std::printf("asked of the program: %d results, %d workspaces, %d parallel loops\nok\n",
              host.results, host.workspaces, host.loops);
}

}  // namespace

int main() try {
  std::unique_ptr<Gpu> gpu;
  try {
    gpu = std::make_unique<Gpu>();
    std::printf("on %s, in a stream and memory of this program's\n", gpu->name().c_str());
  } catch (const std::runtime_error& error) {
    std::printf("no GPU (%s): on the CPU, in memory of this program's\n", error.what());
  }
  run(gpu.get());
} catch (const std::exception& error) {  // dlblas::Error is one
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
