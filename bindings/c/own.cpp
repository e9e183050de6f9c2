// Internal values as a user's functions see them; see own.hpp.
#include "bindings/c/own.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>

#include "bindings/c/guard.hpp"
#include "core/per_thread.hpp"
#include "store/sha256.hpp"

namespace dlblas {
namespace {

constexpr std::size_t kMaxFailure = 4000;  // bytes of a failure's words that are kept

struct Failure {
  std::string text;
};

dlblas_dtype c_dtype(DType t) {
  if (t == DType::kAbsent) return {0, 0, 0};
  return {dlpack_code_of(t), dlpack_bits_of(t), dlpack_lanes_of(t)};
}

dlblas_device c_device(Device d) { return {static_cast<std::int32_t>(d.type), d.index}; }

// An enumeration is passed as its label, a dtype as its name.
dlblas_value c_scalar(const ScalarSpec& spec, const ScalarValue& from) {
  dlblas_value to = {};
  switch (spec.type) {
    case ScalarType::kFloat:
      to.kind = DLBLAS_FLOAT;
      to.as.f = from.f;
      break;
    case ScalarType::kInt:
    case ScalarType::kBool:
      to.kind = spec.type == ScalarType::kInt ? DLBLAS_INT : DLBLAS_BOOL;
      to.as.i = from.i;
      break;
    case ScalarType::kEnum:
      to.kind = DLBLAS_STRING;
      to.as.s = spec.labels[static_cast<std::size_t>(from.i)].c_str();
      break;
    case ScalarType::kDType:
      to.kind = from.i < 0 ? DLBLAS_NONE : DLBLAS_STRING;
      if (from.i >= 0) to.as.s = name_of(static_cast<DType>(from.i)).data();
      break;
  }
  return to;
}

}  // namespace

ProblemView::ProblemView(const Operator& op, const Problem& problem) : op_(&op), problem_(problem) {
  const Schema& schema = op.schema;
  for (std::size_t i = 0; i < schema.tensors.size(); ++i) {
    const TensorTraits& t = problem_.tensors[i];
    tensors_[i] = {c_dtype(t.dtype), static_cast<std::int32_t>(t.layout), 1 << t.align_log2,
                   t.alias - 1};
  }
  for (std::size_t i = 0; i < schema.scalars.size(); ++i) {
    const ScalarSpec& spec = schema.scalars[i];
    scalars_[i] = {};
    if (!spec.key) continue;
    const std::int64_t word = problem_.scalars[spec.key_slot];
    if (spec.key_set) {  // all that the key says: does it differ from its default?
      scalars_[i].kind = DLBLAS_BOOL;
      scalars_[i].as.i = word;
      continue;
    }
    scalars_[i] = c_scalar(spec, {word, std::bit_cast<double>(word)});
  }
  const auto sizes = schema.sizes_of(problem);
  std::copy(sizes.begin(), sizes.end(), problem_.dims);
  const DeviceInfo& device = device_info(problem_.device());
  view_ = {sizeof view_,
           schema.name.c_str(),
           c_device(problem_.device()),
           device.arch,
           device.units,
           problem_.threads,
           problem_.flags,
           static_cast<std::int32_t>(schema.letters.size()),
           schema.num_inputs,
           schema.num_results,
           static_cast<std::int32_t>(schema.scalars.size()),
           problem_.dims,
           tensors_,
           scalars_};
}

StepView::StepView(const Args& args, const std::int64_t* config, int num_knobs, void* workspace) {
  const Schema& schema = *args.schema;
  for (std::size_t i = 0; i < schema.tensors.size(); ++i) {
    const TensorView& t = args.tensors[i];
    dlblas_tensor& to = tensors_[i] = {};
    if (static_cast<int>(i) < schema.num_inputs && !args.has(static_cast<int>(i))) continue;
    to.data = t.data;
    to.device = c_device(t.device);
    to.ndim = t.rank;
    to.dtype = c_dtype(t.dtype);
    to.shape = const_cast<std::int64_t*>(t.shape);
    to.strides = const_cast<std::int64_t*>(t.strides);
  }
  for (std::size_t i = 0; i < schema.scalars.size(); ++i)
    scalars_[i] = c_scalar(schema.scalars[i], args.scalars[i]);
  view_ = {sizeof view_,
           tensors_,
           schema.num_inputs,
           schema.num_results,
           args.letters,
           static_cast<std::int32_t>(schema.letters.size()),
           static_cast<std::int32_t>(schema.scalars.size()),
           scalars_,
           config,
           num_knobs,
           0,
           workspace};
}

std::string take_failure() {
  std::string text;
  text.swap(per_thread<Failure>().text);
  return text;
}

std::string digest_of_object(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || !info.dli_fname) return {};
  std::ifstream file(info.dli_fname, std::ios::binary);
  if (!file) return {};
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  return sha256_hex(bytes).substr(0, 16);
}

}  // namespace dlblas

extern "C" void dlblas_fail(const char* why) {
  using namespace dlblas;
  guarded([&] {
    per_thread<Failure>().text = why ? std::string(why, strnlen(why, kMaxFailure)) : "";
    throw Error(ErrorKind::kInternal, per_thread<Failure>().text);
  });
}
