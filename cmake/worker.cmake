# Measuring in a worker process. Out: dlblas_worker, beside the library, for programs that are not Python, which start
# `python -m dlblas._worker`. The build id tells a worker of another build from one of ours.
include(CheckLinkerFlag)
check_linker_flag(CXX -Wl,--build-id=sha1 DLBLAS_HAS_BUILD_ID)
target_link_options(dlblas PRIVATE $<$<BOOL:${DLBLAS_HAS_BUILD_ID}>:-Wl,--build-id=sha1>)

add_executable(dlblas_worker tools/worker.cpp)
target_link_libraries(dlblas_worker PRIVATE dlblas)
set_target_properties(dlblas_worker PROPERTIES INSTALL_RPATH "$ORIGIN")
if(SKBUILD)  # goes into the wheel as it is
  set_target_properties(dlblas_worker PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  target_link_options(dlblas_worker PRIVATE $<$<CONFIG:Release>:-s>)
endif()
