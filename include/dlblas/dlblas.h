/* The C ABI of dlblas: the base of every binding (C++, Python, torch). Plain C, no dependency.
 * Structures start with `size` (the caller's sizeof), so that they may grow. No exception crosses
 * this boundary: a function returns a status, and dlblas_last_error() says more. Texts returned
 * through `char**` are UTF-8 and are released with dlblas_free(). JSON is for reading about the
 * library; the library itself never parses any. Read next: bindings/c/call.cpp, docs/flow.md. */
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

/* The version of this header; that of the library is dlblas_abi_version(). */
#define DLBLAS_ABI_VERSION 1
#define DLBLAS_MAX_RANK 8

/* How a call ended; dlblas_last_error() has the message. */
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

/* The last failure of the calling thread; its texts live until that thread's next dlblas call. */
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
  uint8_t code; /* DLPack's: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 f8e4m3fn, 12 f8e5m2,
                   14 f8e8m0fnu, 17 f4e2m1fn (packed: 4 bits, 2 lanes) */
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

/* The kind of a dlblas_value. */
typedef enum dlblas_kind {
  DLBLAS_NONE = 0, /* absent: the default, or no tensor for an optional one */
  DLBLAS_TENSOR = 1,
  DLBLAS_INT = 2,
  DLBLAS_FLOAT = 3,
  DLBLAS_BOOL = 4,
  DLBLAS_STRING = 5 /* an enumerated value, or a dtype's name */
} dlblas_kind;
/* One argument of a call. */
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
 * order; the last num_named are named by names[0 … num_named). outputs[i].data == NULL requests a
 * new result: then outputs[i].shape and .strides must have room for DLBLAS_MAX_RANK entries each,
 * and are filled in. */
typedef struct dlblas_args {
  size_t size;
  const dlblas_value* values;
  int32_t num_values;
  int32_t num_named;
  const char* const* names;
  dlblas_tensor* outputs; /* NULL for an in-place form */
  int32_t num_outputs;
  uint32_t flags; /* DLBLAS_DETERMINISTIC, DLBLAS_ALLOW_TF32, DLBLAS_REPEATABLE */
} dlblas_args;
#define DLBLAS_DETERMINISTIC 1u /* a row's bits depend on neither batch, threads nor tuning */
#define DLBLAS_ALLOW_TF32 2u
#define DLBLAS_REPEATABLE 4u /* the same call has the same bits in every run */

/* The caller's side of a call. Where the context or a function in it is NULL, the library's own is
 * used. Results allocated by the library's own new_output are released with dlblas_free(data). On a
 * GPU they are ready in the order of `stream`, a CUstream of the tensors' device (NULL: its default
 * stream), are released in that order too, and must not outlive the stream. new_output finds
 * device, dtype, shape and strides set, and sets the memory for them (data, and byte_offset if it
 * is not 0) without changing the rest. The first element must be aligned to 16 bytes: the kernel is
 * chosen before the memory exists. Other strides, or an address less aligned than the kernel relies
 * on, are a DLBLAS_ARGUMENT that names the result, and nothing is written; pass results with your
 * own strides or alignment in outputs[]. */
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

/* A callable form of an operator: "rms_norm", or its in-place form "rms_norm_". Valid for the life
 * of the process. */
typedef const struct dlblas_op_s* dlblas_op_t;

/* DLBLAS_ABI_VERSION and DLBLAS_VERSION of the running library. */
DLBLAS_API uint32_t dlblas_abi_version(void);
DLBLAS_API const char* dlblas_version(void);
/* Fills in the error of the calling thread's last failed call. */
DLBLAS_API void dlblas_last_error(dlblas_error* error);
/* Releases a text or a result of the library; NULL is ignored. */
DLBLAS_API void dlblas_free(void* memory);

/* Finds a form by its name; an unknown name is DLBLAS_UNKNOWN_OPERATOR, and the error lists all
 * names. */
DLBLAS_API dlblas_status dlblas_op(const char* name, dlblas_op_t* op);
/* The name of the argument called `name` or, if that is NULL, of the one at `position`, if the form
 * writes into it. NULL if the argument is only read, or does not exist. Lives as long as the
 * process. A dlblas_tensor does not say whether its memory may be written: the caller must know. */
