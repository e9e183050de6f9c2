# `cmake --install`: the library, the public headers, and a package that find_package(dlblas) reads. Every path in it
# is relative to the package, so the tree may move. Components: runtime (the shared library and its worker),
# development (the rest).
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dlblas)

install(TARGETS dlblas EXPORT dlblas LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT runtime NAMELINK_COMPONENT development)
install(EXPORT dlblas NAMESPACE dlblas:: FILE dlblasTargets.cmake DESTINATION ${package_dir} COMPONENT development)
if(DLBLAS_STATIC)
  install(TARGETS dlblas_static EXPORT dlblas_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT dlblas_static NAMESPACE dlblas:: FILE dlblasStaticTargets.cmake DESTINATION ${package_dir}
    COMPONENT development)
endif()
install(TARGETS dlblas_worker RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(DIRECTORY include/dlblas ${DLBLAS_GENERATED}/include/dlblas DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
write_basic_package_version_file(${DLBLAS_GENERATED}/dlblasConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/dlblasConfig.cmake ${DLBLAS_GENERATED}/dlblasConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)
