# Files made from the tree, in <build>/generated: the version, one explicit call per operator (static constructors
# vanish in static links), and the hashes of the kernels' sources.
# In: VERSION, ops/*, cpu/*. Out: ${DLBLAS_GENERATED}/…, included as "generated/…" and <dlblas/version.h>.
if(NOT DEFINED DLBLAS_GENERATED)  # a folder named generated
  set(DLBLAS_GENERATED ${PROJECT_BINARY_DIR}/generated)
endif()
get_filename_component(generated_parent ${DLBLAS_GENERATED} DIRECTORY)

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${DLBLAS_GENERATED}/include/dlblas/version.h @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${DLBLAS_GENERATED}/dlblasConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# An operator's room is a folder ops/<family>/<op>/ that holds <op>.cpp, which defines OperatorDef <family>::<op>().
# Other folders of a family, and of a room, hold sources alone.
set(rooms "")
set(families "")
set(declarations "")
set(calls "")
set(definitions ${dlblas_kernels})
list(FILTER definitions INCLUDE REGEX "^ops/[^/]+/[^/]+/[^/]+\\.cpp$")
list(SORT definitions)
foreach(source IN LISTS definitions)
  string(REGEX MATCH "^ops/([^/]+)/([^/]+)/([^/]+)\\.cpp$" _ ${source})
  set(family ${CMAKE_MATCH_1})
  set(op ${CMAKE_MATCH_2})
  if(CMAKE_MATCH_3 STREQUAL op)
    string(APPEND declarations "namespace ${family} {\nOperatorDef ${op}();\n}\n")
    string(APPEND calls "  registry.add(${family}::${op}());\n")
    list(APPEND rooms ${family}/${op})
    list(APPEND families ${family})
  endif()
endforeach()
list(REMOVE_DUPLICATES families)
configure_file(${PROJECT_SOURCE_DIR}/cmake/register_all.cpp.in ${DLBLAS_GENERATED}/register_all.cpp @ONLY)

# What families offer in Python beside their operators, ops/<family>/api.py: one module that has all of it.
file(GLOB faces RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ops/*/api.py)
list(TRANSFORM faces REPLACE "^ops/([^/]+)/.*$" "\\1")
set(face_imports "")
set(face_names "")
set(face_stubs "")
foreach(family IN LISTS faces)
  string(APPEND face_imports "from .ops import ${family}_api\nfrom .ops.${family}_api import *  # noqa: F403\n")
  string(APPEND face_names "__all__ += ${family}_api.__all__\n")
  string(APPEND face_stubs "from .ops.${family}_api import *\n")
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/faces.py.in ${DLBLAS_GENERATED}/python/dlblas/_faces.py @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/faces.pyi.in ${DLBLAS_GENERATED}/python/dlblas/_faces.pyi @ONLY)

# Their operators whose functions take more than their schemas say, ops/<family>/calls.pyi.
file(GLOB call_stubs RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ops/*/calls.pyi)
list(TRANSFORM call_stubs REPLACE "^ops/([^/]+)/.*$" "from .ops.\\1_calls import *")
list(JOIN call_stubs "\n" call_stubs)
configure_file(${PROJECT_SOURCE_DIR}/cmake/calls.pyi.in ${DLBLAS_GENERATED}/python/dlblas/_calls.pyi @ONLY)

# The hashes are made again when any file a kernel may include changes; the file is written only when a hash did.
file(GLOB_RECURSE kernel_files CONFIGURE_DEPENDS
  ops/*.cpp ops/*.hpp ops/*.cuh cpu/*.cpp cpu/*.hpp device/*.cuh device/*.hpp)
add_custom_command(
  OUTPUT ${DLBLAS_GENERATED}/source_hashes.cpp
  COMMAND ${CMAKE_COMMAND} -DTREE=${PROJECT_SOURCE_DIR} -DOUTPUT=${DLBLAS_GENERATED}/source_hashes.cpp
          -P ${PROJECT_SOURCE_DIR}/cmake/source_hashes.cmake
  DEPENDS ${kernel_files} ${PROJECT_SOURCE_DIR}/cmake/source_hashes.cmake
  COMMENT "Hashing the kernels' sources"
  VERBATIM)

# The text of every header that NVRTC may be given, as one source file of the library.
file(GLOB_RECURSE embedded_files CONFIGURE_DEPENDS device/*.hpp device/*.cuh ops/*.cuh ops/*.hpp)
add_custom_command(
  OUTPUT ${DLBLAS_GENERATED}/embedded_headers.cpp
  COMMAND ${CMAKE_COMMAND} -DTREE=${PROJECT_SOURCE_DIR} -DOUTPUT=${DLBLAS_GENERATED}/embedded_headers.cpp
          -P ${PROJECT_SOURCE_DIR}/cmake/embedded_headers.cmake
  DEPENDS ${embedded_files} ${PROJECT_SOURCE_DIR}/cmake/embedded_headers.cmake
  COMMENT "Embedding the device headers"
  VERBATIM)
