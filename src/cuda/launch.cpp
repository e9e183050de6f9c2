// Loading cubins and launching kernels; see cuda.hpp. cuLibrary handles belong to no context, so
// one load serves every context of a device. Read next: jit/load.cpp.
#include <mutex>

#include "core/error.hpp"
#include "cuda/cuda.hpp"
#include "cuda/driver.hpp"

namespace dlblas::cuda {

Function load(const std::string& cubin, const std::string& symbol, int device,
              int dynamic_shared_bytes) {
  const Driver& d = require_driver();
  const CurrentDevice current(device);
  Handle library = nullptr;  // stays loaded for the process
  check(d.library_load(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading a cubin");
  Function f;
  f.device = device;
  check(d.library_kernel(&f.kernel, library, symbol.c_str()), "finding a kernel in its cubin");
  const auto get = [&](int which) {
    int value = 0;
    d.kernel_get(&value, which, f.kernel, device);
    return value;
  };
  f.registers = get(kFunctionRegisters);
  f.static_shared_bytes = get(kFunctionSharedBytes);
  f.max_threads = get(kFunctionMaxThreads);
  if (dynamic_shared_bytes > 0)
    check(d.kernel_set(kFunctionMaxDynamicShared, dynamic_shared_bytes, f.kernel, device),
          "allowing a kernel its dynamic shared memory");
  if (info(device).arch >= 90)
    check(d.kernel_set(kFunctionLargeClusters, 1, f.kernel, device), "allowing a kernel clusters");
  // Getting the context's function loads it now, since the first launch may be under capture.
  check(d.kernel_function(&f.function, f.kernel), "loading a kernel into the context");
  return f;
}

int Function::blocks_per_unit(int threads, int dynamic_shared_bytes) const {
  if (threads > max_threads) return 0;
  const CurrentDevice current(device);
  int blocks = 0;
  const Result code = driver().occupancy(&blocks, function, threads,
                                         static_cast<std::size_t>(dynamic_shared_bytes));
  return code == 0 ? blocks : 0;
}

int launch(const Function& function, const Launch& how, const void* params, std::size_t,
           void* stream) {
  void* parameters[] = {const_cast<void*>(params)};
  return launch_list(function, how, parameters, stream);
}

int launch_list(const Function& function, const Launch& how, void** parameters, void* stream) {
  LaunchAttribute attributes[3];
  LaunchConfig config = {{how.grid.x, how.grid.y, how.grid.z},
                         {how.block.x, how.block.y, how.block.z},
                         how.shared_bytes,
                         stream,
                         attributes,
                         0};
  if (how.cluster > 1) {
    LaunchAttribute& a = attributes[config.num_attributes++];
    a.id = kLaunchCluster;
    a.cluster = {how.cluster, 1, 1};
  }
  if (how.dependent) {
    LaunchAttribute& a = attributes[config.num_attributes++];
    a.id = kLaunchDependent;
    a.dependent = 1;
  }
  if (how.cooperative) {
    LaunchAttribute& a = attributes[config.num_attributes++];
    a.id = kLaunchCooperative;
    a.cooperative = 1;
  }
  return driver().launch_kernel(&config, function.function, parameters, nullptr);
}

}  // namespace dlblas::cuda
