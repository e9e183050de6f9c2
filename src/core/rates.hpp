// What a machine sustains: the one model behind every `estimate`, which ranks candidates before
// anything is measured. A kernel that does not reach a rate states the fraction it reaches, beside
// its estimate; no rate is written under ops/ (tools/check_rates.py). In: facts of a device. Out:
// bytes and operations per second. Read next: src/core/rates.cpp (the tables).
#pragma once

#include "core/device.hpp"
#include "core/dtype.hpp"

namespace dlblas {

/// Rates of one unit (a CPU's thread, with kernels of one instruction-set level; a GPU's
/// multiprocessor) while all units are busy. Bytes count reads and writes; a multiply-add is two
/// operations.
struct Rates {
  double memory_bytes_per_s;
  double cache_bytes_per_s;  // CPU: the caches of its core; GPU: its share of L2
  double alone_bytes_per_s;  // the most that one unit draws where others leave memory to it
  double f16_bytes_per_s;    // the most where f16 is converted; 0: conversion costs nothing
  double f32_flops;
  double half_flops;  // f16 and bf16: tensor cores where there are any
  double launch_s;    // of one launch, or of handing rows to threads

  double flops(DType dtype) const { return size_of(dtype) == 2 ? half_flops : f32_flops; }
  /// Bytes of elements of this dtype, from memory or from the caches.
  double bytes_per_s(DType dtype, bool cached = false) const;
  /// Milliseconds for `units` such units to move `bytes` from memory and do `operations` meanwhile:
  /// the longer of the two.
  double roofline_ms(double units, double bytes, double operations, DType dtype) const;
};

/// Rates of one unit: on a CPU, with kernels of that level; a GPU has no levels.
Rates unit_rates(const DeviceInfo& device, Isa level);
/// With CPU kernels of the level in force.
inline Rates unit_rates(const DeviceInfo& device) { return unit_rates(device, device.isa); }

/// What all units of a device sustain together.
double memory_bytes_per_s(const DeviceInfo& device);
double cache_bytes_per_s(const DeviceInfo& device);
double flops(const DeviceInfo& device, DType dtype);
double launch_s(const DeviceInfo& device);
/// Rates::roofline_ms of all units.
double roofline_ms(const DeviceInfo& device, double bytes, double operations, DType dtype);

}  // namespace dlblas
