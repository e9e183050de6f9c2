// The winner rule, and which remembered rows may take part in it; see ranking.hpp.
#include "store/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace dlblas {
namespace {

std::string milliseconds(double ms) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.4g ms", ms);
  return digits;
}

std::string ratio(double a, double b) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.2f", a / b);
  return digits;
}

// The row as this code sees it; false when it is not current.
bool read_row(const Record::Candidate& stored, const std::vector<const Implementation*>& supporting,
              const std::vector<Space>& spaces, CurrentRow* row) {
  for (std::size_t i = 0; i < supporting.size(); ++i) {
    const Implementation& impl = *supporting[i];
    if (stored.implementation != impl.name || stored.source_hash != impl.source_hash) continue;
    try {
      row->config = impl.table().parse(stored.config, impl.name);
    } catch (const Error&) {
      return false;  // written by another version of the table: soft data, not an error
    }
    row->candidate = static_cast<int>(i);
    row->stored = &stored;
    return spaces[i].contains(row->config);
  }
  return false;
}

bool lower_id(const CurrentRow& a, const CurrentRow& b) {
  if (a.candidate != b.candidate) return a.candidate < b.candidate;
  return a.config.values < b.config.values;
}

// The newest run of the tuner with a finalist among the rows; without any, the newest with a
// sample.
std::int64_t deciding_run(const std::vector<CurrentRow>& rows, std::size_t* least_samples) {
  for (const std::size_t least : {std::size_t{kFinalSamples}, std::size_t{1}}) {
    std::int64_t newest = -1;
    for (const CurrentRow& row : rows)
      if (row.stored->samples_ms.size() >= least)
        newest = std::max(newest, row.stored->measured_at);
    *least_samples = least;
    if (newest >= 0) return newest;
  }
  return -1;
}

}  // namespace

Timing timing_of(const std::vector<double>& samples_ms) {
  if (samples_ms.empty()) return {};
  std::vector<double> sorted = samples_ms;
  std::sort(sorted.begin(), sorted.end());
  const double least = sorted.front();
  if (sorted.size() < kFinalSamples) return {least, 0.05 * least};
  const double quartile = sorted[sorted.size() / 4];
  return {least, (quartile - least) / (0.288 * static_cast<double>(sorted.size()))};
}

bool clearly_faster(const Timing& a, const Timing& b) {
  return b.ms - a.ms > std::max(kMargin * b.ms, 2 * std::hypot(a.sigma, b.sigma));
}

Ranking rank(const std::vector<Timing>& timings, int default_index) {
  Ranking ranking;
  const int count = static_cast<int>(timings.size());
  for (int i = 0; i < count; ++i)
    if (timings[i].ms > 0 && (ranking.best < 0 || timings[i].ms < timings[ranking.best].ms))
      ranking.best = i;
  if (ranking.best < 0) {
    ranking.reason = "nothing was measured";
    return ranking;
  }
  const Timing& best = timings[ranking.best];
  const bool has_default = default_index >= 0 && timings[default_index].ms > 0;
  if (has_default && !clearly_faster(best, timings[default_index])) {
    ranking.winner = default_index;
    ranking.reason = text("the default, at ", milliseconds(timings[default_index].ms),
                          ": nothing is faster by more than 1 % and 2 sigma");
    return ranking;
  }
  for (int i = 0; i < count && ranking.winner < 0; ++i) {
    const bool beats_default = !has_default || clearly_faster(timings[i], timings[default_index]);
    if (timings[i].ms > 0 && beats_default && !clearly_faster(best, timings[i])) ranking.winner = i;
  }
  const Timing& won = timings[ranking.winner];
  ranking.reason = has_default
                       ? text(milliseconds(won.ms), ", ", ratio(timings[default_index].ms, won.ms),
                              " times as fast as the default")
                       : text(milliseconds(won.ms), ", the fastest measured");
  return ranking;
}

bool Standing::knows(int candidate) const {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const CurrentRow& row) { return row.candidate == candidate; });
}

double Standing::best_ms(int candidate) const {
  double best = -1;
  for (const CurrentRow& row : rows) {
    if (row.candidate != candidate || row.stored->samples_ms.empty()) continue;
    const double ms = timing_of(row.stored->samples_ms).ms;
    if (best < 0 || ms < best) best = ms;
  }
  return best;
}

Standing standing(std::shared_ptr<const Merged> merged,
                  const std::vector<const Implementation*>& supporting, const Problem& problem,
                  const DeviceInfo& device) {
  Standing result;
  result.merged = std::move(merged);
  if (supporting.empty() || result.merged->rows.empty()) return result;
  std::vector<Space> spaces;
  for (const Implementation* impl : supporting) spaces.push_back(impl->space(problem, device));
  const Config first_default = supporting.front()->default_config(problem, device);
  for (const Merged::Row& stored : result.merged->rows) {
    CurrentRow row;
    if (!read_row(stored.candidate, supporting, spaces, &row)) continue;
    row.is_default = row.candidate == 0 && row.config == first_default;
    result.rows.push_back(row);
  }
  std::sort(result.rows.begin(), result.rows.end(), lower_id);

  std::size_t least_samples = 0;
  const std::int64_t run = deciding_run(result.rows, &least_samples);
  std::vector<Timing> timings(result.rows.size());
  int default_index = -1;
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const CurrentRow& row = result.rows[i];
    if (row.is_default) default_index = static_cast<int>(i);
    if (row.stored->measured_at == run && row.stored->samples_ms.size() >= least_samples)
      timings[i] = timing_of(row.stored->samples_ms);
  }
  const Ranking ranking = rank(timings, default_index);
  result.winner = ranking.winner;
  result.reason = ranking.reason;
  return result;
}

}  // namespace dlblas
