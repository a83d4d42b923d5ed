#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "reactor/ring.h"

namespace mosaic::host {

// Makes directories and files below one directory through the ring, one operation at a time,
// without blocking the loop. Everything is made new (O_EXCL, no link followed); the first failure
// ends the job.
class FileJob {
  public:
    struct Step {
        std::string path;  // relative to the directory
        mode_t mode = 0;
        bool directory = false;
        std::string content;     // of a file
        bool keep_open = false;  // a file whose descriptor is wanted afterwards
        bool may_exist = false;  // a directory that an earlier run may have made
        int base = -1;           // another directory that `path` is relative to; -1: the job's
    };

    // The op's owner must be set. `directory` stays open and this object in place until the job is
    // over.
    void start(reactor::Ring& ring, reactor::Op& op, int directory, std::vector<Step> steps);

    enum class Progress {
        running,
        done,
        failed,  // error() says what
    };

    // The op's completion.
    Progress on_completion(reactor::Ring& ring, reactor::Op& op);

    [[nodiscard]] const Error& error() const { return error_; }

    // The descriptor of the step that wanted it kept, once that step is done.
    [[nodiscard]] bool has_kept() const { return kept_.valid(); }

    [[nodiscard]] UniqueFd take_kept() { return std::move(kept_); }

  private:
    enum class Phase {
        making,
        opening,
        writing,
        closing,
    };

    Progress begin_step(reactor::Ring& ring, reactor::Op& op);
    Progress next_step(reactor::Ring& ring, reactor::Op& op);
    Progress fail_step(int sys);
    Progress after_write(reactor::Ring& ring, reactor::Op& op);

    int directory_ = -1;
    std::vector<Step> steps_;
    size_t at_ = 0;
    size_t written_ = 0;
    Phase phase_ = Phase::making;
    UniqueFd file_;
    UniqueFd kept_;
    Error error_;
};

}  // namespace mosaic::host
