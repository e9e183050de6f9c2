// store_kv_cache where values have another width than keys; see store_kv_widths.hpp.
#include "ops/kv_cache/store_kv_widths.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/nested.hpp"
#include "core/source_hash.hpp"
#include "ops/kv_cache/store_kv_cache/store_kv_cache_ref.hpp"

namespace dlblas::kv_cache {
namespace {

/// `t` without heads: contiguous, so that its traits depend on the dtype and the width alone.
TensorView without_heads(const TensorView& t) {
  TensorView none = t;
  const int last = t.rank - 1;
  none.data = nullptr;
  none.shape[last - 1] = 0;
  for (int i = 0; i < last - 1; ++i) none.strides[i] = 0;
  none.strides[last - 1] = t.shape[last], none.strides[last] = 1;
  return none;
}

// Keys alone, then values alone: two calls of store_mla_heads, whose two tensors may differ in
// heads, and here the second one has none. It is the same program.
std::vector<Part> parts(const Query& q, const Config&) {
  const Problem& p = q.problem;
  const std::int64_t tokens = p.dims[kT], heads = p.dims[kHkv], pages = p.dims[kP],
                     page = p.dims[kPage];
  const auto part = [&](int x, int cache, int scale, std::int64_t width) {
    const auto empty = [&](int tensor, std::vector<std::int64_t> sizes) {
      TensorView none{};
      none.dtype = p.tensors[tensor].dtype, none.rank = static_cast<std::int32_t>(sizes.size());
      std::copy(sizes.begin(), sizes.end(), none.shape);
      return PartValue(traits_of(without_heads(none)), std::move(sizes));
    };
    return Part{"store_mla_heads",
                {{p.tensors[x], {tokens, heads, width}},
                 empty(x, {tokens, 0, width}),
                 {p.tensors[cache], {pages, page, heads, width}},
                 empty(cache, {pages, page, 0, width}),
                 {p.tensors[kSlots], {tokens}},
                 {p.tensors[scale], {}}},
                {}};
  };
  return {part(kK, kKCache, kKScale, p.dims[kD]), part(kV, kVCache, kVScale, p.dims[kDv])};
}

int run(const Args& args, const Context& context, const Kernel& kernel, void* workspace) {
  const auto store = [&](int i, int x, int cache, int scale) {
    const TensorView &rows = args.tensors[x], &to = args.tensors[cache];
    const TensorView no_rows = without_heads(rows), nothing = without_heads(to);
    kernel.part(i)({rows, no_rows, to, nothing, args.tensors[kSlots], argument(args, scale)}, {},
                   context, workspace);
  };
  store(0, kK, kKCache, kKScale);
  store(1, kV, kVCache, kVScale);
  return 0;
}

}  // namespace

Support one_width(const Problem& p) {
  if (p.dims[kD] == p.dims[kDv]) return Support::yes();
  return Support::no("keys have {} columns and values {}: not one width", p.dims[kD], p.dims[kDv]);
}

Implementation one_by_one(const char* name, DeviceType backend) {
  Implementation impl;
  impl.name = name;
  impl.backend = backend;
  impl.source_hash = source_hash<"ops/kv_cache/store_kv_widths.cpp">();
  impl.flags = {.deterministic = true, .capturable = true};
  impl.supports = [](const Query& q) {
    if (!one_width(q.problem)) return Support::yes();
    return Support::no("keys and values have one width, which one call stores");
  };
  impl.parts = parts;
  impl.prepare = [](const Query&, const Config&) { return make_kernel({run}, 0); };
  return impl;
}

}  // namespace dlblas::kv_cache
