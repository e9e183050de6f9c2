/* The C ABI of dlblas: what every binding (C++, Python, torch) stands on.
 * Plain C, no dependency. Structures start with `size` (sizeof the caller's), so they may grow.
 * No exception crosses this border: a function returns a status, and dlblas_last_error() says more.
 * Texts returned through `char**` are UTF-8 and are released with dlblas_free(). JSON is for
 * reading about the library; the library itself never parses any. Read next: bindings/c/call.cpp,
 * docs/flow.md. */
#ifndef DLBLAS_DLBLAS_H_
#define DLBLAS_DLBLAS_H_

#include <stddef.h>
#include <stdint.h>

#if defined(DLBLAS_BUILDING)
#define DLBLAS_API __attribute__((visibility("default")))
#else
#define DLBLAS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define DLBLAS_ABI_VERSION 1
#define DLBLAS_MAX_RANK 8

typedef enum dlblas_status {
  DLBLAS_OK = 0,
  DLBLAS_SHAPE = 1,
  DLBLAS_DTYPE = 2,
  DLBLAS_DEVICE = 3,
  DLBLAS_ARGUMENT = 4,
  DLBLAS_UNKNOWN_OPERATOR = 5,
  DLBLAS_UNSUPPORTED = 6,
  DLBLAS_COMPILE = 7,
  DLBLAS_LAUNCH = 8,
  DLBLAS_TUNING = 9,
  DLBLAS_INTERNAL = 10
} dlblas_status;

/* The last failure of the calling thread; the texts live until its next dlblas call. */
typedef struct dlblas_error {
  size_t size;
  dlblas_status status;
  const char* message;
  const char* op; /* these four are "" where they do not apply */
  const char* argument;
  const char* expected;
  const char* got;
} dlblas_error;

/* DLPack's DLTensor, field for field. strides are in elements; NULL means contiguous. */
typedef struct dlblas_device {
  int32_t type; /* 1: CPU, 2: CUDA */
  int32_t index;
} dlblas_device;
typedef struct dlblas_dtype {
  uint8_t code; /* DLPack's: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 f8e4m3fn, 12 f8e5m2 */
  uint8_t bits;
  uint16_t lanes;
} dlblas_dtype;
typedef struct dlblas_tensor {
  void* data;
  dlblas_device device;
  int32_t ndim;
  dlblas_dtype dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} dlblas_tensor;

typedef enum dlblas_kind {
  DLBLAS_NONE = 0, /* absent: the default, or no tensor for an optional one */
  DLBLAS_TENSOR = 1,
  DLBLAS_INT = 2,
  DLBLAS_FLOAT = 3,
  DLBLAS_BOOL = 4,
  DLBLAS_STRING = 5 /* an enumerated value, or a dtype's name */
} dlblas_kind;
typedef struct dlblas_value {
  int32_t kind;
  int32_t reserved;
  union {
    const dlblas_tensor* tensor;
    int64_t i; /* DLBLAS_INT, DLBLAS_BOOL */
    double f;
    const char* s;
  } as;
} dlblas_value;

/* The arguments of one call. The first num_values - num_named values are positional, in schema
 * order; the last num_named go by names[0 … num_named). outputs[i].data == NULL asks for a new
 * result: then outputs[i].shape and .strides must hold DLBLAS_MAX_RANK entries each, and are filled
 * in. */
typedef struct dlblas_args {
  size_t size;
  const dlblas_value* values;
  int32_t num_values;
  int32_t num_named;
  const char* const* names;
  dlblas_tensor* outputs; /* NULL for an in-place form */
  int32_t num_outputs;
  uint32_t flags; /* DLBLAS_DETERMINISTIC, DLBLAS_ALLOW_TF32 */
} dlblas_args;
#define DLBLAS_DETERMINISTIC 1u
#define DLBLAS_ALLOW_TF32 2u

/* The caller's side of a call. NULL context, or a NULL function in it: the library's own. Results
 * that the library's own new_output made are released with dlblas_free(data); on a GPU they are
 * ready in the order of `stream`, a CUstream of the tensors' device (NULL: its default stream), are
 * given back in that order too, and must not outlive it.
 * new_output finds device, dtype, shape and strides set and gives memory for them (data, and
 * byte_offset where it is not 0), without changing these. The first element lies at a multiple of
 * 16 bytes: a kernel is chosen before the memory is there. Other strides, or an address less
 * aligned than the kernel relies on, are a DLBLAS_ARGUMENT naming the result, and nothing is
 * written; results with strides or an alignment of their own are passed in outputs[]. */
