# The targets of the CMake package inside the Python package, lib/cmake/dlblas: dlblas::dlblas, by paths relative to
# this file. (An installed tree has a dlblasTargets.cmake of install(EXPORT), cmake/install.cmake.)
if(NOT TARGET dlblas::dlblas)
  get_filename_component(dlblas_package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(dlblas::dlblas SHARED IMPORTED)
  set_target_properties(dlblas::dlblas PROPERTIES
    IMPORTED_LOCATION "${dlblas_package}/lib/libdlblas.so"
    INTERFACE_INCLUDE_DIRECTORIES "${dlblas_package}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
  unset(dlblas_package)
endif()
