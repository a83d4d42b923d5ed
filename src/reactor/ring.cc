#include "reactor/ring.h"

#include <fcntl.h>
#include <liburing.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>

#include "base/assert.h"
#include "reactor/setup.h"
#include "reactor/token.h"

namespace mosaic::reactor {

namespace {

// A request's length has 32 bits, its result 31.
constexpr size_t kBytesMax = INT32_MAX;

// How long a submission that found no memory waits for completions before it is tried again.
constexpr Duration kSubmitRetry = milliseconds(10);

constexpr uint32_t kNoSlot = UINT32_MAX;

// The kernel's own codes for an interrupted call (include/linux/errno.h), which a system call never
// returns; a request that a cancel interrupted in a kernel worker does (TRAP-23).
constexpr int32_t kRestartFirst = 512;
constexpr int32_t kRestartLast = 516;

int32_t without_restart_codes(int32_t result) {
    return result <= -kRestartFirst && result >= -kRestartLast ? -EINTR : result;
}

__kernel_timespec to_timespec(Duration duration) {
    return __kernel_timespec{duration.ns / 1'000'000'000, duration.ns % 1'000'000'000};
}

}  // namespace

struct Ring::Impl {
    struct Slot {
        Op* op = nullptr;         // null: on the free list
        uint32_t activation = 0;  // outlives the op, so that no token comes twice (TRAP-14)
    };

    struct Completion {
        Token token;
        int32_t result = 0;
    };

    io_uring ring{};
    RingOptions options;
    std::vector<Slot> slots;
    std::vector<uint32_t> free_slots;
    // Requests that found the submission queue full and could not flush it; oldest first.
    std::deque<io_uring_sqe> backlog;
    // Copied from the completion queue, not handed out yet.
    std::vector<Completion> reaped;
    uint32_t ops_in_flight = 0;
    uint32_t cancels_in_flight = 0;
    uint32_t untaken = 0;  // done, and their owners haven't taken them
    uint64_t enters = 0;
    uint64_t overflows = 0;

    explicit Impl(RingOptions wanted) : options(wanted) {}

