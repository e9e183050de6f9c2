# The library: one set of objects, linked into libdlblas.so and into the C++ tests (which see inside it).
# Out: targets dlblas_objects and dlblas (alias dlblas::dlblas). An ISA file is known by its suffix.
set(isa_flags_avx2 -mavx2 -mfma -mf16c)
set(isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c)
set(isa_flags_avx512vnni ${isa_flags_avx512} -mavx512vnni)
set(isa_flags_avx512bf16 ${isa_flags_avx512} -mavx512bf16)
set(isa_flags_amx ${isa_flags_avx512bf16} -mavx512vnni -mamx-tile -mamx-bf16 -mamx-int8)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Its scheduler spills sums of a register tile that needs all 16: matmul of 256x256x256 took 0.70 ms, without it
  # 0.34 (clang 22, Zen 4, one thread; g++ 12: 0.32).
  list(APPEND isa_flags_avx2 -mllvm -enable-misched=false)
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(DLBLAS_X86 ON)
else()
  set(DLBLAS_X86 OFF)
  list(FILTER dlblas_kernels EXCLUDE REGEX "_(avx2|avx512|avx512vnni|avx512bf16|amx)\\.cpp$")
endif()
# Kernels may contract a*b+c; everything else (the oracle above all) rounds as written. Under sanitizers they are
# built with -O1: at -O3 matmul_avx512.cpp alone took 255 s (g++ 12, ASan + UBSan).
if(DLBLAS_SANITIZE)
  set(kernel_speed -O1)
else()
  if(DLBLAS_DEBUG)
    set(kernel_speed "$<$<NOT:$<CONFIG:Debug>>:-O3>")
  else()
    set(kernel_speed -O3)
  endif()
endif()
# Row programs round as written: an element has the same bits whether it stands in a row's body or at its end. Their
# loops are unrolled and vectorised by hand: -O3 makes a quarter more code of them, which is no faster.
string(REPLACE -O3 -O2 program_speed "${kernel_speed}")
foreach(level IN ITEMS baseline avx2 avx512 avx512vnni avx512bf16 amx)
  set(files ${dlblas_kernels})
  list(FILTER files INCLUDE REGEX "_${level}\\.cpp$")
  set(programs ${files})
  list(FILTER files EXCLUDE REGEX "/generated/rows/")
  list(FILTER programs INCLUDE REGEX "/generated/rows/")
  set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS
    "${kernel_speed};-ffp-contract=fast;${isa_flags_${level}}")
  set_source_files_properties(${programs} PROPERTIES COMPILE_OPTIONS
    "${program_speed};-ffp-contract=off;${isa_flags_${level}}")
endforeach()

add_library(dlblas_objects OBJECT ${dlblas_sources} ${dlblas_kernels}
  ${DLBLAS_GENERATED}/register_all.cpp ${DLBLAS_GENERATED}/source_hashes.cpp
  ${DLBLAS_GENERATED}/embedded_headers.cpp ${DLBLAS_GENERATED}/row_programs.cpp)
