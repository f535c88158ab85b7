# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Shared by every CMakeLists.txt of the project: compiler flags, layers, shared libraries, tests.
# Functions for the other files: udapl_layer, udapl_shared_library, udapl_test, udapl_add_folder.

include_guard(GLOBAL)

# ---- flags of every target -------------------------------------------------------------------

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Clang includes -Wsign-conversion in -Wconversion, GCC does not: use the same set for both.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wvla
  "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Woverloaded-virtual>"
  "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wthread-safety)
elseif(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 mistakes `"text" + std::string` for an overlapping copy (GCC bug 105651).
  add_compile_options(-Wno-restrict)
endif()

# File names in traces and debug information are relative to the repository, wherever it is located.
# The layer folders are mapped in udapl_layer.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)

if(UDAPL_SANITIZE)
  # The enumerations of the DAT headers are C enumerations: a caller may pass any number, which is checked.
  add_compile_options(-fsanitize=${UDAPL_SANITIZE} -fno-sanitize=enum -fno-sanitize-recover=all
    -fno-omit-frame-pointer -fno-optimize-sibling-calls)
  add_link_options(-fsanitize=${UDAPL_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Our C programs link C++ libraries, whose checks need the C++ part of the sanitizer run time. That of the thread
    # sanitizer is only operator new and delete, which some tests replace.
    if(NOT UDAPL_SANITIZE MATCHES "thread")
      add_link_options($<$<LINK_LANGUAGE:C>:-fsanitize-link-c++-runtime>)
    endif()
    link_libraries($<$<LINK_LANGUAGE:C>:stdc++>)
    # GCC says by these macros which sanitizer is on.
    foreach(sanitizer IN ITEMS address thread)
      string(TOUPPER __SANITIZE_${sanitizer}__ macro)
      if(UDAPL_SANITIZE MATCHES ${sanitizer})
        add_compile_definitions(${macro}=1)
      endif()
    endforeach()
  endif()
endif()
if(UDAPL_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "UDAPL_FUZZ needs clang (libFuzzer): use the preset 'fuzz'")
endif()

# ---- optimization at link time ---------------------------------------------------------------

# Layers are optimized together when a shared library is linked (docs/adr/0038). Their objects are fat, that is, also
# have ordinary code, which programs use that link the layers: the unit tests. Clang has no fat objects before 17.
set(udapl_lto FALSE)
if(UDAPL_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT UDAPL_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(udapl_lto TRUE)
endif()

function(udapl_optimize_at_link target)
  if(udapl_lto)
    target_compile_options(${target} PRIVATE -flto=auto -ffat-lto-objects)
    target_link_options(${target} INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-fno-lto>)
  endif()
endfunction()

# ---- precompiled headers ---------------------------------------------------------------------

# udapl_precompile(<target>): with UDAPL_PRECOMPILE, reads the headers of the standard library once per target, for
# script/demo and the sanitizers. Not in other builds with tests: there, each source has to include what it uses.
function(udapl_precompile target)
  if(UDAPL_PRECOMPILE AND (UDAPL_SANITIZE OR NOT UDAPL_BUILD_TESTS))
    foreach(header IN ITEMS algorithm atomic chrono functional memory mutex optional string vector)
      target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>)
    endforeach()
  endif()
endfunction()

# ---- folders and layers ----------------------------------------------------------------------

# udapl_add_folder(<folder>): add_subdirectory if the folder has a CMakeLists.txt.
function(udapl_add_folder folder)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    add_subdirectory(${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_BINARY_DIR}/${folder})
  endif()
endfunction()

# udapl_layer(<target> <folder>): only the target and targets that link it can include
# "<folder>/x.h". There is no include path to the repository root: each layer has its own folder in
# the build tree, which holds one symbolic link, <folder>.
function(udapl_layer target folder)
  set(root ${PROJECT_BINARY_DIR}/layers/${target})
  cmake_path(GET folder PARENT_PATH parent)
  file(MAKE_DIRECTORY ${root}/${parent})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${root}/${folder} SYMBOLIC)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${root}>)
    target_compile_options(${target} INTERFACE $<BUILD_INTERFACE:-ffile-prefix-map=${root}/=>)
  else()
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${root}>)
    target_compile_options(${target} PUBLIC $<BUILD_INTERFACE:-ffile-prefix-map=${root}/=>)
    if(type STREQUAL "STATIC_LIBRARY" AND NOT folder MATCHES "^tests/")
      udapl_optimize_at_link(${target})
      if(UDAPL_FUZZ)
        target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)  # coverage of the layers guides the fuzzers
      endif()
    endif()
    udapl_precompile(${target})
  endif()
