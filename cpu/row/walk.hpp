// The loops of a row program on a CPU: one thread walks a row in passes, one per reduction and one
// that stores; kept data is loaded again, from cache. Sums are f32 over blocks of kRowBlock columns
// and f64 across them, in an order that depends only on the width: same bits in any batch, on any
// number of threads. A short row is stored after the next one is reduced: its chain of divisions
// and roots ends meanwhile. Compiled once per instruction set, like cpu/simd.hpp.
// Read next: cpu/row/places.hpp, cpu/row/columns.hpp.
#pragma once

#include <initializer_list>

#include "cpu/row/exact.hpp"
#include "cpu/row/fold.hpp"
#include "cpu/row/places.hpp"

// NOLINTBEGIN(google-build-namespaces): see cpu/simd.hpp
namespace dlblas::DLBLAS_ISA {
namespace {

/// Stack bytes for what a row keeps between its last stage and its store.
constexpr int kRowScratchBytes = 256 << 10;
/// Two rows of this many columns fit in L1.
constexpr int64_t kShortRow = 1024;

template <template <typename> class Program, bool kKeep, typename Types>
class RowWalker : RowPlaces {
 public:
  template <int kVectors>
  using At = Program<CpuTarget<kVectors, kKeep, Types>>;
  template <int kVectors>
  using Access = CpuAccess<kVectors, Types>;
  using Wide = At<2>;
  using Kept = typename Wide::Kept;
  /// Whether to unroll: some programs run only with AnyTypes; elsewhere these are rare, and not
  /// worth the code.
  static constexpr bool kFast =
      Types::kKnown || Wide::kHasHeads || (Wide::kByteResults && Wide::kStoredByKeep != 0);

  /// Is a row read before the previous one is written?
  static bool reads_ahead(const RowJob& job) {
    return kRowStage && !Wide::kHasHeads && job.call.tiles == 1 && job.call.width <= kShortRow;
  }

  /// `scratch`: one access after the other, if kKeep. `lag`: rows between the one that is read and
  /// the one that is written.
  RowWalker(const RowJob& job, Kept* scratch, int lag)
      : RowPlaces(job), scratch_(scratch), lag_(lag) {
    for (int i = 0; i < job.operands; ++i) {
      const bool reads = job.rows_of >> i & ~job.written >> i & ~job.shape.gathered >> i & 1u;
      if (reads && job.prefetch && ahead_count_ < 2) ahead_of_[ahead_count_++] = i;
    }
  }

  /// One unit: a row, or a part of one if the program reduces none. Reads what its totals need;
  /// write() stores the unit that was read last.
  DLBLAS_INLINE void read(int64_t unit) {
    if constexpr (Wide::kHasHeads) return run_heads(unit);
    if constexpr (Wide::kFolds > 0) unit = unit * job_.period + job_.phase;
    const auto tiles = static_cast<int64_t>(job_.call.tiles);
    const int64_t row = tiles == 1 ? unit : unit / tiles,
                  tile = tiles == 1 ? 0 : unit - row * tiles;
    left_out_ = job_.shape.indices > 0 && !find_numbers(row);
    if (left_out_) return;
    place(row);
    begin_ = tile * job_.tile;
    end_ = begin_ + job_.tile;
    end_ = end_ < job_.call.width ? end_ : job_.call.width;
    stage(Stage<0>{}, begin_, end_);
    stage(Stage<1>{}, begin_, end_);
    stage(Stage<2>{}, begin_, end_);
  }
  DLBLAS_INLINE void write() {
    if constexpr (Wide::kHasHeads) return;
    if (left_out_) return;
    if constexpr ((Wide::kSquaresOf >= 0))
      if (lost_) return write_exactly<Program>(row_, end_);
    if constexpr (Wide::kSelects) select(begin_, end_);
    if constexpr (Wide::kHasRowResults) Wide::store_row(stats_, row_);
    if constexpr (!Wide::kOnlyRowResults) write(begin_, end_);
  }

 private:
  void place(int64_t row) {
    row_.index = row;
    place_row(row);
    if constexpr (kFetches) look_ahead(row + lag_ * job_.period);
  }

