// Records as text: SHA-256 on the NIST vectors, exactly one text per record, and a reason for
// refusing every other text. Damaged files are in test_store_damage.cpp; this test needs no disk.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "../store_battery/expect.hpp"
#include "store/record.hpp"
#include "store/sha256.hpp"

namespace dlblas {
namespace {

using battery::sample_candidate;
using battery::sample_record;

TEST(StoreSha256, NistVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(
                "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqkl"
                "mnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(StoreSha256, EveryPaddingLength) {
  std::string all;
  for (int n = 0; n < 260; ++n) all += sha256_hex(std::string(n, 'a'));
  // Computed by the same loop over Python's hashlib.
  EXPECT_EQ(sha256_hex(all), "b941727062911011046b91a996ccbbecf2f25d15c1ab1591686c0e0319b69e08");
}

// docs/store.md shows a complete record, which must be a valid one. Run in the build folder, as
// ctest does: __FILE__ is relative to it.
TEST(StoreRecord, TheDocumentedOneIsReal) {
  std::ifstream file(std::string(__FILE__).substr(0, std::string(__FILE__).rfind("tests/cpp/")) +
                     "docs/store.md");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = docs.find("dlblas-result 1\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string text = docs.substr(begin, docs.find("```", begin) - begin);
  Record record;
  EXPECT_EQ(parse(text, &record), Flaw::kNone);
  EXPECT_EQ(print(record), text);
}

Record rich_record() {
  Record r = sample_record(0);
  r.key.push_back({"cpu.model", "Prozessor µ, 2 × 3 GHz – 処理器 🚀"});
  r.env.push_back({"empty", ""});
  sort_fields(r.key);
  sort_fields(r.env);
  Record::Candidate failed = sample_candidate(1, 0);
  failed.failure = "wrong_result";
  failed.error = 1e300;
  r.candidates.push_back(failed);
  Record::Candidate odd = sample_candidate(2);
  odd.samples_ms = {0.1, 1e-9, 5e-324, 1.7976931348623157e308, 0, 1.0 / 3};
  odd.source_hash = "";
  r.candidates.push_back(odd);
  return r;
}

TEST(StoreRecord, ReadsBackWhatItWrote) {
  const Record record = rich_record();
  const std::string text = print(record);
  EXPECT_EQ(text.rfind("dlblas-result 1\nkey.cpu.model ", 0), 0u);
  Record back;
  ASSERT_EQ(parse(text, &back), Flaw::kNone);
  EXPECT_EQ(back, record);
  EXPECT_EQ(print(back), text);
}

TEST(StoreRecord, OneTextWhateverTheOrderOfFields) {
  Record shuffled = rich_record();
  std::reverse(shuffled.key.begin(), shuffled.key.end());
  std::reverse(shuffled.env.begin(), shuffled.env.end());
  EXPECT_EQ(print(shuffled), print(rich_record()));
  EXPECT_EQ(key_hash(shuffled.key), key_hash(rich_record().key));
}

TEST(StoreRecord, KeysDoNotRunIntoEachOther) {
  EXPECT_NE(key_hash({{"a", "b"}, {"c", "d"}}), key_hash({{"a", "bc"}, {"c", "d"}}));
  EXPECT_NE(key_hash({{"a", "1"}}), key_hash({{"a", "1"}, {"b", ""}}));
  EXPECT_NE(key_hash({{"a", "1 2"}}), key_hash({{"a", "1"}, {"b", "2"}}));
}

TEST(StoreRecord, ErrorWithoutANumberIsStoredAsHuge) {
  for (const double e : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Record r = sample_record(0);
    r.candidates[0].error = e;
    Record back;
    ASSERT_EQ(parse(print(r), &back), Flaw::kNone);
    EXPECT_EQ(back.candidates[0].error, 1e300);
  }
}

TEST(StoreRecord, AFailureKeepsItsWords) {
  for (const auto& [failure, note] : {std::pair{"crash", "by signal 11: in f(), \"line 3\""},
                                      {"crash", ""},
                                      {"launch_error", "a: b: c"}}) {
    Record r = sample_record(0);
    r.candidates[0].samples_ms.clear();
    r.candidates[0].failure = failure, r.candidates[0].note = note;
    Record back;
    ASSERT_EQ(parse(print(r), &back), Flaw::kNone);
    EXPECT_EQ(back, r);
  }
  for (const char* odd : {"crash: ", ": crash", "crash:", ":"}) {  // never written: kept as it is
    Record r = sample_record(0);
    r.candidates[0].samples_ms.clear();
    r.candidates[0].failure = odd;
    Record back;
    ASSERT_EQ(parse(print(r), &back), Flaw::kNone);
    EXPECT_EQ(back.candidates[0].failure, odd);
    EXPECT_EQ(print(back), print(r));
  }
}

TEST(StoreRecord, RefusesWhatItCouldNotReadBack) {
  const auto flaw = [](auto change) {
    Record r = rich_record(), back;
    change(r);
    const Flaw f = parse(print(r), &back);
    EXPECT_EQ(back, Record()) << "touched without success";
    return f;
  };
  EXPECT_EQ(flaw([](Record& r) { r.key.clear(); }), Flaw::kMissing);
  EXPECT_EQ(flaw([](Record& r) { r.candidates.clear(); }), Flaw::kMissing);
  EXPECT_EQ(flaw([](Record& r) { r.candidates[0].samples_ms.clear(); }), Flaw::kMissing);
  EXPECT_EQ(flaw([](Record& r) { r.candidates[0].implementation = ""; }), Flaw::kMissing);
  EXPECT_EQ(flaw([](Record& r) { r.candidates[0].samples_ms = {std::nan("")}; }), Flaw::kNumber);
  EXPECT_EQ(flaw([](Record& r) { r.candidates[0].samples_ms = {-1.0}; }), Flaw::kNumber);
  EXPECT_EQ(flaw([](Record& r) { r.candidates[0].samples_ms = {HUGE_VAL}; }), Flaw::kNumber);
  EXPECT_EQ(flaw([](Record& r) { r.candidates[1] = r.candidates[0]; }), Flaw::kDuplicate);
  EXPECT_EQ(flaw([](Record& r) { r.key.push_back({"op", "zzz"}); }), Flaw::kDuplicate);
  EXPECT_EQ(flaw([](Record& r) { r.key[0].name = "Upper"; }), Flaw::kUnknownLine);
  EXPECT_EQ(flaw([](Record& r) { r.key[0].name = std::string(65, 'a'); }), Flaw::kUnknownLine);
  EXPECT_EQ(flaw([](Record& r) { r.env[0].value = "two\nlines"; }), Flaw::kUnknownLine);
  EXPECT_EQ(flaw([](Record& r) { r.env[0].value = "a\nenv.zzz injected"; }), Flaw::kUnsorted);
  EXPECT_EQ(flaw([](Record& r) { r.env[0].value = std::string(kMaxRecordBytes, 'x'); }),
            Flaw::kTooLong);
  for (const char* bad : {"\t", "\x1b[31m", "\x7f", "\xc2\x9b", "\x80", "\xc0\xaf", "\xe0\x80\x80",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe2\x82"})
    EXPECT_EQ(flaw([&](Record& r) { r.env[0].value = bad; }), Flaw::kEncoding) << bad;
}

// Texts with a valid digest that print would not have written: by another version, or forged.
struct Forgery {
  const char* from;
  const char* to;
  Flaw flaw;
};

TEST(StoreRecord, ForgedTextsHaveDistinctReasons) {
  const Forgery kForgeries[] = {
      {"dlblas-result 1\n", "dlblas-result 2\n", Flaw::kVersion},
      {"dlblas-result 1\n", "dlblas-result 1 \n", Flaw::kVersion},
      {"dlblas-result 1\n", "", Flaw::kVersion},
      {"key.op rms_norm\n", "key.op rms_norm\nkey.op rms_norm\n", Flaw::kDuplicate},
      {"key.op rms_norm\n", "key.op rms_norm\nkey.a 1\n", Flaw::kUnsorted},
      {"cand.0.config", "env.zzz 1\nkey.zzz 1\ncand.0.config", Flaw::kUnsorted},
      {"cand.0.failure \n", "env.zzz 1\ncand.0.failure \n", Flaw::kUnsorted},
      {"cand.0.config", "pragma.once 1\ncand.0.config", Flaw::kUnknownLine},
      {"cand.0.config", "\ncand.0.config", Flaw::kUnknownLine},
      {"cand.0.config", "cand.0.colour red\ncand.0.config", Flaw::kUnknownLine},
      {"cand.0.config", "cand.00.config", Flaw::kUnknownLine},
      {"cand.0.config", "cand.-1.config", Flaw::kUnknownLine},
      {"cand.0.config", "cand.99999999999999999999.config", Flaw::kUnknownLine},
      {"cand.0.config", "cand..config", Flaw::kUnknownLine},
      {"cand.0.config", "cand.1.config", Flaw::kMissing},
      {"cand.0.default 1\n", "", Flaw::kMissing},
      {"cand.0.default 1\n", "cand.0.default 1\ncand.0.default 1\n", Flaw::kDuplicate},
      {"cand.0.source_hash 5eed\n", "", Flaw::kMissing},
      {"cand.0.default 1\n", "cand.0.default 2\n", Flaw::kNumber},
      {"cand.0.error 0.25\n", "cand.0.error 0.250\n", Flaw::kNumber},
      {"cand.0.error 0.25\n", "cand.0.error nan\n", Flaw::kNumber},
      {"cand.0.error 0.25\n", "cand.0.error inf\n", Flaw::kNumber},
      {"cand.0.error 0.25\n", "cand.0.error -0\n", Flaw::kNumber},
      {"cand.0.error 0.25\n", "cand.0.error 1e999\n", Flaw::kNumber},
      {"cand.0.error 0.25\n", "cand.0.error 0x1p3\n", Flaw::kNumber},
      {"cand.0.measured_at 1000\n", "cand.0.measured_at 1e3\n", Flaw::kNumber},
      {"cand.0.measured_at 1000\n", "cand.0.measured_at 9223372036854775807\n", Flaw::kNumber},
      {"cand.0.measured_at 1000\n", "cand.0.measured_at 9200000000000000001\n", Flaw::kNumber},
      {"cand.0.samples_ms ", "cand.0.samples_ms  ", Flaw::kNumber},
      {"\ncand.0.source_hash", " \ncand.0.source_hash", Flaw::kNumber},
      {"key.op rms_norm\n", "key.op rms_norm\r\n", Flaw::kEncoding},
  };
  for (const Forgery& f : kForgeries) {
    const std::string text = print(sample_record(0));
    std::string body = text.substr(0, text.size() - 72);
    const std::size_t at = body.find(f.from);
    ASSERT_NE(at, body.npos) << f.from;
    body.replace(at, std::string(f.from).size(), f.to);
    Record back;
    EXPECT_EQ(name_of(parse(seal(body), &back)), name_of(f.flaw)) << f.from << " -> " << f.to;
    EXPECT_EQ(back, Record());
  }
}

TEST(StoreRecord, TruncatedAtEveryByte) {
  const std::string text = print(rich_record());
  for (std::size_t n = 0; n < text.size(); ++n) {
    Record back;
    const Flaw flaw = parse(text.substr(0, n), &back);
    EXPECT_TRUE(flaw == Flaw::kTruncated || flaw == Flaw::kDigest) << n << " " << name_of(flaw);
    EXPECT_EQ(back, Record());
  }
}

TEST(StoreRecord, EveryBitOfEveryByteFlipped) {
  const std::string text = print(rich_record());
  for (std::size_t at = 0; at < text.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = text;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      Record back;
      ASSERT_NE(parse(bad, &back), Flaw::kNone) << "byte " << at << " bit " << bit;
    }
}

TEST(StoreRecord, BytesAddedOrDoubled) {
  const std::string text = print(rich_record());
  Record back;
  EXPECT_NE(parse(text + "\n", &back), Flaw::kNone);
  EXPECT_NE(parse(text + text, &back), Flaw::kNone);
  EXPECT_NE(parse("\xef\xbb\xbf" + text, &back), Flaw::kNone);
  EXPECT_NE(parse(std::string(text.size(), '\0'), &back), Flaw::kNone);
  EXPECT_EQ(parse(std::string(kMaxRecordBytes + 1, 'x'), &back), Flaw::kTooLong);
}

}  // namespace
}  // namespace dlblas
