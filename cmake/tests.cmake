# C++ tests: every tests/cpp/test_*.cpp is one GoogleTest program over the library's objects, run by ctest.
# GoogleTest comes from the system, or from build/deps, where tools/setup.py unpacks Debian's.
file(GLOB test_sources CONFIGURE_DEPENDS tests/cpp/test_*.cpp)
find_package(GTest CONFIG QUIET HINTS ${PROJECT_SOURCE_DIR}/build/deps/usr)
if(test_sources AND NOT GTest_FOUND)
  message(STATUS "No GoogleTest, so no C++ tests: install libgtest-dev, or run `make test`")
elseif(test_sources)
  enable_testing()
  include(GoogleTest)
  # The programs are a third of a build; they take two thirds as long to compile as at -O3.
  set(test_speed $<$<CONFIG:Release>:-O1>)
  foreach(source IN LISTS test_sources)
    cmake_path(GET source STEM name)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE dlblas_objects GTest::gtest_main)
    target_compile_options(${name} PRIVATE ${test_speed})
    if(DLBLAS_PCH AND NOT owner)
      set(owner ${name})
      target_precompile_headers(${name} PRIVATE <gtest/gtest.h> ${standard_headers})
    elseif(DLBLAS_PCH)
      target_precompile_headers(${name} REUSE_FROM ${owner})
    endif()
    add_dependencies(${name} dlblas_generated)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300)
  endforeach()
  # A driver without a GPU, for tests of what depends on a stream's state.
  add_library(stub_driver MODULE tests/stubs/driver.cpp)
  set_target_properties(stub_driver PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME libcuda.so.1
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/stubs)
  add_dependencies(test_capture stub_driver)
  target_compile_definitions(test_capture PRIVATE STUBS="${PROJECT_BINARY_DIR}/stubs")
  # The battery on the store and the cubins: sampled here by a printed seed, whole by tools/reliability.
  file(GLOB battery_sources CONFIGURE_DEPENDS tests/store_battery/*.cpp)
  add_executable(store_battery ${battery_sources})
  target_link_libraries(store_battery PRIVATE dlblas_objects GTest::gtest)
  # g++ 12 warns wrongly of a char that std::string's operator+ copies.
  target_compile_options(store_battery PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_dependencies(store_battery dlblas_generated)
  add_test(NAME store_battery COMMAND store_battery --sample)
  set(battery_seconds 300)
  if(DLBLAS_SANITIZE)
    set(battery_seconds 1500)  # thousands of forks, each with a sanitizer's shadow
  endif()
  set_tests_properties(store_battery PROPERTIES TIMEOUT ${battery_seconds})
  # The corpora of the parsers' fuzzers, each input once; fuzzed by tools/fuzz.py.
  file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.cpp)
  foreach(source IN LISTS fuzz_sources)
    cmake_path(GET source STEM name)
    string(REPLACE fuzz_ "" name ${name})
    file(GLOB corpus CONFIGURE_DEPENDS tests/fuzz/corpus/${name}/*)
    add_executable(replay_${name} ${source} tests/fuzz/replay.cpp)
    target_link_libraries(replay_${name} PRIVATE dlblas_objects)
    target_compile_options(replay_${name} PRIVATE ${test_speed})
    add_dependencies(replay_${name} dlblas_generated)
    add_test(NAME corpus_${name} COMMAND replay_${name} ${corpus})
    set_tests_properties(corpus_${name} PROPERTIES TIMEOUT 60)
  endforeach()
  # The driver's real header, where a toolkit is installed: our prototypes are compared with it.
  find_path(DLBLAS_CUDA_INCLUDE cuda.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
  if(DLBLAS_CUDA_INCLUDE)
    target_compile_definitions(test_cuda_prototypes PRIVATE
      DLBLAS_CUDA_HEADER="${DLBLAS_CUDA_INCLUDE}/cuda.h")
  endif()
  # cuBLASLt's likewise; it includes the runtime's headers beside it.
  find_path(DLBLAS_CUBLASLT_INCLUDE cublasLt.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
  if(DLBLAS_CUBLASLT_INCLUDE AND EXISTS "${DLBLAS_CUBLASLT_INCLUDE}/driver_types.h")
    target_include_directories(test_cublaslt_prototypes SYSTEM PRIVATE "${DLBLAS_CUBLASLT_INCLUDE}")
    target_compile_definitions(test_cublaslt_prototypes PRIVATE
      DLBLAS_CUBLASLT_HEADER="${DLBLAS_CUBLASLT_INCLUDE}/cublasLt.h")
  endif()
endif()

# Every kernel of the registry, compiled without a GPU; run by tests/test_compile_all.py.
add_executable(dlblas_compile_all tools/compile_all.cpp)
target_link_libraries(dlblas_compile_all PRIVATE dlblas_objects)
add_dependencies(dlblas_compile_all dlblas_generated)

# What implementations say of themselves, for the pages of `make docs` and tests/test_website.py.
add_executable(dlblas_describe tools/describe.cpp)
target_link_libraries(dlblas_describe PRIVATE dlblas_objects)
add_dependencies(dlblas_describe dlblas_generated)
