#include "host/file_job.h"

#include <fcntl.h>

#include <cerrno>

namespace mosaic::host {

void FileJob::start(reactor::Ring& ring, reactor::Op& op, int directory, std::vector<Step> steps) {
    directory_ = directory;
    steps_ = std::move(steps);
    at_ = 0;
    ignore(begin_step(ring, op), "an empty job has no steps; callers bring some");
}

FileJob::Progress FileJob::begin_step(reactor::Ring& ring, reactor::Op& op) {
    const Step& step = steps_[at_];
    const int base = step.base >= 0 ? step.base : directory_;
    written_ = 0;
    if (step.directory) {
        phase_ = Phase::making;
        ring.mkdirat(op, base, step.path.c_str(), step.mode);
    } else {
        phase_ = Phase::opening;
        constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND;
        ring.openat(op, base, step.path.c_str(), kFlags, step.mode);
    }
    return Progress::running;
}

FileJob::Progress FileJob::next_step(reactor::Ring& ring, reactor::Op& op) {
    if (++at_ < steps_.size()) {
        return begin_step(ring, op);
    }
    steps_ = {};
    return Progress::done;
}

FileJob::Progress FileJob::fail_step(int sys) {
    file_.reset();
    error_ = fail_sys(sys, steps_[at_].path).value();
    return Progress::failed;
}

FileJob::Progress FileJob::after_write(reactor::Ring& ring, reactor::Op& op) {
    const Step& step = steps_[at_];
    if (written_ < step.content.size()) {
        phase_ = Phase::writing;
        ring.write(op, file_.get(), step.content.data() + written_, step.content.size() - written_);
        return Progress::running;
    }
    if (step.keep_open) {
        kept_ = std::move(file_);
        return next_step(ring, op);
    }
    phase_ = Phase::closing;
    ring.close(op, file_.release());
    return Progress::running;
}

FileJob::Progress FileJob::on_completion(reactor::Ring& ring, reactor::Op& op) {
    const int result = op.result();
    if (result == -EEXIST && phase_ == Phase::making && steps_[at_].may_exist) {
        return next_step(ring, op);
    }
    if (result < 0) {
        return fail_step(-result);
    }
    switch (phase_) {
        case Phase::making:
        case Phase::closing:
            return next_step(ring, op);
        case Phase::opening:
            file_.reset(result);
            return after_write(ring, op);
        case Phase::writing:
            if (result == 0) {
                return fail_step(EIO);
            }
            written_ += static_cast<size_t>(result);
            return after_write(ring, op);
    }
    return Progress::failed;
}

}  // namespace mosaic::host
