// The boundary of the C ABI: null and short structures are refused with a message, and calls still
// work after thread_local objects are destroyed.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "dlblas/dlblas.h"

namespace {

struct Call {
  float x[6] = {1, 2, 3, 4, 5, 6}, w[3] = {1, 1, 1}, y[6] = {};
  int64_t shape[2] = {2, 3}, width[1] = {3};
  dlblas_tensor tx = tensor(x, 2, shape), tw = tensor(w, 1, width), ty = tensor(y, 2, shape);
  dlblas_value values[2] = {value(&tx), value(&tw)};
  dlblas_args args{sizeof(dlblas_args), values, 2, 0, nullptr, &ty, 1, 0};

  static dlblas_tensor tensor(float* data, int rank, int64_t* shape) {
    return {data, {1, 0}, rank, {2, 32, 1}, shape, nullptr, 0};
  }
  static dlblas_value value(const dlblas_tensor* t) {
    dlblas_value v{DLBLAS_TENSOR, 0, {}};
    v.as.tensor = t;
    return v;
  }
  static dlblas_op_t op() {
    dlblas_op_t handle = nullptr;
    dlblas_op("rms_norm", &handle);
    return handle;
  }
};

std::string last_message() {
  dlblas_error error{};
  error.size = sizeof error;
  dlblas_last_error(&error);
  return error.message;
}

TEST(CAbi, Calls) {
  Call c;
  ASSERT_EQ(dlblas_call(Call::op(), &c.args, nullptr), DLBLAS_OK) << last_message();
  EXPECT_NEAR(c.y[0], 1 / 2.1602468, 1e-5);
}

TEST(CAbi, RefusesWhatIsMissing) {
  EXPECT_EQ(dlblas_op(nullptr, nullptr), DLBLAS_ARGUMENT);
  EXPECT_EQ(dlblas_call(nullptr, nullptr, nullptr), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message(), "dlblas: op is null; expected a handle of dlblas_op(), got NULL");
  EXPECT_EQ(dlblas_call(Call::op(), nullptr, nullptr), DLBLAS_ARGUMENT);
  const std::string malformed =
      "rms_norm: args is malformed; expected size, values, names and flags of this header's "
      "dlblas_args, got others";
  for (int fault = 0; fault < 4; ++fault) {
    Call c;
    if (fault == 0) c.args.size = 8;
    if (fault == 1) c.args.values = nullptr;
    if (fault == 2) c.args.num_named = 1;
    if (fault == 3) c.args.flags = 1u << 20;
    EXPECT_EQ(dlblas_call(Call::op(), &c.args, nullptr), DLBLAS_ARGUMENT) << fault;
    EXPECT_EQ(last_message(), malformed) << fault;
    EXPECT_EQ(c.y[0], 0) << "something was written";
  }
}

TEST(CAbi, RefusesTensorsItCannotRead) {
  Call no_shape;
  no_shape.tx.shape = nullptr;
  EXPECT_EQ(dlblas_call(Call::op(), &no_shape.args, nullptr), DLBLAS_SHAPE);
  EXPECT_EQ(last_message(),
            "rms_norm: x has 2 dimensions and no shape; expected their sizes, got NULL");
  Call deep;
  deep.tx.ndim = 9;
  EXPECT_EQ(dlblas_call(Call::op(), &deep.args, nullptr), DLBLAS_SHAPE);
  EXPECT_EQ(last_message(), "rms_norm: x has 9 dimensions; expected 0 to 8, got 9");
  Call lanes;
  lanes.tx.dtype = {2, 16, 2};
  EXPECT_EQ(dlblas_call(Call::op(), &lanes.args, nullptr), DLBLAS_DTYPE);
  Call no_data;
  no_data.tx.data = nullptr;
  EXPECT_EQ(dlblas_call(Call::op(), &no_data.args, nullptr), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message(), "rms_norm: x has no memory; expected a data pointer, got NULL");
}

TEST(CAbi, RefusesOutputsWithoutRoom) {
  Call none;
  none.args.outputs = nullptr;
  EXPECT_EQ(dlblas_call(Call::op(), &none.args, nullptr), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message(),
            "rms_norm: outputs is null; expected one tensor a result, data NULL for a new one, got "
            "NULL");
  Call few;
  few.args.num_outputs = 0;
  EXPECT_EQ(dlblas_call(Call::op(), &few.args, nullptr), DLBLAS_ARGUMENT);
  Call no_room;
  no_room.ty = {};
  EXPECT_EQ(dlblas_call(Call::op(), &no_room.args, nullptr), DLBLAS_ARGUMENT);
  dlblas_context context{};
  context.size = 8;
  Call c;
  EXPECT_EQ(dlblas_call(Call::op(), &c.args, &context), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message().substr(0, 36), "dlblas: context has a wrong size; ex");
}

TEST(CAbi, MakesResults) {
  Call c;
  int64_t shape[DLBLAS_MAX_RANK], strides[DLBLAS_MAX_RANK];
  c.ty = {nullptr, {0, 0}, 0, {}, shape, strides, 0};
  ASSERT_EQ(dlblas_call(Call::op(), &c.args, nullptr), DLBLAS_OK);
  EXPECT_EQ(c.ty.ndim, 2);
  EXPECT_EQ(shape[1], 3);
  EXPECT_NEAR(static_cast<float*>(c.ty.data)[0], 1 / 2.1602468, 1e-5);
  dlblas_free(c.ty.data);
}

// Codes are not truncated to the width in which the library stores them: 257 is not a CPU.
TEST(CAbi, RefusesDevicesThatAreNone) {
  const struct {
    dlblas_device device;
    bool is_cpu;
  } cases[] = {{{1, 0}, true},          {{257, 0}, false},   {{513, 0}, false},
               {{-255, 0}, false},      {{1, 65536}, false}, {{1, 1}, false},
               {{1, -1}, false},        {{2, 65536}, false}, {{258, 0}, false},
               {{INT32_MIN, 0}, false}, {{0, 0}, false},     {{2, INT32_MIN}, false}};
  for (const auto& [device, is_cpu] : cases) {
    Call c;
    c.tx.device = c.tw.device = c.ty.device = device;
    const dlblas_status status = dlblas_call(Call::op(), &c.args, nullptr);
    EXPECT_EQ(status, is_cpu ? DLBLAS_OK : DLBLAS_DEVICE) << device.type << ":" << device.index;
    EXPECT_EQ(c.y[0] != 0, is_cpu);
    const std::string words = is_cpu ? "rms_norm: x is on" : last_message();
    EXPECT_EQ(words.substr(0, 17), "rms_norm: x is on");
  }
}

TEST(CAbi, RefusesWhatNoMemoryHolds) {
  const int64_t strides[][2] = {
      {INT64_MAX, 1}, {INT64_MIN, 1}, {int64_t{1} << 60, 1}, {3, -(int64_t{1} << 60)}};
  for (const auto& step : strides) {
    Call c;
    int64_t own[2] = {step[0], step[1]};
    c.tx.strides = own;
    EXPECT_EQ(dlblas_call(Call::op(), &c.args, nullptr), DLBLAS_SHAPE) << step[0];
    EXPECT_EQ(last_message(),
              "rms_norm: x has elements beyond the address space; expected strides and an address "
              "of one block of memory, got others");
  }
  Call far;
  far.tx.byte_offset = UINT64_MAX;
  EXPECT_EQ(dlblas_call(Call::op(), &far.args, nullptr), DLBLAS_SHAPE);
  Call end;
  end.tx.data = reinterpret_cast<void*>(UINTPTR_MAX - 3);
  EXPECT_EQ(dlblas_call(Call::op(), &end.args, nullptr), DLBLAS_SHAPE);
  Call below;
  int64_t own[2] = {-3, 1};
  below.tx.data = reinterpret_cast<void*>(8);
  below.tx.strides = own;
  EXPECT_EQ(dlblas_call(Call::op(), &below.args, nullptr), DLBLAS_SHAPE);
  Call one;  // of one element in a dimension, no step is taken
  one.shape[0] = 1;
  int64_t any[2] = {INT64_MIN, 1};
  one.tx.strides = any;
  EXPECT_EQ(dlblas_call(Call::op(), &one.args, nullptr), DLBLAS_OK) << last_message();
}

TEST(CAbi, RefusesCountsThatAreNone) {
  for (const auto& [values, named] : {std::pair{-1, 0}, {2, -1}, {INT32_MIN, INT32_MAX}}) {
    Call c;
    c.args.num_values = values;
    c.args.num_named = named;
    EXPECT_EQ(dlblas_call(Call::op(), &c.args, nullptr), DLBLAS_ARGUMENT);
    EXPECT_EQ(last_message().substr(0, 27), "rms_norm: args is malformed") << last_message();
  }
  Call c;
  c.args.num_outputs = -1;
  EXPECT_EQ(dlblas_call(Call::op(), &c.args, nullptr), DLBLAS_ARGUMENT);
  char* text = nullptr;
  Call question;
  EXPECT_EQ(dlblas_explain(Call::op(), &question.args, nullptr, 7, &text), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message(),
            "rms_norm: format is unknown; expected 0 (JSON), 1 (a table) or 2 (all of it), got 7");
}

TEST(CAbi, RefusesOptionsOfASearch) {
  const char* texts[1] = {nullptr};
  const char* words[1] = {"eps"};
  dlblas_tune_options none{};
  none.size = sizeof none;
  none.max_evaluations = 1;
  const auto refuse = [&](const dlblas_tune_options& o) {
    Call c;
    EXPECT_EQ(dlblas_tune(Call::op(), &c.args, nullptr, &o, nullptr), DLBLAS_ARGUMENT);
    return last_message();
  };
  dlblas_tune_options o = none;
  o.num_knobs = 5;
  EXPECT_EQ(refuse(o), "tune: knob_names is null; expected 5 texts, got NULL for knob 0");
  o.num_knobs = 1;
  o.knob_names = words;
  EXPECT_EQ(refuse(o), "tune: knob_values is null; expected 1 texts, got NULL for knob 0");
  o.knob_values = texts;
  EXPECT_EQ(refuse(o), "tune: knob_values is null; expected 1 texts, got NULL for knob 0");
  o.num_knobs = -1;
  EXPECT_EQ(refuse(o), "tune: num_knobs is out of range; expected 0 to 4096, got -1");
  o = none;
  o.seconds = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refuse(o).substr(0, 27), "tune: seconds is no budget;");
  o = none;
  o.size = 8;
  EXPECT_EQ(refuse(o).substr(0, 32), "tune: options has a wrong size; ");
}

