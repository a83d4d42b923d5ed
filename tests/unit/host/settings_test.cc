// Goal: each instance keeps clear of the same places as if they were found for it alone, though
// they are found once for all.

#include "host/settings.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "sandbox/workspace.h"

namespace fs = std::filesystem;
using namespace mosaic;
using host::Settings;
using sandbox::unsafe_reason;

namespace {

class Scratch {
  public:
    Scratch() : path_(MOSAIC_BUILD_DIR "/settings-test-XXXXXX") {
        REQUIRE(::mkdtemp(path_.data()) != nullptr);
        path_ = fs::canonical(path_);
    }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    ~Scratch() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }

    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

config::Instance instance(const std::string& name, const std::string& workspace, bool shared) {
    config::Instance out;
    out.name = name;
    out.workspace = workspace;
    out.shared_workspace = shared;
    return out;
}

// What the launch checks would say of each instance's own workspace.
std::string reason_of(const Settings& settings, const std::string& name) {
    const config::Instance& of = settings.business.roles.at(name);
    return unsafe_reason(fs::canonical(of.workspace), host::places_of(settings, of));
}

}  // namespace

TEST_CASE("a workspace keeps clear of the data root and of every other one, by real path") {
    const Scratch scratch;
    for (const char* directory : {"root/ws", "alone", "pair", "outer/inner"}) {
        fs::create_directories(scratch / directory);
    }
    fs::create_symlink(scratch / "alone", scratch / "link");
    Settings settings;
    for (const auto& one : {instance("alone", scratch / "alone", false),
                            instance("a", scratch / "pair", true),
                            instance("b", scratch / "pair/", true),
                            instance("outer", scratch / "outer", true),
                            instance("inner", scratch / "outer/inner", true),
                            instance("rooted", scratch / "root/ws", false)}) {
        settings.business.roles.emplace(one.name, one);
    }
    host::DataRoot root;
    root.path = scratch / "root";
    host::resolve_places(settings, root);
    CHECK(settings.workspaces.size() == 6);
    CHECK(reason_of(settings, "alone") == "");
    CHECK(reason_of(settings, "a") == "");
    CHECK(reason_of(settings, "b") == "");
    CHECK(reason_of(settings, "outer").find("the workspace of inner, ") != std::string::npos);
    CHECK(reason_of(settings, "inner").find("the workspace of outer, ") != std::string::npos);
    CHECK(reason_of(settings, "rooted").find("the data root ") != std::string::npos);

    // One that doesn't share, and one by a link.
    settings.business.roles.at("b").shared_workspace = false;
    settings.business.roles.emplace("linked", instance("linked", scratch / "link", false));
    host::resolve_places(settings, root);
    CHECK(settings.workspaces.size() == 7);
    CHECK(reason_of(settings, "a") == scratch / "pair is the workspace of b, " + scratch / "pair");
    CHECK(reason_of(settings, "b").find("the workspace of a, ") != std::string::npos);
    CHECK(reason_of(settings, "alone") ==
          scratch / "alone is the workspace of linked, " + scratch / "alone");
    settings.business.roles.erase("b");
    host::resolve_places(settings, root);
    CHECK(settings.workspaces.size() == 6);
    CHECK(reason_of(settings, "a") == "");

    // A copy judges the same.
    settings.seccomp.reset(::dup(2));
    const auto copy = host::copy_settings(settings);
    REQUIRE(copy);
    CHECK(reason_of(*copy, "alone") == reason_of(settings, "alone"));
    CHECK(reason_of(*copy, "rooted") == reason_of(settings, "rooted"));
}

TEST_CASE("the places are those that would be found for each instance alone") {
    const Scratch scratch;
    Settings settings;
    for (const char* name : {"a", "b", "c"}) {
        fs::create_directories(scratch / name);
        settings.business.roles.emplace(name, instance(name, scratch / name, *name != 'c'));
    }
    fs::create_symlink("b", scratch / "to b");
    settings.business.roles.at("b").workspace = scratch / "to b";
    host::DataRoot root;
    root.path = scratch / "root";
    host::resolve_places(settings, root);
    for (const auto& [name, of] : settings.business.roles) {
        CAPTURE(name);
        std::vector<sandbox::Place> others;
        for (const auto& [other_name, other] : settings.business.roles) {
            if (other_name != name) {
                others.push_back(sandbox::workspace_place(
                    {other_name, other.workspace, other.shared_workspace}, of.shared_workspace));
            }
        }
        std::vector<sandbox::Place> expected = settings.places;
        for (const sandbox::Place& place : sandbox::resolve_places(others)) {
            expected.push_back(place);
        }
        CHECK(host::places_of(settings, of) == expected);
    }
}