DLBLAS_API const char* dlblas_written(dlblas_op_t op, int32_t position, const char* name);
/* The operator call: never measures. */
DLBLAS_API dlblas_status dlblas_call(dlblas_op_t op, const dlblas_args* args,
                                     const dlblas_context* context);

/* A GPU that need not be present, for explain and warmup: device {2, DLBLAS_ABSENT_GPU + 90} is a
 * typical sm_90a (compute capability times 10). */
#define DLBLAS_ABSENT_GPU 16384

/* What would run and why, without running it: JSON (format 0), or a table for people (format 1;
 * without a GPU its GPU rows take one line, format 2 has them all). The tensors' data may be NULL.
 * outputs may be NULL here, in tune and in get_op. */
DLBLAS_API dlblas_status dlblas_explain(dlblas_op_t op, const dlblas_args* args,
                                        const dlblas_context* context, int32_t format, char** text);

/* Prepares the kernel that dlblas_call would run for these arguments: selects, compiles and loads
 * it. Runs nothing; the tensors' data may be NULL. Calls captured into a CUDA graph must be warmed
 * up first. For a GPU that is not present, the kernel is compiled into the on-disk cache and not
 * loaded. */
DLBLAS_API dlblas_status dlblas_warmup(dlblas_op_t op, const dlblas_args* args,
                                       const dlblas_context* context);

/* The steps of a search, in dlblas_event. */
typedef enum dlblas_event_kind {
  DLBLAS_EVENT_START = 0,      /* candidates and budget are known */
  DLBLAS_EVENT_MEASURED = 1,   /* one configuration has a time */
  DLBLAS_EVENT_FAILED = 2,     /* one configuration failed; note says how */
  DLBLAS_EVENT_FINAL = 3,      /* the interleaved final begins */
  DLBLAS_EVENT_DONE = 4,       /* the winner is known; note says why it won */
  DLBLAS_EVENT_WAITING = 5,    /* asks whether to go on: one runs elsewhere, or has failed */
  DLBLAS_EVENT_FIRST_CALL = 6, /* a user's implementation is called for the first time: it may take
                                  seconds, which are no part of the budget */
  DLBLAS_EVENT_WORKER = 7 /* a worker is started. With a note it imports a user's modules, which
                             may take seconds that are no part of the budget */
} dlblas_event_kind;
/* The argument of on_event; its texts live until on_event returns. */
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

/* How to search. All zeros but size: search everything, within DLBLAS_TUNE_SECONDS per key. */
typedef struct dlblas_tune_options {
  size_t size;
  double seconds;       /* budget per key; <= 0: DLBLAS_TUNE_SECONDS, default 10 */
  const char* strategy; /* "exhaustive", "random"; NULL: by the size of the space */
  uint64_t seed;
  int32_t max_evaluations; /* 0: no limit but the budget */
  int32_t force;           /* measure every candidate again */
  const char*
      implementations; /* comma list of names to consider; NULL: all that support the problem */
  /* Narrowing: knob_names[i] of implementation knob_implementations[i] ("" for any) takes only the
   * values in the comma list knob_values[i]. */
  int32_t num_knobs;
  int32_t measure_in; /* 0: as the library thinks best, 1: a worker process, 2: this process */
  const char* const* knob_implementations;
  const char* const* knob_names;
  const char* const* knob_values;
  void* self;
  int (*where)(void* self, const char* implementation, const char* config); /* nonzero: keep */
  int (*on_event)(void* self,
                  const dlblas_event* event); /* nonzero: stop, keep what was measured */
} dlblas_tune_options;

/* Searches, checks against the oracle, publishes the winner; `report` (may be NULL) receives JSON.
 * Inputs are made from the Problem: the caller's data is never read, except that of index-valued
 * arguments. */
DLBLAS_API dlblas_status dlblas_tune(dlblas_op_t op, const dlblas_args* args,
                                     const dlblas_context* context,
                                     const dlblas_tune_options* options, char** report);
/* Tunes only what the store does not know: a hit measures nothing, and if another search of the key
 * is running, waits for it, within a limit. Afterwards dlblas_call serves the winner. */
DLBLAS_API dlblas_status dlblas_get_op(dlblas_op_t op, const dlblas_args* args,
                                       const dlblas_context* context,
                                       const dlblas_tune_options* options, char** report);