TEST(CAbi, NamesWhatIsNearAnUnknownName) {
  const auto ends = [](std::string_view words) {
    const std::string said = last_message();
    EXPECT_TRUE(std::string_view(said).ends_with(words)) << said;
  };
  dlblas_op_t op{};
  EXPECT_NE(dlblas_op("rmsnorm", &op), DLBLAS_OK);
  ends(", got rmsnorm; did you mean rms_norm?");
  EXPECT_NE(dlblas_op("nothing_near", &op), DLBLAS_OK);
  ends(", got nothing_near");
  EXPECT_EQ(dlblas_pin(Call::op(), "reverence", nullptr), DLBLAS_ARGUMENT);
  ends(", got reverence; did you mean reference?");
  const char* name = "reverence";
  dlblas_tune_options o{};
  o.size = sizeof o;
  o.max_evaluations = 1;
  o.strategy = "randm";
  Call c;
  EXPECT_EQ(dlblas_tune(Call::op(), &c.args, nullptr, &o, nullptr), DLBLAS_ARGUMENT);
  ends(", got randm; did you mean random?");
  o.strategy = nullptr;
  o.implementations = name;
  EXPECT_EQ(dlblas_tune(Call::op(), &c.args, nullptr, &o, nullptr), DLBLAS_ARGUMENT);
  ends(", got reverence; did you mean reference?");
}