set_target_properties(dlblas_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(dlblas_objects PUBLIC
  ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
  ${generated_parent} ${DLBLAS_GENERATED}/include)
target_compile_definitions(dlblas_objects PUBLIC DLBLAS_BUILDING $<$<BOOL:${DLBLAS_X86}>:DLBLAS_X86>)
target_compile_options(dlblas_objects PUBLIC
  -Wall -Wextra -Wshadow $<$<BOOL:${DLBLAS_WERROR}>:-Werror> -ffp-contract=off
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # g++ 12 warns wrongly of std::string's operator+ (GCC bug 105651)
  $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
# A project that adds this one may set no build type, or Debug for its own sake: a call would take five times as long.
# On the library's objects alone; the project's settings stay as they are. Release is -O2 as well: at -O3 all but the
# kernels, which say their own level, take half as long again to compile (an oracle in f64 is a fifth faster there).
if(NOT DLBLAS_SANITIZE)
  target_compile_options(dlblas_objects PRIVATE "$<$<CONFIG:>:-O2;-DNDEBUG>")
  if(CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3")
    target_compile_options(dlblas_objects PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
  if(NOT DLBLAS_DEBUG)
    target_compile_options(dlblas_objects PRIVATE "$<$<CONFIG:Debug>:-O2;-DNDEBUG>")
  endif()
endif()
target_link_libraries(dlblas_objects PUBLIC Threads::Threads ${CMAKE_DL_LIBS} m)

# Half of what most files take is the standard library's headers. Levels have flags of their own, which cannot share them.
if(DLBLAS_PCH)
  set(standard_headers <algorithm> <array> <atomic> <bit> <cmath> <cstring> <filesystem> <functional> <map> <memory>
    <mutex> <numeric> <optional> <set> <string> <string_view> <unordered_map> <vector>)
  target_precompile_headers(dlblas_objects PRIVATE ${standard_headers})
  set(levels ${dlblas_kernels})
  list(FILTER levels INCLUDE REGEX "_(baseline|avx2|avx512|avx512vnni|avx512bf16|amx)\\.cpp$")
  set_source_files_properties(${levels} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endif()

add_library(dlblas SHARED)
add_library(dlblas::dlblas ALIAS dlblas)
target_link_libraries(dlblas PRIVATE dlblas_objects)
if(SKBUILD)  # a wheel holds no links: the file's one name is the one that programs ask for
  target_link_options(dlblas PRIVATE $<$<CONFIG:Release>:-s>)
else()
  set_target_properties(dlblas PROPERTIES SOVERSION ${PROJECT_VERSION_MAJOR} VERSION ${PROJECT_VERSION})
endif()
set_target_properties(dlblas PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
target_include_directories(dlblas INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${DLBLAS_GENERATED}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(dlblas INTERFACE cxx_std_20)
# Hidden visibility alone still exports std symbols; libgcc_s stays shared, or an exception that crosses it aborts.
# zig's linker driver knows no --exclude-libs; the version script alone hides as much.
include(CheckLinkerFlag)
check_linker_flag(CXX -Wl,--exclude-libs,ALL DLBLAS_HAS_EXCLUDE_LIBS)
target_link_options(dlblas PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map
  $<$<BOOL:${DLBLAS_HAS_EXCLUDE_LIBS}>:-Wl,--exclude-libs,ALL>)
if(DLBLAS_SANITIZE)
  target_compile_options(dlblas_objects PUBLIC
    -fsanitize=${DLBLAS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(dlblas_objects PUBLIC -fsanitize=${DLBLAS_SANITIZE})
  target_link_options(dlblas INTERFACE -fsanitize=${DLBLAS_SANITIZE})
else()
  target_link_options(dlblas PRIVATE -static-libstdc++ -Wl,-z,defs -Wl,-z,nodelete)
endif()

# Operator functions for C++, stubs for Python and the operators' page, written from the registry by a program over
# the library's objects: dlblas_generate <out> writes <out>/include/dlblas/ops.hpp, <out>/python/dlblas/_ops.pyi
# and <out>/docs/operators.md.
add_executable(dlblas_generate tools/generate.cpp)
target_link_libraries(dlblas_generate PRIVATE dlblas_objects)
add_custom_command(
  OUTPUT ${DLBLAS_GENERATED}/include/dlblas/ops.hpp
  COMMAND dlblas_generate ${DLBLAS_GENERATED}
  DEPENDS dlblas_generate
  COMMENT "Writing the operator functions"
  VERBATIM)
add_custom_target(dlblas_generated ALL DEPENDS ${DLBLAS_GENERATED}/include/dlblas/ops.hpp)
add_dependencies(dlblas dlblas_generated)  # users of dlblas (FetchContent too) find <dlblas/ops.hpp>
