// An oracle whose text is a function of one row, for the host and for CUDA devices.
// Read next: ops/oracle_text.hpp, kernels/row_oracle.cpp.
#pragma once

#include "device/oracle/call.hpp"
#include "kernels/row_reference.hpp"

namespace dlblas::kernels {

/// What a device oracle is launched with: the call's inputs, and where its results go.
OracleCall oracle_call(const Args& args, const std::int64_t* rows, const OracleOut* out);

/// The device's form of `<operator>_row`, a template over Row in namespace `<family>`, in
/// ops/<family>/<operator>/<operator>_ref.hpp.
DeviceOracle row_device_oracle(const OperatorDef& def);

/// Both forms of the same text, for a definition whose family and schema are set: kRow is
/// `<operator>_row<HostRow>`.
template <void (*kRow)(HostRow&)>
void set_row_oracle(OperatorDef& def) {
  def.reference = row_reference<kRow>;
  def.device_oracle = row_device_oracle(def);
}

}  // namespace dlblas::kernels