TEST(CAbi, RefusesRowsAndPlacesOfTheOracle) {
  Call c;
  double value[6], magnitude[6], bounds[1][3];
  double *values[1] = {value}, *magnitudes[1] = {magnitude}, *nowhere[1] = {nullptr};
  const int64_t rows[2] = {1, 0};
  dlblas_verdict verdict{};
  verdict.size = sizeof verdict;
  ASSERT_EQ(dlblas_reference(Call::op(), &c.args, rows, 2, values, magnitudes, bounds), DLBLAS_OK);
  const auto refused = [&](const char* argument, dlblas_status status) {
    EXPECT_EQ(status, DLBLAS_ARGUMENT) << argument;
    EXPECT_EQ(last_message().rfind(std::string("rms_norm: ") + argument, 0), 0u) << last_message();
  };
  const auto reference = [&](const int64_t* r, int64_t n, double** v, double** m) {
    return dlblas_reference(Call::op(), &c.args, r, n, v, m, bounds);
  };
  refused("num_rows is negative", reference(rows, -1, values, magnitudes));
  refused("num_rows is negative", dlblas_verify(Call::op(), &c.args, rows, -1, &verdict));
  refused("rows is null", reference(nullptr, 2, values, magnitudes));
  refused("rows is null", dlblas_verify(Call::op(), &c.args, nullptr, 2, &verdict));
  refused("values is null", reference(rows, 2, nullptr, magnitudes));
  refused("values is null", reference(rows, 2, nowhere, magnitudes));
  refused("magnitudes is null", reference(rows, 2, values, nowhere));
  refused("bounds is null",
          dlblas_reference(Call::op(), &c.args, rows, 2, values, magnitudes, nullptr));
  c.tx.data = nullptr;
  refused("x has no memory", reference(rows, 2, values, magnitudes));
  refused("x has no memory", dlblas_verify(Call::op(), &c.args, rows, 2, &verdict));
  c.tx.data = c.x;
  refused("nanoseconds is null", dlblas_bench_host(Call::op(), &c.args, nullptr));
}