  static constexpr bool kRowStage = Wide::kStages > 0 && Wide::kScopes[0] <= 0;
  /// Does the last stage reduce groups of columns?
  static constexpr bool kGroups =
      Wide::kStages > 0 && Wide::kScopes[Wide::kStages > 0 ? Wide::kStages - 1 : 0] == kGroupScope;
  /// What the storing pass prefetches: a store that misses L2 holds up those behind it.
  DLBLAS_INLINE Ahead written_ahead() const {
    Ahead ahead = ahead_;
    if constexpr (kFetches)
      for (int i = 0; i < job_.operands && job_.prefetch && !ahead.written; ++i) {
        const RowTensor& t = row_.operands[i];
        if ((job_.written & job_.at_columns & ~Wide::kStoredByKeep) >> i & 1u)
          if (t.store < Way::kStreamF32 || t.store == Way::kBytes)
            ahead.written = t.data + kWrittenAheadBytes;
      }
    return ahead;
  }
  DLBLAS_INLINE static void fetch_written([[maybe_unused]] const Ahead& ahead,
                                          [[maybe_unused]] int64_t c) {
    if constexpr (kFetches) {
      constexpr int kBytes = size_of(Types::kOut);
      if (ahead.written)
        DLBLAS_UNROLL for (int b = 0; b < kRowStep * kBytes; b += kLine)
            prefetch(ahead.written + c * kBytes + b);
    }
  }
  /// The pass that prefetches what comes next: the one that reads a row if it is walked once, else
  /// the second. kStages stands for the storing pass.
  static constexpr bool kFetches = Types::kKnown && !Wide::kHasHeads;
  static constexpr int kFetchingStage = kRowStage ? 1 : kGroups ? 0 : Wide::kStages;

  /// The next row or, if rows are walked once, what is some lines further on.
  DLBLAS_INLINE void look_ahead(int64_t row) {
    for (int n = 0; n < ahead_count_; ++n) {
      const int i = ahead_of_[n];
      const char* now = row_.operands[i].data;
      if constexpr (kRowStage)
        ahead_.rows[n] = row + job_.period < job_.call.rows ? place_of(i, row + job_.period) : now;
      else
        ahead_.rows[n] = now + kAheadBytes;
      if (ahead_count_ == 1 && (job_.shifted >> i & 1u))
        ahead_.rows[1] = ahead_.rows[0] + job_.call.width * row_.operands[i].column;
    }
  }
  template <int kStage>
  DLBLAS_INLINE static void fetch([[maybe_unused]] const Ahead& ahead, [[maybe_unused]] int64_t c) {
    if constexpr (kFetches && kStage == kFetchingStage) {
      constexpr int kBytes = size_of(Types::kIn);
      for (const char* row : ahead.rows)
        if (row)
          DLBLAS_UNROLL for (int b = 0; b < kRowStep * kBytes; b += kLine)
              prefetch(row + c * kBytes + b);
    }
  }

