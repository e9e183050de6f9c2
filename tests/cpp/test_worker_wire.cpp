// The messages between tuner and worker: what is sent is received unchanged, and every invalid
// field is refused, with a message and before memory is allocated for it. Read next:
// src/tuner/worker_wire.hpp, tests/fuzz/fuzz_worker.cpp.
#include <gtest/gtest.h>

#include <limits>

#include "tuner/worker_wire.hpp"

namespace dlblas::test {
namespace {

using worker::Reader;
using worker::Writer;

worker::Opening an_opening() {
  worker::Opening opening{"an_operator", "0123", {}, 7, {{1, 2.0}}, {}};
  TensorView view{};
  view.rank = 1;
  view.shape[0] = 3;
  view.strides[0] = 1;
  view.dtype = DType::kI32;
  opening.indices.push_back({2, view, "twelve bytes"});
  opening.sizes[3] = 500;
  return opening;
}

/// "": accepted; else the refusal's text.
template <typename Decode>
std::string refusal_of(const std::string& bytes, const Decode& decode) {
  try {
    Reader from(bytes);
    decode(from);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInternal);
    return e.what();
  }
}
std::string refusal_of(const worker::Opening& opening) {
  return refusal_of(encode(opening), [](Reader& from) {
    EXPECT_EQ(worker::decode_request(from), worker::Request::kOpen);
    worker::decode_opening(from);
  });
}
std::string malformed(const char* expected) {
  return text("tune: message between worker and tuner is malformed; expected ", expected,
              ", got other bytes; a candidate wrote over the worker's memory, or report it");
}

TEST(WorkerWire, AMessageThatEndsEarlyIsRefusedAtEveryByte) {
  const std::string bytes = encode(an_opening());
  for (std::size_t end = 1; end < bytes.size(); ++end) {
    Reader from(std::string_view(bytes).substr(1, end - 1));
    EXPECT_THROW(worker::decode_opening(from), Error) << end;
  }
  Reader from(std::string_view(bytes).substr(1));
  const worker::Opening read = worker::decode_opening(from);
  EXPECT_EQ(read.op, "an_operator");
  EXPECT_EQ(read.seed, 7u);
  EXPECT_EQ(read.indices.at(0).bytes, "twelve bytes");
  EXPECT_EQ(read.indices.at(0).view.shape[0], 3);
  EXPECT_EQ(read.sizes[3], 500);
  const std::string more = bytes + "x";
  Reader longer(std::string_view(more).substr(1));
  EXPECT_THROW(worker::decode_opening(longer), Error) << "nor may it go on";
}

TEST(WorkerWire, EveryLayoutPasses) {
  for (int layout = 0; layout <= static_cast<int>(Layout::kTokensOuter); ++layout) {
    worker::Opening opening = an_opening();
    opening.problem.tensors[0].layout = static_cast<Layout>(layout);
    EXPECT_EQ(refusal_of(opening), "") << layout;
  }
}

struct Forged {
  const char* name;
  void (*forge)(worker::Opening& opening);
  const char* expected;
};
class ForgedOpening : public ::testing::TestWithParam<Forged> {};
TEST_P(ForgedOpening, IsRefusedInWords) {
  worker::Opening opening = an_opening();
  EXPECT_EQ(refusal_of(opening), "");
  GetParam().forge(opening);
  EXPECT_EQ(refusal_of(opening), malformed(GetParam().expected));
}
using Opening = worker::Opening;
constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
const char* const kProblem = "a problem";
const char* const kIndices = "a tensor of indices";
const Forged kForged[] = {
    {"device", [](Opening& o) { o.problem.device_type = DeviceType{7}; }, kProblem},
    {"device_index", [](Opening& o) { o.problem.device_index = -1; }, kProblem},
    {"flags", [](Opening& o) { o.problem.flags = 8; }, kProblem},
    {"threads", [](Opening& o) { o.problem.threads = 65535; }, kProblem},
    {"dtype", [](Opening& o) { o.problem.tensors[3].dtype = DType{kNumDTypes + 1}; }, kProblem},
    {"layout", [](Opening& o) { o.problem.tensors[0].layout = Layout{9}; }, kProblem},
    {"alignment", [](Opening& o) { o.problem.tensors[0].align_log2 = 63; }, kProblem},
    {"alias", [](Opening& o) { o.problem.tensors[1].alias = 200; }, kProblem},
    {"negative_size", [](Opening& o) { o.problem.dims[0] = -1; }, kProblem},
    {"huge_size", [](Opening& o) { o.problem.dims[9] = kFar; }, kProblem},
    {"scalars", [](Opening& o) { o.scalars.resize(kMaxScalars + 1); }, "fewer things"},
    {"many_indices", [](Opening& o) { o.indices.resize(kMaxTensors + 1, o.indices[0]); },
     "fewer things"},
    {"tensor", [](Opening& o) { o.indices[0].tensor = kMaxTensors; }, kIndices},
    {"rank", [](Opening& o) { o.indices[0].view.rank = kMaxRank + 1; }, kIndices},
    {"no_rank", [](Opening& o) { o.indices[0].view.rank = -1; }, kIndices},
    {"longer_than_its_bytes", [](Opening& o) { o.indices[0].view.shape[0] = 4; }, kIndices},
    {"product_that_overflows",
     [](Opening& o) {
       TensorView& v = o.indices[0].view;
       v.rank = 2, v.shape[0] = v.shape[1] = std::int64_t{1} << 32, v.strides[0] = v.shape[1];
       v.strides[1] = 1;
     },
     kIndices},
    {"negative_shape", [](Opening& o) { o.indices[0].view.shape[0] = -3; }, kIndices},
    {"strides", [](Opening& o) { o.indices[0].view.strides[0] = 1 << 20; }, kIndices},
    {"pointer", [](Opening& o) { o.indices[0].view.data = &o; }, kIndices},
    {"memory", [](Opening& o) { o.indices[0].view.device.type = DeviceType::kCuda; }, kIndices},
    {"index_dtype", [](Opening& o) { o.indices[0].view.dtype = DType::kAbsent; }, kIndices},
};
INSTANTIATE_TEST_SUITE_P(Fields, ForgedOpening, ::testing::ValuesIn(kForged),
                         [](const auto& i) { return std::string(i.param.name); });

// A valid problem may still not fit this operator: the worker answers that it has no such operator.
TEST(WorkerWire, AnOpeningMustBeAboutTheOperatorThatItNames) {
  const Schema schema = parse_schema(
      "an_operator(x: f[*T, C], bias: f[C]?, ids: i32[T] ~index<C, mode: \"a\"|\"b\" = \"a\" key, "
      "scale: float = 1) -> y: like(x)[*T, C]");
  const auto fitting = [&](void (*forge)(worker::Opening&)) {
    worker::Opening opening = an_opening();
    opening.scalars.resize(schema.scalars.size());
    forge(opening);
    return fits(opening, schema);
  };
  EXPECT_TRUE(fitting([](Opening&) {}));
  EXPECT_TRUE(fitting([](Opening& o) { o.problem.tensors[1].dtype = DType::kAbsent; }));
  EXPECT_TRUE(fitting([](Opening& o) { o.problem.tensors[3].alias = 1; }));
  EXPECT_TRUE(fitting([](Opening& o) { o.scalars.clear(); }));
  EXPECT_FALSE(fitting([](Opening& o) { o.problem.tensors[0].dtype = DType::kAbsent; }));
  EXPECT_FALSE(fitting([](Opening& o) { o.problem.tensors[0].alias = 1; })) << "an input";
  EXPECT_FALSE(fitting([](Opening& o) { o.problem.tensors[3].alias = 4; })) << "of a result";
  EXPECT_FALSE(fitting([](Opening& o) { o.problem.tensors[9].alias = 1; })) << "of no tensor";
  EXPECT_FALSE(fitting([](Opening& o) { o.problem.scalars[0] = 2; })) << "no label of the enum";
  EXPECT_FALSE(fitting([](Opening& o) { o.scalars.resize(1); }));
  EXPECT_FALSE(fitting([](Opening& o) { o.indices[0].tensor = 0; })) << "not of indices";
  EXPECT_FALSE(fitting([](Opening& o) { o.indices[0].tensor = 3; })) << "a result";
}

TEST(WorkerWire, RepliesAreReadOrRefused) {
  worker::Outcome outcome{{Failure::kCrash, "a note", 0.5, 2, 0, true}, true, false, 1, 2, 3};
  const auto sent = [&](const auto& forge) {
    worker::Outcome forged = outcome;
    forge(forged);
    Writer to;
    encode(to, forged);
    return refusal_of(to.take(), [&](Reader& from) {
      const worker::Outcome read = worker::decode_outcome(from);
      EXPECT_EQ(read.check.note, "a note");
      EXPECT_EQ(read.prepared, forged.prepared);
      EXPECT_EQ(read.check.beside, forged.check.beside);
    });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  using worker::Outcome;
  EXPECT_EQ(sent([](Outcome&) {}), "");
  EXPECT_EQ(sent([](Outcome& o) { o.check.error = std::numeric_limits<double>::infinity(); }), "");
  EXPECT_EQ(sent([](Outcome& o) { o.check.failure = Failure{kNumFailures}; }),
            malformed("a kind of failure"));
  EXPECT_EQ(sent([&](Outcome& o) { o.check.ms = nan; }), malformed("a finite number"));
  EXPECT_EQ(sent([](Outcome& o) { o.check.ms = -1; }), malformed("a duration"));
  EXPECT_EQ(sent([&](Outcome& o) { o.check.error = nan; }), malformed("an error"));
  EXPECT_EQ(sent([](Outcome& o) { o.compiled = -5; }), malformed("a counter"));
}

TEST(WorkerWire, AnOrderNamesWhoWasSentOnceEach) {
  const auto sent = [](std::vector<std::uint32_t> order) {
    Writer to;
    encode(to, worker::Ahead{1, 2, std::move(order)});
    return refusal_of(to.take(), [](Reader& from) { worker::decode_ahead(from, 3); });
  };
  EXPECT_EQ(sent({2, 0}), "");
  EXPECT_EQ(sent({2, 2}), malformed("an order"));
  EXPECT_EQ(sent({3}), malformed("an order"));
  EXPECT_EQ(sent({0, 1, 2, 0}), malformed("fewer things"));
}

TEST(WorkerWire, EnumeratorsAndCountsHaveEnds) {
  const auto byte = [](int value) { return std::string(1, static_cast<char>(value)); };
  EXPECT_EQ(refusal_of(byte(7), [](Reader& r) { worker::decode_request(r); }),
            malformed("a request"));
  EXPECT_EQ(refusal_of(byte(4), [](Reader& r) { worker::decode_reply(r); }),
            malformed("an answer"));
  Writer many;
  many.put(worker::kMaxBatch + 1);
  EXPECT_EQ(refusal_of(many.take(), [](Reader& r) { worker::decode_batch(r); }),
            malformed("fewer things"));
  Writer error;
  error.put(std::int32_t{11}).put(std::string_view("what"));
  EXPECT_EQ(refusal_of(error.take(), [](Reader& r) { (void)worker::decode_error(r); }),
            malformed("a kind of error"));
  const Error told(ErrorKind::kDevice, "message", {"op", "argument", "this", "that"});
  Writer good;
  encode(good, told);
  const std::string bytes = good.take();
  Reader from(bytes);
  const Error read = worker::decode_error(from);
  EXPECT_EQ(read.kind(), told.kind());
  EXPECT_STREQ(read.what(), "message");
  EXPECT_EQ(read.detail().got, "that");
}

TEST(WorkerWire, WhatASearchCostsIsPlausible) {
  const auto sent = [](void (*forge)(worker::Opened&)) {
    worker::Opened opened{{{"key", "value"}}, true, 1, {.least_ms = 0.02}, 1, {}};
    forge(opened);
    Writer to;
    encode(to, opened);
    return refusal_of(to.take(), [](Reader& from) { worker::decode_opened(from); });
  };
  const std::string no = malformed("what a search costs");
  EXPECT_EQ(sent([](worker::Opened&) {}), "");
  EXPECT_EQ(sent([](worker::Opened& o) { o.whole_ms = -1; }), no);
  EXPECT_EQ(sent([](worker::Opened& o) { o.compiles_at_once = 0; }), no);
  EXPECT_EQ(sent([](worker::Opened& o) { o.compiles_at_once = 1 << 30; }), no);
  EXPECT_EQ(sent([](worker::Opened& o) { o.cost.rotation.sets = 0; }), no);
  EXPECT_EQ(sent([](worker::Opened& o) { o.cost.rotation.sets = 161; }), no);
  EXPECT_EQ(sent([](worker::Opened& o) { o.cost.rotation.sizes = 0; }), no);
  EXPECT_EQ(sent([](worker::Opened& o) { o.cost.rotation.sets = o.cost.rotation.sizes = 3; }), no);
  EXPECT_EQ(sent([](worker::Opened& o) { o.cost.rotation.sizes = 2; }), no) << "one set";
}

}  // namespace
}  // namespace dlblas::test
