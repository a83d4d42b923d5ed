#include "registry/layout.h"

#include <doctest/doctest.h>

namespace registry = mosaic::registry;

TEST_CASE("every name below a data root is where the format says") {
    const std::string root = "/srv/mosaic/acme";
    CHECK(registry::lock_path(root) == "/srv/mosaic/acme/bus-host/lock");
    CHECK(registry::sessions_path(root) == "/srv/mosaic/acme/bus-host/sessions.json");
    CHECK(registry::broker_store_path(root) == "/srv/mosaic/acme/bus-host/broker.sqlite");
    CHECK(registry::launch_socket_path(root) == "/srv/mosaic/acme/bus-host/launch.sock");
    CHECK(registry::bus_socket_path(root) == "/srv/mosaic/acme/bus-host/bus.sock");
    CHECK(registry::admin_socket_path(root) == "/srv/mosaic/acme/bus-host/admin.sock");
    CHECK(registry::stage_dir(root) == "/srv/mosaic/acme/bus-host/stage");
    CHECK(registry::join(registry::launches_dir(root), registry::launch_log_name("acme")) ==
          "/srv/mosaic/acme/launches/acme.jsonl");
    CHECK(registry::run_dir(root, {.business = "acme", .run = "r0123456789ab"}) ==
          "/srv/mosaic/acme/launches/acme/r0123456789ab");
    CHECK(registry::thread_dir(root, {.business = "acme", .instance = "coder", .thread = "t1"}) ==
          "/srv/mosaic/acme/threads/acme/coder/t1");
}

TEST_CASE("a data root that ends in a slash gives the same names") {
    CHECK(registry::lock_path("/d/") == "/d/bus-host/lock");
    CHECK(registry::lock_path("/") == "/bus-host/lock");
}
