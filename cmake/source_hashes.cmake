# cmake -DTREE=… -DOUTPUT=… -P source_hashes.cmake: writes the digits of source_hash<path>() (core/source_hash.hpp) for
# every ops/**.cpp, ops/**_program.hpp and cpu/*.cpp.
# A hash covers the source and, transitively, its quoted includes under ops/, cpu/ and device/, and the kernels it
# hands to the JIT (string literals "ops/….cuh"): the files that
# decide what a kernel computes and how fast. Headers of src/ are contracts between stages, not loops, and are left out;
# so are lines that are comments alone, and white space: what a user's searches found holds after a word is mended and
# after the formatter breaks a line elsewhere.
# A row program has two: with the loops of CPUs, and as "<path>:cuda" with the kernels of GPUs.
# A source that names a path outside the table stops the build.
cmake_policy(VERSION 3.25)

# The quoted includes of `file` (relative to the tree) that lie in a hashed folder.
function(includes_of file result)
  get_property(known GLOBAL PROPERTY "includes:${file}" SET)
  if(NOT known)
    file(STRINGS "${TREE}/${file}" lines REGEX "^[ \t]*#[ \t]*include[ \t]+\"")
    cmake_path(GET file PARENT_PATH here)
    set(found "")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^[^\"]*\"([^\"]+)\".*$" "\\1" name "${line}")
      foreach(candidate IN ITEMS "${here}/${name}" "${name}")
        cmake_path(NORMAL_PATH candidate)
        if(candidate MATCHES "^(ops|cpu|device)/" AND EXISTS "${TREE}/${candidate}")
          list(APPEND found "${candidate}")
          # A family's CUDA helpers pack parameters and choose accesses: their source counts too.
          string(REGEX REPLACE "_cuda\\.hpp$" "_cuda.cpp" beside "${candidate}")
          if(NOT beside STREQUAL candidate AND EXISTS "${TREE}/${beside}")
            list(APPEND found "${beside}")
          endif()
          break()
        endif()
      endforeach()
    endforeach()
    file(STRINGS "${TREE}/${file}" lines REGEX "\"(ops|device)/[A-Za-z0-9_/]+\\.cuh\"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^[^\"]*\"((ops|device)/[A-Za-z0-9_/]+\\.cuh)\".*$" "\\1" name "${line}")
      if(EXISTS "${TREE}/${name}")
        list(APPEND found "${name}")
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY "includes:${file}" "${found}")
  endif()
  get_property(found GLOBAL PROPERTY "includes:${file}")
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# A SHA-256 over the text of `file`, without white space and without lines that are comments alone.
function(digest_of file result)
  get_property(known GLOBAL PROPERTY "digest:${file}" SET)
  if(NOT known)
    file(READ "${TREE}/${file}" text)
    string(REGEX REPLACE "\n[ \t]*//[^\n]*" "" text "\n${text}")
    string(REGEX REPLACE "[ \t\r\n]+" "" text "${text}")
    string(SHA256 digest "${text}")
    set_property(GLOBAL PROPERTY "digest:${file}" "${digest}")
  endif()
  get_property(digest GLOBAL PROPERTY "digest:${file}")
  set(${result} "${digest}" PARENT_SCOPE)
endfunction()

# The first 16 hex digits of a SHA-256 over the closure's paths and contents, in path order.
function(hash_of name result)
  string(REGEX REPLACE ":cuda$" "" source "${name}")
  set(closure "${source}")
  set(on_cpus FALSE)
  if(source STREQUAL name AND source MATCHES "_program\\.hpp$")
    list(APPEND closure "cpu/row/walk_rows.hpp")  # what walks it on CPUs
    set(on_cpus TRUE)
  endif()
  set(pending "${closure}")
  while(pending)
    list(POP_FRONT pending file)
    includes_of("${file}" found)
    foreach(header IN LISTS found)
      if(NOT header IN_LIST closure)
        list(APPEND closure "${header}")
        list(APPEND pending "${header}")
        if(header STREQUAL "cpu/gemm/code.hpp")  # the level's loops, and those around them
          string(REGEX REPLACE "^.*_([a-z0-9]+)\\.cpp$" "\\1" level "${source}")
          foreach(loops IN ITEMS run blocks_${level} few_rows_${level})
            if(EXISTS "${TREE}/cpu/gemm/${loops}.cpp" AND NOT "cpu/gemm/${loops}.cpp" IN_LIST closure)
              list(APPEND closure "cpu/gemm/${loops}.cpp")
              list(APPEND pending "cpu/gemm/${loops}.cpp")
            endif()
          endforeach()
        elseif(header STREQUAL "cpu/gemm/onednn_product.hpp")
          list(APPEND closure "cpu/gemm/onednn_product.cpp")  # the primitives
          list(APPEND pending "cpu/gemm/onednn_product.cpp")
        endif()
      endif()
    endforeach()
  endwhile()
  if(on_cpus)
    list(FILTER closure EXCLUDE REGEX "\\.cuh$")
  endif()
  list(SORT closure)
  set(text "")
  foreach(file IN LISTS closure)
    digest_of("${file}" digest)
    string(APPEND text "${file} ${digest}\n")
  endforeach()
  string(SHA256 digest "${text}")
  string(SUBSTRING "${digest}" 0 16 digest)
  set(${result} "${digest}" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE sources RELATIVE "${TREE}" "${TREE}/cpu/*.cpp" "${TREE}/ops/*.cpp" "${TREE}/ops/*_program.hpp")
list(SORT sources)
set(rows "")
foreach(source IN LISTS sources)
  set(names "${source}")
  if(source MATCHES "_program\\.hpp$")
    list(APPEND names "${source}:cuda")
  endif()
  foreach(name IN LISTS names)
    hash_of("${name}" digest)
    string(APPEND rows "template <>\nconst char SourceHash<\"${name}\">::kDigits[17] = \"${digest}\";\n")
  endforeach()
  file(STRINGS "${TREE}/${source}" lines REGEX "source_hash<\"[^\"]+\">")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^.*source_hash<\"([^\"]+)\">.*$" "\\1" named "${line}")
    if(NOT named IN_LIST sources)
      message(FATAL_ERROR "${source}: source_hash<\"${named}\"> names no source of a kernel; expected ops/….cpp, "
        "ops/…_program.hpp or cpu/….cpp")
    endif()
  endforeach()
endforeach()
set(text "// Made by cmake/source_hashes.cmake, which says what a hash covers.
#include \"core/source_hash.hpp\"

namespace dlblas {

${rows}
}  // namespace dlblas
")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE "${OUTPUT}" "${text}")
endif()
