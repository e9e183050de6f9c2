# The Python package, staged in <build>/python as links into the tree: editing Python needs no rebuild.
# Runs with every build (it is cheap), so new and removed files are seen.
add_custom_target(python_stage ALL
  COMMAND ${CMAKE_COMMAND} -DTREE=${PROJECT_SOURCE_DIR} -DGENERATED=${DLBLAS_GENERATED}
          -DLIBRARY=$<TARGET_FILE:dlblas> -DOUTPUT=${PROJECT_BINARY_DIR}/python/dlblas
          -P ${PROJECT_SOURCE_DIR}/cmake/stage_python.cmake
  COMMENT "Staging the Python package"
  VERBATIM)
add_dependencies(python_stage dlblas dlblas_generated)

# The wheel installs this component alone; `cmake --install` leaves it out. Same layout, real files.
set(package dlblas)
install(DIRECTORY python/dlblas/ DESTINATION ${package} COMPONENT python EXCLUDE_FROM_ALL
  PATTERN __pycache__ EXCLUDE PATTERN ".*" EXCLUDE)
install(DIRECTORY ${DLBLAS_GENERATED}/python/dlblas/ DESTINATION ${package} COMPONENT python EXCLUDE_FROM_ALL
  OPTIONAL)
install(PROGRAMS $<TARGET_FILE:dlblas> DESTINATION ${package}/lib RENAME libdlblas.so
  COMPONENT python EXCLUDE_FROM_ALL)
foreach(room IN LISTS families rooms)
  cmake_path(GET room FILENAME name)
  install(FILES ops/${room}/${name}.py DESTINATION ${package}/ops COMPONENT python EXCLUDE_FROM_ALL OPTIONAL)
  install(FILES ops/${room}/cases.json DESTINATION ${package}/ops RENAME ${name}.cases.json
    COMPONENT python EXCLUDE_FROM_ALL OPTIONAL)
  foreach(file IN ITEMS formulas peers)
    install(FILES ops/${room}/${file}.py DESTINATION ${package}/ops RENAME ${name}_${file}.py
      COMPONENT python EXCLUDE_FROM_ALL OPTIONAL)
  endforeach()
endforeach()
foreach(family IN LISTS families)
  install(FILES ops/${family}/api.py DESTINATION ${package}/ops RENAME ${family}_api.py
    COMPONENT python EXCLUDE_FROM_ALL OPTIONAL)
endforeach()
