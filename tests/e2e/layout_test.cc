// Goal: a session works wherever its workspace lies and whatever its name is made of, and no place
// that names it is broken by it. Method: real sessions in workspaces with odd names; each place
// that prints the path is read back. Links on the way and /tmp: disk_test.cc.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "base/utf8.h"
#include "e2e/harness.h"

using namespace mosaic;
using namespace mosaic::e2e;

namespace {

// No byte that a terminal obeys, and nothing that isn't UTF-8.
bool is_plain_text(std::string_view text) {
    return valid_utf8_prefix(text) == text.size() &&
           std::none_of(text.begin(), text.end(), [](char c) {
               return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
           });
}

json::Value parsed(const std::string& path) {
    const auto value = json::parse(read_text(path), {.depth_max = 16});
    REQUIRE_MESSAGE(value.has_value(), path << " is not JSON: " << value.error().text);
    return *value;
}

std::set<std::string> dests(const json::Value& with_binds) {
    std::set<std::string> out;
    for (const json::Value& bind : *with_binds.find("binds")->array()) {
        out.insert(text(bind, "dest"));
    }
    return out;
}

// The session in `inside` of the host's directory `real`: what works in it, and what names it.
void check_session(World& world, const std::string& real, const std::string& inside) {
    write_text(real + "/mine", "of the workspace");
    const std::string run = text(world.launch("coder"), "run");
    // The dot keeps the shell from dropping newlines at the end.
    CHECK(world.ask("coder", "p=$(pwd -P; echo .); printf %s \"$p\"") == inside + "\n.");
    CHECK(world.ask("coder", "printf %s \"$MOSAIC_WORKSPACE\"") == inside);
    CHECK(world.ask("coder", "cat mine; cat -- \"$MOSAIC_WORKSPACE/mine\"; echo x >made") ==
          "of the workspaceof the workspace");
    CHECK(exists(real + "/made"));
    CHECK(world.ask("coder",
                    "git init -q . && git -c user.name=n -c user.email=e commit -q --allow-empty "
                    "-m one && git log --format=%s") == "one\n");

    const std::string directory = world.run_directory(run);
    CHECK(text(parsed(directory + "/session.json"), "workspace") == inside);
    CHECK(text(parsed(directory + "/bundle/policy.json"), "workspace") == inside);
    CHECK_CONTAINS(read_text(directory + "/bundle/prompt.md"),
                   "Your workspace is `" + escape_path(inside) + "`");
    const json::Value manifest = parsed(directory + "/bundle/manifest.json");
    const std::set<std::string> bound = dests(manifest);
    CHECK(bound.contains(inside));
    for (const std::string& file : {directory + "/bundle/manifest.json",
                                    directory + "/runner.log",
                                    world.root + "/host.log"}) {
        CAPTURE(file);
        CHECK(is_plain_text(read_text(file)));
    }

    const Finished as_json =
        world.mosaic({"sandbox", "show", "coder", "--business", "acme", "--json"});
    CHECK(as_json.exit.code == 0);
    const std::set<std::string> shown = dests(as_json.json());
    CHECK(shown.contains(inside));
    const Finished table = world.mosaic({"sandbox", "show", "coder", "--business", "acme"});
    CHECK(is_plain_text(table.out));
    CHECK_CONTAINS(table.out, "  " + escape_path(inside) + "  ");
    CHECK(world.mosaic({"doctor", "--business", "acme", "--json"}).json().find("checks") !=
          nullptr);
    for (const char* command : {"ps", "log", "events", "routes"}) {
        CAPTURE(command);
        CHECK(is_plain_text(world.mosaic({command}).out));
    }
    world.stop_run("coder");
    world.wait_log("end", run);
}

// A launch that is refused with `reason`: one line wherever it is told.
void check_refused(World& world, const std::string& reason) {
    const size_t before = world.log("refused").size();
    CHECK(world.launch_refused("coder") == "workspace-unsafe");
    CHECK_CONTAINS(world.refusal_message, reason);
    CHECK(!contains(world.refusal_message, "\n"));
    CHECK_CONTAINS(world.host_log(), reason);
    CHECK(is_plain_text(world.host_log()));
    CHECK_CONTAINS(text(world.wait_log_count("refused", before + 1).back(), "reason"), reason);
    const Finished show = world.mosaic({"sandbox", "show", "coder", "--business", "acme"});
    CHECK(show.exit.code == 3);
    CHECK_CONTAINS(show.out, reason);
    CHECK(world.mosaic({"ps"}).exit.code == 0);
}

}  // namespace

