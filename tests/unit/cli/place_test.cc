#include "cli/place.h"

#include <doctest/doctest.h>

using mosaic::cli::choose_place;

TEST_CASE("--data wins over everything") {
    const auto place = choose_place("/d", "acme", {"/state", {"acme", "other"}, {}});
    REQUIRE(place);
    CHECK(place->data_root == "/d");
    CHECK(place->business == "acme");
}

TEST_CASE("--business is a directory below dataRoot, whether it exists or not") {
    const auto place = choose_place("", "acme", {"/state", {}, {}});
    REQUIRE(place);
    CHECK(place->data_root == "/state/acme");
}

TEST_CASE("the only business there is needs no name") {
    const auto place = choose_place("", "", {"/state", {"acme"}, {"acme", "other"}});
    REQUIRE(place);
    CHECK(place->data_root == "/state/acme");
    CHECK(place->business == "acme");
}

TEST_CASE("none or several are a usage error that names them") {
    const auto none = choose_place("", "", {"/state", {}, {}});
    REQUIRE_FALSE(none);
    CHECK(none.error().exit_code == 4);
    CHECK(none.error().text.find("/state") != std::string::npos);
    CHECK(none.error().text.find("mosaic init") != std::string::npos);
    const auto several = choose_place("", "", {"/state", {"zeta", "acme"}, {}});
    REQUIRE_FALSE(several);
    CHECK(several.error().exit_code == 4);
    CHECK(several.error().text.find("(acme, zeta)") != std::string::npos);
}

TEST_CASE("before the first host the businesses that are configured count") {
    const auto place = choose_place("", "", {"/state", {}, {"acme"}});
    REQUIRE(place);
    CHECK(place->data_root == "/state/acme");
    CHECK(place->business == "acme");
    const auto several = choose_place("", "", {"/state", {}, {"zeta", "acme"}});
    REQUIRE_FALSE(several);
    CHECK(several.error().exit_code == 4);
    CHECK(several.error().text.find("(acme, zeta)") != std::string::npos);
}
