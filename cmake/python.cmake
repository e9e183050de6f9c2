# The Python package, staged in <build>/python as links into the tree: editing Python needs no rebuild.
# Runs with every build (it is cheap), so new and removed files are seen.
add_custom_target(python_stage ALL
  COMMAND ${CMAKE_COMMAND} -DTREE=${PROJECT_SOURCE_DIR} -DGENERATED=${DLBLAS_GENERATED}
          -DLIBRARY=$<TARGET_FILE:dlblas>
          -DSONAME=$<TARGET_SONAME_FILE_NAME:dlblas> -DWORKER=$<TARGET_FILE:dlblas_worker> -DOUTPUT=${PROJECT_BINARY_DIR}/python/dlblas
          -P ${PROJECT_SOURCE_DIR}/cmake/stage_python.cmake
  COMMENT "Staging the Python package"
  VERBATIM)
add_dependencies(python_stage dlblas dlblas_worker dlblas_generated)

# For C++ projects and their own kernels: headers, the package of CMake, pkg-config's file, and the worker that
# programs which are not Python measure in. `dlblas --include`, `--cmake-dir` and `--libs` say where they lie.
set(DLBLAS_PC_UP ../..)
set(DLBLAS_PC_INCLUDE include)
set(DLBLAS_PC_RPATH " -Wl,-rpath,\${libdir}")  # in no folder that the loader knows
set(package_pc ${DLBLAS_GENERATED}/package/dlblas.pc)
configure_file(cmake/dlblas.pc.in ${package_pc} @ONLY)
set(package_cmake cmake/dlblasConfig.cmake cmake/dlblasTargets.cmake)

# The wheel installs this component alone; `cmake --install` leaves it out. Same layout, real files.
set(package dlblas)
install(DIRECTORY python/dlblas/ DESTINATION ${package} COMPONENT python EXCLUDE_FROM_ALL
  PATTERN __pycache__ EXCLUDE PATTERN ".*" EXCLUDE)
install(DIRECTORY ${DLBLAS_GENERATED}/python/dlblas/ DESTINATION ${package} COMPONENT python EXCLUDE_FROM_ALL
  OPTIONAL)
install(PROGRAMS $<TARGET_FILE:dlblas> DESTINATION ${package}/lib RENAME libdlblas.so
  COMPONENT python EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:dlblas_worker> DESTINATION ${package}/lib COMPONENT python EXCLUDE_FROM_ALL)
install(DIRECTORY include/dlblas ${DLBLAS_GENERATED}/include/dlblas DESTINATION ${package}/include
  COMPONENT python EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES ${package_cmake} ${DLBLAS_GENERATED}/dlblasConfigVersion.cmake
  DESTINATION ${package}/lib/cmake/dlblas COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${package_pc} DESTINATION ${package}/lib/pkgconfig COMPONENT python EXCLUDE_FROM_ALL)
foreach(room IN LISTS families rooms)
  cmake_path(GET room FILENAME name)
  install(FILES ops/${room}/${name}.py DESTINATION ${package}/ops COMPONENT python EXCLUDE_FROM_ALL OPTIONAL)
  install(FILES ops/${room}/cases.json DESTINATION ${package}/ops RENAME ${name}.cases.json
    COMPONENT python EXCLUDE_FROM_ALL OPTIONAL)
  foreach(file IN ITEMS formulas gradient peers rivals)
    install(FILES ops/${room}/${file}.py DESTINATION ${package}/ops RENAME ${name}_${file}.py
      COMPONENT python EXCLUDE_FROM_ALL OPTIONAL)
  endforeach()
endforeach()
foreach(family IN LISTS families)
  file(GLOB files RELATIVE ${PROJECT_SOURCE_DIR}/ops/${family} CONFIGURE_DEPENDS ops/${family}/*.py ops/${family}/*.pyi)
  list(REMOVE_ITEM files ${family}.py tests.py formulas.py gradient.py peers.py rivals.py)  # those above
  foreach(file IN LISTS files)
    install(FILES ops/${family}/${file} DESTINATION ${package}/ops RENAME ${family}_${file}
      COMPONENT python EXCLUDE_FROM_ALL)
  endforeach()
endforeach()
