#include "host/children.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <csignal>

namespace mosaic::host {
namespace {

// After the exit: what is in the pipe then is read long before, unless somebody holds it open.
constexpr Duration kOutputTakes = seconds(1);
// Of a killed child. One that the kernel holds for longer is left to init.
constexpr int kDeathTakesMs = 2000;

}  // namespace

Children::Children(Loop& loop) : loop_(loop) {}

Children::~Children() {
    for (const auto& child : children_) {
        if (child->in_use && !child->exited) {
            kill(*child);
            pollfd exit{.fd = child->process->pidfd(), .events = POLLIN, .revents = 0};
            ::poll(&exit, 1, kDeathTakesMs);
            ignore(process::reap(exit.fd), "nobody asks how it ended any more");
        }
    }
}

// The child and whatever it started in its session.
void Children::kill(const Child& child) {
    ignore(process::signal_pidfd(child.process->pidfd(), SIGKILL), "gone is what is wanted");
    // Still ours: only on_exit and the destructor reap, so the number can't be another's.
    ::kill(-child.process->pid(), SIGKILL);
}

void Children::end(uint64_t job) {
    for (const auto& child : children_) {
        if (child->in_use && !child->exited && child->result.job == job) {
            kill(*child);
        }
    }
}

uint64_t Children::run(process::SpawnSpec spec, std::vector<UniqueFd> keep, Duration deadline) {
    const uint64_t job = next_job_++;
    ChildResult failed;
    failed.job = job;
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        failed.sys = errno;
        results_.push_back(std::move(failed));
        return job;
    }
    UniqueFd output(ends[0]);
    const UniqueFd input(ends[1]);
    spec.descriptors.emplace_back(input.get(), 1);
    spec.descriptors.emplace_back(input.get(), 2);
    spec.parent_death_kill = true;
    auto process = process::spawn(spec);
    if (process) {
        // The descriptors in `keep` may close only when the child has its own.
        const auto started = process->wait_exec();
        if (!started) {
            failed.sys = started.error().sys;
        }
    }
    keep.clear();
    if (!process) {
        failed.sys = process.error().sys;
        results_.push_back(std::move(failed));
        return job;
    }
    auto free = std::find_if(
        children_.begin(), children_.end(), [](const auto& child) { return !child->in_use; });
    if (free == children_.end()) {
        children_.push_back(std::make_unique<Child>());
        free = children_.end() - 1;
    }
    const auto index = static_cast<uint32_t>(free - children_.begin());
    Child& child = **free;
    child.in_use = true;
    child.exited = false;
    child.output_over = false;
    child.output_cut = false;
    child.result = std::move(failed);
    child.result.started = child.result.sys == 0;
    child.process.emplace(std::move(*process));
    child.output = std::move(output);
    own(child.exit_op, Owner::child_exit, index);
    own(child.output_op, Owner::child_output, index);
    loop_.ring->poll(child.exit_op, child.process->pidfd(), POLLIN);
    loop_.ring->read(child.output_op, child.output.get(), child.buffer.data(), child.buffer.size());
    loop_.set_timer(TimerKind::child_deadline, index, child.generation, deadline);
    return job;
}

void Children::on_deadline(uint32_t index, uint32_t generation) {
    if (!awaits(index, generation)) {
        return;
    }
    Child& child = *children_[index];
    if (child.exited) {
        child.output_cut = true;
        loop_.ring->cancel(child.output_op);
    } else {
        child.result.timed_out = true;
        kill(child);
    }
}

bool Children::awaits(uint32_t index, uint32_t generation) const {
    const Child& child = *children_[index];
    return child.in_use && child.generation == generation;
}

void Children::on_exit(uint32_t index) {
    Child& child = *children_[index];
    // Whatever it started is of its session and must not hold the output open.
    ::kill(-child.process->pid(), SIGKILL);
    if (const auto exit = process::reap(child.process->pidfd())) {
        child.result.exit = *exit;
    }
    child.exited = true;
    loop_.set_timer(TimerKind::child_deadline, index, child.generation, kOutputTakes);
    finish_when_done(index);
}

void Children::on_output(uint32_t index) {
    Child& child = *children_[index];
    const int result = child.output_op.result();
    if (result <= 0) {
        child.output_over = true;
        finish_when_done(index);
        return;
    }
    const size_t room = kOutputBytesMax - child.result.output.size();
    child.result.output.append(child.buffer.data(), std::min(room, static_cast<size_t>(result)));
    // The read may have been faster than its cancel (TRAP-14).
    if (child.output_cut) {
        child.output_over = true;
        finish_when_done(index);
        return;
    }
    loop_.ring->read(child.output_op, child.output.get(), child.buffer.data(), child.buffer.size());
}

void Children::finish_when_done(uint32_t index) {
    Child& child = *children_[index];
    if (!child.exited || !child.output_over) {
        return;
    }
    results_.push_back(std::move(child.result));
    child.in_use = false;
    ++child.generation;
    child.process.reset();
    child.output.reset();
}

std::optional<ChildResult> Children::take_result() {
    if (results_.empty()) {
        return std::nullopt;
    }
    ChildResult result = std::move(results_.front());
    results_.pop_front();
    return result;
}

bool Children::quiet() const {
    return results_.empty() &&
           std::none_of(
               children_.begin(), children_.end(), [](const auto& child) { return child->in_use; });
}

}  // namespace mosaic::host