  /// A row of heads: stages over all of them, then each head, by itself where it is a group.
  void run_heads(int64_t row) {
    if (!find_numbers(row)) return;
    if constexpr (Wide::kColumnsOnce) return write_by_columns(row);
    stage_heads(Stage<0>{}, row);
    stage_heads(Stage<1>{}, row);
    stage_heads(Stage<2>{}, row);
    for_heads(row, [&]() DLBLAS_ROW_LAMBDA {
      if (job_.stream) stream_head();
      if constexpr (kGroups) {
        using S = Stage<Wide::kStages - 1>;
        const RowState at = row_;
        const auto stats = stats_;
        auto total = decltype(Wide::partial(S{}))::none();
        for_ranges([&](int64_t begin, int64_t end)
                       DLBLAS_ROW_LAMBDA { reduce_into(total, S{}, begin, end, at, stats); });
        for_ranges([&](int64_t begin, int64_t end) DLBLAS_ROW_LAMBDA {
          Group group = {};
          finalize_group(group, static_cast<float>(total), begin, end, at);
          write_group(group, begin, end, at, stats);
        });
      } else {
        for_ranges([&](int64_t begin, int64_t end)
                       DLBLAS_ROW_LAMBDA { write_columns(begin, end); });
      }
    });
  }
  /// The columns of a head before its split, then those after it: one body for both.
  template <typename Body>
  DLBLAS_INLINE void for_ranges(const Body& body) const {
    const RowShape& shape = job_.shape;
    for (int64_t begin = 0, end = shape.split; begin < shape.head_width;
         begin = end, end = shape.head_width)
      body(begin, end);
  }
  template <int kStage>
  DLBLAS_INLINE void stage_heads(Stage<kStage> s, int64_t row) {
    if constexpr (kStage < Wide::kStages) {
      if constexpr (Wide::kScopes[kStage] <= 0) {
        auto total = decltype(Wide::partial(s))::none();
        for_heads(row, [&]() DLBLAS_ROW_LAMBDA {
          const RowState at = row_;
          const auto stats = stats_;
          for_ranges([&](int64_t begin, int64_t end)
                         DLBLAS_ROW_LAMBDA { reduce_into(total, s, begin, end, at, stats); });
        });
        Wide::finalize(s, stats_, total, job_.call);
      }
    }
  }
  /// Each access's columns for all heads, one after the other: computes what they share once.
  void write_by_columns(int64_t row) {
    static_assert(Wide::kStages == 0);
    int64_t begin = 0;
    for (const int64_t end : {int64_t{job_.shape.split}, int64_t{job_.shape.head_width}}) {
      for_columns<1, true>(
          begin, end, [&](auto width, int, int64_t c, int lanes) DLBLAS_ROW_LAMBDA {
            constexpr int kVectors = decltype(width)::vectors;
            using P = At<kVectors>;
            const Access<kVectors> at = {row_, c, lanes, true};
            place_heads(row, 0);
            typename P::Columns columns;
            P::load_columns(columns, at);
            for_heads(row, [&]() DLBLAS_ROW_LAMBDA {
              P::store(kept_at<kVectors, true>(at), columns, typename P::Stats{}, at);
            });
          });
      begin = end;
    }
  }
  /// Places the operands of the first tensors, or of the second ones, which replace them.
  void place_heads(int64_t row, int group) {
    for (int i = 0; i < job_.operands; ++i) {
      const int from = group == 1 && job_.shape.second[i] ? job_.shape.second[i] : i;
      RowTensor& t = row_.operands[i];
      t.data = data_of(from, row);
      if (group == 0 && (job_.shape.second_only >> i & 1u)) t.data = nullptr;
      t.column = job_.call.operands[from].column * size_of(t.type);
      t.load = t.store = way(t);
    }
  }
  template <typename Body>
  DLBLAS_INLINE void for_heads(int64_t row, const Body& body) {
    const RowShape& shape = job_.shape;
    for (int group = 0; group < 2; ++group) {
      place_heads(row, group);
      int count = 0, of[kMaxRowOperands];
      int64_t steps[kMaxRowOperands];
      for (int i = 0; i < job_.operands; ++i) {
        if (!(shape.headed >> i & 1u) || !row_.operands[i].data) continue;
        const int from = group == 1 && shape.second[i] ? shape.second[i] : i;
        of[count] = i;
        steps[count++] = job_.call.operands[from].head * size_of(job_.types[i]);
      }
      int read = 0, read_of[kMaxRowOperands];
      for (int n = 0; n < count && job_.prefetch; ++n)
        if (!(job_.written >> of[n] & 1u) && steps[n] > 0 && steps[n] <= kAheadBytes)
          read_of[read++] = n;
      for (int32_t head = 0; head < shape.heads[group]; ++head) {
        for (int r = 0; r < read; ++r) {
          const int n = read_of[r];
          const char* from = row_.operands[of[n]].data + kAheadBytes;
          for (int64_t b = 0; b < steps[n]; b += kLine) prefetch(from + b);
        }
        body();
        for (int n = 0; n < count; ++n) row_.operands[of[n]].data += steps[n];
      }
    }
  }
  /// Bypasses the caches if all accesses of this head are aligned for it.
  void stream_head() {
    const RowShape& shape = job_.shape;
    for (int i = 0; i < job_.operands; ++i) {
      RowTensor& t = row_.operands[i];
      if (!(job_.written >> i & 1u)) continue;
      t.store = way(t);
      const uint64_t places =
          reinterpret_cast<uintptr_t>(t.data) |
          static_cast<uint64_t>((shape.head_width | shape.split | shape.shifts) * size_of(t.type));
      if ((places & static_cast<uint64_t>(streamed_step(size_of(t.type)) - 1)) == 0)
        t.store = streamed(t);
    }
  }
  /// Stats belong to the program as compiled for two vectors; the one for one vector has its own
  /// type with the same layout.
  template <int kVectors>
  DLBLAS_INLINE static typename At<kVectors>::Stats stats_at(const typename Wide::Stats& stats) {
    typename At<kVectors>::Stats copy;
    static_assert(sizeof copy == sizeof stats);
    __builtin_memcpy(&copy, &stats, sizeof copy);
    return copy;
  }

