// Tables of knobs: how many members they hold. Read next: core/config.hpp.
#include "core/config.hpp"

#include <gtest/gtest.h>

namespace dlblas {
namespace {

std::vector<Knob> knobs(int count) {
  return std::vector<Knob>(static_cast<std::size_t>(count), Knob{"knob", {0, 1}, {}});
}

TEST(Config, ATableHasNoMoreMembersThanAConfigHolds) {
  EXPECT_EQ(KnobTable(knobs(kMaxKnobs)).size(), kMaxKnobs);
  try {
    KnobTable more(knobs(kMaxKnobs + 1));
    FAIL() << more.size();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(error.what()).find("17 members"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dlblas
