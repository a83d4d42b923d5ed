#define DOCTEST_CONFIG_IMPLEMENT
#include "no_test_ran.h"

int main(int argc, char** argv) {
    return mosaic::test::RanCount::exit_code(doctest::Context(argc, argv).run());
}
