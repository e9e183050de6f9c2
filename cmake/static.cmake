# libdlblas.a, beside the shared library, with -DDLBLAS_STATIC=ON. In: the library's objects. Out: targets
# dlblas_static (alias dlblas::static). The objects become one, in which only dlblas_* can be seen: what the library
# has inside, and its copies of templates of the C++ runtime, never meet the program's. Everything is registered by
# explicit calls (generated/register_all.cpp), so nothing is lost where a linker takes only what is referred to.
if(NOT CMAKE_OBJCOPY OR NOT CMAKE_LINKER)
  message(FATAL_ERROR "DLBLAS_STATIC needs ld and objcopy (GNU binutils), and this toolchain has none.")
endif()
set(one_object ${PROJECT_BINARY_DIR}/dlblas_static.o)
set(objects $<FILTER:$<TARGET_OBJECTS:dlblas_objects>,INCLUDE,\\.o$>)  # precompiled headers are among them
# Groups are dissolved (a discarded group would take a symbol that is now local with it).
add_custom_command(
  OUTPUT ${one_object}
  COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o ${one_object} ${objects}
  COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=dlblas_* ${one_object}
  DEPENDS dlblas_objects ${objects}
  COMMENT "Making one object of the static library"
  COMMAND_EXPAND_LISTS
  VERBATIM)

set_target_properties(dlblas_objects PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)  # `ld -r` reads machine code

add_library(dlblas_static STATIC ${one_object})
add_library(dlblas::static ALIAS dlblas_static)
set_source_files_properties(${one_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
set_target_properties(dlblas_static PROPERTIES
  OUTPUT_NAME dlblas EXPORT_NAME static LINKER_LANGUAGE CXX)
target_include_directories(dlblas_static INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${DLBLAS_GENERATED}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(dlblas_static INTERFACE cxx_std_20)
# A project that has no C++ compiler links with its C compiler.
target_link_libraries(dlblas_static INTERFACE $<$<LINK_LANGUAGE:C>:stdc++> Threads::Threads ${CMAKE_DL_LIBS} m)
# A shared object that holds the library exports none of it, and stays loaded: its threads run on after dlclose.
target_link_options(dlblas_static INTERFACE -Wl,--exclude-libs,libdlblas.a -Wl,-z,nodelete)
if(DLBLAS_SANITIZE)
  target_link_options(dlblas_static INTERFACE -fsanitize=${DLBLAS_SANITIZE})
endif()
add_dependencies(dlblas_static dlblas_generated)
