// An oracle whose text is a function of one row, for the host and for CUDA devices.
// Read next: ops/common/oracle_text.hpp, kernels/row_oracle.cpp.
#pragma once

#include "device/oracle/call.hpp"
#include "kernels/row_reference.hpp"

namespace dlblas::kernels {

/// A device oracle's launch parameters: the call's inputs, and where its results go.
OracleCall oracle_call(const Args& args, const std::int64_t* rows, const OracleOut* out);

/// The device's form of `<operator>_row`, a template over Row in namespace `<family>`, in
/// ops/<family>/<operator>/<operator>_ref.hpp.
DeviceOracle row_device_oracle(const OperatorDef& def);

/// The same for `<operator>_shared` and `<operator>_row`.
std::string shared_row_entry(const OperatorDef& def);
int launch_shared_rows(const cuda::Function& entry, const Args& args, const std::int64_t* rows,
                       std::int64_t num_rows, const OracleOut* out, void* stream,
                       const SharedSize& size);

/// Both forms of the same text, for a definition whose family and schema are set: kRow is
/// `<operator>_row<HostRow>`.
template <void (*kRow)(HostRow&)>
void set_row_oracle(OperatorDef& def) {
  def.reference = row_reference<kRow>;
  def.device_oracle = row_device_oracle(def);
}

/// The same, where kShared computes what rows share, once for all requested rows.
template <void (*kShared)(HostRow&), void (*kRow)(HostRow&), SharedSize (*kSize)(const Args&)>
void set_shared_row_oracle(OperatorDef& def) {
  def.reference = shared_row_reference<kShared, kRow, kSize>;
  def.reference_is_whole = true;
  def.device_oracle = row_device_oracle(def);
  def.device_oracle.source.entry = shared_row_entry(def);
  def.device_oracle.launch = [](const cuda::Function& entry, const Args& args,
                                const std::int64_t* rows, std::int64_t num_rows,
                                const OracleOut* out, void* stream) {
    return launch_shared_rows(entry, args, rows, num_rows, out, stream, kSize(args));
  };
}

}  // namespace dlblas::kernels
