#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/loop.h"
#include "process/pidfd.h"
#include "process/spawn.h"

namespace mosaic::host {

// What a helper child gave.
struct ChildResult {
    uint64_t job = 0;
    bool started = false;
    int sys = 0;  // when it could not be started
    process::Exit exit;
    bool timed_out = false;
    std::string output;  // its stderr and stdout, at most kOutputBytesMax
};

// Short programs that the host runs beside its sessions without waiting for them: the sandbox
// probe, the removal of a directory tree. One result each, in take_result(). None outlives the
// host: destroying this kills and reaps those that still run, and a host that dies hard takes them
// along (their parent-death signal).
class Children {
  public:
    static constexpr size_t kOutputBytesMax = size_t{64} * 1024;

    explicit Children(Loop& loop);
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;
    ~Children();

    // Runs the program, its stdout and stderr collected (`spec.descriptors` must leave 1 and 2
    // alone). `keep` are descriptors that stay open until it has started. After `deadline` it is
    // killed. With it goes whatever it left running in its process group, and what left the group
    // can't hold the result up by holding the output open. Returns the job's number.
    uint64_t run(process::SpawnSpec spec, std::vector<UniqueFd> keep, Duration deadline);

    // Kills this one; its result comes as always. A job that is over already is ignored.
    void end(uint64_t job);

    [[nodiscard]] std::optional<ChildResult> take_result();
    [[nodiscard]] bool quiet() const;

    void on_exit(uint32_t index);
    void on_output(uint32_t index);
    void on_deadline(uint32_t index, uint32_t generation);
    // False for the deadline of a child that is over.
    [[nodiscard]] bool awaits(uint32_t index, uint32_t generation) const;

  private:
    struct Child {
        bool in_use = false;
        uint32_t generation = 0;
        std::optional<process::Spawned> process;
        UniqueFd output;
        std::array<char, 4096> buffer{};
        bool exited = false;
        bool output_over = false;
        bool output_cut = false;  // what comes from now on isn't waited for
        ChildResult result;
        reactor::Op exit_op;
        reactor::Op output_op;
    };

    static void kill(const Child& child);
    void finish_when_done(uint32_t index);

    Loop& loop_;
    std::vector<std::unique_ptr<Child>> children_;
    std::deque<ChildResult> results_;
    uint64_t next_job_ = 1;
};

}  // namespace mosaic::host
