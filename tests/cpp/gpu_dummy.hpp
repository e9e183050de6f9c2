// Kernels for the tuner's GPU tests: an operator whose result is 0, with implementations that are
// right or broken in a chosen way.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <map>

#include "device/tuner_params.hpp"
#include "jit/jit.hpp"
#include "tests/cpp/tuner_dummy.hpp"

namespace dlblas::test {

inline std::string no_gpu() {
  if (std::string why = cuda::unavailable(); !why.empty()) return why;
  if (cuda::device_count() == 0) return "the driver shows no device";
  return jit::unavailable();
}

enum class Broken {
  kNone,
  kWrong,
  kTail,
  kPastEnd,
  kCode,
  kEager,
  kTooLarge,
  kIllegal,
  kHang,
  kHuge,
  kNan,
  kCrash,
  kExit,
  kSlowCompile,
  kWritesInput
};

// y = 0, by the tuner's own fill kernel, so that no test needs its own device code.
inline int run_zeros(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const auto broken = kernel.load<Broken>();
  if (broken == Broken::kCode) return 1;  // CUDA_ERROR_INVALID_VALUE
  TunerBytesParams p{};
  p.t = merged(args.result(0));
  p.numel = args.result(0).numel();
  if (broken == Broken::kTail) p.numel -= 1;
  if (broken == Broken::kPastEnd) {
    p.t.rank = 1, p.t.shape[0] = p.numel + 1, p.t.strides[0] = 1;
    p.numel += 1;
  }
  if (broken == Broken::kIllegal) p.t.data = nullptr;
  if (broken == Broken::kHang) {  // for years
    p.t.rank = 1, p.t.shape[0] = p.numel = std::int64_t{1} << 60, p.t.strides[0] = 0;
  }
  p.byte = broken == Broken::kWrong ? 0x3f : broken == Broken::kNan ? 0xff : 0;
  if (broken == Broken::kWritesInput) {  // as many zeros as are right, in x first
    TunerBytesParams input = p;
    input.t = merged(args.tensors[0]);
    if (const int code =
            cuda::launch(*kernel.entries[0], {.grid = {64}, .block = {256}}, input, context.stream))
      return code;
  }
  if (broken == Broken::kCrash) std::abort();
  if (broken == Broken::kExit) _exit(0);  // as if all were well
  return cuda::launch(*kernel.entries[0], {.grid = {64}, .block = {256}}, p, context.stream);
}

inline Implementation zeros(const char* name, Broken broken) {
  Implementation impl;
  impl.name = name;
  impl.backend = DeviceType::kCuda;
  impl.source_hash = "zeros";
  impl.flags.deterministic = true;
  impl.flags.capturable = broken != Broken::kEager;
  impl.user = new Broken(broken);
  impl.supports = [](const Query&) { return Support::yes(); };
  impl.prepare = [](const Query& q, const Config&) {
    if (q.user<Broken>() == Broken::kSlowCompile)
      for (;;) pause();
    Kernel kernel;
    kernel.steps[0] = run_zeros;
    kernel.num_steps = 1;
    if (q.user<Broken>() == Broken::kHuge) kernel.workspace_bytes = std::size_t{1} << 42;
    kernel.store(q.user<Broken>());
    return kernel;
  };
  impl.sources = [](const Query& q, const Config&) {
    const bool too_large = q.user<Broken>() == Broken::kTooLarge;
    const int bytes = too_large ? q.device.shared_bytes_per_unit + 1024 : 0;
    return std::vector<KernelSource>{
        {"device/tuner_inputs.cuh", "dlblas::tuner_set_elements", bytes}};
  };
  return impl;
}

inline const Operator& make_zeros(std::vector<Implementation> implementations) {
  static int count = 0;
  static auto* const schemas = new std::deque<std::string>;
  schemas->push_back("gpu_zeros_" + std::to_string(count++) +
                     "(x: f[*T, C]) -> y: like(x)[*T, C] where T: bucket(tokens)");
  OperatorDef def;
  def.family = "test";
  def.schema = schemas->back();
  def.formula = "y = 0";
  def.letters = {"T", "C"};
  def.reference = [](const Args& args, const std::int64_t*, std::int64_t n, OracleOut* out) {
    std::fill_n(out[0].value, n * args.letters[1], 0.0);
    std::fill_n(out[0].magnitude, n * args.letters[1], 0.0);
  };
  def.bound = [](const Problem&, int) { return Bound{0, 0, 1e-6}; };
  def.work_per_row = [](const Problem& p) { return static_cast<double>(p.dims[1]); };
  def.implementations = std::move(implementations);
  return Registry::process().add(std::move(def));
}

// y = x; or, in the variant that remembers, the content of x's address at its first run.
inline int run_copies(const Args& args, const Context& context, const Kernel& kernel, void*) {
  static auto* const kept = new std::map<const void*, cuda::Buffer>;
  const void* from = args.tensors[0].data;
  const auto bytes = static_cast<std::size_t>(args.result(0).numel() * 4);
  if (kernel.load<bool>()) {
    cuda::Buffer& copy = (*kept)[from];
    if (!copy.data()) {
      copy = cuda::Buffer(bytes);
      cuda::copy_on_device(copy.data(), from, bytes, context.stream);
    }
    from = copy.data();
  }
  cuda::copy_on_device(args.result(0).data, from, bytes, context.stream);
  return 0;
}

inline Implementation copies(const char* name, bool remembers) {
  Implementation impl = zeros(name, Broken::kNone);
  impl.user = new bool(remembers);
  impl.sources = nullptr;
  impl.prepare = [](const Query& q, const Config&) {
    return make_kernel({run_copies}, q.user<bool>());
  };
  return impl;
}

/// An operator whose result is its input, f32 only.
inline const Operator& make_copies(std::vector<Implementation> implementations) {
  static int count = 0;
  static auto* const schemas = new std::deque<std::string>;
  schemas->push_back("gpu_copies_" + std::to_string(count++) +
                     "(x: f32[*T, C]) -> y: f32[*T, C] where T: bucket(tokens)");
  OperatorDef def;
  def.family = "test";
  def.schema = schemas->back();
  def.formula = "y = x";
  def.letters = {"T", "C"};
  def.reference = [](const Args& args, const std::int64_t* rows, std::int64_t n, OracleOut* out) {
    const std::int64_t width = args.letters[1];
    const Rows map = rows_of(args.tensors[0]);
    for (std::int64_t i = 0; i < n * width; ++i)
      out[0].value[i] = out[0].magnitude[i] =
          load_element(args.tensors[0], map.offset(rows[i / width]) + i % width);
  };
  def.bound = [](const Problem&, int) { return Bound{0, 0, 1e-6}; };
  def.work_per_row = [](const Problem& p) { return static_cast<double>(p.dims[1]); };
  def.implementations = std::move(implementations);
  return Registry::process().add(std::move(def));
}

inline Problem on_gpu(Problem problem) {
  problem.device_type = DeviceType::kCuda;
  problem.threads = 0;
  return problem;
}

}  // namespace dlblas::test