    uint32_t take_slot(Op& op);
    io_uring_sqe* arm(Ring* owner, Op& op, OpKind kind);
    static Token token_of(const Op& op);
    static void name(io_uring_sqe& sqe, const Op& op);
    io_uring_sqe* next_sqe();
    void refill();
    Result<void> enter(Instant deadline);
    int submit_and_wait(Instant deadline);
    Result<void> settle_enter(int result, Instant deadline);
    size_t reap(size_t count_max);
    void note(const Completion& completion);
    Op& complete(const Completion& completion);
    void hand_out(std::vector<Op*>& done);
};

// --- slots and tokens ---

uint32_t Ring::Impl::take_slot(Op& op) {
    uint32_t slot = 0;
    if (free_slots.empty()) {
        slot = static_cast<uint32_t>(slots.size());
        MOSAIC_ASSERT(slot < kSlotsMax);
        slots.emplace_back();
    } else {
        slot = free_slots.back();
        free_slots.pop_back();
    }
    MOSAIC_ASSERT(slots[slot].op == nullptr);
    slots[slot].op = &op;
    return slot;
}

io_uring_sqe* Ring::Impl::arm(Ring* owner, Op& op, OpKind kind) {
    MOSAIC_ASSERT(op.idle());
    MOSAIC_ASSERT(op.ring_ == nullptr || op.ring_ == owner);
    MOSAIC_ASSERT(ops_in_flight < options.operations_max);
    if (op.slot_ == kNoSlot) {
        op.slot_ = take_slot(op);
        op.ring_ = owner;
    }
    op.kind_ = kind;
    op.phase_ = OpPhase::in_flight;
    op.result_ = 0;
    op.activation_ = ++slots[op.slot_].activation;
    ++ops_in_flight;
    return next_sqe();
}

Token Ring::Impl::token_of(const Op& op) {
    return Token{static_cast<uint8_t>(op.kind_), op.slot_, op.activation_};
}

void Ring::Impl::name(io_uring_sqe& sqe, const Op& op) {
    io_uring_sqe_set_data64(&sqe, pack(token_of(op)));
}

// --- submission ---

// Never null. The request is zeroed or about to be overwritten by an io_uring_prep_ function.
io_uring_sqe* Ring::Impl::next_sqe() {
    io_uring_sqe* sqe = backlog.empty() ? io_uring_get_sqe(&ring) : nullptr;
    if (sqe == nullptr && backlog.empty()) {
        ++enters;
        // A failure leaves the queue as it was; the next tick meets the same and reports it.
        static_cast<void>(io_uring_submit(&ring));
        sqe = io_uring_get_sqe(&ring);
    }
    if (sqe == nullptr) {
        sqe = &backlog.emplace_back();
    }
    return sqe;
}

void Ring::Impl::refill() {
    while (!backlog.empty()) {
        io_uring_sqe* sqe = io_uring_get_sqe(&ring);
        if (sqe == nullptr) {
            ++enters;
            if (io_uring_submit(&ring) <= 0) {
                return;
            }
            continue;
        }
        *sqe = backlog.front();
        backlog.pop_front();
    }
}

int Ring::Impl::submit_and_wait(Instant deadline) {
    ++enters;
    if (deadline == kForever) {
        return io_uring_submit_and_wait(&ring, 1);
    }
    const Instant now = monotonic_now();
    if (deadline <= now) {
        // Deferred completions appear only when the kernel is asked for events (TRAP-11).
        return io_uring_submit_and_get_events(&ring);
    }
    __kernel_timespec wait = to_timespec(deadline - now);
    io_uring_cqe* first = nullptr;
    return io_uring_submit_and_wait_timeout(&ring, &first, 1, &wait, nullptr);
}

Result<void> Ring::Impl::enter(Instant deadline) {
    const bool ready = !reaped.empty() || io_uring_cq_ready(&ring) > 0;
    if (!ready) {
        return settle_enter(submit_and_wait(deadline), deadline);
    }
    if (io_uring_sq_ready(&ring) == 0) {
        return {};
    }
    ++enters;
    return settle_enter(io_uring_submit(&ring), deadline);
}

Result<void> Ring::Impl::settle_enter(int result, Instant deadline) {
    if (io_uring_cq_has_overflow(&ring)) {
        ++overflows;
    }
    if (result >= 0 || result == -ETIME || result == -EINTR) {
        return {};
    }
    if (result != -EAGAIN && result != -EBUSY) {
        return fail_sys(-result, "io_uring_enter");
    }
    // No memory for requests, or completions must be taken first (TRAP-13): what was not submitted
    // stays queued. When there is nothing to take either, a completion or a little time may help.
    if (!reaped.empty() || io_uring_cq_ready(&ring) > 0) {
        return {};
    }
    const Instant now = monotonic_now();
    if (deadline <= now) {
        return {};
    }
    __kernel_timespec wait = to_timespec(std::min(deadline - now, kSubmitRetry));
    io_uring_cqe* first = nullptr;
    ++enters;
    const int waited = io_uring_wait_cqe_timeout(&ring, &first, &wait);
    if (waited < 0 && waited != -ETIME && waited != -EINTR && waited != -EAGAIN) {
        return fail_sys(-waited, "io_uring_enter");
    }
    return {};
}

// --- completion ---

// A cancel's answer says nothing that matters: the truth is the target's completion (TRAP-14).
void Ring::Impl::note(const Completion& completion) {
    if (completion.token.kind != kCancelKind) {
        reaped.push_back(completion);
        return;
    }
    const int32_t result = completion.result;
    MOSAIC_ASSERT(result == 0 || result == 1 || result == -ENOENT || result == -EALREADY);
    MOSAIC_ASSERT(cancels_in_flight > 0);
    --cancels_in_flight;
}

size_t Ring::Impl::reap(size_t count_max) {
    std::array<io_uring_cqe*, kDoneMax> batch{};
    const auto wanted = static_cast<unsigned>(std::min(count_max, batch.size()));
    if (wanted == 0 || io_uring_cq_ready(&ring) == 0) {
        return 0;
    }
    const unsigned count = io_uring_peek_batch_cqe(&ring, batch.data(), wanted);
    for (unsigned i = 0; i < count; ++i) {
        // We arm nothing that completes more than once.
        MOSAIC_ASSERT((batch[i]->flags & IORING_CQE_F_MORE) == 0);
        note(Completion{unpack(batch[i]->user_data), batch[i]->res});
    }
    io_uring_cq_advance(&ring, count);
    return count;
}

Op& Ring::Impl::complete(const Completion& completion) {
    const Token& token = completion.token;
    MOSAIC_ASSERT(token.slot < slots.size());
    MOSAIC_ASSERT(slots[token.slot].op != nullptr);
    Op& op = *slots[token.slot].op;
    MOSAIC_ASSERT(op.phase_ == OpPhase::in_flight || op.phase_ == OpPhase::canceling);
    MOSAIC_ASSERT(token == token_of(op));
    MOSAIC_ASSERT(ops_in_flight > 0);
    --ops_in_flight;
    ++untaken;
    op.phase_ = OpPhase::done;
    op.result_ = without_restart_codes(completion.result);
    return op;
}

void Ring::Impl::hand_out(std::vector<Op*>& done) {
    const size_t count = std::min(reaped.size(), kDoneMax);
    for (size_t i = 0; i < count; ++i) {
        done.push_back(&complete(reaped[i]));
    }
    reaped.erase(reaped.begin(), reaped.begin() + static_cast<std::ptrdiff_t>(count));
}

// --- the ring ---

Result<std::unique_ptr<Ring>> Ring::create(RingOptions options) {
    MOSAIC_ASSERT(options.entries > 0);
    MOSAIC_ASSERT(options.operations_max > 0 && options.operations_max < kSlotsMax);
    auto impl = std::make_unique<Impl>(options);
    // One completion for each op and one for its cancel.
    MOSAIC_TRY(set_up(impl->ring, SetupOptions{options.entries, 2 * options.operations_max}));
    impl->reaped.reserve(kDoneMax);
    return std::unique_ptr<Ring>(new Ring(std::move(impl)));
}

Ring::Ring(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Ring::~Ring() {
    for (const Impl::Slot& slot : impl_->slots) {
        if (slot.op != nullptr && slot.op->phase_ == OpPhase::done) {
            slot.op->take();
        } else if (slot.op != nullptr) {
            cancel(*slot.op);
        }
    }
    std::vector<Op*> done;
    while (in_flight() > 0) {
        const Result<void> ticked = tick(kForever, done);
        MOSAIC_ASSERT(ticked.has_value());
        for (Op* op : done) {
            op->take();
        }
    }
    for (const Impl::Slot& slot : impl_->slots) {
        if (slot.op != nullptr) {
            slot.op->ring_ = nullptr;
            slot.op->slot_ = kNoSlot;
        }
    }
    io_uring_queue_exit(&impl_->ring);
}

Op::~Op() {
    MOSAIC_ASSERT(idle());
    if (ring_ != nullptr) {
        ring_->forget(*this);
    }
}

void Op::take() {
    MOSAIC_ASSERT(phase_ == OpPhase::done);
    MOSAIC_ASSERT(ring_->impl_->untaken > 0);
    --ring_->impl_->untaken;
    phase_ = OpPhase::idle;
}

void Ring::forget(Op& op) {
    MOSAIC_ASSERT(impl_->slots[op.slot_].op == &op);
    impl_->slots[op.slot_].op = nullptr;
    impl_->free_slots.push_back(op.slot_);
}

Result<void> Ring::tick(Instant deadline, std::vector<Op*>& done) {
    MOSAIC_ASSERT(deadline != kForever || in_flight() > 0);
    MOSAIC_ASSERT(impl_->untaken == 0);
    done.clear();
    while (true) {
        impl_->refill();
        MOSAIC_TRY(impl_->enter(deadline));
        const size_t pending = std::min(impl_->reaped.size(), kDoneMax);
        impl_->reap(kDoneMax - pending);
        impl_->hand_out(done);
        if (!done.empty()) {
            return {};
        }
        // Only answers to cancels came, or nothing.
        const bool over = deadline == kForever ? in_flight() == 0 : deadline <= monotonic_now();
        if (over) {
            return {};
        }
    }
}

uint32_t Ring::in_flight() const {
    return impl_->ops_in_flight + impl_->cancels_in_flight;
}

RingFacts Ring::facts() const {
    const unsigned flags = impl_->ring.flags;
    RingFacts facts;
    facts.submit_all = (flags & IORING_SETUP_SUBMIT_ALL) != 0;
    facts.coop_taskrun = (flags & IORING_SETUP_COOP_TASKRUN) != 0;
    facts.single_issuer = (flags & IORING_SETUP_SINGLE_ISSUER) != 0;
    facts.defer_taskrun = (flags & IORING_SETUP_DEFER_TASKRUN) != 0;
    facts.submission_entries = impl_->ring.sq.ring_entries;
    facts.completion_entries = impl_->ring.cq.ring_entries;
    facts.enters = impl_->enters;
    facts.overflows = impl_->overflows;
    return facts;
}

void Ring::cancel(Op& op) {
    if (op.phase_ != OpPhase::in_flight) {
        return;
    }
    MOSAIC_ASSERT(op.ring_ == this);
    op.phase_ = OpPhase::canceling;
    ++impl_->cancels_in_flight;
    io_uring_sqe* sqe = impl_->next_sqe();
    Token token = Impl::token_of(op);
    io_uring_prep_cancel64(sqe, pack(token), 0);
    token.kind = kCancelKind;
    io_uring_sqe_set_data64(sqe, pack(token));
}

// --- the operations ---

namespace {

// Reads and writes at the file's own position; pipes have no other.
constexpr uint64_t kCurrentPosition = UINT64_MAX;

}  // namespace

void Ring::accept(Op& op, int socket) {
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::accept);
    io_uring_prep_accept(sqe, socket, nullptr, nullptr, SOCK_CLOEXEC);
    impl_->name(*sqe, op);
}

void Ring::recv(Op& op, int socket, void* buffer, size_t size) {
    MOSAIC_ASSERT(size <= kBytesMax);
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::recv);
    io_uring_prep_recv(sqe, socket, buffer, size, 0);
    impl_->name(*sqe, op);
}

