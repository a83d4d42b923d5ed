// Goal: a session comes back to its broker soon, and one whose broker is away or hangs costs next
// to nothing. Method: the waits as data; a Bus on a real socket whose queue is full, with instants
// of the test's own.

#include "runner/bus.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runner/socket_path.h"

using namespace mosaic;
using namespace mosaic::runner;

namespace {

using Waits = std::vector<int64_t>;

Waits first_waits(int64_t (*wait_ms)(int64_t), int64_t count) {
    Waits out;
    for (int64_t n = 1; n <= count; ++n) {
        out.push_back(wait_ms(n));
    }
    return out;
}

// A broker's socket in a directory of its own. Nobody takes from its queue unless take() is called.
class Broker {
  public:
    Broker() {
        REQUIRE(::mkdtemp(directory_.data()) != nullptr);
        const UniqueFd fd(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        auto listening = listen_in(fd.get(), "bus.sock", 0);
        REQUIRE(listening.has_value());
        listener_ = std::move(*listening);
    }

    Broker(const Broker&) = delete;
    Broker& operator=(const Broker&) = delete;

    ~Broker() { std::filesystem::remove_all(directory_); }

    [[nodiscard]] std::string path() const { return directory_ + "/bus.sock"; }

    void fill_queue() {
        SocketPath socket(path());
        REQUIRE(socket.take().has_value());
        while (auto connected = socket.connect()) {
            others_.push_back(std::move(*connected));
        }
    }

    // All that wait in the queue, and gives them up.
    void take() {
        while (UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).valid()) {
        }
    }

  private:
    std::string directory_ = MOSAIC_BUILD_DIR "/bus-XXXXXX";
    UniqueFd listener_;
    std::vector<UniqueFd> others_;
};

// The waits between the next `count` attempts, each made at its time.
Waits waits_of(Bus& bus, Instant& now, int64_t count) {
    Waits out;
    for (int64_t n = 0; n < count; ++n) {
        bus.work(now);
        REQUIRE(bus.next_attempt().has_value());
        out.push_back(to_us(*bus.next_attempt() - now) / 1000);
        now = *bus.next_attempt();
    }
    return out;
}

}  // namespace

TEST_CASE("waits grow to a most and stay there") {
    CHECK(first_waits(wait_for_room_ms, 10) ==
          Waits{10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000});
    CHECK(wait_for_room_ms(INT64_MAX) == 1000);
    CHECK(first_waits(wait_after_losses_ms, 7) == Waits{100, 200, 400, 800, 1600, 2000, 2000});
    CHECK(wait_after_losses_ms(INT64_MAX) == 2000);
}

TEST_CASE("a session looks for room in a full queue less and less often and never gives up") {
    Broker broker;
    broker.fill_queue();
    const CapabilityPage capability;
    Bus bus({broker.path(), "r", 0}, capability);
    Instant now = Instant{} + seconds(1);
    CHECK(waits_of(bus, now, 9) == Waits{10, 20, 40, 80, 160, 320, 640, 1000, 1000});
    broker.take();
    bus.work(now);
    CHECK(bus.state() == Bus::State::claiming);
}

TEST_CASE("a connection ends the wait for room and the next one starts small") {
    Broker broker;
    broker.fill_queue();
    const CapabilityPage capability;
    Bus bus({broker.path(), "r", 5}, capability);
    Instant now = Instant{} + seconds(1);
    CHECK(waits_of(bus, now, 3) == Waits{10, 20, 40});
    broker.take();
    bus.work(now);
    REQUIRE(bus.state() == Bus::State::claiming);
    broker.take();
    broker.fill_queue();
    PollSet polls;
    bus.add_to(polls);
    polls.wait(std::nullopt);
    REQUIRE(bus.read(polls, now).empty());
    REQUIRE(bus.state() == Bus::State::apart);
    CHECK(*bus.next_attempt() - now == milliseconds(100));
    now = *bus.next_attempt();
    CHECK(waits_of(bus, now, 3) == Waits{10, 20, 40});
}
