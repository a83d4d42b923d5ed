#pragma once

#include <string_view>

namespace mosaic::host {

// Tells the service manager (sd_notify(3)) by one datagram to $NOTIFY_SOCKET; nothing without one.
void notify_service_manager(std::string_view state);

}  // namespace mosaic::host