endfunction()

# ---- shared libraries ------------------------------------------------------------------------

# udapl_shared_library(<target> NAME <name> VERSION <x.y.z> MAP <file> SOURCES <file>...
#                      [LIBS <target>...] [COMPONENT <name>] [PROVIDER] [LOADED_BY_NAME])
#
# Builds and installs lib<name>.so.<x.y.z> with the SONAME lib<name>.so.<x>. The library exports only
# the names in the version script <file>, binds at load time, and binds its own symbols first. The
# layers among LIBS are optimized as a whole, but not SOURCES: the entry points of the providers are
# flattened and would take in every function that they may reach.
# LIBS are linked PRIVATE. COMPONENT: the install component, "runtime" unless given; the development
# name lib<name>.so belongs to "devel". LOADED_BY_NAME: no program links it, so it has no development
# name. PROVIDER: like LOADED_BY_NAME, but loaded only by libdat2, whose registry functions it imports
# without linking libdat2 (any DAT registry may load it). All other libraries may have no undefined
# symbols.
function(udapl_shared_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PROVIDER;LOADED_BY_NAME" "NAME;VERSION;MAP;COMPONENT"
    "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "udapl_shared_library(${target}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(required IN ITEMS NAME VERSION MAP SOURCES)
    if(NOT arg_${required})
      message(FATAL_ERROR "udapl_shared_library(${target}): ${required} is missing")
    endif()
  endforeach()
  if(NOT arg_COMPONENT)
    set(arg_COMPONENT runtime)
  endif()
  string(REGEX MATCH "^[0-9]+" major ${arg_VERSION})
  cmake_path(ABSOLUTE_PATH arg_MAP BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})

  add_library(${target} SHARED ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LIBS})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${arg_NAME} VERSION ${arg_VERSION} SOVERSION ${major} LINK_DEPENDS ${arg_MAP})
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${arg_MAP} -Wl,-z,now -Wl,-z,relro -Wl,-Bsymbolic -Wl,--exclude-libs,ALL)
  if(udapl_lto)
    target_link_options(${target} PRIVATE -flto=auto)
  endif()
  # Sanitizer run times are linked only into programs, so their symbols are undefined in a sanitized library.
  if(NOT arg_PROVIDER AND NOT UDAPL_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  set_property(GLOBAL APPEND PROPERTY UDAPL_SHARED_LIBRARIES ${target})

  if(arg_PROVIDER OR arg_LOADED_BY_NAME)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "")
    install(TARGETS ${target}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${arg_COMPONENT} NAMELINK_SKIP)
  else()
    # A bare provider name in dat.conf is also searched for next to the library that loads it.
    set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${target} EXPORT udapl-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      COMPONENT ${arg_COMPONENT} NAMELINK_COMPONENT devel)
  endif()
endfunction()

# ---- tests -----------------------------------------------------------------------------------

