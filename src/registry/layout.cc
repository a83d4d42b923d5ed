#include "registry/layout.h"

namespace mosaic::registry {
namespace {

std::string in_bus_host(std::string_view data_root, std::string_view name) {
    return join(bus_host_dir(data_root), name);
}

}  // namespace

std::string join(std::string_view parent, std::string_view name) {
    std::string out(parent);
    if (out.empty() || out.back() != '/') {
        out += '/';
    }
    out += name;
    return out;
}

std::string bus_host_dir(std::string_view data_root) {
    return join(data_root, kBusHost);
}

std::string lock_path(std::string_view data_root) {
    return in_bus_host(data_root, kLock);
}

std::string sessions_path(std::string_view data_root) {
    return in_bus_host(data_root, kSessions);
}

std::string broker_store_path(std::string_view data_root) {
    return in_bus_host(data_root, kBrokerStore);
}

std::string launch_socket_path(std::string_view data_root) {
    return in_bus_host(data_root, kLaunchSocket);
}

std::string bus_socket_path(std::string_view data_root) {
    return in_bus_host(data_root, kBusSocket);
}

std::string admin_socket_path(std::string_view data_root) {
    return in_bus_host(data_root, kAdminSocket);
}

std::string stage_dir(std::string_view data_root) {
    return in_bus_host(data_root, kStage);
}

std::string launches_dir(std::string_view data_root) {
    return join(data_root, kLaunches);
}

std::string launch_log_name(std::string_view business) {
    return std::string(business) + ".jsonl";
}

std::string runs_dir(std::string_view data_root, std::string_view business) {
    return join(launches_dir(data_root), business);
}

std::string run_dir(std::string_view data_root, RunName name) {
    return join(runs_dir(data_root, name.business), name.run);
}

std::string thread_dir(std::string_view data_root, ThreadName name) {
    return join(join(join(join(data_root, kThreads), name.business), name.instance), name.thread);
}

}  // namespace mosaic::registry
