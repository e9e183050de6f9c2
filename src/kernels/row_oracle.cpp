// Packs and launches device oracles of rows. Read next: device/oracle/row.cuh.
#include "kernels/row_oracle.hpp"

#include "core/error.hpp"
#include "cuda/cuda.hpp"

namespace dlblas::kernels {
namespace {

static_assert(OracleCall::kTensors >= kMaxTensors && OracleCall::kResults >= kMaxJudged &&
              OracleCall::kLetters >= kMaxLetters && OracleCall::kScalars >= kMaxScalars);
static_assert(sizeof(OracleCall) <= 4096, "the parameters of a kernel");
constexpr unsigned kThreads = 256;  // BlockTeam's

int launch_rows(const cuda::Function& entry, const Args& args, const std::int64_t* rows,
                std::int64_t num_rows, const OracleOut* out, void* stream) {
  const OracleCall call = oracle_call(args, rows, out);
  return cuda::launch(entry, {.grid = {static_cast<unsigned>(num_rows)}, .block = {kThreads}}, call,
                      stream);
}

std::string name_of_text(const OperatorDef& def) {
  return text("dlblas::", def.family, "::", def.schema.substr(0, def.schema.find('(')));
}

constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

}  // namespace

OracleCall oracle_call(const Args& args, const std::int64_t* rows, const OracleOut* out) {
  OracleCall call{};
  const Schema& schema = *args.schema;
  for (StridedView& t : call.tensors) t.dtype = DType::kAbsent;
  for (int i = 0; i < schema.num_inputs; ++i) {
    if (!args.has(i)) continue;
    const TensorView& t = args.tensors[i];
    call.tensors[i] = merged(t);
    call.widths[i] = t.rank > 0 ? t.shape[t.rank - 1] : 1;
  }
  for (int j = 0; j < schema.num_judged(); ++j) {
    if (!args.judges(j)) continue;
    const TensorView& t = args.judged(j);
    call.results[j] = {out[j].value, out[j].magnitude, t.rank > 0 ? t.shape[t.rank - 1] : 1,
                       t.dtype};
  }
  for (int i = 0; i < kMaxLetters; ++i) call.letters[i] = args.letters[i];
  for (std::size_t i = 0; i < schema.scalars.size(); ++i) {
    call.floats[i] = args.scalars[i].f;
    call.integers[i] = args.scalars[i].i;
  }
  call.rows = rows;
  return call;
}

DeviceOracle row_device_oracle(const OperatorDef& def) {
  const std::string_view op = def.schema.substr(0, def.schema.find('('));
  return {
      {text("ops/", def.family, "/", op, "/", op, "_ref.hpp"),
       text("dlblas::oracle_rows<", name_of_text(def), "_row<dlblas::TeamRow<dlblas::BlockTeam>>>"),
       0},
      &launch_rows};
}

std::string shared_row_entry(const OperatorDef& def) {
  const char* const row = "<dlblas::TeamRow<dlblas::BlockTeam>>";
  const std::string name = name_of_text(def);
  return text("dlblas::oracle_shared_rows<", name, "_shared", row, ", ", name, "_row", row, ">");
}

int launch_shared_rows(const cuda::Function& entry, const Args& args, const std::int64_t* rows,
                       std::int64_t num_rows, const OracleOut* out, void* stream,
                       const SharedSize& size) {
  const std::size_t bytes = static_cast<std::size_t>(size.values) * sizeof(double);
  OracleCall call = oracle_call(args, nullptr, out);
  if (bytes > 0) {
    call.shared = static_cast<double*>(cuda::allocate(bytes, stream));
    if (!call.shared) return kOutOfMemory;
    cuda::fill_bytes(call.shared, 0, bytes, stream);
  }
  const auto launch = [&](std::int64_t blocks) {
    return blocks == 0
               ? 0
               : cuda::launch(entry, {.grid = {static_cast<unsigned>(blocks)}, .block = {kThreads}},
                              call, stream);
  };
  int code = launch(size.calls);
  call.rows = rows, call.pass = 1;
  if (code == 0) code = launch(num_rows);
  if (call.shared) cuda::release(call.shared, stream);
  return code;
}

}  // namespace dlblas::kernels
