// Everything that the C ABI reports without running an operator: handles, explain, pin, info,
// counters. JSON goes out; none comes in.
#include <cstring>

#include "bindings/c/bound_call.hpp"
#include "bindings/c/guard.hpp"
#include "bindings/torch/shims.hpp"
#include "core/counters.hpp"
#include "core/env.hpp"
#include "core/json.hpp"
#include "core/library.hpp"
#include "core/log.hpp"
#include "core/measured_rates.hpp"
#include "core/rates.hpp"
#include "cpu/onednn.hpp"
#include "cuda/cuda.hpp"
#include "dlblas/version.h"
#include "jit/jit.hpp"

namespace dlblas {
namespace {

// The rates that estimates assume for the device, with all its units together.
void write_rates(JsonWriter& w, const DeviceInfo& device) {
  w.key("rates").open_object().field("memory_bytes_per_s", memory_bytes_per_s(device));
  w.field("cache_bytes_per_s", cache_bytes_per_s(device));
  w.field("f32_flops", flops(device, DType::kF32)).field("half_flops", flops(device, DType::kBF16));
  const MeasuredRates measured = measured_rates(device);
  w.field("measured", measured.copy_bytes_per_s > 0 || measured.peak_flops > 0);
  w.field("launch_us", launch_s(device) * 1e6).close_object();
}

void write_cuda_device(JsonWriter& w, const DeviceInfo& gpu) {
  const cuda::Clocks clocks = cuda::clocks(gpu.device.index);
  w.open_object().field("device", text("cuda:", gpu.device.index)).field("model", gpu.model);
  w.field("arch", gpu.arch).field("units", gpu.units).field("memory_bytes", gpu.memory_bytes);
  w.field("l2_bytes", gpu.l2_bytes).field("shared_bytes_per_block", gpu.shared_bytes_per_block);
  write_rates(w, gpu);
  w.field("sm_mhz", clocks.sm_mhz).field("memory_mhz", clocks.memory_mhz);
  w.field("temperature_c", clocks.temperature_c);
  w.field("throttle_reasons", static_cast<std::int64_t>(clocks.throttle_reasons)).close_object();
}

void write_devices(JsonWriter& w) {
  const DeviceInfo& cpu = cpu_info();
  w.key("devices").open_array().open_object();
  w.field("device", "cpu").field("model", cpu.model).field("isa", name_of(cpu.isa));
  w.field("isa_hardware", name_of(cpu.isa_hardware)).field("vnni", cpu.vnni);
  w.field("avx512_bf16", cpu.avx512_bf16).field("amx", cpu.amx);
  w.field("threads", cpu.units);
  w.field("l1_bytes", cpu.l1_bytes).field("l2_bytes", cpu.l2_bytes).field("l3_bytes", cpu.l3_bytes);
  write_rates(w, cpu);
  w.close_object();
  for (int i = 0; i < cuda::device_count(); ++i) write_cuda_device(w, cuda::info(i));
  w.close_array();
  w.key("cuda").open_object().field("driver", cuda::driver_version());
  w.field("why_not", cuda::unavailable()).field("nvrtc", jit::compiler_version());
  w.field("nvrtc_why_not", jit::unavailable()).close_object();
}

// The library never opens torch: it is present if the process has imported it.
void write_torch(JsonWriter& w) {
  const std::string why_not = torch::load_shims();
  w.open_object().field("name", "torch").field("found", why_not.empty());
  w.field("path", torch::library_path()).field("version", torch::library_version());
  w.field("why_not", why_not).close_object();
}

void write_libraries(JsonWriter& w) {
  w.key("libraries").open_array();
  for (std::string_view name : known_libraries()) {
    const Library& library = find_library(name);
    std::string version, why_not = library.why_not;
    if (library.handle && name == "onednn") {  // oneDNN 2.x opens, but is of no use
      const OneDnn& dnn = onednn();
      if (!dnn.support) why_not = dnn.support.text();
      if (dnn.version)
        version = text(dnn.version()->major, ".", dnn.version()->minor, ".", dnn.version()->patch);
    }
    w.open_object().field("name", name).field("found", why_not.empty()).field("path", library.path);
    w.field("version", version).field("why_not", why_not).close_object();
  }
  write_torch(w);
  w.close_array();
}

void write_environment(JsonWriter& w) {
  w.key("environment").open_array();
  for (int i = 0; i < kNumEnvVars; ++i) {
    const EnvEntry& e = env_entry(static_cast<EnvVar>(i));
    w.open_object().field("name", e.name).field("value", e.value);
    w.field("default", e.fallback).field("meaning", e.meaning).close_object();
  }
  w.close_array();
}

void write_params(JsonWriter& w, const Schema& schema, const std::vector<Param>& params) {
  constexpr std::string_view kTypes[] = {"int", "float", "bool", "enum", "dtype"};
  w.key("params").open_array();
  for (const Param& p : params) {
    w.open_object().field("name", schema.param_name(p)).field("keyword_only", p.keyword_only);
    if (p.is_tensor) {
      const TensorSpec& t = schema.tensors[p.index];
      w.field("kind", "tensor")
          .field("type", t.type_text)
          .field("optional", t.optional)
          .field("written", t.written);
    } else {
      const ScalarSpec& s = schema.scalars[p.index];
      w.field("kind", kTypes[static_cast<int>(s.type)])
          .field("has_default", s.has_default)
          .field("key", s.key)
          .field("key_set", s.key_set)
          .field("size", s.letter >= 0);  // an integer that gives the letter of its name
      w.key("default");
      switch (s.type) {
        case ScalarType::kFloat:
          w.value(s.default_value.f);
          break;
        case ScalarType::kBool:
          w.value(s.default_value.i != 0);
          break;
        case ScalarType::kEnum:
          w.value(s.labels[static_cast<std::size_t>(s.default_value.i)]);
          break;
        case ScalarType::kDType:
          w.null();
          break;
        case ScalarType::kInt:
          w.value(s.default_value.i);
          break;
      }
      w.key("values").open_array();
      for (const std::string& label : s.labels) w.value(label);
      for (int t = 0; s.type == ScalarType::kDType && t < kNumDTypes; ++t)
        if (s.dtypes >> t & 1u) w.value(name_of(static_cast<DType>(t)));
      w.close_array();
    }
    w.close_object();
  }
  w.close_array();
}

// Read by python/dlblas/_dims.py.
void write_dim(JsonWriter& w, const Schema& schema, const DimExpr& d) {
  const auto name = [&](std::int8_t letter) {
    return letter < 0 ? std::string() : schema.letters[static_cast<std::size_t>(letter)].name;
  };
  w.open_object().field("text", d.print(schema.letters)).key("terms").open_array();
  for (int i = 0; i < d.num_terms; ++i) {
    const DimTerm& term = d.terms[i];
    w.open_object().field("coefficient", term.coefficient).field("letter", name(term.letter));
    w.field("times", name(term.times)).close_object();
  }
  w.close_array().field("divisor", d.divisor).field("divisor_letter", name(d.divisor_letter));
  w.field("whole", d.whole).field("addend", d.addend).field("leading", d.leading);
  w.field("may_be_one", d.may_be_one).field("may_be_half", d.may_be_half).close_object();
}

void write_tensor(JsonWriter& w, const Schema& schema, const TensorSpec& t) {
  w.open_object().field("name", t.name).field("type", t.type_text);
  w.key("dims").open_array();
  for (const DimExpr& d : t.dims) write_dim(w, schema, d);
  w.close_array();
  w.key("dtypes").open_array();
  for (int i = 0; i < kNumDTypes; ++i)
    if (t.dtypes >> i & 1u) w.value(name_of(static_cast<DType>(i)));
  w.close_array();
  w.key("like_absent").open_array();
  for (int i = 0; i < kNumDTypes; ++i)
    if (t.like_absent >> i & 1u) w.value(name_of(static_cast<DType>(i)));
  w.close_array();
  constexpr std::string_view kFills[] = {"normal",      "positive", "index",    "offsets",
                                         "permutation", "zeros",    "distinct", "distinct_rows",
                                         "lengths",     "negative", "bits"};
  w.field("like", t.like < 0 ? std::string() : schema.tensors[t.like].name);
  w.field("optional", t.optional)
      .field("usual", t.usual)
      .field("written", t.written)
      .field("fill",
             kFills[static_cast<int>(t.fill.condition.empty() ? t.fill.fill : Fill::kNormal)])
      .close_object();
}

void write_implementation(JsonWriter& w, const Implementation& impl) {
  w.open_object().field("name", impl.name).field("source_hash", impl.identity());
  w.field("backend", impl.backend == DeviceType::kCpu ? "cpu" : "cuda");
  w.field("deterministic", impl.flags.deterministic)
      .field("repeatable", impl.flags.repeatable)
      .field("capturable", impl.flags.capturable)
      .field("has_parts", impl.parts != nullptr)
      .field("oracle", impl.flags.oracle)
      .field("user", impl.flags.user)
      .field("local", impl.flags.local);
  w.key("knobs").open_array();
  for (const Knob& knob : impl.table().knobs()) {
    w.open_object().field("name", knob.name).key("values").open_array();
    for (std::size_t i = 0; i < knob.values.size(); ++i) {
      if (knob.labels.empty())
        w.value(knob.values[i]);
      else
        w.value(knob.labels[i]);
    }
    w.close_array().close_object();
  }
  w.close_array().close_object();
}

void write_operator(JsonWriter& w, const Operator& op) {
  const Schema& schema = op.schema;
  w.open_object()
      .field("name", schema.name)
      .field("family", op.def.family)
      .field("schema", schema.text);
  w.field("schema_hash", schema.hash).field("formula", op.def.formula);
  w.field("judge", op.def.judge != nullptr);  // else results are held to a bound
  w.key("letters").open_array();
  for (const Letter& l : schema.letters)
    w.open_object()
        .field("name", l.name)
        .field("bucketed", l.bucketed)
        .field("pool", l.pool ? l.pool_size.print(schema.letters) : std::string())
        .close_object();
  w.close_array();
  w.key("forms").open_array();
  for (const Form& form : op.forms) {
    w.open_object().field("name", form.name).field("inplace", form.inplace != nullptr);
    write_params(w, schema, *form.params);
    if (form.inplace) {
      w.key("receives").open_array();  // per result: the argument that receives it, or ""
      for (std::int8_t source : form.inplace->result_source)
        w.value(source < 0 ? std::string_view() : schema.tensors[source].name);
      w.close_array();
    }
    w.close_object();
  }
  w.close_array();
  w.key("tensors").open_array();
  for (int i = 0; i < schema.num_inputs; ++i) write_tensor(w, schema, schema.tensors[i]);
  w.close_array().key("results").open_array();
  for (int i = 0; i < schema.num_results; ++i)
    write_tensor(w, schema, schema.tensors[schema.num_inputs + i]);
  w.close_array().key("implementations").open_array();
  for (const Implementation* impl : op.candidates()) write_implementation(w, *impl);
  w.close_array().close_object();
}

std::string info_json() {
  const Store& store = Store::process();
  JsonWriter w;
  w.open_object().field("version", DLBLAS_VERSION).field("abi", DLBLAS_ABI_VERSION);
  write_devices(w);
  write_libraries(w);
  write_environment(w);
  const StoreCounters counters = store.counters();
  w.key("cache")
      .open_object()
      .field("path", store.path())
      .field("memory_only_because", store.reason());
  w.field("published", counters.published).field("quarantined", counters.quarantined);
  w.field("failed_writes", counters.failed_writes).close_object();
  w.key("operators").open_array();
  for (const Operator* op : Registry::process().operators()) write_operator(w, *op);
  w.close_array().close_object();
  return w.text();
}

}  // namespace
}  // namespace dlblas

