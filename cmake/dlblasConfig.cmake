# find_package(dlblas [COMPONENTS shared static]): targets dlblas::dlblas, and dlblas::static where libdlblas.a was
# installed (-DDLBLAS_STATIC=ON). Installed as it stands by cmake/install.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/dlblasTargets.cmake)
set(dlblas_shared_FOUND TRUE)
set(dlblas_static_FOUND FALSE)
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/dlblasStaticTargets.cmake)
  include(CMakeFindDependencyMacro)
  find_dependency(Threads)
  include(${CMAKE_CURRENT_LIST_DIR}/dlblasStaticTargets.cmake)
  set(dlblas_static_FOUND TRUE)
endif()
foreach(component IN LISTS dlblas_FIND_COMPONENTS)
  if(dlblas_FIND_REQUIRED_${component} AND NOT dlblas_${component}_FOUND)
    set(dlblas_FOUND FALSE)
    set(dlblas_NOT_FOUND_MESSAGE "dlblas is installed in ${CMAKE_CURRENT_LIST_DIR} without its component \
'${component}'; there are shared and, from a build with -DDLBLAS_STATIC=ON, static.")
  endif()
endforeach()
