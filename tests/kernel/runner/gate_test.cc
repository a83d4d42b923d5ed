// Goal: the gate as a harness calls it: answers on standard output with exit 0, and whatever goes
// wrong with the gate itself is a denial. Method: the real program.

#include "kernel/runner/program.h"

using namespace scene;

namespace {

constexpr const char* kGate =
    R"({"workspace":"@","toolPointer":"/tool_name","inputPointer":"/tool_input",)"
    R"("allow":{"permission":"allow"},"deny":{"permission":"deny","reason":"${reason}"},)"
    R"("tools":{"Read":{"paths":["file_path"],"writes":false}},"typed":[],"controlPaths":[]})";

struct Answered {
    std::string out;
    std::string err;
    int exit_code = 0;
};

class Bundle {
  public:
    Bundle() {
        std::string name = MOSAIC_BUILD_DIR "/gate-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        root = std::filesystem::canonical(name).string();
        std::filesystem::create_directories(root + "/work");
        write_text(root + "/work/file", "x");
        std::string gate = kGate;
        gate.replace(gate.find('@'), 1, root + "/work");
        write_text(root + "/gate.json", gate);
    }

    Bundle(const Bundle&) = delete;
    Bundle& operator=(const Bundle&) = delete;

    ~Bundle() { std::filesystem::remove_all(root); }

    [[nodiscard]] Answered ask(const std::string& question,
                               std::vector<std::string> arguments = {"gate"}) const {
        Program program(std::move(arguments), env(), root + "/err", root + "/work");
        Peer peer = program.peer();
        std::string_view rest = question;
        // In pieces: a socket takes less at once than the longest question.
        while (!rest.empty()) {
            const ssize_t n = ::send(peer.fd(), rest.data(), rest.size(), MSG_NOSIGNAL);
            if (n <= 0) {
                break;
            }
            rest.remove_prefix(static_cast<size_t>(n));
        }
        peer.half_close();
        Answered out;
        out.out = peer.line().value_or("");
        out.exit_code = program.finish();
        out.err = read_text(root + "/err");
        return out;
    }

    [[nodiscard]] std::vector<std::string> env() const {
        return {"MOSAIC_BUNDLE=" + root, "HOME=" + root + "/home"};
    }

    std::string root;
};

std::string read_of(const std::string& path) {
    return R"({"tool_name":"Read","tool_input":{"file_path":")" + path + "\"}}";
}

}  // namespace

TEST_CASE("the gate prints the module's answer") {
    const Bundle bundle;
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"gate"}, {"gate", bundle.root + "/gate.json"}, {"gate", "../gate.json"}}) {
        const Answered allowed = bundle.ask(read_of("file"), arguments);
        CHECK(allowed.out == R"({"permission":"allow"})");
        CHECK(allowed.exit_code == 0);
        CHECK(allowed.err.empty());
        const Answered denied = bundle.ask(read_of("~/file"), arguments);
        CHECK(
            denied.out.starts_with(R"({"permission":"deny","reason":"Read: file_path \"~/file\")"));
        CHECK(denied.exit_code == 0);
    }
}

TEST_CASE("a question that is cut short, or too long to keep, is denied") {
    const Bundle bundle;
    CHECK(bundle.ask("").out.starts_with(R"({"permission":"deny")"));
    CHECK(bundle.ask(R"({"tool_name":"Read","tool_input":{"file_)")
              .out.starts_with(R"({"permission":"deny")"));
    const std::string long_one = R"({"tool_name":"Read","tool_input":{"file_path":"file","x":")" +
                                 std::string(size_t{9} * 1024 * 1024, 'x') + "\"}}";
    const Answered answered = bundle.ask(long_one);
    CHECK(answered.out.find("longer than 8388608 bytes") != std::string::npos);
    CHECK(answered.exit_code == 0);
    // A long one within the bound is decided.
    const std::string fits = R"({"tool_name":"Read","tool_input":{"file_path":"file","x":")" +
                             std::string(size_t{4} * 1024 * 1024, 'x') + "\"}}";
    CHECK(bundle.ask(fits).out == R"({"permission":"allow"})");
}

TEST_CASE("a gate without a policy blocks with exit 2 and says why on standard error") {
    const Bundle bundle;
    const auto blocked = [&](std::vector<std::string> arguments, const std::string& why) {
        const Answered answered = bundle.ask(read_of("file"), std::move(arguments));
        CHECK(answered.exit_code == 2);
        CHECK(answered.out.empty());
        CHECK(answered.err.starts_with("denied: "));
        CHECK_MESSAGE(answered.err.find(why) != std::string::npos, answered.err);
    };
    blocked({"gate", bundle.root + "/none"}, "none does not exist");
    blocked({"gate", bundle.root}, bundle.root);
    write_text(bundle.root + "/bad.json", "{\"workspace\":");
    blocked({"gate", bundle.root + "/bad.json"}, "bad.json: byte ");
    REQUIRE(::mkfifo((bundle.root + "/fifo").c_str(), 0600) == 0);
    blocked({"gate", bundle.root + "/fifo"}, "fifo");
    write_text(bundle.root + "/gate.json", "{}");
    blocked({"gate"}, "gate.json: /workspace");
}

TEST_CASE("a gate that can't find or say anything blocks") {
    const Bundle bundle;
    Program lost({"gate"}, {}, bundle.root + "/err");
    CHECK(lost.finish() == 2);
    CHECK(lost.err().find("MOSAIC_BUNDLE isn't set") != std::string::npos);

    Program mute({"gate"}, bundle.env(), bundle.root + "/err");
    Peer peer = mute.peer();
    peer.send(read_of("/etc/passwd"));
    ::shutdown(peer.fd(), SHUT_RD);  // its writes fail from now on
    peer.half_close();
    CHECK(mute.finish() != 0);
}