  template <int kVectors, bool kFirst>
  DLBLAS_INLINE static void keep_at(typename At<kVectors>::Kept& kept, const Access<kVectors>& at) {
    if constexpr (!kFirst && At<kVectors>::kStoredByKeep != 0) {
      At<kVectors>::reload(kept, at);
    } else {
      typename At<kVectors>::Loaded loaded;
      At<kVectors>::load(loaded, at);
      At<kVectors>::keep(kept, loaded, at);
    }
  }
  template <int kVectors, bool kFirst>
  DLBLAS_INLINE static typename At<kVectors>::Kept kept_at(const Access<kVectors>& at) {
    typename At<kVectors>::Kept kept;
    keep_at<kVectors, kFirst>(kept, at);
    return kept;
  }

  template <int kStage>
  DLBLAS_INLINE void stage(Stage<kStage> s, int64_t begin, int64_t end) {
    if constexpr (kStage < Wide::kStages) {
      if constexpr (Wide::kOptionalStages)
        if (!Wide::needs(s, row_.options)) return;
      if constexpr (Wide::kScopes[kStage] <= 0) {
        const auto total = reduce(s, begin, end, row_, stats_);
        if constexpr ((Wide::kSquaresOf >= 0)) lost_ = Wide::lost(s, total, job_.call);
        Wide::finalize(s, stats_, total, job_.call);
      }
    }
  }

  /// The total of columns [begin, end).
  template <int kStage>
  DLBLAS_INLINE auto reduce(Stage<kStage> s, int64_t begin, int64_t end, const RowState row,
                            const typename Wide::Stats stats) {
    auto total = decltype(Wide::partial(s))::none();
    reduce_into(total, s, begin, end, row, stats);
    return total;
  }
  /// `row` and `stats` are the caller's own copies: stores cannot change them.
  template <int kStage, typename Total>
  DLBLAS_INLINE void reduce_into(Total& total, Stage<kStage> s, int64_t begin, int64_t end,
                                 const RowState& row, const typename Wide::Stats& stats) {
    using Part = decltype(Wide::partial(s));
    [[maybe_unused]] const Ahead ahead = ahead_;
    for (int64_t block = begin; block < end; block += kRowBlock) {
      Part parts[kRowUnroll];
      if constexpr (requires { parts[0].start(total); })
        for (Part& part : parts) part.start(total);
      const int64_t next = block + kRowBlock < end ? block + kRowBlock : end;
      for_columns<kRowUnroll, kFast>(
          block, next, [&](auto width, int u, int64_t c, int lanes) DLBLAS_ROW_LAMBDA {
            constexpr int kVectors = decltype(width)::vectors;
            using P = At<kVectors>;
            const Access<kVectors> at = {row, c, lanes, kStage == 0};
            if constexpr (kVectors == 2) fetch<kStage>(ahead, c);
            typename P::Kept kept = kept_at<kVectors, kStage == 0>(at);
            typename P::Columns columns;
            if constexpr (P::kHasColumns && P::kColumnsStage <= kStage)
              P::load_columns(columns, at);
            parts[u].lanes = lanes;
            P::accumulate(s, parts[u], kept, columns, stats_at<kVectors>(stats), at);
            if constexpr (kKeep && kStage == P::kStages - 1) kept_place<kVectors>(c) = kept;
          });
      DLBLAS_UNROLL for (int u = 1; u < kRowUnroll; ++u) parts[0].merge(parts[u]);
      parts[0].add_to(total);
    }
  }

  /// One pass gathers as many of the first columns as the program takes, at most RowPicks::kMax.
  DLBLAS_INLINE void select(int64_t begin, int64_t end) {
    RowPicks picks(Wide::picks(job_.call));
    const auto gather = [&]() DLBLAS_ROW_LAMBDA {
      for_columns<1, true>(
          begin, end, [&](auto width, int, int64_t c, int lanes) DLBLAS_ROW_LAMBDA {
            constexpr int kVectors = decltype(width)::vectors;
            const Access<kVectors> at = {row_, c, lanes, false};
            picks.offer(At<kVectors>::ranked(kept_at<kVectors, false>(at)), c, lanes, row_.paired);
          });
    };
    if (picks.can_bound() && end - begin >= 2 * kRowStep) {  // of the first block: enough
      Values<2> largest(-__builtin_inff());
      for_columns<1, true>(begin, end < begin + kRowBlock ? end : begin + kRowBlock,
                           [&](auto width, int, int64_t c, int lanes) DLBLAS_ROW_LAMBDA {
                             constexpr int kVectors = decltype(width)::vectors;
                             const Access<kVectors> at = {row_, c, lanes, false};
                             const auto x = At<kVectors>::ranked(kept_at<kVectors, false>(at));
                             for (int v = 0; v < kVectors; ++v) {
                               const Vec inside = kVectors == 2
                                                      ? x.v[v]
                                                      : choose(lanes_below(lanes), x.v[v],
                                                               broadcast(-__builtin_inff()));
                               largest.v[v] = max_number(inside, largest.v[v]);
                             }
                           });
      picks.bound(largest);
    }
    gather();
    const auto again = [&]() DLBLAS_OUTLINE { gather(); };
    RowTakes takes(picks, again);
    Wide::select(takes, stats_, row_);
  }

