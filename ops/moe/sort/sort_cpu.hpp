// Sorts items by expert on CPUs, stable within an expert: counts each part of the items, adds the
// counts up in the order of experts and parts, then gives the items of each part their places.
// Places are the same on any number of threads. In: item -> expert. Out: place(item, expert,
// position). Read next: ops/moe/moe_align/moe_align.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/implementation.hpp"

namespace dlblas::moe {

/// The experts of items, from a tensor [T, topk] of i32 or i64; −1 for an id that is no expert.
class ExpertIds {
 public:
  ExpertIds(const TensorView& ids, std::int64_t experts)
      : data_(static_cast<const char*>(ids.data)),
        inner_(std::max<std::int64_t>(1, ids.shape[1])),
        outer_stride_(ids.strides[0]),
        inner_stride_(ids.strides[1]),
        experts_(experts),
        wide_(ids.dtype == DType::kI64) {}
  std::int64_t operator()(std::int64_t item) const {
    const std::int64_t at = item / inner_ * outer_stride_ + item % inner_ * inner_stride_;
    std::int64_t id = 0;
    if (wide_) {
      std::memcpy(&id, data_ + at * 8, 8);
    } else {
      std::int32_t narrow = 0;
      std::memcpy(&narrow, data_ + at * 4, 4);
      id = narrow;
    }
    return id >= 0 && id < experts_ ? id : -1;
  }

 private:
  const char* data_;
  std::int64_t inner_, outer_stride_, inner_stride_, experts_;
  bool wide_;
};

class CpuSort {
 public:
  /// Parts that are counted in parallel, for a call with this many threads.
  static std::int64_t parts_of(std::int64_t items, std::int64_t threads) {
    constexpr std::int64_t kMin = 4096;  // items that are worth a task
    return std::clamp<std::int64_t>(items / kMin, 1, std::max<std::int64_t>(1, threads));
  }
  static std::size_t bytes(std::int64_t experts, std::int64_t threads) {
    return static_cast<std::size_t>(experts * (std::max<std::int64_t>(1, threads) + 1) + 1) * 4;
  }
  CpuSort(std::int64_t items, std::int64_t experts, std::int64_t block, std::int64_t threads,
          void* workspace)
      : items_(items),
        experts_(experts),
        block_(block),
        parts_(parts_of(items, threads)),
        counts_(static_cast<std::int32_t*>(workspace)),
        bases_(counts_ + parts_ * experts) {}

  template <typename ExpertOf>
  void count(const Context& context, const ExpertOf& expert_of) {
    each_part(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      std::int32_t* counts = counts_ + part * experts_;
      std::fill(counts, counts + experts_, 0);
      for (std::int64_t i = begin; i < end; ++i)
        if (const std::int64_t e = expert_of(i); e >= 0) ++counts[e];
    });
    std::int64_t next = 0;
    for (std::int64_t e = 0; e < experts_; ++e) {
      bases_[e] = static_cast<std::int32_t>(next);
      for (std::int64_t part = 0; part < parts_; ++part) {
        std::int32_t& count = counts_[part * experts_ + e];
        const std::int32_t here = count;
        count = static_cast<std::int32_t>(next);
        next += here;
      }
      next = (next + block_ - 1) / block_ * block_;
    }
    bases_[experts_] = static_cast<std::int32_t>(next);
  }
  /// Calls place(item, expert, position), with −1 and −1 for an item of no expert. Use once, after
  /// count().
  template <typename ExpertOf, typename Place>
  void place(const Context& context, const ExpertOf& expert_of, const Place& place) const {
    each_part(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      std::int32_t* next = counts_ + part * experts_;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t e = expert_of(i);
        place(i, e, e >= 0 ? std::int64_t{next[e]++} : -1);
      }
    });
  }
  /// Where an expert's group begins; base(experts) is the end of all.
  std::int64_t base(std::int64_t expert) const { return bases_[expert]; }
  /// Where an expert's items end, once they are placed.
  std::int64_t end_of(std::int64_t expert) const {
    return counts_[(parts_ - 1) * experts_ + expert];
  }

 private:
  template <typename F>
  void each_part(const Context& context, const F& f) const {
    context.run(0, parts_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part)
        f(part, items_ * part / parts_, items_ * (part + 1) / parts_);
    });
  }
  std::int64_t items_, experts_, block_, parts_;
  std::int32_t *counts_, *bases_;
};

}  // namespace dlblas::moe
