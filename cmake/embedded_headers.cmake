# cmake -DTREE=… -DOUTPUT=… -P embedded_headers.cmake: writes the table behind src/jit/headers.hpp, so that an
# installed library compiles its kernels with no file of the tree. CMake reads files as lists of lines at best;
# file(READ) keeps semicolons and brackets as they are when the text is only appended, never expanded as a list.
cmake_policy(VERSION 3.25)
# The device headers, the families' kernels and oracles, and whatever these include by a quoted name.
file(GLOB_RECURSE headers RELATIVE "${TREE}" "${TREE}/device/*.hpp" "${TREE}/device/*.cuh" "${TREE}/ops/*.cuh"
  "${TREE}/ops/*_program.hpp" "${TREE}/ops/*_ref.hpp")
set(pending "${headers}")
while(pending)
  list(POP_FRONT pending header)
  file(STRINGS "${TREE}/${header}" lines REGEX "^[ \t]*#[ \t]*include[ \t]+\"")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[^\"]*\"([^\"]+)\".*$" "\\1" name "${line}")
    if(NOT name IN_LIST headers AND EXISTS "${TREE}/${name}")
      list(APPEND headers "${name}")
      list(APPEND pending "${name}")
    endif()
  endforeach()
endwhile()
list(SORT headers)
set(rows "")
foreach(header IN LISTS headers)
  file(READ "${TREE}/${header}" source)
  string(APPEND rows "    {\"${header}\", R\"dlblas(${source})dlblas\"sv},\n")
endforeach()
set(text "// Made by cmake/embedded_headers.cmake.
#include \"jit/headers.hpp\"

namespace dlblas::jit::detail {
namespace {
using namespace std::string_view_literals;
// Lengths come with the literals: counting a megabyte exceeds what a compiler evaluates.
constexpr Embedded kTable[] = {
${rows}};
}  // namespace

const Embedded* const kEmbedded = kTable;
const int kNumEmbedded = static_cast<int>(sizeof(kTable) / sizeof(kTable[0]));

}  // namespace dlblas::jit::detail
")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE "${OUTPUT}" "${text}")
endif()
