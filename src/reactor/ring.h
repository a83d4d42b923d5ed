#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/instant.h"

// The one io_uring of the process, and the only room that sees it. Operations are structs embedded in
// their owner's slot; arming one gives it to the kernel, tick() gives back those that are done. There
// are no callbacks: a completion is data that the caller turns into an event.
//
// Ownership: an Op and every byte it points to (path, buffer, iovec) must stay where they are until
// the op is idle again; ops are neither copied nor moved. A slot may be reused only when all its ops
// are idle, cancelled ones included (a cancelled op's target may still succeed; TRAP-14).

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
};

// One operation. `owner_kind` and `owner` are the caller's words: which of its slots this op belongs
// to and what the completion means there.
class Op {
  public:
    Op() = default;
    Op(const Op&) = delete;
    Op& operator=(const Op&) = delete;
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
    // What the last completion gave: a count, a descriptor, poll events, or -errno.
    [[nodiscard]] int32_t result() const { return result_; }

  private:
    friend class Ring;
    OpKind kind_ = OpKind::none;
    OpPhase phase_ = OpPhase::idle;
    uint16_t owner_kind_ = 0;
    uint32_t owner_ = 0;
    uint32_t slot_ = UINT32_MAX;    // in the ring's table; UINT32_MAX: never armed
    uint32_t activation_ = 0;       // +1 at each arm: a stale completion is detected
    int32_t result_ = 0;
    Ring* ring_ = nullptr;          // set while in the table
};

struct RingOptions {
    uint32_t entries = 1024;         // submission queue
    uint32_t operations_max = 16384;  // ops in flight at once; the completion queue holds them all
};

class Ring {
  public:
    // The error says why io_uring can't be used here and what to do about it (kernel too old,
    // kernel.io_uring_disabled, a container's seccomp profile, a memory-lock limit), after probing
    // every opcode that is used.
    [[nodiscard]] static Result<std::unique_ptr<Ring>> create(RingOptions options);
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring();

    // Arming: the op must be idle. What is pointed to must live until the op is idle again.
    void accept(Op& op, int socket);  // result: a CLOEXEC descriptor
    void recv(Op& op, int socket, void* buffer, size_t size);
    void send(Op& op, int socket, const void* bytes, size_t size);  // MSG_NOSIGNAL
    void read(Op& op, int fd, void* buffer, size_t size);           // current position, pipes too
    void write(Op& op, int fd, const void* bytes, size_t size);     // current position, pipes too
    void poll(Op& op, int fd, uint32_t events);                     // one shot
    void openat(Op& op, int directory, const char* path, int flags, mode_t mode);  // adds O_CLOEXEC
    void close(Op& op, int fd);
    void fsync(Op& op, int fd);
    void mkdirat(Op& op, int directory, const char* path, mode_t mode);
    void renameat(Op& op, int old_directory, const char* old_path, int new_directory,
                  const char* new_path);
    void unlinkat(Op& op, int directory, const char* path, int flags);

    // Asks the kernel to give up an op in flight. Its completion comes as always, with its own result
    // or -ECANCELED. Nothing happens when it is idle or already being cancelled.
    void cancel(Op& op);

    // Submits what was armed and waits until something is done, or `deadline` (no waiting at all when
    // it has passed, for ever when it is kForever). Fills `done` with the ops whose completion came,
    // in the order of the completions, at most 256; each is idle now and its result is set. An op
    // armed again by the caller appears again.
    [[nodiscard]] Result<void> tick(Instant deadline, std::vector<Op*>& done);

    // Ops that are not idle.
    [[nodiscard]] uint32_t in_flight() const;

    static constexpr Instant kForever{INT64_MAX};

  private:
    struct Impl;
    explicit Ring(std::unique_ptr<Impl> impl);
    void* next_sqe(Op& op, OpKind kind);
    std::unique_ptr<Impl> impl_;
};

}  // namespace mosaic::reactor
