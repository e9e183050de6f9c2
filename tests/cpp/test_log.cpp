// The log: to standard error, or to a program's own function, from any thread.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/digits.hpp"
#include "core/log.hpp"
#include "dlblas/dlblas.h"

namespace dlblas {
namespace {

struct Lines {
  std::vector<std::string> texts;
  static void take(void* self, std::int32_t level, const char* line) {
    static_cast<Lines*>(self)->texts.push_back(std::to_string(level) + " " + line);
  }
};

TEST(Log, GoesToTheProgramsFunctionUntilItIsTakenBack) {
  Lines lines;
  testing::internal::CaptureStderr();
  log(LogLevel::kWarn, "before");
  ASSERT_EQ(dlblas_set_log(Lines::take, &lines), DLBLAS_OK);
  log(LogLevel::kWarn, "a\x1b");
  log(LogLevel::kInfo, "more than DLBLAS_LOG asks for");
  ASSERT_EQ(dlblas_set_log(nullptr, nullptr), DLBLAS_OK);
  log(LogLevel::kWarn, "after");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "dlblas: before\ndlblas: after\n");
  EXPECT_EQ(lines.texts, (std::vector<std::string>{"1 a\\x1b"}));
}

TEST(Log, TimesAreMicrosecondsWithoutExponents) {
  EXPECT_EQ(microseconds(1.3204, "us"), "1320us");
  EXPECT_EQ(microseconds(0.0014, "us"), "1.4us");
  EXPECT_EQ(microseconds(0.99996), "1000 µs");
  EXPECT_EQ(microseconds(0.123456), "123.5 µs");
  EXPECT_EQ(microseconds(26596.4), "26596400 µs");
  EXPECT_EQ(microseconds(-1), "-");
}

TEST(Log, IsNotSetFromInsideTheFunction) {
  static dlblas_status status;
  const auto write = [](void*, std::int32_t, const char*) {
    status = dlblas_set_log(nullptr, nullptr);
    log(LogLevel::kWarn, "from inside");
  };
  ASSERT_EQ(dlblas_set_log(write, nullptr), DLBLAS_OK);
  testing::internal::CaptureStderr();
  log(LogLevel::kWarn, "once");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "dlblas: from inside\n");
  EXPECT_EQ(status, DLBLAS_ARGUMENT);
  ASSERT_EQ(dlblas_set_log(nullptr, nullptr), DLBLAS_OK);
}

// What the old function needs may be destroyed as soon as a new one is set, while other threads
// log.
TEST(Log, NoThreadIsInTheFunctionOfBefore) {
  struct Count {
    std::atomic<int> lines{0};
    std::atomic<bool> gone{false};
  };
  static std::atomic<int> late{0}, told{0};
  const auto write = [](void* self, std::int32_t, const char*) {
    auto& count = *static_cast<Count*>(self);
    if (count.gone) ++late;
    ++count.lines;
    ++told;
  };
  auto first = std::make_unique<Count>();
  ASSERT_EQ(dlblas_set_log(write, first.get()), DLBLAS_OK);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) log(LogLevel::kWarn, "line");
    });
  for (int i = 0; i < 50; ++i) {
    auto next = std::make_unique<Count>();
    ASSERT_EQ(dlblas_set_log(write, next.get()), DLBLAS_OK);
    first->gone = true;
    first = std::move(next);
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(dlblas_set_log(nullptr, nullptr), DLBLAS_OK);
  EXPECT_EQ(late, 0);
  EXPECT_EQ(told, 2000);
}

}  // namespace
}  // namespace dlblas