/* The calls of this process that ran untuned: problems whose implementation was chosen by the model
 * or by the operator's order, neither pinned nor measured. dlblas_missed_mark() returns a mark for
 * the present; from then on every choice is made, and recorded, anew. dlblas_missed() lists those
 * recorded since `mark` (0: since the start; the last 4,096): JSON, each key as fields of text. */
DLBLAS_API dlblas_status dlblas_missed_mark(uint64_t* mark);
DLBLAS_API dlblas_status dlblas_missed(uint64_t mark, char** text);
/* As dlblas_missed, plus those that the store decided ("why": "store") but for which a search may
 * have more to do: the last one was cut short, or an implementation is new. */
DLBLAS_API dlblas_status dlblas_met(uint64_t mark, char** text);
/* As dlblas_get_op, for a key that dlblas_missed listed, perhaps in another process: its fields,
 * one `name=value` per line. Fields left out are taken from this machine. */
DLBLAS_API dlblas_status dlblas_tune_key(const char* key, const dlblas_tune_options* options,
                                         char** report);

/* Candidates are measured in a worker: a process that may hang or crash. This function is its whole
 * life: it serves one search over the socket `socket`, and returns the process's exit status. */
DLBLAS_API int32_t dlblas_worker_main(int32_t socket);
/* The program that becomes a worker: argv and environment ("NAME=value", on top of this process's)
 * end in NULL; its socket is descriptor 3. NULL argv: dlblas_worker, beside the library. An
 * argument --import or --script says that it imports a user's modules before it serves: then up to
 * 30 s (DLBLAS_FIRST_CALL_SECONDS) of a search's worker starts do not count against its budget. */
DLBLAS_API dlblas_status dlblas_set_worker(const char* const* argv, const char* const* environment);

/* From now on, this process serves `op` with this implementation (and configuration; NULL: its
 * default) wherever it supports the problem; elsewhere on its kind of device the call fails and
 * says why. NULL implementation: unpin. */
DLBLAS_API dlblas_status dlblas_pin(dlblas_op_t op, const char* implementation, const char* config);

/* The oracle. rows: indices into the flattened leading dimensions. values[r], magnitudes[r]: f64
 * [num_rows, last dimension] for result r, then for the inputs that the operator writes (`!` in its
 * schema), in order, as they are after a call; NULL is allowed for an absent one. Where the oracle
 * produces single elements (attention's lse), each is a row: [num_rows, 1]. The allowed error of an
 * element is bounds[r][0]·magnitude + bounds[r][1]·|value| + bounds[r][2]. */
DLBLAS_API dlblas_status dlblas_reference(dlblas_op_t op, const dlblas_args* args,
                                          const int64_t* rows, int64_t num_rows,
                                          double* const* values, double* const* magnitudes,
                                          double (*bounds)[3]);
typedef struct dlblas_verdict {
  size_t size;
  double worst; /* largest |out - ref| over the allowed error; at most 1 is right. Of an
                   operator with a judge: 0, or infinity where it found something */
  double relative; /* ‖out - ref‖ / ‖ref‖ over the checked rows, worst result; 0 with a judge */
  int64_t wrong;       /* elements over the bound, or that the judge found */
  int64_t checked;     /* elements compared */
  int64_t first_wrong; /* row-major index in its result; -1: none, or the judge does not know */
  int32_t result;      /* which result first_wrong is in; from num_results on: a written input */
  int32_t mistrusted;  /* 1: the reference of a result is constant, mostly zero or NaN, or defines
                          none of its elements, so the comparison says little or nothing */
} dlblas_verdict;
/* Fills `to`, host memory, as the schema requires for the input `name`: indices inside their
 * bounds, offsets that end at their limit, otherwise random numbers. letters: sizes in schema
 * order. The same seed gives the inputs that a search with that seed measures on. */
DLBLAS_API dlblas_status dlblas_make_input(dlblas_op_t op, const char* name, const int64_t* letters,
                                           uint64_t seed, const dlblas_tensor* to);
/* Compares args->outputs with the oracle: the results, then the inputs that the operator writes, as
 * the call left them; args holds the inputs as they were before the call. num_rows 0: every row. */
DLBLAS_API dlblas_status dlblas_verify(dlblas_op_t op, const dlblas_args* args, const int64_t* rows,
                                       int64_t num_rows, dlblas_verdict* verdict);

