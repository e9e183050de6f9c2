# Files made from the tree, in <build>/generated: the version, one explicit register_<family>() call a folder
# (static constructors vanish in static links), and the hashes of the kernels' sources.
# In: VERSION, ops/*, cpu/*. Out: ${DLBLAS_GENERATED}/…, included as "generated/…" and <dlblas/version.h>.
set(DLBLAS_GENERATED ${PROJECT_BINARY_DIR}/generated)

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${DLBLAS_GENERATED}/include/dlblas/version.h @ONLY)

# A family is a folder under ops/ with at least one source: register_<family>() hands over the operators that lie in
# it. An operator in a room of its own, ops/<family>/<op>/<op>.cpp, defines OperatorDef <family>::<op>().
set(families ${dlblas_kernels})
list(FILTER families INCLUDE REGEX "^ops/[^/]+/[^/]+\\.cpp$")
list(TRANSFORM families REPLACE "^ops/([^/]+)/.*$" "\\1")
list(REMOVE_DUPLICATES families)
list(SORT families)
set(rooms ${dlblas_kernels})
list(FILTER rooms INCLUDE REGEX "^ops/[^/]+/([^/]+)/[^/]+\\.cpp$")
list(TRANSFORM rooms REPLACE "^ops/([^/]+/[^/]+)/.*$" "\\1")
list(REMOVE_DUPLICATES rooms)
list(SORT rooms)
set(declarations "")
set(calls "")
foreach(family IN LISTS families)
  string(APPEND declarations "void register_${family}(Registry&);\n")
  string(APPEND calls "  register_${family}(registry);\n")
endforeach()
foreach(room IN LISTS rooms)
  cmake_path(GET room PARENT_PATH family)
  cmake_path(GET room FILENAME op)
  string(APPEND declarations "namespace ${family} {\nOperatorDef ${op}();\n}\n")
  string(APPEND calls "  registry.add(${family}::${op}());\n")
  list(APPEND families ${family})
endforeach()
list(REMOVE_DUPLICATES families)
list(SORT families)
configure_file(${PROJECT_SOURCE_DIR}/cmake/register_all.cpp.in ${DLBLAS_GENERATED}/register_all.cpp @ONLY)

# What families offer in Python beside their operators, ops/<family>/api.py: one module that has all of it.
file(GLOB faces RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ops/*/api.py)
list(TRANSFORM faces REPLACE "^ops/([^/]+)/.*$" "\\1")
set(face_imports "")
set(face_names "")
foreach(family IN LISTS faces)
  string(APPEND face_imports "from .ops import ${family}_api\nfrom .ops.${family}_api import *  # noqa: F403\n")
  string(APPEND face_names "__all__ += ${family}_api.__all__\n")
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/faces.py.in ${DLBLAS_GENERATED}/python/dlblas/_faces.py @ONLY)

# The hashes are made again when any file a kernel may include changes; the header is written only when a hash
# did. Only files that register implementations include it.
file(GLOB_RECURSE kernel_files CONFIGURE_DEPENDS
  ops/*.cpp ops/*.hpp ops/*.cuh cpu/*.cpp cpu/*.hpp device/*.cuh device/*.hpp)
add_custom_command(
  OUTPUT ${DLBLAS_GENERATED}/source_hashes.hpp
  COMMAND ${CMAKE_COMMAND} -DTREE=${PROJECT_SOURCE_DIR} -DOUTPUT=${DLBLAS_GENERATED}/source_hashes.hpp
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