typedef struct dlblas_context {
  size_t size;
  void* stream;
  void* self;
  int32_t num_threads; /* 0: the library's default (DLBLAS_NUM_THREADS) */
  int32_t reserved;
  int (*new_output)(void* self, int32_t index,
                    dlblas_tensor* out);                  /* sets out->data; 0 on success */
  void* (*alloc)(void* self, size_t bytes, size_t align); /* workspace; lives until the call ends */
  void (*parallel_for)(void* self, int64_t begin, int64_t end, int64_t grain,
                       void (*fn)(int64_t begin, int64_t end, void* ctx), void* ctx);
} dlblas_context;

/* A callable form of an operator: "rms_norm", or its in-place form "rms_norm_". Valid for the
 * process. */
typedef const struct dlblas_op_s* dlblas_op_t;

DLBLAS_API uint32_t dlblas_abi_version(void);
DLBLAS_API const char* dlblas_version(void);
DLBLAS_API void dlblas_last_error(dlblas_error* error);
DLBLAS_API void dlblas_free(void* memory);

DLBLAS_API dlblas_status dlblas_op(const char* name, dlblas_op_t* op);
/* The name of an argument that the form writes into: of the one called `name`, or, where that is
 * NULL, of the one at `position`. NULL when it is only read, or there is none. Lives as long as the
 * process. A dlblas_tensor does not say whether its memory may be written: the caller must know. */
DLBLAS_API const char* dlblas_written(dlblas_op_t op, int32_t position, const char* name);
/* The operator call: never measures. */
DLBLAS_API dlblas_status dlblas_call(dlblas_op_t op, const dlblas_args* args,
                                     const dlblas_context* context);

/* What would run and why, without running it: JSON (format 0) or a table for people (format 1). The
 * tensors' data may be NULL. outputs may be NULL here, in tune and in get_op. */
DLBLAS_API dlblas_status dlblas_explain(dlblas_op_t op, const dlblas_args* args,
                                        const dlblas_context* context, int32_t format, char** text);

/* Readies the kernel that dlblas_call would run for these arguments: selected, compiled, loaded.
 * Runs nothing; the tensors' data may be NULL. What is captured into a CUDA graph must be warm. */
DLBLAS_API dlblas_status dlblas_warmup(dlblas_op_t op, const dlblas_args* args,
                                       const dlblas_context* context);

typedef enum dlblas_event_kind {
  DLBLAS_EVENT_START = 0,    /* candidates and budget are known */
  DLBLAS_EVENT_MEASURED = 1, /* one configuration has a time */
  DLBLAS_EVENT_FAILED = 2,   /* one configuration failed; note says how */
  DLBLAS_EVENT_FINAL = 3,    /* the interleaved final begins */
  DLBLAS_EVENT_DONE = 4      /* the winner is known; note says why it won */
} dlblas_event_kind;
typedef struct dlblas_event {
  size_t size;
  int32_t kind;
  int32_t done;    /* configurations evaluated */
  int32_t planned; /* configurations the strategy may evaluate */
  int32_t failed;
  const char* implementation;
  const char* config;
  const char* note;
  double milliseconds; /* of this configuration */
  double best_ms;      /* best so far */
  const char* best;    /* "implementation config" of the best so far */
  double elapsed_s;
  double budget_s;
} dlblas_event;

typedef struct dlblas_tune_options {
  size_t size;
  double seconds;       /* budget a key; <= 0: DLBLAS_TUNE_SECONDS, default 10 */
  const char* strategy; /* "exhaustive", "random"; NULL: by the size of the space */
  uint64_t seed;
  int32_t max_evaluations; /* 0: no limit but the budget */
  int32_t force;           /* measure every candidate again */
  const char*
      implementations; /* comma list of names to consider; NULL: all that support the problem */
  /* Narrowing: knob_names[i] of implementation knob_implementations[i] ("" for any) takes only the
   * values in the comma list knob_values[i]. */
  int32_t num_knobs;
  int32_t reserved;
  const char* const* knob_implementations;
  const char* const* knob_names;
  const char* const* knob_values;
  void* self;
  int (*where)(void* self, const char* implementation, const char* config); /* nonzero: keep */
  int (*on_event)(void* self,
                  const dlblas_event* event); /* nonzero: stop, keep what was measured */
} dlblas_tune_options;