/* command: a word, then its arguments, one per line ("show\n<key>"). Returns JSON. path, ls,
 * verify, clear, compact; show <key>; rm <key> | rm "" <op>; export <file>; import <file>; merge
 * <folder>; pin | forbid <op> <implementation> [<config>] [<key>], which apply to every process
 * from then on; unpin <op> "" "" [<key>]; allow <op> <implementation> [<config>] [<key>]; rules.
 * Without <key>: for every problem. */
DLBLAS_API dlblas_status dlblas_cache(const char* command, char** text);
/* Version, devices, libraries found or why not, environment variables, operators with schemas,
 * implementations and knobs, cache state. JSON. */
DLBLAS_API dlblas_status dlblas_info(char** text);
/* One operator, as in dlblas_info's list: a hundredth of its time. JSON. */
DLBLAS_API dlblas_status dlblas_op_info(dlblas_op_t op, char** text);

/* Colon-separated list of folders that may contain optional libraries (a Python's sys.prefix/lib,
 * site-packages/nvidia/…/lib). Call before the first operator call that should see them. */
DLBLAS_API dlblas_status dlblas_add_library_path(const char* folders);

/* The log's levels; DLBLAS_LOG (off, warn, info) selects which lines are logged. */
#define DLBLAS_LOG_WARN 1
#define DLBLAS_LOG_INFO 2
/* From now on each line of the log goes to `write` instead of standard error, from any thread and
 * from several at once. `line` has no line end and lives until `write` returns; `write` must not
 * let an exception out. NULL: standard error again. When this returns, no thread is inside the
 * previous function any more, so its `user` may be destroyed. Called from inside `write`, it is a
 * DLBLAS_ARGUMENT; lines logged there go to standard error. Worker processes have their own log. */
DLBLAS_API dlblas_status dlblas_set_log(void (*write)(void* user, int32_t level, const char* line),
                                        void* user);

/* Event counts of this process; tests use them to prove what did not happen. */
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

/* ---- Users' own implementations and operators: docs/own.md, <dlblas/implementation.hpp> ---------
 * A registered implementation competes with the built-in ones on equal terms: it is queried for
 * support of a problem, searched over its knobs, compared with the oracle, timed and remembered.
 * Until it has been measured for a problem it loses to the others, unless pinned. Everything
 * pointed to is copied, except `user` and the functions, which must live as long as the process: a
 * replaced implementation may still be running. No lock of the library is held while the functions
 * run; they are called from any thread, and must not let an exception out. */

/* The layout of a tensor in memory, as far as a choice may depend on it. */
typedef enum dlblas_layout {
  DLBLAS_CONTIGUOUS = 0,
  DLBLAS_ROW_STRIDED = 1, /* contiguous rows at one stride */
  DLBLAS_ROWS_OUTER = 2,  /* contiguous rows, leading dimensions at several strides */
  DLBLAS_TRANSPOSED = 3,
  DLBLAS_BROADCAST = 4,
  DLBLAS_OTHER = 5
} dlblas_layout;
/* Everything that may decide whether, and with which configuration, an implementation serves a
 * call. */
typedef struct dlblas_problem_tensor {
  dlblas_dtype dtype; /* bits 0: an optional tensor that is absent */
  int32_t layout;
  int32_t alignment;   /* of the address and of every row, in bytes, at most 16 */
  int32_t in_place_of; /* results: the index of the input whose memory this is, or -1 */
} dlblas_problem_tensor;
typedef struct dlblas_problem {
  size_t size;
  const char* op;
  dlblas_device device;
  int32_t arch;    /* CUDA: compute capability times 10; CPU: 0 */
  int32_t units;   /* CUDA: multiprocessors; CPU: hardware threads */
  int32_t threads; /* CPU: that the call may use */
  uint32_t flags;  /* DLBLAS_DETERMINISTIC, DLBLAS_ALLOW_TF32, DLBLAS_REPEATABLE */
  int32_t num_letters;
  int32_t num_inputs;
  int32_t num_results;
  int32_t num_scalars;
  const int64_t* letters;               /* in schema order; a bucketed one holds its upper end */
  const dlblas_problem_tensor* tensors; /* inputs, then results */
  const dlblas_value* scalars;          /* in schema order; run-time ones are DLBLAS_NONE */
} dlblas_problem;

