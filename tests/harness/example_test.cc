// Goal: who writes a module by docs/harness-modules.md has one that works. Method: the files of its
// worked example, taken from the page, on the installed product.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "e2e/harness.h"

using namespace mosaic;
using e2e::contains;
using e2e::object;
using e2e::strings;
using e2e::trim;

namespace {

// Writes each block of the page that a "<!-- file: PATH -->" stands before below `directory`; how
// many there were.
int write_files(const std::string& page, const std::string& directory) {
    constexpr std::string_view kMark = "<!-- file: ";
    int count = 0;
    for (size_t at = page.find(kMark); at != std::string::npos; at = page.find(kMark, at + 1)) {
        const size_t name = at + kMark.size();
        const std::string path =
            directory + "/" + page.substr(name, page.find(" -->", name) - name);
        const size_t begin = page.find('\n', page.find("\n```", name) + 1) + 1;
        const size_t end = page.find("\n```", begin) + 1;
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        e2e::write_text(path, std::string_view(page).substr(begin, end - begin), 0755);
        ++count;
    }
    return count;
}

}  // namespace

TEST_CASE("the worked example of a harness module works as its page says") {
    e2e::World world;
    const std::string page = e2e::read_text(MOSAIC_SOURCE_DIR "/docs/harness-modules.md");
    REQUIRE(write_files(page, world.root) == 3);
    world.system.set("pluginDirs", strings({(world.root + "/modules").c_str()}));
    world.system.find("plugins")->set("harness", strings({"script", "scribe"}));
    world.set_var("coder", "harness", "scribe");
    world.set_var("coder", "provider", "scriptorium");
    world.set_var("coder", "model", "quill-2");
    world.set_var("coder", "thinking", "high");
    world.set_var("coder", "limits.tools", strings({"read"}));
    world.launch_block().find("models")->array()->push_back(
        object({{"provider", "scriptorium"}, {"model", "quill-2"}, {"max", 1}}));
    e2e::StartOptions how;
    how.more_env = {{"MOSAIC_SCRIBE_BIN", world.root + "/programs/scribe"}};
    world.start(how);
    CHECK(world.launch_refused("coder") == "no-session-credential");
    CHECK(contains(world.refusal_message, "SCRIBE_KEY"));
    world.stop();

    how.more_env["SCRIBE_KEY"] = "stand-in";
    world.start(how);
    world.launch("coder");
    e2e::write_text(world.workspace("coder") + "/list.txt", "buy ink");
    CHECK(trim(world.ask("coder", "please read list.txt")) == "buy ink");
    const std::string denied = world.ask("coder", "please read /etc/hostname");
    CHECK(contains(denied, "The turn failed"));
    CHECK(contains(denied, "I may not read /etc/hostname"));
}
