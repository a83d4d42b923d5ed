// mosaic-host: the service of one business.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "host/disk_watch.h"
#include "host/host.h"
#include "host/log.h"
#include "host/privileges.h"
#include "host/run_directories.h"
#include "host/stage_trees.h"
#include "process/descriptors.h"
#include "process/files.h"
#include "process/spawn.h"
#include "registry/layout.h"
#include "wire/codes.h"

namespace mosaic::host {
namespace {

struct Arguments {
    std::string business;
    std::string config;
    std::string data;
    std::string user;
    bool pm = false;
    std::string write_config;
    bool lay_stages = false;
    // Of our own children, who find the runs' directory at descriptor 3.
    std::vector<std::string> remove_runs;
    std::vector<std::string> trim_runs;
    std::vector<std::string> measure_runs;
    std::vector<std::string> remove_stages;  // these find the staged trees' directory there
    uint64_t enough = UINT64_MAX;
};

int refuse(const Error& error) {
    log_line(error.text);
    return exit_code::kRefused;
}

// Nothing that we inherited may reach a session or be mistaken for one of ours. 0, 1 and 2 exist.
void tidy_descriptors() {
    ::close_range(3, ~0U, 0);
    for (int fd = 0; fd <= 2; ++fd) {
        if (::fcntl(fd, F_GETFD) < 0) {
            ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
        }
    }
}

// TRAP-05, TRAP-07: a child that ended must be there to be reaped, a reader that went must not end
// us.
void set_dispositions() {
    std::signal(SIGCHLD, SIG_DFL);  // NOLINT(cert-err33-c): both can't fail
    std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
}

int serve(const Arguments& arguments) {
    auto read = read_settings(
        {arguments.business, arguments.config, arguments.data, config::current_environment()});
    if (!read) {
        return refuse(read.error());
    }
    Settings settings = std::move(*read);
    auto root =
        open_data_root(config::data_root_of(settings.system, arguments.data, settings.business.id),
                       settings.business.id);
    if (!root) {
        return refuse(root.error());
    }
    auto left = read_left_sessions(*root, settings.business.id);
    if (!left) {
        return refuse(left.error());
    }
    if (const auto staged = stage_modules(settings, *root); !staged) {
        return refuse(staged.error());
    }
    resolve_places(settings, *root);
    take_groups(settings);
    if (const auto safe = check_nested(settings); !safe) {
        return refuse(safe.error());
    }
    if (arguments.pm && !settings.business.launch) {
        log_line("PM launch refused: launch-not-configured (business " + settings.business.id +
                 " has no launch block)");
        return exit_code::kRefused;
    }
    Host host(std::move(settings), std::move(*root), std::move(*left), {arguments.pm});
    if (const auto ready = host.set_up(); !ready) {
        return refuse(ready.error());
    }
    return host.run();
}

// Started as root, `user` of the system file counts when --user doesn't.
std::string user_to_become(const Arguments& arguments) {
    if (!arguments.user.empty() || ::geteuid() != 0) {
        return arguments.user;
    }
    const auto system = config::load_system(arguments.config, config::current_environment());
    return system ? system->user : std::string();
}

int main_with(int argc, char** argv) {
    CLI::App app{"Runs the role sessions of one business, each in its own sandbox."};
    Arguments arguments;
    auto* business = app.add_option(
        "--business", arguments.business, "The business: an id, or the path of its file");
    app.add_option("--config", arguments.config, "The system file");
    app.add_option("--data", arguments.data, "The data root");
    app.add_option("--user", arguments.user, "Started as root: the user that sessions run as");
    app.add_flag("--pm", arguments.pm, "Launch the role that launches others");
    app.add_option(kWriteConfig, arguments.write_config)->group("");
    app.add_flag(kLayStages, arguments.lay_stages)->group("");
    app.add_option(kRemoveRun, arguments.remove_runs)->group("");
    app.add_option(kTrimRun, arguments.trim_runs)->group("");
    app.add_option(kMeasureRun, arguments.measure_runs)->group("");
    app.add_option(kRemoveStage, arguments.remove_stages)->group("");
    app.add_option(kEnough, arguments.enough)->group("");
    app.set_version_flag("--version", std::string("mosaic-host ") + MOSAIC_VERSION);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) {
            return app.exit(error);  // prints the help or the version that was asked for
        }
        log_line(std::string(error.what()) + "; see mosaic-host --help");
        return exit_code::kUsage;
    }
    if (arguments.lay_stages || !arguments.write_config.empty()) {
        return write_config(arguments.lay_stages, arguments.write_config);
    }
    constexpr int kChildsFd = 3;
    if (!arguments.measure_runs.empty()) {
        return measure_in_runs(kChildsFd, arguments.measure_runs, arguments.enough);
    }
    if (!arguments.remove_runs.empty() || !arguments.trim_runs.empty()) {
        return remove_in_runs(kChildsFd, arguments.remove_runs, arguments.trim_runs);
    }
    if (!arguments.remove_stages.empty()) {
        return remove_in_stage(kChildsFd, arguments.remove_stages);
    }
    tidy_descriptors();
    if (business->count() == 0) {
        log_line("--business is missing: an id, or the path of a business file");
        return exit_code::kUsage;
    }
    set_dispositions();
    if (const auto left = leave_root(user_to_become(arguments), argv); !left) {
        return refuse(left.error());
    }
    ::umask(0077);
    if (const auto left = process::leave_session_keyring(); !left) {
        log_line("warning: " + left.error().text);
    }
    process::raise_descriptor_limit();  // TRAP-17: before the first accept
    return serve(arguments);
}

}  // namespace
}  // namespace mosaic::host

// NOLINTNEXTLINE(bugprone-exception-escape): CLI11 throws for an option that was added wrongly
int main(int argc, char** argv) {
    return mosaic::host::main_with(argc, argv);
}