/* The arguments of a step, all in schema order. */
typedef struct dlblas_step_args {
  size_t size;
  const dlblas_tensor* tensors; /* inputs, then results; an absent input has data NULL, dtype 0 */
  int32_t num_inputs;
  int32_t num_results;
  const int64_t* letters; /* exact */
  int32_t num_letters;
  int32_t num_scalars;
  const dlblas_value* scalars; /* a dtype scalar that is not given is DLBLAS_NONE */
  const int64_t* config;       /* a value for each knob, in their order */
  int32_t num_knobs;
  int32_t reserved;
  void* workspace; /* of the bytes that `workspace` asked for */
} dlblas_step_args;

/* Writes the results. Returns 0, or a nonzero code of its own; call dlblas_fail() first to give the
 * reason. On a GPU the device's context is current, and the work goes on context->stream. */
typedef int32_t (*dlblas_step)(const dlblas_step_args* args, const dlblas_context* context,
                               void* user);
/* Sets the text of the error, for a step or a reference that is about to return a code, and for the
 * functions below that can fail. It becomes the thread's last error too. */
DLBLAS_API void dlblas_fail(const char* why);
/* For a wrapper with its own errors, at the end of a dlblas_own(): makes `error` the thread's last
 * error. Returns its status, or DLBLAS_INTERNAL if that is not a failure. */
DLBLAS_API dlblas_status dlblas_keep_error(const dlblas_error* error);

/* One knob to search: numbers, or (labels not NULL) names for them. */
typedef struct dlblas_knob {
  const char* name;
  const int64_t* values;
  const char* const* labels;
  int32_t num_values;
  int32_t reserved;
} dlblas_knob;

/* CUDA text instead of a step, compiled by the library: `entry` names its __global__ function,
 * which takes pointers to the results, pointers to the inputs, the letters as long, and the scalars
 * (float, long, bool; an enumeration is its index), in schema order; an absent tensor is a null
 * pointer. Every knob is a macro: its value, or its label. `own::x` is the element type of tensor x
 * (device/own.cuh). Only contiguous tensors are served. grid, block and shared_bytes are
 * expressions over letters and knobs: + - * / %, parentheses, ceil_div(a, b), min(a, b), max(a, b);
 * an empty one counts as 1 (block: 256, shared_bytes: 0). */
typedef struct dlblas_cuda_text {
  size_t size;
  const char* text;
  const char* entry;
  const char* grid[3];
  const char* block[3];
  const char* shared_bytes;
} dlblas_cuda_text;

/* A user's implementation of an operator: a step, or CUDA text. */
typedef struct dlblas_implementation {
  size_t size;
  const char* name;
  const char* source_hash; /* of what it does: records of another one are stale. NULL: the digest of
                              the CUDA text, or of the shared object that `source` lies in */
  const void* source;      /* NULL: the step */
  int32_t device;          /* 1: CPU, 2: CUDA */
  uint32_t flags;
  int32_t min_arch; /* CUDA: compute capability times 10; 0 for any */
  int32_t max_arch;
  const dlblas_knob* knobs;
  const int64_t* configs; /* the valid configurations, num_knobs values each; NULL: all products */
  int32_t num_knobs;
  int32_t num_configs;
  const int64_t* preset; /* the default configuration; NULL: the first valid one */
  /* NULL for yes, else the reason for the no: one line that lives as long as the process. NULL
   * function: always yes. */
  const char* (*supports)(const dlblas_problem* problem, void* user);
  /* Is this configuration valid for the problem? Positive: yes. 0: no. Negative: not now, ask
   * again; dlblas_fail() gives the reason. NULL function: all are valid. */
  int32_t (*allowed)(const dlblas_problem* problem, const int64_t* config, void* user);
  /* Bytes of workspace; negative: a failure, whose text dlblas_fail() gives. NULL function: none.
   * */
  int64_t (*workspace)(const dlblas_problem* problem, const int64_t* config, void* user);
  dlblas_step step;
  const dlblas_cuda_text* cuda; /* where step is NULL */
  void* user;
} dlblas_implementation;
/* Flags of an implementation. Deterministic: in one configuration, a row has the same bits in every
 * run, in any batch, on any number of threads. Repeatable: the same call has the same bits in every
 * run; a deterministic one always is. */
