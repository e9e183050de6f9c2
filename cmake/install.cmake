# `cmake --install`: the library, the public headers, and a package that find_package(dlblas) reads.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dlblas)

install(TARGETS dlblas EXPORT dlblas LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/dlblas ${DLBLAS_GENERATED}/include/dlblas DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT dlblas NAMESPACE dlblas:: FILE dlblasTargets.cmake DESTINATION ${package_dir})
file(WRITE ${DLBLAS_GENERATED}/dlblasConfig.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/dlblasTargets.cmake)\n")
write_basic_package_version_file(${DLBLAS_GENERATED}/dlblasConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${DLBLAS_GENERATED}/dlblasConfig.cmake ${DLBLAS_GENERATED}/dlblasConfigVersion.cmake
  DESTINATION ${package_dir})
