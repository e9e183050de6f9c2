// Opens oneDNN and fills its table of functions; see onednn.hpp.
#include "cpu/onednn.hpp"

#include "core/error.hpp"
#include "core/fork.hpp"
#include "core/library.hpp"

namespace dlblas {
namespace {

/// False when the symbol is missing.
template <typename Fn>
bool bind(const Library& library, const char* symbol, Fn& fn) {
  fn = reinterpret_cast<Fn>(find_symbol(library, symbol));
  return fn != nullptr;
}

bool bind_all(const Library& l, OneDnn& d) {
#define DLBLAS_BIND(name) bind(l, "dnnl_" #name, d.name)
  return DLBLAS_BIND(get_effective_cpu_isa) && DLBLAS_BIND(engine_create) &&
         DLBLAS_BIND(stream_create) && DLBLAS_BIND(stream_destroy) && DLBLAS_BIND(stream_wait) &&
         DLBLAS_BIND(memory_desc_create_with_strides) && DLBLAS_BIND(memory_desc_destroy) &&
         DLBLAS_BIND(memory_desc_get_size) && DLBLAS_BIND(memory_create) &&
         DLBLAS_BIND(memory_destroy) && DLBLAS_BIND(primitive_attr_create) &&
         DLBLAS_BIND(primitive_attr_destroy) && DLBLAS_BIND(primitive_attr_set_scratchpad_mode) &&
         DLBLAS_BIND(primitive_attr_set_post_ops) && DLBLAS_BIND(post_ops_create) &&
         DLBLAS_BIND(post_ops_destroy) && DLBLAS_BIND(post_ops_append_eltwise) &&
         DLBLAS_BIND(post_ops_append_binary) && DLBLAS_BIND(post_ops_append_sum) &&
         DLBLAS_BIND(matmul_primitive_desc_create) && DLBLAS_BIND(primitive_desc_destroy) &&
         DLBLAS_BIND(primitive_desc_query) && DLBLAS_BIND(primitive_desc_query_md) &&
         DLBLAS_BIND(primitive_create) && DLBLAS_BIND(primitive_destroy) &&
         DLBLAS_BIND(primitive_execute);
#undef DLBLAS_BIND
}

Support open(OneDnn& d) {
  const Library& library = find_library("onednn");
  if (!library.handle) {
    return Support::no("oneDNN was not found: pip install onednn-cpu-gomp, or set DLBLAS_LIBS");
  }
  if (!bind(library, "dnnl_version", d.version)) {
    return Support::no("the library found is not oneDNN");
  }
  const int major = d.version()->major, minor = d.version()->minor;
  const unsigned runtime = d.version()->cpu_runtime;
  if (major != 3) {
    return Support::no("the oneDNN found is {}.{}: its 3.x interface is needed", major, minor);
  }
  if (!bind_all(library, d)) {
    return Support::no("the oneDNN found ({}.{}) lacks a function that is needed", major, minor);
  }
  if (runtime != OneDnn::kOpenMp && runtime != OneDnn::kSequential) {
    return Support::no("the oneDNN found ({}.{}) has thread runtime {}: only OpenMP can be set",
                       major, minor, runtime);
  }
  // dlsym on the handle also searches oneDNN's dependencies: this is its own OpenMP runtime.
  if (runtime == OneDnn::kOpenMp &&
      (!bind(library, "omp_get_max_threads", d.omp_get_max_threads) ||
       !bind(library, "omp_set_num_threads", d.omp_set_num_threads))) {
    return Support::no("the oneDNN found ({}.{}) hides its OpenMP runtime", major, minor);
  }
  constexpr int kCpu = 1;
  if (d.engine_create(&d.engine, kCpu, 0) != 0) {
    return Support::no("oneDNN {}.{} could not make a CPU engine", major, minor);
  }
  return Support::yes();
}

}  // namespace

const OneDnn& onednn() {
  static const OneDnn* table = [] {
    auto* d = new OneDnn{};
    d->support = open(*d);
    return d;
  }();
  return *table;
}

const char* onednn_version() {
  static const auto* text_of = [] {
    const OneDnn& d = onednn();
    if (!d.version) return new std::string;
    const OneDnn::Version& v = *d.version();
    return new std::string(text(v.major, ".", v.minor, ".", v.patch));
  }();
  return text_of->c_str();
}

OneDnnThreads::OneDnnThreads(int threads) : threads_(forked() ? 1 : threads) {
  const OneDnn& d = onednn();
  if (!d.omp_set_num_threads) return;
  before_ = d.omp_get_max_threads();
  d.omp_set_num_threads(threads_);
}

OneDnnThreads::~OneDnnThreads() {
  if (before_ > 0) onednn().omp_set_num_threads(before_);
}

}  // namespace dlblas
