// Records with arbitrary keys in a store in any folder, for what Python keeps beside the operators'
// results (python/dlblas/triton_ops/autotuner/cache.py, its only caller). In: texts and numbers.
// Out: JSON. The caller defines the keys' meaning, the store their storage. Read next:
// store/store.hpp.
#include "bindings/python/kept.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/python/hooks.hpp"
#include "core/json.hpp"
#include "store/store.hpp"

namespace dlblas::py {
namespace {

std::string text_of(Object* object) {
  Size size = 0;
  const char* utf8 = api.utf8(object, &size);
  return utf8 ? std::string(utf8, static_cast<std::size_t>(size)) : std::string();
}

// One store per folder for the life of the process, so that nothing is read twice. For the user's
// own store it is the one that tuning uses.
Store& store_at(const std::string& folder) {
  static std::mutex mutex;
  static auto* const stores = new std::map<std::string, std::unique_ptr<Store>>;
  if (folder == Store::process().path()) return Store::process();
  const std::lock_guard lock(mutex);
  std::unique_ptr<Store>& store = (*stores)[folder];
  if (!store) store = std::make_unique<Store>(folder);
  return *store;
}

// ((name, value) …)
Fields read_fields(Object* rows) {
  Fields fields;
  for (Size i = 0; i < api.tuple_size(rows); ++i) {
    Object* row = api.tuple_get(rows, i);
    fields.push_back({text_of(api.tuple_get(row, 0)), text_of(api.tuple_get(row, 1))});
  }
  sort_fields(fields);
  return fields;
}

// (implementation, source hash, configuration, samples in milliseconds, failure, error, default)
Record::Candidate read_candidate(Object* row) {
  Record::Candidate c;
  c.implementation = text_of(api.tuple_get(row, 0));
  c.source_hash = text_of(api.tuple_get(row, 1));
  c.config = text_of(api.tuple_get(row, 2));
  Object* samples = api.tuple_get(row, 3);
  for (Size i = 0; i < api.tuple_size(samples); ++i)
    c.samples_ms.push_back(api.float_as(api.tuple_get(samples, i)));
  c.failure = text_of(api.tuple_get(row, 4));
  c.error = api.float_as(api.tuple_get(row, 5));
  c.is_default = api.is_true(api.tuple_get(row, 6)) == 1;
  return c;
}

void write_fields(JsonWriter& w, const char* name, const Fields& fields) {
  w.key(name).open_object();
  for (const Record::Field& field : fields) w.field(field.name, field.value);
  w.close_object();
}

}  // namespace

// (folder, key, environment, candidates) -> True if it is on disk; it is in memory in any case
Object* kept_publish(Object*, Object* const* args, Size, Object*) {
  const std::string folder = text_of(args[0]);
  Record record{read_fields(args[1]), read_fields(args[2]), {}};
  for (Size i = 0; i < api.tuple_size(args[3]); ++i)
    record.candidates.push_back(read_candidate(api.tuple_get(args[3], i)));
  if (api.err_occurred()) return nullptr;
  const bool durable = unlocked([&] {
    Store& store = store_at(folder);
    std::int64_t newest = 0;
    for (const Merged::Row& row : store.load(record.key)->rows)
      newest = std::max(newest, row.candidate.measured_at);
    const std::int64_t stamp = stamp_after(newest);
    for (Record::Candidate& c : record.candidates) c.measured_at = stamp;
    return store.publish(std::move(record));
  });
  return Ref::borrow(durable ? api.true_object : api.false_object).release();
}

// (folder, key) -> JSON: a list of rows, newest first, each with its record's environment
Object* kept_rows(Object*, Object* const* args, Size, Object*) {
  const std::string folder = text_of(args[0]);
  const Fields key = read_fields(args[1]);
  if (api.err_occurred()) return nullptr;
  const std::shared_ptr<const Merged> merged = unlocked([&] { return store_at(folder).load(key); });
  std::vector<const Merged::Row*> rows;
  for (const Merged::Row& row : merged->rows) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const Merged::Row* a, const Merged::Row* b) {
    return std::tie(a->candidate.measured_at, a->record) >
           std::tie(b->candidate.measured_at, b->record);
  });
  JsonWriter w;
  w.open_array();
  for (const Merged::Row* row : rows) {
    w.open_object().field("config", row->candidate.config);
    w.field("source_hash", row->candidate.source_hash).field("failure", row->candidate.failure);
    write_fields(w, "env", *row->env);
    w.close_object();
  }
  w.close_array();
  return make_text(w.text());
}

// (folder) -> JSON: hash -> key
Object* kept_keys(Object*, Object* const* args, Size, Object*) {
  const std::string folder = text_of(args[0]);
  if (api.err_occurred()) return nullptr;
  const auto all = unlocked([&] { return store_at(folder).ls(); });
  JsonWriter w;
  w.open_object();
  for (const std::shared_ptr<const Merged>& merged : all)
    write_fields(w, key_hash(merged->key).c_str(), merged->key);
  w.close_object();
  return make_text(w.text());
}

// (folder, hash of a key) -> number of records removed
Object* kept_remove(Object*, Object* const* args, Size, Object*) {
  const std::string folder = text_of(args[0]), hash = text_of(args[1]);
  if (api.err_occurred()) return nullptr;
  return api.long_from(unlocked([&] { return store_at(folder).remove(hash); }));
}

}  // namespace dlblas::py
