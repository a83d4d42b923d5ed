#include "cli/output.h"

#include <doctest/doctest.h>

using mosaic::one_line;
using mosaic::cli::Table;

TEST_CASE("columns are as wide as their widest cell and lines have no blanks at the end") {
    Table table({"A", "LONGER", "C"});
    table.add({"first", "x", "1"});
    table.add({"s", "yy", ""});
    CHECK(table.text() ==
          "A      LONGER  C\n"
          "first  x       1\n"
          "s      yy\n");
}

TEST_CASE("what a session wrote can neither move the cursor nor break a line") {
    Table table({"A", "B"});
    table.add({"\x1b]52;c;eA==\x07",
               "two\nlines\tand \xE2\x80\xAE"
               "bidi"});
    CHECK(table.text() ==
          "A                       B\n"
          "\\u001b]52;c;eA==\\u0007  two lines and \\u202ebidi\n");
}

TEST_CASE("letters of several bytes are one column wide") {
    Table table({"A", "B"});
    table.add({"\xC3\xA9\xC3\xA9", "x"});
    table.add({"abc", "y"});
    CHECK(table.text() ==
          "A    B\n"
          "\xC3\xA9\xC3\xA9   x\n"
          "abc  y\n");
}

TEST_CASE("bytes that are no text are shown as replaced") {
    CHECK(one_line("a\xFF\nb") == "a\xEF\xBF\xBD b");
}
