// See pages.hpp.
#include "ops/attention/pages.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/schema.hpp"
#include "ops/attention/indices.hpp"

namespace dlblas::attention {
namespace {

std::int64_t value_of(const TensorView& t, std::int64_t i) {
  return index_at(t, i * t.strides[t.rank - 1]);
}

[[noreturn]] void refuse(const Args& args, int tensor, const std::string& what) {
  const std::string &op = args.schema->name, &name = args.schema->tensors[tensor].name;
  throw Error(ErrorKind::kArgument, text(op, ": ", name, what), {.op = op, .argument = name});
}

// Kernels read 32 bits of an i64.
void check_words(const Args& args, const PageTable& pages) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto check = [&](int tensor, std::int64_t size, const char* what) {
    if (args.tensors[tensor].dtype == DType::kI64 && size > kMost)
      refuse(
          args, tensor,
          text(" counts more than 32 bits hold; expected at most ", kMost, what, ", got ", size));
  };
  check(pages.table, pages.count, " pages of the cache");
  check(pages.lengths, pages.width * pages.tokens, " keys of a sequence");
}

}  // namespace

void check_pages(const Args& args, const PageTable& pages) {
  const TensorView &table = args.tensors[pages.table], &lengths = args.tensors[pages.lengths];
  if (table.device.type != DeviceType::kCpu) check_words(args, pages);
  if (table.device.type != DeviceType::kCpu || !table.data || !lengths.data) return;
  const bool ragged = pages.indptr >= 0 && args.has(pages.indptr);
  const bool packed = pages.starts >= 0 && args.has(pages.starts);
  if ((ragged && !args.tensors[pages.indptr].data) || (packed && !args.tensors[pages.starts].data))
    return;
  const std::int64_t tokens = std::max<std::int64_t>(1, pages.tokens);
  for (std::int64_t b = 0; b < lengths.shape[0]; ++b) {
    const std::int64_t length = value_of(lengths, b);
    std::int64_t begin = 0, end = pages.width;
    if (ragged) {
      begin = value_of(args.tensors[pages.indptr], b);
      end = value_of(args.tensors[pages.indptr], b + 1);
    }
    if (length < 0 || begin < 0 || end > pages.width) return;  // refused by the bounds of each
    // A sequence ends with its last page, even if its length says more.
    const std::int64_t used = std::min((length + tokens - 1) / tokens, end - begin);
    const std::int64_t queries = packed ? value_of(args.tensors[pages.starts], b + 1) -
                                              value_of(args.tensors[pages.starts], b)
                                        : 1;
    if (queries <= 0) continue;
    const std::int64_t first =
        pages.window < 0 ? 0 : std::max<std::int64_t>(0, length - queries - pages.window);
    const std::int64_t row = table.shape[0] == 1 ? 0 : b * table.strides[0];
    for (std::int64_t i = begin + first / tokens; i < begin + used; ++i) {
      const std::int64_t page = index_at(table, row + i * table.strides[1]);
      if (page < 0 || page >= pages.count)
        refuse(args, pages.table,
               text(" is out of bounds at [", row ? b : 0, ", ", i, "]; expected 0 to ",
                    pages.count - 1, ", the pages of the cache, got ", page));
    }
  }
}

}  // namespace dlblas::attention
