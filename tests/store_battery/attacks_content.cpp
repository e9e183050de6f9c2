// Records that are whole, signed and to all appearances the user's own, but whose content must not
// be trusted: configurations outside the space, code, foreign implementations, stale sources, wrong
// results, other problems. The test checks what a call would run. Read next:
// src/dispatch/decide.cpp.
#include "attacks.hpp"
#include "dispatch/decide.hpp"
#include "dispatch/stale.hpp"
#include "tests/cpp/schema_dummy.hpp"

namespace dlblas::battery {
namespace {

/// A call whose best implementation has knobs, and the honest record for it.
struct Scene {
  const Operator* op;
  Problem problem;
  Record honest;  // its only candidate would be served
  const Implementation* implementation;

  Scene() : op(Registry::process().at("rms_norm").op) {
    problem = test::Call(op->forms[0])
                  .tensor({{512, 4096}, {}, DType::kF32})
                  .tensor({{4096}, {}, DType::kF32})
                  .problem(2);
    const DeviceInfo& device = device_info(problem.device());
    for (const Implementation* impl : op->candidates())
      if (!impl->flags.oracle && impl->table().size() > 1 &&
          check_support({problem, device, *impl}))
        implementation = impl;
    Record::Candidate c;
    c.implementation = implementation->name;
    c.source_hash = implementation->identity();
    const Query q{problem, device, *implementation};
    const Space space = make_space(q);
    const Config preset = default_config(q);
    for (const Config& config : space.configs())
      if (!(config == preset)) c.config = implementation->table().print(config);
    c.samples_ms = {0.001, 0.001, 0.001, 0.001, 0.001};
    c.measured_at = 1;
    honest = {store_key(*op, problem), {{"seed", "7"}}, {c}};
  }
  Record::Candidate& candidate() { return honest.candidates[0]; }
};

/// Writes a text into the process's store under the name and key it should have; "" writes nothing.
void put(const Fields& key, const std::string& text) {
  const std::string folder = Store::process().path() + "/results/" + key_hash(key);
  fs::create_directories(folder);
  for (fs::path at = folder; at != fs::path(Store::process().path()).parent_path();
       at = at.parent_path())
    ::chmod(at.c_str(), 0700);
  spill(folder + "/" + std::string(digest_of(text)), text);
}

enum Code { kNotServed, kServed, kNotEvenHonest = 3, kThrew };

// Runs in a process of the victim's, with the store of main.cpp: the honest record alone would be
// served, the spoiled one must not be.
Code served(const std::function<std::string(Scene&)>& spoil) {
  try {
    Store::process().clear();
    Scene scene;
    const Fields key = scene.honest.key;
    put(key, print(scene.honest));
    const auto honest = decide(*scene.op, scene.problem);
    if (honest->why != Why::kStore) return kNotEvenHonest;
    Store::process().clear();
    put(key, spoil(scene));
    return decide(*scene.op, scene.problem)->why == Why::kStore ? kServed : kNotServed;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return kThrew;
  }
}

void believed(Trial& t, const std::function<std::string(Scene&)>& spoil) {
  t.tried();
  const int code = as_user(kNobody, [&] { return static_cast<int>(served(spoil)); });
  if (code == kServed) return t.wrong("was served");
  if (code != kNotServed) t.stopped("code " + std::to_string(code));
}

void with(Trial& t, const std::function<void(Record::Candidate&)>& spoil) {
  believed(t, [&](Scene& scene) {
    spoil(scene.candidate());
    return print(scene.honest);
  });
}

void with_config(Trial& t, const std::function<std::string(std::string)>& change) {
  with(t, [&](Record::Candidate& c) { c.config = change(c.config); });
}

void with_key(Trial& t, const char* field, const char* value) {
  believed(t, [&](Scene& scene) {
    for (Record::Field& f : scene.honest.key)
      if (f.name == field) f.value = value;
    return print(scene.honest);
  });
}

// A measurement made under another driver, NVRTC or compiler is of the same code. It counts as lost
// if it is no longer served, and as wrongly used if no search would measure it again.
void other_surroundings(Trial& t, const Subject&) {
  for (const char* changed : {"driver", "nvrtc", "compiler"}) {
    t.tried();
    const int code = as_user(kNobody, [&] {
      Store::process().clear();
      Scene scene;
      scene.honest.env = {{changed, "before"}};
      const Fields key = scene.honest.key;
      put(key, print(scene.honest));
      if (decide(*scene.op, scene.problem)->why != Why::kStore) return 1;
      const auto merged = Store::process().load(key);
      const std::vector<CurrentRow> rows = current_rows(*scene.op, scene.problem, *merged);
      const bool same = stale_rows(rows, {{changed, "before"}}).empty();
      return same && stale_rows(rows, {{changed, "now"}}).size() == 1 ? 0 : 2;
    });
    if (code == 1) t.lost(std::string("of another ") + changed);
    if (code == 2) t.wrong(std::string("of another ") + changed);
    if (code != 0 && code != 1 && code != 2) t.stopped("code " + std::to_string(code));
  }
}

std::string first_knob(const std::string& config) { return config.substr(0, config.find(' ')); }

// Valid values for every knob that are together outside the space, if the space has a constraint.
std::string outside_space(Scene& scene) {
  const DeviceInfo& device = device_info(scene.problem.device());
  const Implementation& impl = *scene.implementation;
  const Query q{scene.problem, device, impl};
  const Space space = make_space(q);
  Config config = default_config(q);
  for (int k = 0; k < impl.table().size(); ++k)
    for (const std::int64_t value : impl.table().knobs()[static_cast<std::size_t>(k)].values) {
      Config tried = config;
      tried.values[static_cast<std::size_t>(k)] = value;
      if (!space.contains(tried)) return impl.table().print(tried);
    }
  return "";
}

}  // namespace

const std::vector<Fault>& surroundings_faults() {
  static const std::vector<Fault> faults = {
      {"another driver, NVRTC or compiler of the library", "served; measured again by get_op",
       other_surroundings, true, false},
  };
  return faults;
}

const std::vector<Attack>& content_attacks() {
  static const std::vector<Attack> attacks = {
      {"value outside its domain",
       [](Trial& t) {
         with_config(t, [](std::string c) {
           return first_knob(c) + "9999" + c.substr(first_knob(c).size());
         });
       }},
      {"valid values outside the space",
       [](Trial& t) {
         believed(t, [](Scene& scene) {
           scene.candidate().config = outside_space(scene);
           return print(scene.honest);
         });
       }},
      {"knob twice",
       [](Trial& t) { with_config(t, [](std::string c) { return first_knob(c) + " " + c; }); }},
      {"knob missing",
       [](Trial& t) { with_config(t, [](std::string c) { return c.substr(c.find(' ') + 1); }); }},
      {"unknown knob",
       [](Trial& t) { with_config(t, [](std::string c) { return c + " evil=1"; }); }},
      {"knobs in another order",
       [](Trial& t) {
         with_config(t,
                     [](std::string c) { return c.substr(c.find(' ') + 1) + " " + first_knob(c); });
       }},
      {"C++ in a configuration",
       [](Trial& t) { with_config(t, [](std::string c) { return c + ")}; __trap(); //"; }); }},
      {"shell in a configuration",
       [](Trial& t) { with_config(t, [](std::string c) { return c + ";$(id)"; }); }},
      {"format in a configuration",
       [](Trial& t) { with_config(t, [](std::string) { return std::string("%s%n{}{0}"); }); }},
      {"empty configuration",
       [](Trial& t) { with_config(t, [](std::string) { return std::string(); }); }},
      {"configuration of 200 kB",
       [](Trial& t) {
         with_config(t, [](std::string c) { return c + std::string(200000, '9'); });
       }},
      {"unknown implementation",
       [](Trial& t) { with(t, [](auto& c) { c.implementation = "evil"; }); }},
      {"path as implementation",
       [](Trial& t) { with(t, [](auto& c) { c.implementation = "../../evil.so"; }); }},
      {"another source",
       [](Trial& t) { with(t, [](auto& c) { c.source_hash = "0000000000000000"; }); }},
      {"no source", [](Trial& t) { with(t, [](auto& c) { c.source_hash = ""; }); }},
      {"wrong result, and fast", [](Trial& t) { with(t, [](auto& c) { c.error = 1.5; }); }},
      {"result without a number, and fast",
       [](Trial& t) { with(t, [](auto& c) { c.error = 1e300; }); }},
      {"failure with samples", [](Trial& t) { with(t, [](auto& c) { c.failure = "crashed"; }); }},
      {"no samples", [](Trial& t) { with(t, [](auto& c) { c.samples_ms.clear(); }); }},
      {"not a number as sample",
       [](Trial& t) { with(t, [](auto& c) { c.samples_ms = {std::nan("")}; }); }},
      {"negative sample", [](Trial& t) { with(t, [](auto& c) { c.samples_ms = {-1}; }); }},
      {"another problem's key", [](Trial& t) { with_key(t, "dims", "T=1 C=1"); }},
      {"another CPU's key", [](Trial& t) { with_key(t, "device.model", "evil"); }},
      {"another instruction set's key", [](Trial& t) { with_key(t, "device.isa", "sve2"); }},
      {"another thread count's key", [](Trial& t) { with_key(t, "device.threads", "64"); }},
      {"another schema's key", [](Trial& t) { with_key(t, "schema", "0000000000000000"); }},
      {"another dtype's key", [](Trial& t) { with_key(t, "tensors", "x:bf16:contiguous:16"); }},
  };
  return attacks;
}

}  // namespace dlblas::battery
