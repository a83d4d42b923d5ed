#include "cli/service_unit.h"

#include <doctest/doctest.h>

#include <string>

using namespace mosaic;
using namespace mosaic::cli;

namespace {

ServiceUnit plain() {
    ServiceUnit unit;
    unit.host = "/usr/local/bin/mosaic-host";
    unit.path = "/usr/local/bin:/usr/bin";
    return unit;
}

bool has_line(const std::string& text, const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("the unit runs one business, restarts it, and leaves refusals alone") {
    const std::string text = service_unit(plain()).value();
    for (const char* line :
         {"Type=notify",
          "ExecStart=/usr/local/bin/mosaic-host --business %i --data %S/mosaic/%i",
          "EnvironmentFile=-%h/.config/mosaic/secrets/session.env",
          "Environment=\"PATH=/usr/local/bin:/usr/bin\"",
          "RestartPreventExitStatus=2 3 4",
          "KillMode=mixed",
          "OOMPolicy=continue",
          "Delegate=yes"}) {
        CAPTURE(line);
        CHECK(has_line(text, line));
    }
    CHECK(text.find("network-online") == std::string::npos);
    CHECK(text.find("--pm") == std::string::npos);
    ServiceUnit with_pm = plain();
    with_pm.pm = true;
    CHECK(service_unit(with_pm).value().find("%i --pm\n") != std::string::npos);
}

TEST_CASE("a system file that the service wouldn't find is named") {
    CHECK(service_unit(plain()).value().find("MOSAIC_CONFIG") == std::string::npos);
    ServiceUnit unit = plain();
    unit.config = "/srv/100% ours/system.json";
    CHECK(has_line(service_unit(unit).value(),
                   "Environment=\"MOSAIC_CONFIG=/srv/100%% ours/system.json\""));
    unit.config = "/srv/a\nb";
    CHECK_FALSE(service_unit(unit).has_value());
}

TEST_CASE("programs are pinned or said to be missing") {
    ServiceUnit unit = plain();
    unit.programs = {{"MOSAIC_A_BIN", "a", "/opt/a+b/bin/a_1.2-x"}, {"MOSAIC_B_BIN", "b", ""}};
    const std::string text = service_unit(unit).value();
    CHECK(has_line(text, "Environment=MOSAIC_A_BIN=/opt/a+b/bin/a_1.2-x"));
    CHECK(text.find("\n# MOSAIC_B_BIN: no b was found") != std::string::npos);
    CHECK(text.find("Environment=MOSAIC_B_BIN") == std::string::npos);
}

TEST_CASE("what systemd would read in another way is quoted or refused") {
    ServiceUnit unit = plain();
    unit.path = "/a b:/c%d:/e\"f:/g\\h";
    CHECK(has_line(service_unit(unit).value(), "Environment=\"PATH=/a b:/c%%d:/e\\\"f:/g\\\\h\""));
    unit.path = "/a\nExecStartPre=/bin/evil";
    CHECK_FALSE(service_unit(unit).has_value());
    unit.path = "/a\xC3\xA9:/b";
    CHECK(service_unit(unit).has_value());
    unit.path = "/a\xE9:/b";
    CHECK_FALSE(service_unit(unit).has_value());
    unit = plain();
    unit.config = "/srv/a\xE9.json";
    CHECK_FALSE(service_unit(unit).has_value());
    for (const char* path : {"/opt/a b", "/opt/%h/a", "/opt/a;b", "relative/a", "/opt/\xC3\xA9"}) {
        CAPTURE(path);
        CHECK_FALSE(is_plain_path(path));
        unit = plain();
        unit.programs = {{"MOSAIC_A_BIN", "a", path}};
        CHECK_FALSE(service_unit(unit).has_value());
        unit = plain();
        unit.host = path;
        CHECK_FALSE(service_unit(unit).has_value());
    }
}
