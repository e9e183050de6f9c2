# Every ops/**/<name>_program.hpp is a row program (device/row/program.hpp): its struct is <name> in CamelCase, in
# namespace dlblas::<family>. Out: one source per program and instruction set, appended to dlblas_kernels, and the
# table behind src/kernels/rows.hpp. What a file would say twice is in its name, so an operator adds no list entry.
file(GLOB_RECURSE row_programs CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ops/*_program.hpp)
keep_chosen(row_programs)
set(row_declarations "")
set(row_table "")
foreach(ROW_HEADER IN LISTS row_programs)
  string(REGEX REPLACE "^.*/([^/]+)_program\\.hpp$" "\\1" ROW_NAME ${ROW_HEADER})
  string(REGEX REPLACE "^ops/([^/]+)/.*$" "\\1" family ${ROW_HEADER})
  set(struct "")
  string(REPLACE "_" ";" words ${ROW_NAME})
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 initial)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${initial} initial)
    string(APPEND struct "${initial}${rest}")
  endforeach()
  set(ROW_TYPE dlblas::${family}::${struct})
  foreach(level IN ITEMS baseline avx2 avx512)
    set(source ${DLBLAS_GENERATED}/rows/${ROW_NAME}_${level}.cpp)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/row_program.cpp.in ${source} @ONLY)
    list(APPEND dlblas_kernels ${source})
    string(APPEND row_declarations
      "namespace ${level} {\nvoid run_${ROW_NAME}(const RowJob&, std::int64_t, std::int64_t);\n}\n")
  endforeach()
  string(APPEND row_table "    {\"${ROW_NAME}\", \"${ROW_HEADER}\", \"${ROW_TYPE}\",\n"
    "     source_hash<\"${ROW_HEADER}\">(), source_hash<\"${ROW_HEADER}:cuda\">(),\n"
    "     {baseline::run_${ROW_NAME}, DLBLAS_LEVEL(avx2::run_${ROW_NAME}), DLBLAS_LEVEL(avx512::run_${ROW_NAME})}},\n")
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/row_programs.cpp.in ${DLBLAS_GENERATED}/row_programs.cpp @ONLY)