TEST_CASE("a session works in a workspace of any name") {
    for (const std::string name : {"with some  spaces ",
                                   "two\nlines\n",
                                   "-rf",
                                   "--help",
                                   "it's \"quoted\" $HOME `id` \\n %s * ?",
                                   "\x1b]0;title\x07\x1b[2J",
                                   "gr\xC3\xBC\xC3\x9F \xE2\x80\xAE txt"}) {
        CAPTURE(name);
        World world;
        const std::string real = world.root + "/ws/" + name;
        std::filesystem::create_directories(real);
        world.role("coder").set("workspace", real);
        world.start();
        check_session(world, real, real);
    }
}

TEST_CASE("a relative workspace with a leading dash lies beside its file") {
    World world;
    // Beside the configuration it would be unsafe: the file gets a directory of its own.
    std::filesystem::create_directories(world.root + "/apart/-ws");
    std::filesystem::rename(world.root + "/config/businesses", world.root + "/apart/in");
    world.business_file = world.root + "/apart/in/acme.json";
    std::filesystem::create_directory_symlink("../apart/-ws", world.root + "/ws/-link");
    world.role("coder").set("workspace", "../../ws/-link");
    world.start();
    world.launch("coder");
    CHECK(trim(world.ask("coder", "pwd -P")) == world.root + "/apart/-ws");
}

TEST_CASE("a workspace whose path isn't UTF-8 is shown at the link that names it") {
    World world;
    const std::string real = world.root + "/ws/b\xFF\nd/deep";
    std::filesystem::create_directories(real);
    std::filesystem::create_directory_symlink("ws/b\xFF\nd", world.root + "/link");
    world.role("coder").set("workspace", world.root + "/link//deep/");
    world.start();
    check_session(world, real, world.root + "/link/deep");
    // An operator's shell stands at the same place.
    write_text(world.root + "/typed", "echo \"in=$(pwd -P)\"; cat mine; exit\n");
    const Finished shell =
        run(world.shell_argv("cat '" + world.root + "/typed'"), world.environment());
    CHECK_CONTAINS(shell.out, "in=" + world.root + "/link/deep");
    CHECK_CONTAINS(shell.out, "of the workspace");
}

TEST_CASE("a path that isn't UTF-8 and that nothing else names is refused in words") {
    World world;
    const std::string real = world.root + "/ws/b\xFF\nd";
    std::filesystem::create_directories(real);
    std::filesystem::create_directory_symlink("b\xFF\nd", world.root + "/ws/link");
    SUBCASE("because text can't tell where it is") {
        world.role("coder").set("workspace", world.root + "/ws/link/../link");
        world.start();
        check_refused(world, world.root + "/ws/b\\xff\\nd is not UTF-8");
    }
    SUBCASE("at the start because the file itself lies below it") {
        std::filesystem::create_directories(real + "/config");
        world.business_file = real + "/config/acme.json";
        world.role("coder").set("workspace", "work");
        CHECK(world.start_fails().code == 3);
        CHECK_CONTAINS(world.host_log(), "/roles/coder/workspace: expected an absolute path");
        CHECK(is_plain_text(world.host_log()));
    }
}

TEST_CASE("a workspace of an odd name that is unsafe is refused on one line") {
    World world;
    const std::string real = world.data + "/two\nlines";
    std::filesystem::create_directories(real);
    std::filesystem::permissions(world.data, std::filesystem::perms::owner_all);
    world.role("coder").set("workspace", real);
    world.start();
    check_refused(world, world.data + "/two\\nlines lies in the data root " + world.data);
}
