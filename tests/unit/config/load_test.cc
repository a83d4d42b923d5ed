// Goal: files are read from where they are looked for, and only when nobody else can write them.
// Method: real files in a scratch directory below the build directory.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "config/config.h"

namespace fs = std::filesystem;
using mosaic::Code;
using mosaic::config::Environment;
using mosaic::config::load_business;
using mosaic::config::load_contract;
using mosaic::config::load_system;

namespace {

struct Scratch {
    std::string path;

    Scratch() {
        std::string name = std::string(MOSAIC_BUILD_DIR) + "/config-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    ~Scratch() { fs::remove_all(path); }

    std::string write(const std::string& name, const std::string& text) const {
        const std::string file = path + "/" + name;
        fs::create_directories(fs::path(file).parent_path());
        std::ofstream(file) << text;
        REQUIRE(::chmod(file.c_str(), 0600) == 0);
        return file;
    }
};

const std::string kBusiness = R"({"id":"acme","human":"h","roles":{}})";

}  // namespace

TEST_CASE("a system file that nobody named may be absent") {
    const Scratch scratch;
    const Environment env = {{"HOME", scratch.path}};
    const auto loaded = load_system("", env);
    REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().text));
    CHECK(loaded->file.empty());
    CHECK(loaded->directory == scratch.path + "/.config/mosaic");
    CHECK(loaded->roles_dir == scratch.path + "/.config/mosaic/roles");
    CHECK(loaded->data_root == scratch.path + "/.local/state/mosaic");

    const auto named = load_system(scratch.path + "/none.json", env);
    REQUIRE_FALSE(named.has_value());
    CHECK(named.error().code == Code::missing);
    CHECK(named.error().text == scratch.path + "/none.json: does not exist");
    const auto variable =
        load_system("", {{"HOME", scratch.path}, {"MOSAIC_CONFIG", scratch.path + "/none.json"}});
    CHECK_FALSE(variable.has_value());
}

TEST_CASE("a business is found by its id beside the system file, or by its path") {
    const Scratch scratch;
    scratch.write(".config/mosaic/system.json", R"({"user":"someone"})");
    const std::string file = scratch.write(".config/mosaic/businesses/acme.json", kBusiness);
    const auto system = load_system("", {{"HOME", scratch.path}});
    REQUIRE_MESSAGE(system.has_value(), (system ? "" : system.error().text));
    CHECK(system->user == "someone");

    const auto by_id = load_business("acme", *system);
    REQUIRE_MESSAGE(by_id.has_value(), (by_id ? "" : by_id.error().text));
    CHECK(by_id->file == file);
    const auto by_path = load_business(file, *system);
    REQUIRE(by_path.has_value());
    CHECK(*by_path == *by_id);

    CHECK(load_business("other", *system).error().code == Code::missing);
    CHECK(load_business("Acme", *system).error().text ==
          "business: expected an id or a file's path, found \"Acme\"");
    const std::string renamed = scratch.write(".config/mosaic/businesses/other.json", kBusiness);
    CHECK(load_business("other", *system).error().text ==
          renamed + ": /id: expected \"other\" as the file is named, found \"acme\"");
    CHECK(load_business(renamed, *system).has_value());
}

TEST_CASE("a file that others may write is refused, and so is one in such a directory") {
    const Scratch scratch;
    const std::string file = scratch.write("conf/system.json", "{}");
    const Environment env = {{"HOME", scratch.path}};
    REQUIRE(load_system(file, env).has_value());

    REQUIRE(::chmod(file.c_str(), 0602) == 0);
    const auto writable = load_system(file, env);
    REQUIRE_FALSE(writable.has_value());
    CHECK(writable.error().code == Code::unsafe);
    CHECK(writable.error().text.find(file) != std::string::npos);

    REQUIRE(::chmod(file.c_str(), 0600) == 0);
    REQUIRE(::chmod((scratch.path + "/conf").c_str(), 0777) == 0);
    CHECK(load_system(file, env).error().code == Code::unsafe);
}

TEST_CASE("rolesDir and pluginDirs that others may write are refused") {
    const Scratch scratch;
    fs::create_directories(scratch.path + "/plugins");
    fs::create_directories(scratch.path + "/roles");
    const std::string file = scratch.write("system.json", R"({"pluginDirs":["plugins"]})");
    const Environment env = {{"HOME", scratch.path}};
    REQUIRE(load_system(file, env).has_value());

    REQUIRE(::chmod((scratch.path + "/plugins").c_str(), 0777) == 0);
    const auto unsafe = load_system(file, env);
    CHECK(unsafe.error().code == Code::unsafe);
    CHECK(unsafe.error().text.starts_with(file + ": /pluginDirs/0: others may write"));
    REQUIRE(::chmod((scratch.path + "/plugins").c_str(), 0755) == 0);
    REQUIRE(::chmod((scratch.path + "/roles").c_str(), 0777) == 0);
    CHECK(load_system(file, env).error().code == Code::unsafe);
}

TEST_CASE("a contract is read from rolesDir by the definition's name") {
    const Scratch scratch;
    const std::string file = scratch.write("system.json", "{}");
    const std::string contract = scratch.write("roles/coder.md", "# Coder\n");
    const auto system = load_system(file, {{"HOME", scratch.path}});
    REQUIRE_MESSAGE(system.has_value(), (system ? "" : system.error().text));
    mosaic::config::Instance instance;
    instance.definition = "coder";
    CHECK(mosaic::config::contract_path(*system, instance) == contract);
    CHECK(load_contract(*system, instance).value() == "# Coder\n");
    instance.definition = "reviewer";
    CHECK(load_contract(*system, instance).error().code == Code::missing);
    REQUIRE(::chmod(contract.c_str(), 0666) == 0);
    instance.definition = "coder";
    CHECK(load_contract(*system, instance).error().code == Code::unsafe);
}

TEST_CASE("the environment is read as a map") {
    REQUIRE(::setenv("MOSAIC_CONFIG_TEST", "a=b", 1) == 0);
    CHECK(mosaic::config::current_environment().at("MOSAIC_CONFIG_TEST") == "a=b");
    REQUIRE(::unsetenv("MOSAIC_CONFIG_TEST") == 0);
    CHECK_FALSE(mosaic::config::current_environment().contains("MOSAIC_CONFIG_TEST"));
}

TEST_CASE("the example business is a good one") {
    const std::string examples = std::string(MOSAIC_SOURCE_DIR) + "/examples/acme";
    const auto system = load_system(examples + "/system.json", {{"HOME", "/home/jordan"}});
    REQUIRE_MESSAGE(system.has_value(), (system ? "" : system.error().text));
    const auto business = load_business("acme", *system);
    REQUIRE_MESSAGE(business.has_value(), (business ? "" : business.error().text));
    for (const auto& [name, instance] : business->roles) {
        CAPTURE(name);
        CHECK(instance.route.has_value());
        CHECK(load_contract(*system, instance).has_value());
    }
}