  /// There are at most two accesses of one vector, at the row's end.
  template <int kVectors>
  DLBLAS_INLINE typename At<kVectors>::Kept& kept_place(int64_t c) {
    if constexpr (kVectors == 2)
      return scratch_[c / kRowStep];
    else
      return narrow_[c / kWidth % 2];
  }

  template <int kVectors>
  DLBLAS_INLINE void write_access(int64_t c, int lanes, const RowState& row,
                                  const typename Wide::Stats& stats) {
    using P = At<kVectors>;
    constexpr bool kFirst = P::kStages == 0 || P::kScopes[0] > 0;
    Access<kVectors> at = {row, c, lanes, kFirst};
    typename P::Kept kept;
    if constexpr (kKeep)
      kept = kept_place<kVectors>(c);
    else
      kept = kept_at<kVectors, kFirst>(at);
    typename P::Columns columns;
    if constexpr (P::kHasHeads) columns = typename P::Columns{};  // not every head loads them
    if constexpr (P::kHasColumns) P::load_columns(columns, at);
    at.first_pass = true;
    const auto mine = stats_at<kVectors>(stats);
    if constexpr (requires { typename P::Ready; })
      store_and_fold<P>(P::ready(kept, columns, mine, at, at.unpack(Stage<3>{})), columns, mine, at,
                        c);
    else
      store_and_fold<P>(kept, columns, mine, at, c);
  }
  template <typename P, typename K, typename A>
  DLBLAS_INLINE void store_and_fold(const K& kept, const typename P::Columns& columns,
                                    const typename P::Stats& stats, const A& at, int64_t c) {
    P::store(kept, columns, stats, at);
    if constexpr (P::kFolds > 0) {
      static_assert(!P::kHasHeads && !kGroups && !P::kOnlyRowResults);
      fold_access<P>(job_.partials + c, kept, columns, stats, at, in_pairs(at.row));
    }
  }
  DLBLAS_INLINE static bool in_pairs(const RowState& row) {
    if constexpr (Types::kKnown) return Types::kPaired;
    return row.paired;
  }

  template <int kVectors>
  DLBLAS_INLINE static typename At<kVectors>::Kept finalized(float total, const RowState& row,
                                                             int64_t c) {
    typename At<kVectors>::Kept kept = {};
    At<kVectors>::finalize_group(Stage<Wide::kStages - 1>{}, kept, total,
                                 Access<kVectors>{row, c, kWidth, true});
    return kept;
  }
  /// What a group's total determines, computed once; an access then loads its own values.
  struct Group {
    Kept wide;
    typename At<1>::Kept narrow;
  };
  DLBLAS_INLINE static void finalize_group(Group& group, float total, int64_t c, int64_t next,
                                           const RowState& row) {
    group.wide = finalized<2>(total, row, c);
    if ((next - c) % kRowStep != 0) group.narrow = finalized<1>(total, row, c);
  }

