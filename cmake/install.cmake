# `cmake --install`: the library, the public headers, a package that find_package(dlblas) reads, and one of pkg-config.
# Every path in them is relative to the package, so the tree may move. Components: runtime (the shared library and its worker),
# development (the rest).
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
file(RELATIVE_PATH DLBLAS_PC_UP /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
set(DLBLAS_PC_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR})
set(DLBLAS_PC_RPATH "")
configure_file(cmake/dlblas.pc.in ${DLBLAS_GENERATED}/pkgconfig/dlblas.pc @ONLY)
install(FILES ${DLBLAS_GENERATED}/pkgconfig/dlblas.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)
install(FILES cmake/dlblasConfig.cmake ${DLBLAS_GENERATED}/dlblasConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)
