// The yardsticks through the C ABI: this machine's ceilings, and the host time of a warm call.
// Read next: tuner/machine.hpp.
#include "bindings/c/context.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/c/handle.hpp"
#include "cpu/peak.hpp"
#include "cuda/cuda.hpp"
#include "store/machine_rates.hpp"
#include "tuner/machine.hpp"

namespace dlblas {
namespace {

// Rates of the whole device, measured from memory, are stored: later processes start their
// estimates from them.
void keep(const DeviceInfo& device, const dlblas_machine& machine, int threads,
          std::int64_t bytes) {
  constexpr std::int64_t kMinBytes = std::int64_t{64} << 20;  // shorter copies show latencies
  const bool cpu = device.device.type == DeviceType::kCpu;
  if (bytes < kMinBytes || (cpu && threads != device.units)) return;
  publish_rates(Store::process(), device, {machine.copy_bytes_per_s, machine.peak_flops});
}

}  // namespace
}  // namespace dlblas

extern "C" {

using namespace dlblas;

dlblas_status dlblas_bench_host(dlblas_op_t op, const dlblas_args* call, double* nanoseconds) {
  return guarded([&] {
    const Form& form = form_of(op, call);
    if (!nanoseconds)
      refuse(ErrorKind::kArgument, std::string(form.name),
             {"nanoseconds", "is null", "a place for the result", "NULL"});
    dlblas_tensor fresh[kMaxResults] = {};  // results that no one gave: made, and never written
    dlblas_args filled = *call;
    if (!form.inplace && !filled.outputs)
      filled.outputs = fresh, filled.num_outputs = form.op->schema.num_results;
    const CallSide side(nullptr, nullptr);
    *nanoseconds = host_time_ns(form, filled, side.num_threads(), steady_nanoseconds);
  });
}

dlblas_status dlblas_bench_machine(int32_t threads, int64_t bytes, dlblas_machine* machine) {
  return guarded([&] {
    if (!machine || machine->size < sizeof(dlblas_machine))
      refuse(ErrorKind::kArgument, "dlblas",
             {"machine", "has a wrong size", text("size = ", sizeof(dlblas_machine)),
              machine ? text(machine->size) : "NULL"});
    const auto no = [](const char* argument, const std::string& expected, const std::string& got) {
      refuse(ErrorKind::kArgument, "dlblas", {argument, "is out of range", expected, got});
    };
    constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;
    if (bytes < 1 || bytes > kMaxBytes) no("bytes", text("1 to ", kMaxBytes), text(bytes));
    const dlblas_device device = machine->device;
    const auto cuda = static_cast<std::int32_t>(DeviceType::kCuda);
    const bool host = device.index == 0 && (device.type == 0 || device.type == 1);
    const bool gpu = device.type == cuda && device.index >= 0 && device.index <= INT16_MAX;
    if (!host && !gpu)
      no("device", "0:0 (the host), 1:0 (cpu) or 2:0 and up (cuda)",
         text(device.type, ":", device.index));
    dlblas_context wanted{};
    wanted.size = sizeof wanted;
    wanted.num_threads = threads;
    const CallSide side(&wanted, nullptr);
    if (gpu) {
      machine->copy_bytes_per_s = cuda_copy_rate(machine->device.index, bytes);
      machine->peak_flops = cuda_peak_rate(machine->device.index);
      keep(cuda::info(machine->device.index), *machine, 0, bytes);
      return;
    }
    const PeakKernels kernels = peak_kernels(cpu_info().isa);
    machine->copy_bytes_per_s =
        copy_rate(side.context(), bytes, kernels.stream_copy, steady_nanoseconds);
    machine->peak_flops = peak_rate(side.context(), kernels.multiply_adds,
                                    kernels.flops_per_iteration, steady_nanoseconds);
    keep(cpu_info(), *machine, side.num_threads(), bytes);
  });
}

}  // extern "C"