  /// A group is read for its total, and again, from cache, for its store. The next group is reduced
  /// before that store, so that its divisions end meanwhile.
  void write_groups(int64_t begin, int64_t end) {
    using S = Stage<Wide::kStages - 1>;
    const int64_t width = job_.call.group;
    if (job_.stream && width % kRowStep == 0) start_streaming(begin, end);
    RowState row = row_;
    const auto stats = stats_;
    const auto last = [&](int64_t c)
                          DLBLAS_ROW_LAMBDA { return c + width < end ? c + width : end; };
    const auto total = [&](int64_t c) DLBLAS_ROW_LAMBDA {
      return static_cast<float>(reduce(S{}, c, last(c), row, stats));
    };
    Group groups[2] = {};
    row.group = begin / width;
    finalize_group(groups[0], total(begin), begin, last(begin), row);
    for (int64_t c = begin, g = 0; c < end; c += width, g ^= 1) {
      if (c + width < end) {
        ++row.group;
        finalize_group(groups[g ^ 1], total(c + width), c + width, last(c + width), row);
      }
      write_group(groups[g], c, last(c), row, stats);
    }
  }
  /// Writes the columns of a group.
  DLBLAS_INLINE void write_group(const Group& group, int64_t c, int64_t next, const RowState& row,
                                 const typename Wide::Stats& stats) {
    [[maybe_unused]] const Ahead ahead = written_ahead();
    for_columns<1, true>(c, next, [&](auto vectors, int, int64_t at, int lanes) DLBLAS_ROW_LAMBDA {
      constexpr int kVectors = decltype(vectors)::vectors;
      using P = At<kVectors>;
      if constexpr (kVectors == 2) fetch_written(ahead, at);
      Access<kVectors> access = {row, at, lanes, P::kStages == 0};
      typename P::Kept kept;
      if constexpr (kVectors == 2)
        kept = group.wide;
      else
        kept = group.narrow;
      keep_at<kVectors, false>(kept, access);
      access.first_pass = true;
      typename P::Columns columns;
      if constexpr (P::kHasHeads) columns = typename P::Columns{};
      if constexpr (P::kHasColumns) P::load_columns(columns, access);
      P::store(kept, columns, stats_at<kVectors>(stats), access);
    });
  }

  /// The pass that stores; bypasses the caches from the first suitably aligned address on.
  void write(int64_t begin, int64_t end) {
    if constexpr (kGroups)
      write_groups(begin, end);
    else
      write_row(begin, end);
  }
  void write_row(int64_t begin, int64_t end) {
    int64_t c = begin;
    if (job_.stream) c = start_streaming(begin, end);
    write_columns(c, end);
  }
  void write_columns(int64_t begin, int64_t end) {
    const RowState row = row_;
    const typename Wide::Stats stats = stats_;
    [[maybe_unused]] const Ahead ahead = written_ahead();
    for_columns<1, true>(begin, end, [&](auto width, int, int64_t at, int lanes) DLBLAS_ROW_LAMBDA {
      constexpr int kVectors = decltype(width)::vectors;
      if constexpr (kVectors == 2) fetch<Wide::kStages>(ahead, at), fetch_written(ahead, at);
      write_access<kVectors>(at, lanes, row, stats);
    });
  }

  /// Writes the columns before the first aligned address; results that are not aligned with the
  /// first one go through the caches. Returns the column to continue from.
  int64_t start_streaming(int64_t begin, int64_t end) {
    if constexpr (kGroups) return choose_stores(begin, end), begin;
    const int64_t head = choose_stores(begin, end);
    for (int64_t c = begin; c < begin + head; c += kWidth) {
      const int64_t left = begin + head - c;
      write_access<1>(c, left < kWidth ? static_cast<int>(left) : kWidth, row_, stats_);
    }
    return begin + head;
  }
  /// Chooses the results that bypass the caches; returns the columns before their aligned address.
  int64_t choose_stores(int64_t begin, int64_t end) {
    int64_t head = -1;
    for (int i = 0; i < job_.operands; ++i) {
      RowTensor& t = row_.operands[i];
      if (!(job_.written >> i & 1u)) continue;
      t.store = way(t);
      if (t.store == Way::kOther || (Wide::kStoredByKeep >> i & 1u)) continue;
      const int size = size_of(t.type), step = streamed_step(size);
      // Powers of two, unknown to the compiler: a division each time takes 100 cycles.
      const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(t.data + begin * size) &
                                             static_cast<unsigned>(step - 1));
      if ((past & (size - 1)) != 0) continue;
      if ((job_.shifted >> i & 1u) && (int64_t{job_.call.width} * size & (step - 1)) != 0) continue;
      const int64_t mine =
          past == 0 ? 0 : (step - past) >> __builtin_ctz(static_cast<unsigned>(size));
      if (begin + mine >= end || (head >= 0 && head != mine)) continue;
      // Accesses must be where they were kept, or begin with groups.
      if ((kKeep || kGroups) && mine != 0) continue;
      head = mine;
      t.store = streamed(t);
    }
    return head < 0 ? 0 : head;
  }

  typename Wide::Stats stats_;
  int64_t begin_ = 0, end_ = 0;  // columns
  bool left_out_ = false;
  bool lost_ = false;  // its sum left f32
  Kept* scratch_;
  int lag_;
  Ahead ahead_ = {};
  int ahead_of_[2], ahead_count_ = 0;
  typename At<1>::Kept narrow_[2];
};

}  // namespace
}  // namespace dlblas::DLBLAS_ISA
// NOLINTEND(google-build-namespaces)