# udapl_test(<name> SOURCES <file>... [LIBS <target>...] [LABELS <label>...] [TIMEOUT <seconds>]
#            [ARGS <argument>...] [ENV <NAME=value>...] [HEADERS <target>])
#
# A Boost.Test program (one source defines BOOST_TEST_MODULE) and a ctest entry of the same name. TIMEOUT is 120 seconds
# unless given. Without LABELS the label is the folder below tests/, "unit" for all of tests/unit/*. HEADERS: a target
# of udapl_test_headers.
function(udapl_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;HEADERS" "SOURCES;LIBS;LABELS;ARGS;ENV")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "udapl_test(${name}): bad arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  find_package(Boost REQUIRED COMPONENTS unit_test_framework)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS)
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/tests
      OUTPUT_VARIABLE arg_LABELS)
    string(REGEX REPLACE "/.*" "" arg_LABELS ${arg_LABELS})
  endif()

  add_executable(${name} ${arg_SOURCES})
  udapl_test_code(${name} LINKED HEADERS ${arg_HEADERS})
  target_compile_definitions(${name} PRIVATE BOOST_TEST_DYN_LINK)
  target_link_libraries(${name} PRIVATE ${arg_LIBS} Boost::unit_test_framework)
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
  udapl_test_environment(${name} ${arg_ENV})
  if("unit" IN_LIST arg_LABELS)
    udapl_checked_for_races(${name})
  endif()
endfunction()

