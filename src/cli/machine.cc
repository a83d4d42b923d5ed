#include "cli/machine.h"

#include <algorithm>
#include <filesystem>

#include "process/own_program.h"
#include "wire/codes.h"

namespace mosaic::cli {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Failure> refused(const Error& error) {
    return tl::unexpected<Failure>(Failure{exit_code::kRefused, error.text});
}

}  // namespace

tl::expected<config::Business, Failure> choose_business(const Context& context,
                                                        const config::SystemConfig& system) {
    std::string name = context.options.business;
    if (name.empty()) {
        const std::string directory = system.directory + "/businesses";
        const std::vector<std::string> ids = configured_ids(system.directory);
        if (ids.size() != 1) {
            std::string names;
            for (const std::string& id : ids) {
                names += (names.empty() ? " (" : ", ") + id;
            }
            return tl::unexpected<Failure>(Failure{
                exit_code::kUsage,
                (ids.empty() ? "there is no business in " : "there are several in ") + directory +
                    names + (ids.empty() ? ": `mosaic init` writes one" : "); give --business")});
        }
        name = ids[0];
    }
    auto business = config::load_business(name, system);
    if (!business) {
        return refused(business.error());
    }
    return std::move(*business);
}

harness::ModuleSet load_modules(const config::SystemConfig& system) {
    const auto own = process::own_executable();
    return harness::load_modules(system, own ? harness::shipped_directory(*own) : "");
}

tl::expected<Machine, Failure> read_machine(const Context& context) {
    Machine out;
    auto system = config::load_system(context.options.config, context.env);
    if (!system) {
        return refused(system.error());
    }
    out.system = std::move(*system);
    auto business = choose_business(context, out.system);
    if (!business) {
        return tl::unexpected<Failure>(business.error());
    }
    out.business = std::move(*business);
    out.modules = load_modules(out.system);
    auto layout = sandbox::read_layout();
    if (!layout) {
        return refused(layout.error());
    }
    out.layout = std::move(*layout);
    std::error_code error;
    out.data_root =
        fs::absolute(config::data_root_of(out.system, context.options.data, out.business.id), error)
            .lexically_normal()
            .string();
    return out;
}

}  // namespace mosaic::cli