void Ring::send(Op& op, int socket, const void* bytes, size_t size) {
    MOSAIC_ASSERT(size <= kBytesMax);
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::send);
    io_uring_prep_send(sqe, socket, bytes, size, MSG_NOSIGNAL);
    impl_->name(*sqe, op);
}

void Ring::read(Op& op, int fd, void* buffer, size_t size) {
    MOSAIC_ASSERT(size <= kBytesMax);
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::read);
    io_uring_prep_read(sqe, fd, buffer, static_cast<unsigned>(size), kCurrentPosition);
    impl_->name(*sqe, op);
}

void Ring::write(Op& op, int fd, const void* bytes, size_t size) {
    MOSAIC_ASSERT(size <= kBytesMax);
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::write);
    io_uring_prep_write(sqe, fd, bytes, static_cast<unsigned>(size), kCurrentPosition);
    impl_->name(*sqe, op);
}

void Ring::poll(Op& op, int fd, uint32_t events) {
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::poll);
    io_uring_prep_poll_add(sqe, fd, events);
    impl_->name(*sqe, op);
}

void Ring::openat(Op& op, int directory, const char* path, int flags, mode_t mode) {
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::openat);
    io_uring_prep_openat(sqe, directory, path, flags | O_CLOEXEC, mode);
    impl_->name(*sqe, op);
}

void Ring::close(Op& op, int fd) {
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::close);
    io_uring_prep_close(sqe, fd);
    impl_->name(*sqe, op);
}

void Ring::fsync(Op& op, int fd) {
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::fsync);
    io_uring_prep_fsync(sqe, fd, 0);
    impl_->name(*sqe, op);
}

void Ring::mkdirat(Op& op, int directory, const char* path, mode_t mode) {
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::mkdirat);
    io_uring_prep_mkdirat(sqe, directory, path, mode);
    impl_->name(*sqe, op);
}

void Ring::renameat(
    Op& op, int old_directory, const char* old_path, int new_directory, const char* new_path) {
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::renameat);
    io_uring_prep_renameat(sqe, old_directory, old_path, new_directory, new_path, 0);
    impl_->name(*sqe, op);
}

void Ring::unlinkat(Op& op, int directory, const char* path, int flags) {
    io_uring_sqe* sqe = impl_->arm(this, op, OpKind::unlinkat);
    io_uring_prep_unlinkat(sqe, directory, path, flags);
    impl_->name(*sqe, op);
}

}  // namespace mosaic::reactor
