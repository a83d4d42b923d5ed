#include "bench/flooder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <utility>
#include <variant>

#include "base/instant.h"
#include "process/pidfd.h"
#include "process/write_all.h"
#include "wire/limits.h"

namespace mosaic::bench {
namespace {

constexpr Duration kAnswerTakes = seconds(60);
constexpr const char* kRun = "r0000000f100d";
constexpr const char* kRole = "flooder";
constexpr size_t kBodyBytes = 1024;

struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

Result<Pipe> make_pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return fail_sys(errno, "pipe");
    }
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// ---- the child's part ----

class Flood {
  public:
    explicit Flood(std::string path) : path_(std::move(path)) {}

    // Until the input ends, or something doesn't work.
    void run() {
        while (true) {
            if (going_ && !fill()) {
                return;
            }
            std::array<pollfd, 2> polls = {{{STDIN_FILENO, POLLIN, 0}, {bus_.get(), POLLIN, 0}}};
            if (::poll(polls.data(), polls.size(), -1) < 0) {
                return;
            }
            if ((polls[0].revents != 0 && !take_command()) ||
                (polls[1].revents != 0 && !take_replies())) {
                return;
            }
            if (stopping_ && outstanding_ == 0) {
                stopping_ = false;
                ignore(process::write_all(
                           STDOUT_FILENO, std::to_string(answered_) + "\n", "standard output"),
                       "whoever waits for it sees the end");
            }
        }
    }

  private:
    bool post(const std::string& verb, json::Value args) {
        ++outstanding_;
        const wire::Request request{next_id_++, verb, cap_, std::move(args)};
        return process::write_all(bus_.get(), wire::encode(request), "bus.sock").has_value();
    }

    bool fill() {
        while (outstanding_ < limits::kBusOutstandingMax) {
            bool sent = false;
            if (!to_ack_.empty()) {
                sent = post("message.ack",
                            wire::MessageAckArgs{std::exchange(to_ack_, "")}.to_value());
            } else if (!receiving_) {
                receiving_ = true;
                receive_id_ = next_id_;
                sent = post("message.receive", wire::MessageReceiveArgs{}.to_value());
            } else {
                wire::MessageSendArgs message;
                message.to = {kRole, ""};
                message.message_class = wire::MessageClass::note;
                message.body = std::string(kBodyBytes, 'x');
                sent = post("message.send", message.to_value());
            }
            if (!sent) {
                return false;
            }
        }
        return true;
    }

    // "claim CAPABILITY", "begin", "stop".
    bool take_command() {
        std::array<char, 4096> buffer{};
        const ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
        if (n <= 0) {
            return false;
        }
        commands_.append({buffer.data(), static_cast<size_t>(n)});
        while (const auto line = commands_.next()) {
            if (line->starts_with("claim ")) {
                // Only now: the broker looks at who connects when it connects.
                auto connected = connect_to(path_);
                if (!connected) {
                    return false;
                }
                bus_ = std::move(*connected);
                cap_ = line->substr(6);
                stopping_ = true;
                if (!post("role.claim", wire::ClaimArgs{kRun}.to_value())) {
                    return false;
                }
            } else if (*line == "begin") {
                answered_ = 0;
                going_ = true;
                if (!fill() || !process::write_all(STDOUT_FILENO, "begun\n", "standard output")) {
                    return false;
                }
            } else {
                going_ = false;
                stopping_ = true;
            }
        }
        return true;
    }

    bool take_replies() {
        const ssize_t n = ::recv(bus_.get(), buffer_.data(), buffer_.size(), 0);
        if (n <= 0) {
            return false;
        }
        lines_.append({buffer_.data(), static_cast<size_t>(n)});
        while (const auto line = lines_.next()) {
            const auto frame = wire::decode_frame(*line);
            const auto* reply = frame ? std::get_if<wire::Reply>(&*frame) : nullptr;
            if (reply == nullptr) {
                return false;
            }
            --outstanding_;
            ++answered_;
            if (receiving_ && reply->id == receive_id_) {
                receiving_ = false;
                const json::Value* message = reply->result.find("message");
                const json::Value* id = message != nullptr ? message->find("id") : nullptr;
                to_ack_ = id != nullptr && id->string() != nullptr ? *id->string() : "";
            }
        }
        return true;
    }

    std::string path_;
    UniqueFd bus_;
    std::string cap_;
    wire::LineBuffer commands_{4096};
    wire::LineBuffer lines_{limits::kFrameBytesMax};
    std::array<char, 65536> buffer_{};
    bool going_ = false;
    bool stopping_ = false;  // an answer is due when nothing is outstanding
    size_t outstanding_ = 0;
    int64_t answered_ = 0;
    int64_t next_id_ = 1;
    bool receiving_ = false;
    int64_t receive_id_ = 0;
    std::string to_ack_;
};

}  // namespace

int flood(const std::string& bus) {
    Flood(bus).run();
    return 0;
}

Result<std::unique_ptr<Flooder>> Flooder::start(Bus& bus, Waiter& waiter) {
    std::unique_ptr<Flooder> out(new Flooder(waiter));
    MOSAIC_TRY_ASSIGN(Pipe commands, make_pipe());
    MOSAIC_TRY_ASSIGN(Pipe answers, make_pipe());
    process::SpawnSpec spec;
    spec.path = "/proc/self/exe";
    spec.argv = {"mosaic-bench", kFlood, bus.path()};
    spec.descriptors = {{commands.read.get(), 0}, {answers.write.get(), 1}, {2, 2}};
    spec.parent_death_kill = true;
    MOSAIC_TRY_ASSIGN(process::Spawned child, process::spawn(spec));
    out->child_.emplace(std::move(child));
    MOSAIC_TRY(out->child_->wait_exec());
    out->commands_ = std::move(commands.write);
    out->answers_ = std::move(answers.read);
    MOSAIC_TRY_ASSIGN(const std::string cap, bus.bind(kRole, kRun, out->child_->pid()));
    MOSAIC_TRY(out->command("claim " + cap));
    return out;
}

Flooder::~Flooder() {
    if (child_) {
        ignore(process::signal_pidfd(child_->pidfd(), SIGKILL), "gone is what is wanted");
        pollfd gone{child_->pidfd(), POLLIN, 0};
        ::poll(&gone, 1, -1);
        ignore(process::reap(child_->pidfd()), "nobody asks how it ended");
    }
}

Result<std::string> Flooder::command(const std::string& line) {
    if (!process::write_all(commands_.get(), line + "\n", "the flooding session")) {
        return fail(Code::unavailable, "the flooding session is gone");
    }
    while (true) {
        if (auto answer = lines_.next()) {
            return std::move(*answer);
        }
        std::vector<pollfd> polls = {{answers_.get(), POLLIN, 0}};
        MOSAIC_TRY(waiter_.wait(polls, monotonic_now() + kAnswerTakes, "the flooding session"));
        std::array<char, 256> buffer{};
        const ssize_t n = ::read(answers_.get(), buffer.data(), buffer.size());
        if (n <= 0) {
            return fail(Code::unavailable, "the flooding session ended");
        }
        lines_.append({buffer.data(), static_cast<size_t>(n)});
    }
}

Result<void> Flooder::begin() {
    MOSAIC_TRY(command("begin"));
    return {};
}

Result<int64_t> Flooder::stop() {
    MOSAIC_TRY_ASSIGN(const std::string answered, command("stop"));
    int64_t count = 0;
    std::from_chars(answered.data(), answered.data() + answered.size(), count);
    return count;
}

}  // namespace mosaic::bench
