# Warnings are errors everywhere; the two marked ones exist in GCC only.
set(MOSAIC_WARNINGS
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wswitch-enum
  -Wold-style-cast -Wnon-virtual-dtor -Wformat=2 -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND MOSAIC_WARNINGS -Wduplicated-cond -Wlogical-op)
  # From -O2 on GCC 12 takes the inactive members of a moved std::variant for uninitialized reads and
  # sees overlapping copies in std::string's operator+ (GCC bugs 105593 and 105651).
  # -Wnull-dereference is left out for the same reason: it reports paths inside std::get_if.
  list(APPEND MOSAIC_WARNINGS -Wno-maybe-uninitialized -Wno-restrict)
endif()

option(MOSAIC_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)

add_compile_definitions(_GLIBCXX_ASSERTIONS _GNU_SOURCE)
add_compile_options(-fno-omit-frame-pointer)
option(MOSAIC_FUZZ "Build the fuzz targets for libFuzzer; needs clang" OFF)
if(MOSAIC_FUZZ)
  # clang warns of other things than the compiler of the product, which is the one to be without any.
  set(MOSAIC_WARNINGS -w)
  set(MOSAIC_SANITIZE_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
elseif(MOSAIC_SANITIZE)
  set(MOSAIC_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
endif()