# udapl_replaces_new(<target>): a program with an operator new of its own. Clang links that of the thread sanitizer into
# each C++ program, so link it like a C program.
function(udapl_replaces_new target)
  if(UDAPL_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  endif()
endfunction()

# udapl_test_objects(<name> SOURCES <file>... LIBS <target>... [HEADERS <target>]): tests that several programs of
# udapl_test run, which name it among their LIBS.
function(udapl_test_objects name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADERS" "SOURCES;LIBS")
  add_library(${name} OBJECT ${arg_SOURCES})
  udapl_compile_like_tests(${name} ${arg_LIBS})
  udapl_test_code(${name} LINKED HEADERS ${arg_HEADERS})
endfunction()

# udapl_test_headers(<name> HEADERS <header>... [LIBS <target>...]): headers that many sources of tests include. With
# UDAPL_PRECOMPILE, they and those of Boost.Test are read once for all tests that name <name> as their HEADERS. LIBS:
# whose include paths the headers need.
function(udapl_test_headers name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LIBS")
  if(UDAPL_PRECOMPILE)
    set(source ${PROJECT_BINARY_DIR}/test_headers.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "namespace {}\n")
    add_library(${name} OBJECT ${source})
    udapl_compile_like_tests(${name} ${arg_LIBS})
    udapl_compile_fast(${name})
    target_precompile_headers(${name} PRIVATE ${udapl_common_test_headers} ${arg_HEADERS})
  endif()
endfunction()
set(udapl_common_test_headers
  <boost/test/unit_test.hpp> <atomic> <chrono> <functional> <memory> <string> <thread> <vector>)

# udapl_compile_like_tests(<objects> [<lib>...]): compiles objects with the options of the programs of udapl_test: a
# precompiled header can be shared only between targets of the same options.
function(udapl_compile_like_tests target)
  find_package(Boost REQUIRED COMPONENTS unit_test_framework)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIE)
  target_compile_definitions(${target} PRIVATE BOOST_TEST_DYN_LINK)
  target_link_libraries(${target} PRIVATE ${ARGN} Boost::unit_test_framework)
endfunction()

# udapl_checked_for_races(<target>...): the tests that the preset tsan runs need these programs; for that preset,
# script/test builds nothing else.
function(udapl_checked_for_races)
  if(NOT TARGET checked_for_races)
    add_custom_target(checked_for_races)
  endif()
  add_dependencies(checked_for_races ${ARGN})
endfunction()

# udapl_compile_fast(<target>): compiles test code for short compile time rather than for speed. The code under test
# keeps its optimisation and its sanitizers; the undefined-behaviour checks in the expansions of Boost's macros alone
# would take most of a sanitizer build.
function(udapl_compile_fast target)
  set(options -O0)
  # GCC 16 warns of conversions within BOOST_TEST(condition, message) of Boost 1.92.
  list(APPEND options $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-conversion>)
  if(UDAPL_SANITIZE MATCHES "undefined")
    list(APPEND options -fno-sanitize=undefined)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    list(APPEND options -Wno-thread-safety)  # a test that is the only thread needs no lock
  endif()
  target_compile_options(${target} PRIVATE ${options})
endfunction()

# udapl_test_code(<target> [LINKED] [HEADERS <target>]): compiles test code fast. UDAPL_PRECOMPILE: Boost.Test's headers
# are read once per program, which halves the compile time of a file; or, for programs that link Boost.Test (LINKED),
# once for all of them, or for all with the same HEADERS (udapl_test_headers). It does not work with ccache.
function(udapl_test_code target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LINKED" "HEADERS" "")
  udapl_compile_fast(${target})
  if(NOT UDAPL_PRECOMPILE)
    return()
  endif()

  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  if(arg_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${arg_HEADERS})
  elseif(arg_LINKED)
    if(NOT TARGET test_headers)
      udapl_test_headers(test_headers)
    endif()
    target_precompile_headers(${target} REUSE_FROM test_headers)
  elseif(count GREATER 3)
    target_precompile_headers(${target} PRIVATE ${udapl_common_test_headers})
  endif()
  foreach(source IN LISTS sources)  # these define Boost.Test's main()
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    file(STRINGS ${path} defines_main REGEX "BOOST_TEST_MODULE|included/unit_test")
    if(defines_main)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

# udapl_test_environment(<test> [<NAME=value>...]): sets the environment of a test: sanitizer options
# and the given variables.
function(udapl_test_environment name)
  set(suppressions ${PROJECT_SOURCE_DIR}/tests/sanitizer)
  # A forked child that opens its own IA starts a thread, for which the sanitizer would end it.
  set(tsan halt_on_error=1:second_deadlock_stack=1:die_after_fork=0)
  if(EXISTS ${suppressions}/tsan.supp)
    string(APPEND tsan :suppressions=${suppressions}/tsan.supp)
  endif()
  # LeakSanitizer also looks for pointers in the thread-local variables of libraries that are loaded later. If they
  # begin 16 bytes after a page, it takes what stands before them for their address and size, and crashes.
  set(asan detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1:intercept_tls_get_addr=0)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
    ASAN_OPTIONS=${asan}
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    TSAN_OPTIONS=${tsan}
    ${ARGN})
endfunction()

# ---- package ---------------------------------------------------------------------------------

# Installs the pkg-config file and the CMake package; called once, by the root, after all targets exist.
function(udapl_install_package)
  if(NOT TARGET dat2)
    return()
  endif()
  target_link_libraries(dat2 INTERFACE dat_headers)
  set_target_properties(dat_headers PROPERTIES EXPORT_NAME headers)
  install(TARGETS dat_headers EXPORT udapl-targets COMPONENT devel)
  include(CMakePackageConfigHelpers)
  set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/udapl)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/udapl-config.cmake.in
    ${PROJECT_BINARY_DIR}/udapl-config.cmake INSTALL_DESTINATION ${cmake_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/udapl-config-version.cmake
    COMPATIBILITY SameMajorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/udapl-config.cmake
    ${PROJECT_BINARY_DIR}/udapl-config-version.cmake DESTINATION ${cmake_dir} COMPONENT devel)
  install(EXPORT udapl-targets NAMESPACE udapl:: DESTINATION ${cmake_dir} COMPONENT devel)

  # dat2.pc contains the prefix, which `cmake --install --prefix` may still change.
  set(pc_template ${PROJECT_SOURCE_DIR}/cmake/dat2.pc.in)
  set(pc_file ${PROJECT_BINARY_DIR}/dat2.pc)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/install_pc.cmake.in ${PROJECT_BINARY_DIR}/install_pc.cmake @ONLY)
  install(SCRIPT ${PROJECT_BINARY_DIR}/install_pc.cmake COMPONENT devel)
  install(FILES ${pc_file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT devel)

  install(CODE "file(WRITE \"${PROJECT_BINARY_DIR}/install_destdir.txt\" \"\$ENV{DESTDIR}\")" ALL_COMPONENTS)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake.in ${PROJECT_BINARY_DIR}/uninstall.cmake @ONLY)
  add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${PROJECT_BINARY_DIR}/uninstall.cmake
    COMMENT "Removing what was installed last")
endfunction()