TEST(CAbi, RefusesMachinesThatAreNone) {
  dlblas_machine machine{};
  machine.size = sizeof machine;
  EXPECT_EQ(dlblas_bench_machine(1, -1, &machine), DLBLAS_ARGUMENT);
  EXPECT_EQ(last_message().substr(0, 30), "dlblas: bytes is out of range;");
  for (const dlblas_device device : {dlblas_device{3, 0}, {258, 0}, {1, 1}, {2, -1}, {2, 65536}}) {
    machine.device = device;
    EXPECT_EQ(dlblas_bench_machine(1, 64, &machine), DLBLAS_ARGUMENT) << device.type;
    EXPECT_EQ(last_message().substr(0, 31), "dlblas: device is out of range;");
  }
}

TEST(CAbi, MakesInputsAsASearchDoes) {
  Call c;
  const int64_t letters[2] = {2, 3};
  ASSERT_EQ(dlblas_make_input(Call::op(), "x", letters, 7, &c.tx), DLBLAS_OK) << last_message();
  float other[6] = {};
  dlblas_tensor to = Call::tensor(other, 2, c.shape);
  ASSERT_EQ(dlblas_make_input(Call::op(), "x", letters, 7, &to), DLBLAS_OK);
  EXPECT_EQ(std::memcmp(c.x, other, sizeof other), 0) << "the same seed, the same bits";
  ASSERT_EQ(dlblas_make_input(Call::op(), "x", letters, 8, &to), DLBLAS_OK);
  EXPECT_NE(std::memcmp(c.x, other, sizeof other), 0);

  EXPECT_EQ(dlblas_make_input(nullptr, "x", letters, 7, &to), DLBLAS_ARGUMENT);
  const auto refused = [&](const char* name, const int64_t* sizes, const dlblas_tensor* tensor) {
    EXPECT_EQ(dlblas_make_input(Call::op(), name, sizes, 7, tensor), DLBLAS_ARGUMENT);
    return last_message();
  };
  EXPECT_EQ(refused(nullptr, letters, &to), "rms_norm: name is null; expected a value, got NULL");
  EXPECT_EQ(refused("x", nullptr, &to), "rms_norm: letters is null; expected a value, got NULL");
  EXPECT_EQ(refused("x", letters, nullptr), "rms_norm: to is null; expected a value, got NULL");
  EXPECT_EQ(refused("eps", letters, &to),
            "rms_norm: name names no input; expected one of the schema's tensors, got eps");
  to.ndim = 9;
  EXPECT_EQ(dlblas_make_input(Call::op(), "x", letters, 7, &to), DLBLAS_SHAPE);
  EXPECT_EQ(last_message(), "rms_norm: x has 9 dimensions; expected 0 to 8, got 9");
  to.ndim = 2, to.device.type = 2;
  EXPECT_EQ(refused("x", letters, &to),
            "rms_norm: x is not in the host's memory; expected device type 1, got 2");
  to.device.type = 1, to.data = nullptr;
  EXPECT_EQ(refused("x", letters, &to), "rms_norm: x has no memory; expected an address, got NULL");
}

// The main thread's thread_local objects are destroyed before earlier registered atexit handlers
// run.
TEST(CAbiDeathTest, WorksInAtExit) {
  EXPECT_EXIT(
      {
        std::atexit([] {
          Call late;
          dlblas_op_t unknown = nullptr;
          const bool ok = dlblas_call(Call::op(), &late.args, nullptr) == DLBLAS_OK &&
                          dlblas_op("no_such", &unknown) == DLBLAS_UNKNOWN_OPERATOR;
          std::fputs(ok ? "worked" : "failed", stderr);
        });
        Call early;
        dlblas_call(Call::op(), &early.args, nullptr);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "worked");
}

}  // namespace
