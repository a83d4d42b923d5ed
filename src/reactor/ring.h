#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/instant.h"

// The one io_uring of the process, and the only room that sees it. Operations are structs embedded
// in their owner's slot; arming one gives it to the kernel, tick() gives back those that are done.
// There are no callbacks: a completion is data that the caller turns into an event.
//
// Ownership: an Op and every byte it points to (path, buffer, iovec) must stay where they are until
// the op is idle again; ops are neither copied nor moved. A slot may be reused only when all its
// ops are idle, cancelled ones included (a cancelled op's target may still succeed; TRAP-14).
//
// Descriptors are in blocking mode: the kernel waits for them by itself, and whether it still does
// with O_NONBLOCK depends on the kernel and the kind of file. A descriptor is closed only after the
// ops on it are idle: close(2) doesn't end them (TRAP-15). The process ignores SIGPIPE, so that a
// write to a pipe without a reader completes with -EPIPE (TRAP-07).
//
// Everything happens on the thread that made the ring; the kernel refuses others.

namespace mosaic::reactor {

class Ring;

enum class OpKind : uint8_t {
    none,
    accept,
    recv,
    send,
    read,
    write,
    poll,
    openat,
    close,
    fsync,
    mkdirat,
    renameat,
    unlinkat,
};

enum class OpPhase : uint8_t {
    idle,
    in_flight,
    canceling,  // a cancel was asked for; the op's own completion is still to come
    done,       // its completion came and waits for its owner
};

// One operation. `owner_kind` and `owner` are the caller's words: which of its slots this op
// belongs to and what the completion means there.
class Op {
  public:
    Op() = default;
    Op(const Op&) = delete;
    Op& operator=(const Op&) = delete;
    // The op is idle, or its owner has a bug.
    ~Op();

    void set_owner(uint16_t owner_kind, uint32_t owner) {
        owner_kind_ = owner_kind;
        owner_ = owner;
    }

    [[nodiscard]] uint16_t owner_kind() const { return owner_kind_; }

    [[nodiscard]] uint32_t owner() const { return owner_; }

    [[nodiscard]] OpKind kind() const { return kind_; }

    [[nodiscard]] OpPhase phase() const { return phase_; }

    [[nodiscard]] bool idle() const { return phase_ == OpPhase::idle; }

    // Its owner looks at the completion now; from here on it is idle. Until then it isn't, whoever
    // asks: several are done in one tick, and what one owner does with the first must not take the
    // second for one that may be armed again (TRAP-27).
    void take();

    // What the last completion gave: a count, a descriptor, poll events, or -errno.
    [[nodiscard]] int32_t result() const { return result_; }

  private:
    friend class Ring;
    OpKind kind_ = OpKind::none;
    OpPhase phase_ = OpPhase::idle;
    uint16_t owner_kind_ = 0;
    uint32_t owner_ = 0;
    uint32_t slot_ = UINT32_MAX;  // in the ring's table; UINT32_MAX: never armed
    uint32_t activation_ = 0;     // of the slot, +1 at each arm: a stale completion is detected
    int32_t result_ = 0;
    Ring* ring_ = nullptr;  // set while in the table
};

struct RingOptions {
    uint32_t entries = 1024;  // submission queue; more arms than this flush it
    // Ops in flight at once; the completion queue holds them all and their cancels, at 32 bytes an
    // op that count in an ordinary user's memory-lock limit (TRAP-19).
    uint32_t operations_max = 16384;
};

// What the kernel gave and what happened since, for `doctor` and metrics.
struct RingFacts {
    bool submit_all = false;
    bool coop_taskrun = false;
    bool single_issuer = false;
    bool defer_taskrun = false;
    uint32_t submission_entries = 0;
    uint32_t completion_entries = 0;
    uint64_t enters = 0;  // io_uring_enter(2) calls asked for by tick and by arming on a full queue
    uint64_t overflows =
        0;  // ticks that found the completion queue overflown; nothing is lost then
};

class Ring {
  public:
    // The error says why io_uring can't be used here and what to do about it (kernel too old,
    // kernel.io_uring_disabled, a container's seccomp profile, a memory-lock limit), after probing
    // every opcode that is used. Code::unavailable, with the errno in `sys`; Code::invalid when the
    // kernel can't make queues of the size that `options` asks for.
    [[nodiscard]] static Result<std::unique_ptr<Ring>> create(RingOptions options);
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    // Cancels what is in flight and waits until the kernel has let go of it; every op is idle then.
    // So the ring goes first and the ops, with their buffers, after it.
    ~Ring();

    // Arming: the op must be idle, and fewer than operations_max in flight. What is pointed to must
    // live until the op is idle again. Never fails: an operation that the kernel refuses completes
    // with its -errno. Nothing reaches the kernel before the next tick, unless the queue is full.
    void accept(Op& op, int socket);  // result: a CLOEXEC descriptor
    void recv(Op& op, int socket, void* buffer, size_t size);
    void send(Op& op, int socket, const void* bytes, size_t size);  // MSG_NOSIGNAL
    void read(Op& op, int fd, void* buffer, size_t size);           // current position, pipes too
    // A regular file that is written in more than one go is opened with O_APPEND (TRAP-25).
    void write(Op& op, int fd, const void* bytes, size_t size);  // current position, pipes too
    void poll(Op& op, int fd, uint32_t events);                  // one shot
    void openat(Op& op, int directory, const char* path, int flags, mode_t mode);  // adds O_CLOEXEC
    void close(Op& op, int fd);
    void fsync(Op& op, int fd);
    void mkdirat(Op& op, int directory, const char* path, mode_t mode);
    void renameat(
        Op& op, int old_directory, const char* old_path, int new_directory, const char* new_path);
    void unlinkat(Op& op, int directory, const char* path, int flags);

    // Asks the kernel to give up an op in flight. Its completion comes as always, with its own
    // result or -ECANCELED (-EINTR when it was under way in a kernel worker). Nothing happens when
    // it is idle or already being cancelled. The cancel counts in in_flight() until the kernel has
    // answered it; the op may be armed again or destroyed before that.
    void cancel(Op& op);

    // Submits what was armed and waits until something is done, or `deadline` (no waiting at all
    // when it has passed, for ever when it is kForever). Replaces `done` by the ops whose
    // completion came, in the order of the completions, at most kDoneMax; each has its result and
    // must be taken by take() before the next tick. An op armed again by the caller appears again.
    //
    // Waiting for ever with nothing in flight is a bug; when only cancels are, tick returns an
    // empty list after the last. A signal doesn't end the wait: signals are for a signalfd and a
    // poll. An error (another thread, completions lost for want of memory) can't be recovered from.
    [[nodiscard]] Result<void> tick(Instant deadline, std::vector<Op*>& done);

    // Ops that the kernel has, and cancels that are not answered.
    [[nodiscard]] uint32_t in_flight() const;

    [[nodiscard]] RingFacts facts() const;

    static constexpr Instant kForever{INT64_MAX};
    static constexpr size_t kDoneMax = 256;

  private:
    friend class Op;
    struct Impl;
    explicit Ring(std::unique_ptr<Impl> impl);
    void forget(Op& op);
    std::unique_ptr<Impl> impl_;
};

}  // namespace mosaic::reactor
