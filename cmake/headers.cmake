# The target `headers` compiles every header of src/ alone, so that none leans on what another file
# happened to include before it. Not part of `all`: tools/check --full builds it.
function(mosaic_headers_target)
  file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR}/src
       ${PROJECT_SOURCE_DIR}/src/*.h)
  set(sources)
  foreach(header IN LISTS headers)
    set(source ${PROJECT_BINARY_DIR}/headers/${header}.cc)
    # Written only when it differs, so that configuring again builds nothing again.
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n" @ONLY)
    list(APPEND sources ${source})
  endforeach()
  add_library(headers OBJECT EXCLUDE_FROM_ALL ${sources})
  target_include_directories(headers PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(headers PRIVATE ${MOSAIC_WARNINGS})
  target_link_libraries(headers PRIVATE
    tl::expected nlohmann_json::nlohmann_json simdjson::simdjson SQLite::SQLite3
    CLI11::CLI11 PkgConfig::LIBURING PkgConfig::LIBSECCOMP PkgConfig::LIBSODIUM)
endfunction()