extern "C" {

using namespace dlblas;

dlblas_status dlblas_op(const char* name, dlblas_op_t* op) {
  return guarded([&] {
    if (!name || !op)
      refuse(ErrorKind::kArgument, "dlblas",
             {name ? "op" : "name", "is null", "an operator's name and a place for its handle",
              "NULL"});
    *op = handle_of(Registry::process().at(name));
  });
}

const char* dlblas_written(dlblas_op_t op, int32_t position, const char* name) {
  if (!op) return nullptr;
  const Form& form = *reinterpret_cast<const Form*>(op);
  std::int32_t at = 0;
  for (const Param& p : *form.params) {
    const std::string_view own = form.op->schema.param_name(p);
    if (name ? own == name : at++ == position) return is_written(form, p) ? own.data() : nullptr;
  }
  return nullptr;
}

dlblas_status dlblas_explain(dlblas_op_t op, const dlblas_args* call, const dlblas_context* user,
                             int32_t format, char** out) {
  return guarded([&] {
    const BoundCall bound_call(op, call, user);
    if (format < 0 || format > 2)
      refuse(ErrorKind::kArgument, std::string(bound_call.form.name),
             {"format", "is unknown", "0 (JSON), 1 (a table) or 2 (all of it)", text(format)});
    const Explanation e = explain(bound_call.op, bound_call.problem);
    give_text(format == 0 ? print_json(e) : print_table(e, format == 1), out);
  });
}

dlblas_status dlblas_pin(dlblas_op_t op, const char* implementation, const char* config) {
  return guarded([&] {
    if (!op)
      refuse(ErrorKind::kArgument, "dlblas", {"op", "is null", "a handle of dlblas_op()", "NULL"});
    pin(*reinterpret_cast<const Form*>(op)->op, implementation ? implementation : "",
        config ? config : "");
  });
}

dlblas_status dlblas_info(char** out) {
  return guarded([&] { give_text(info_json(), out); });
}

dlblas_status dlblas_op_info(dlblas_op_t op, char** out) {
  return guarded([&] {
    if (!op)
      refuse(ErrorKind::kArgument, "dlblas", {"op", "is null", "a handle of dlblas_op()", "NULL"});
    JsonWriter w;
    write_operator(w, *reinterpret_cast<const Form*>(op)->op);
    give_text(w.text(), out);
  });
}

dlblas_status dlblas_add_library_path(const char* folders) {
  return guarded([&] { add_library_path(folders ? folders : ""); });
}

dlblas_status dlblas_set_log(void (*write)(void*, int32_t, const char*), void* user) {
  return guarded([&] {
    if (!set_log(write, user))
      refuse(ErrorKind::kArgument, "dlblas",
             {"write", "is set from inside the function of before", "a call from elsewhere",
              "one while a line is told"});
  });
}

void dlblas_get_counters(dlblas_counters* out) {
  if (!out || out->size < sizeof(dlblas_counters)) return;
  const StoreCounters store = Store::process().counters();
  auto get = [](const std::atomic<std::int64_t>& c) { return c.load(std::memory_order_relaxed); };
  const Counters& c = g_counters;
  *out = {out->size,           get(c.calls),    get(c.selected),  get(c.compiled),
          get(c.prepared),     get(c.launched), get(c.measured),  get(c.store_hits),
          get(c.store_misses), store.published, store.quarantined};
}

}  // extern "C"
