// The candidates of a tuner run: the implementations that support the problem, their valid
// configurations as the user narrowed them, and the points that always take part.
// In: operator, Problem, options, what the store knows. Out: Candidates.
// Flow: tune > [candidates] > race.  Read next: tuner/race.hpp.
#pragma once

#include <vector>

#include "tuner/tune.hpp"

namespace dlblas {

class Candidates {
 public:
  /// Also fills `seen`, one entry per implementation, with the reason for every refusal. Throws
  /// Error(kUnsupported) when nothing supports the problem, Error(kArgument) when the options name
  /// an unknown implementation or knob, or leave no configuration.
  Candidates(const Operator& op, const Problem& problem, const TuneOptions& options,
             std::vector<TuneCandidate>& seen);

  /// The store's rows whose configuration is inside the user's narrowing; the first default inside
  /// counts as the default.
  std::vector<CurrentRow> inside(const std::vector<CurrentRow>& rows) const;
  /// Drops the implementations for which the store holds a current sample or failure inside the
  /// user's narrowing. If that is all of them, keeps all and returns true.
  bool keep_unknown(const Merged& merged);
  /// Whatever is searched, the default, the key's current winner and the winner inside the user's
  /// narrowing take part: results are compared only within a run, and none must hide a faster one.
  /// So do the rows of `again`, measured under another driver or compiler.
  void add_anchors(const CurrentRow* incumbent, const CurrentRow* narrowed_incumbent,
                   const std::vector<const CurrentRow*>& again);
  /// Drops every point: only the anchors that are added after it are then measured.
  void drop_all();

  /// The first supporting implementation and its default: what has to be beaten.
  const Implementation& first() const { return *supporting_.front(); }
  const Config& default_config() const { return default_config_; }
  /// Inside the user's narrowing: the first default, or the first of all.
  Point stand_in() const { return preset_ ? Point{preset_, preset_config_} : narrowed_.points[0]; }
  bool is_inside(const Implementation& impl, const Config& config) const {
    return find(narrowed_, impl, config) >= 0;
  }
  const SearchSpace& space() const { return space_; }
  RaceInput race_input(Strategy& strategy) const;

 private:
  struct Extra {    // beside each point of space_
    bool eligible;  // inside the user's narrowing: it may win this run
    bool first;     // tried before the strategy is asked
  };
  void add_anchor(const Implementation& impl, const Config& config);
  static int find(const SearchSpace& in, const Implementation& impl, const Config& config);
  int order_of(const Implementation& impl) const;
  void add_space(const Operator& op, const Implementation& impl, const TuneOptions& options,
                 TuneCandidate& seen);

  Problem problem_;
  std::vector<const Implementation*>
      supporting_;  // in registry order; the reference only when alone
  Config default_config_;
  bool default_allowed_ = true;             // no kept rule forbids it
  const Implementation* preset_ = nullptr;  // the first default inside the user's narrowing
  Config preset_config_;
  SearchSpace space_;  // sorted: an id is a rank
  std::vector<Extra> extras_;
  SearchSpace narrowed_;  // as the user narrowed it, known implementations included
  std::vector<Point> incumbents_;
};

}  // namespace dlblas