/* Searches, checks against the oracle, publishes the winner; `report` (may be NULL) receives JSON.
 * Inputs are made from the Problem: the caller's data is never read, but for index-valued
 * arguments. */
DLBLAS_API dlblas_status dlblas_tune(dlblas_op_t op, const dlblas_args* args,
                                     const dlblas_context* context,
                                     const dlblas_tune_options* options, char** report);
/* Tunes only what the store does not know: a hit measures nothing. Afterwards dlblas_call serves
 * the winner. */
DLBLAS_API dlblas_status dlblas_get_op(dlblas_op_t op, const dlblas_args* args,
                                       const dlblas_context* context,
                                       const dlblas_tune_options* options, char** report);

/* From now on, this process serves `op` with this implementation (and configuration, NULL: its
 * default) wherever it supports the problem; elsewhere the call fails and says why. NULL
 * implementation: unpin. */
DLBLAS_API dlblas_status dlblas_pin(dlblas_op_t op, const char* implementation, const char* config);

/* The oracle. rows: indices into the flattened leading dimensions. values[r], magnitudes[r]: f64
 * [num_rows, last dimension] for result r; the allowed error of an element is
 * bounds[r][0]·magnitude + bounds[r][1]·|value| + bounds[r][2]. */
DLBLAS_API dlblas_status dlblas_reference(dlblas_op_t op, const dlblas_args* args,
                                          const int64_t* rows, int64_t num_rows,
                                          double* const* values, double* const* magnitudes,
                                          double (*bounds)[3]);
typedef struct dlblas_verdict {
  size_t size;
  double worst;        /* largest |out - ref| over the allowed error; at most 1 is right */
  double relative;     /* ‖out - ref‖ / ‖ref‖ over the checked rows, worst result */
  int64_t wrong;       /* elements over the bound */
  int64_t checked;     /* elements compared */
  int64_t first_wrong; /* row-major index in its result, or -1 */
  int32_t result;      /* which result first_wrong is in */
  int32_t
      mistrusted; /* 1: the reference is constant or mostly zero, so the comparison says little */
} dlblas_verdict;
/* Compares args->outputs with the oracle; args holds the inputs as they were before the call.
 * num_rows 0: every row. */
DLBLAS_API dlblas_status dlblas_verify(dlblas_op_t op, const dlblas_args* args, const int64_t* rows,
                                       int64_t num_rows, dlblas_verdict* verdict);

/* command: "path", "ls", "show <key>", "verify", "clear". JSON. */
DLBLAS_API dlblas_status dlblas_cache(const char* command, char** text);
/* Version, devices, libraries found or why not, environment variables, operators with schemas,
 * implementations and knobs, cache state. JSON. */
DLBLAS_API dlblas_status dlblas_info(char** text);

/* Colon list of folders where optional libraries may lie (a Python's sys.prefix/lib,
 * site-packages/nvidia/…/lib). Call before the first operator call that should see them. */
DLBLAS_API dlblas_status dlblas_add_library_path(const char* folders);

/* How often things happened in this process; tests prove with these what did not happen. */
typedef struct dlblas_counters {
  size_t size;
  int64_t calls;
  int64_t selected; /* slow selections: calls that missed the fast map */
  int64_t compiled; /* compilations (kernels that needed a compiler) */
  int64_t prepared; /* kernels prepared, compiled or not */
  int64_t launched; /* kernel steps run by operator calls */
  int64_t measured; /* configurations timed */
  int64_t store_hits;
  int64_t store_misses;
  int64_t published;   /* records written */
  int64_t quarantined; /* bad files set aside */
} dlblas_counters;
DLBLAS_API void dlblas_get_counters(dlblas_counters* counters);

/* Nanoseconds of host time of one warm call, launch and allocation stubbed: the minimum over
 * rounds. */
DLBLAS_API dlblas_status dlblas_bench_host(dlblas_op_t op, const dlblas_args* args,
                                           double* nanoseconds);
/* A device's ceilings: a copy (bytes read plus written per second) of `bytes`, and the peak of
 * independent f32 multiply-adds per second (2 FLOP each). On the host, of `threads` threads. */
typedef struct dlblas_machine {
  size_t size;
  double copy_bytes_per_s;
  double peak_flops;
  dlblas_device device; /* in: which; zeros: the host */
} dlblas_machine;
DLBLAS_API dlblas_status dlblas_bench_machine(int32_t threads, int64_t bytes,
                                              dlblas_machine* machine);

#ifdef __cplusplus
}
#endif
#endif /* DLBLAS_DLBLAS_H_ */
