# A room is one folder of src/: a static library of its sources.
#   mosaic_room(NAME SOURCES a.cc b.cc DEPENDS base wire LIBS SQLite::SQLite3)
# DEPENDS names other rooms; tools/tidy checks it against the includes.
# A room that is linked into mosaic-runner is built a second time, NAME-static, without
# sanitizers and without libraries that Debian has no static archive of: STATIC says so.
function(mosaic_room name)
  cmake_parse_arguments(ROOM "STATIC" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
  add_library(mosaic-${name} STATIC ${ROOM_SOURCES})
  target_include_directories(mosaic-${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(mosaic-${name} PRIVATE ${MOSAIC_WARNINGS} PUBLIC ${MOSAIC_SANITIZE_FLAGS})
  target_link_options(mosaic-${name} PUBLIC ${MOSAIC_SANITIZE_FLAGS})
  list(TRANSFORM ROOM_DEPENDS PREPEND mosaic-)
  target_link_libraries(mosaic-${name} PUBLIC ${ROOM_DEPENDS} ${ROOM_LIBS})
  if(ROOM_STATIC)
    add_library(mosaic-${name}-static STATIC EXCLUDE_FROM_ALL ${ROOM_SOURCES})
    target_include_directories(mosaic-${name}-static PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(mosaic-${name}-static PRIVATE ${MOSAIC_WARNINGS} -O2 -ffunction-sections -fdata-sections)
    list(TRANSFORM ROOM_DEPENDS APPEND -static)
    target_link_libraries(mosaic-${name}-static PUBLIC ${ROOM_DEPENDS} ${ROOM_LIBS})
  endif()
endfunction()

# mosaic_test(NAME SOURCES ... LIBS ...): one doctest binary, registered with ctest.
function(mosaic_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${PROJECT_SOURCE_DIR}/tests/doctest_main.cc ${TEST_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${name} PRIVATE ${MOSAIC_WARNINGS})
  # doctest's own macros expand to old-style casts and shadowed names on GCC 12.
  target_compile_options(${name} PRIVATE -Wno-old-style-cast -Wno-null-dereference)
  target_link_libraries(${name} PRIVATE ${TEST_LIBS} doctest::doctest)
  target_compile_definitions(${name} PRIVATE
    MOSAIC_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MOSAIC_BUILD_DIR="${PROJECT_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  if(TEST_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}")
  endif()
endfunction()
