// Opens cuBLASLt and fills its table of functions; see cublaslt.hpp.
#include "cuda/cublaslt.hpp"

#include <map>
#include <mutex>
#include <string>

#include "core/error.hpp"
#include "core/library.hpp"

namespace dlblas::cuda {
namespace {

/// False when the symbol is missing.
template <typename Fn>
bool bind(const Library& library, const char* symbol, Fn& fn) {
  fn = reinterpret_cast<Fn>(find_symbol(library, symbol));
  return fn != nullptr;
}

/// From 12 on, the library reports its version as 130100 (13.1.0).
constexpr std::size_t kMajorUnit = 10000;

Support open(CublasLt& t) {
  const Library& l = find_library("cublaslt");
  if (!l.handle) {
    return Support::no("cuBLASLt was not found: pip install nvidia-cublas, or set DLBLAS_LIBS");
  }
  if (!bind(l, "cublasLtGetVersion", t.version)) {
    return Support::no("the library found is not cuBLASLt");
  }
  const auto major = static_cast<std::int64_t>(t.version() / kMajorUnit);
  if (major != 12 && major != 13) {
    return Support::no("the cuBLASLt found is version {}: 12 or 13 is needed", major);
  }
  const bool complete = bind(l, "cublasLtCreate", t.create) &&
                        bind(l, "cublasLtMatrixLayoutInit_internal", t.layout_init) &&
                        bind(l, "cublasLtMatrixLayoutSetAttribute", t.layout_set) &&
                        bind(l, "cublasLtMatmulDescInit_internal", t.description_init) &&
                        bind(l, "cublasLtMatmulDescSetAttribute", t.description_set) &&
                        bind(l, "cublasLtMatmulPreferenceInit_internal", t.preference_init) &&
                        bind(l, "cublasLtMatmulPreferenceSetAttribute", t.preference_set) &&
                        bind(l, "cublasLtMatmulAlgoGetHeuristic", t.choose) &&
                        bind(l, "cublasLtMatmulAlgoCheck", t.check) &&
                        bind(l, "cublasLtMatmul", t.multiply);
  if (!complete) {
    return Support::no("the cuBLASLt found (version {}) lacks a function that is needed", major);
  }
  return Support::yes();
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt* table = [] {
    auto* t = new CublasLt{};
    t->support = open(*t);
    return t;
  }();
  return *table;
}

const char* cublaslt_version() {
  static const auto* version = [] {
    const CublasLt& t = cublaslt();
    if (!t.version) return new std::string;
    const std::size_t v = t.version();
    return new std::string(text(v / kMajorUnit, ".", v / 100 % 100, ".", v % 100));
  }();
  return version->c_str();
}

std::string cublaslt_text(int status) {
  static constexpr struct {
    int status;
    const char* meaning;
  } kMeanings[] = {{1, "not initialized"}, {3, "allocation failed"},
                   {7, "invalid value"},   {8, "architecture mismatch"},
                   {11, "mapping error"},  {13, "execution failed"},
                   {14, "internal error"}, {CublasLt::kNotSupported, "not supported"},
                   {16, "license error"}};
  for (const auto& m : kMeanings)
    if (m.status == status) return text("cuBLASLt status ", status, " (", m.meaning, ")");
  return text("cuBLASLt status ", status, " (unknown)");
}

CublasLt::Handle cublaslt_handle(int device) {
  static auto* mutex = new std::mutex;  // both leak on purpose: calls may run after destructors
  static auto* handles = new std::map<int, CublasLt::Handle>;
  std::lock_guard lock(*mutex);
  if (const auto at = handles->find(device); at != handles->end()) return at->second;
  CublasLt::Handle handle = nullptr;
  if (cublaslt().create(&handle) != 0) return nullptr;
  return (*handles)[device] = handle;
}

}  // namespace dlblas::cuda