#define DLBLAS_IS_DETERMINISTIC 1u
#define DLBLAS_IS_CAPTURABLE 2u /* may run while a CUDA graph is captured */
#define DLBLAS_IS_LOCAL 4u      /* made in this process alone: no worker process can measure it */
#define DLBLAS_IS_REPEATABLE 8u

/* Adds an implementation, or replaces the user's one of the same name. From the next call on, all
 * choices for this operator are made anew. */
DLBLAS_API dlblas_status dlblas_register(dlblas_op_t op, const dlblas_implementation* own);
DLBLAS_API dlblas_status dlblas_unregister(dlblas_op_t op, const char* name);

/* What a judge is given, and where it reports its findings. Rows, values and magnitudes are as for
 * the reference below; bounds[r] as in dlblas_reference; r counts the results, then the written
 * inputs. All memory is host memory: on a GPU it is copied first. */
typedef struct dlblas_judgement {
  size_t size;
  const dlblas_step_args* before; /* inputs as they were before the call; results mean nothing */
  const dlblas_step_args* after;  /* results and written inputs as the call left them: any bits */
  const int64_t* rows;
  int64_t num_rows;
  const double* const* values; /* [r]: NULL of an absent written input */
  const double* const* magnitudes;
  const double (*bounds)[3];
  int64_t* wrong;       /* [r]: to be set to how many elements of these rows are wrong; 0 before */
  int64_t* first_wrong; /* [r]: and to the row-major index of the first, or -1 where not known */
} dlblas_judgement;

/* A new operator. The reference is the oracle: for each result r it writes the f64 values[r] and
 * magnitudes[r] of the listed rows (indices into the flattened leading dimensions; each row is as
 * wide as the result's last dimension), and returns 0. It leaves rows that a result does not have
 * unwritten. */
typedef struct dlblas_operator_def {
  size_t size; /* that of an older header is as good: what it lacks counts as NULL */
  const char* schema;
  const char* const* inplace; /* in-place forms, as in docs/add_an_operator.md */
  int32_t num_inplace;
  int32_t whole;       /* 1: computes all rows however few are asked for; it is then asked once */
  const char* formula; /* one line for people, or NULL */
  const char* source_hash; /* as in dlblas_implementation; NULL `source`: the reference */
  const void* source;
  int32_t (*reference)(const dlblas_step_args* args, const int64_t* rows, int64_t num_rows,
                       double* const* values, double* const* magnitudes, void* user);
  /* values, magnitudes, `result`: results, then written inputs, as in dlblas_reference. The error
   * allowed for an element of a result is bound[0]*magnitude + bound[1]*|value| + bound[2]. A NaN
   * or a negative number is a failure, whose text dlblas_fail() gives. NULL function: f32's
   * rounding (f64's for an f64 result) over as many terms as the inputs hold per element of the
   * results, plus four roundings of the result; integers, booleans and codes are right or wrong.
   * For an i64 of magnitude 2^53 or more, the exact number is value + magnitude: a multiple of
   * 1024, and 0 to 1023. */
  void (*bound)(const dlblas_problem* problem, int32_t result, double* bound, void* user);
  void* user;
  /* Reports which elements are wrong, where |out - ref| within a bound cannot tell: ids with ties,
   * permutations, samples. Returns 0; or a code, after dlblas_fail(): an error of the judge, which
   * is never a pass. Rows are divided among threads, except for a `whole` reference, whose judge
   * gets all rows at once. NULL function: each element is within its bound, or wrong. */
  int32_t (*judge)(const dlblas_judgement* judgement, void* user);
} dlblas_operator_def;
/* A second registration of the same schema replaces reference, bound and judge. Another formula,
 * in-place form or `whole` is an error, and so is adding a judge or removing one. Leaving out the
 * formula and the in-place forms keeps the present ones. `op` may be NULL. */
DLBLAS_API dlblas_status dlblas_register_operator(const dlblas_operator_def* def, dlblas_op_t* op);

/* Host time of one warm call in nanoseconds, with launch and allocation stubbed: the minimum over
 * rounds. */
DLBLAS_API dlblas_status dlblas_bench_host(dlblas_op_t op, const dlblas_args* args,
                                           double* nanoseconds);
/* A device's ceilings: a copy (bytes read plus written per second) of `bytes`, and the peak of
 * independent f32 multiply-adds per second (2 FLOP each). On the host, with `threads` threads. */
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
