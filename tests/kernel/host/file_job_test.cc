// FileJob on the real ring: what a run's files look like afterwards, and what stops it.

#include "host/file_job.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "rig.h"

using namespace mosaic;
using namespace mosaic::test;
using host::FileJob;
using Step = FileJob::Step;

namespace {

Step directory(const std::string& path) {
    Step step;
    step.path = path;
    step.mode = 0700;
    step.directory = true;
    return step;
}

Step file(const std::string& path, std::string text, mode_t mode = 0600) {
    Step step;
    step.path = path;
    step.mode = mode;
    step.content = std::move(text);
    return step;
}

// Runs it to its end. One operation at a time: never more than one in flight.
FileJob::Progress run(Rig& rig, FileJob& job, int directory, std::vector<Step> steps) {
    reactor::Op op;
    job.start(*rig.loop.ring, op, directory, std::move(steps));
    auto progress = FileJob::Progress::running;
    while (progress == FileJob::Progress::running) {
        CHECK(rig.loop.ring->in_flight() == 1);
        rig.finish(op);
        progress = job.on_completion(*rig.loop.ring, op);
    }
    CHECK(rig.loop.ring->in_flight() == 0);
    return progress;
}

}  // namespace

TEST_CASE("directories and files are made in order, with their modes and contents") {
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const Scratch scratch;
    const std::string large(300'000, 'x');
    FileJob job;
    CHECK(run(rig,
              job,
              scratch.fd(),
              {directory("run"),
               directory("run/bundle"),
               file("run/bundle/large", large),
               file("run/bundle/empty", ""),
               file("run/session.json", "{}\n", 0400)}) == FileJob::Progress::done);
    CHECK(mode_of(scratch.fd(), "run") == 0700);
    CHECK(mode_of(scratch.fd(), "run/bundle") == 0700);
    CHECK(content(scratch.fd(), "run/bundle/large") == large);
    CHECK(content(scratch.fd(), "run/bundle/empty") == "");
    CHECK(content(scratch.fd(), "run/session.json") == "{}\n");
    CHECK(mode_of(scratch.fd(), "run/session.json") == 0400);
    CHECK_FALSE(job.take_kept().valid());
}

TEST_CASE("a step may have a base of its own") {
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const Scratch here;
    const Scratch there;
    Step elsewhere = directory("thread");
    elsewhere.base = there.fd();
    FileJob job;
    CHECK(run(rig, job, here.fd(), {directory("run"), elsewhere, file("run/a", "a")}) ==
          FileJob::Progress::done);
    CHECK(mode_of(there.fd(), "thread") == 0700);
    CHECK_FALSE(mode_of(here.fd(), "thread"));
    CHECK(content(here.fd(), "run/a") == "a");
}

TEST_CASE("a file that is wanted afterwards stays open, for appending") {
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const Scratch scratch;
    Step log = file("runner.log", "first\n");
    log.keep_open = true;
    FileJob job;
    CHECK(run(rig, job, scratch.fd(), {log, file("after", "x")}) == FileJob::Progress::done);
    const UniqueFd kept = job.take_kept();
    REQUIRE(kept.valid());
    CHECK((::fcntl(kept.get(), F_GETFD) & FD_CLOEXEC) != 0);
    // Whoever writes somewhere else in the file can't overwrite what is there.
    REQUIRE(::lseek(kept.get(), 0, SEEK_SET) == 0);
    REQUIRE(::write(kept.get(), "second\n", 7) == 7);
    CHECK(content(scratch.fd(), "runner.log") == "first\nsecond\n");
    CHECK_FALSE(job.take_kept().valid());
}

TEST_CASE("what exists already stops the job and stays as it is") {
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const Scratch scratch;
    put(scratch.fd(), "old", "of somebody else");
    REQUIRE(::mkdirat(scratch.fd(), "dir", 0700) == 0);
    {
        FileJob job;
        CHECK(run(rig, job, scratch.fd(), {file("old", "new"), file("later", "x")}) ==
              FileJob::Progress::failed);
        CHECK(job.error().sys == EEXIST);
        CHECK(job.error().text == "old: File exists");
        CHECK(content(scratch.fd(), "old") == "of somebody else");
        CHECK_FALSE(mode_of(scratch.fd(), "later"));
    }
    FileJob job;
    CHECK(run(rig, job, scratch.fd(), {directory("dir")}) == FileJob::Progress::failed);
    CHECK(job.error().sys == EEXIST);
}

TEST_CASE("a directory that may exist is taken as it is, a file never") {
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const Scratch scratch;
    Step again = directory("thread");
    again.may_exist = true;
    for (const char* name : {"thread/a", "thread/b"}) {
        FileJob job;
        CHECK(run(rig, job, scratch.fd(), {again, file(name, "x")}) == FileJob::Progress::done);
    }
    CHECK(content(scratch.fd(), "thread/a") == "x");
    CHECK(content(scratch.fd(), "thread/b") == "x");
    Step not_for_files = file("thread/a", "y");
    not_for_files.may_exist = true;
    FileJob job;
    CHECK(run(rig, job, scratch.fd(), {not_for_files}) == FileJob::Progress::failed);
    CHECK(content(scratch.fd(), "thread/a") == "x");
}

TEST_CASE("a planted link is not followed") {
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const Scratch scratch;
    REQUIRE(::symlinkat((scratch / "target").c_str(), scratch.fd(), "link") == 0);
    FileJob job;
    CHECK(run(rig, job, scratch.fd(), {file("link", "x")}) == FileJob::Progress::failed);
    CHECK_FALSE(mode_of(scratch.fd(), "target"));
}

TEST_CASE("a directory that isn't there fails the job with its path") {
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const Scratch scratch;
    FileJob job;
    CHECK(run(rig, job, scratch.fd(), {file("missing/a", "x")}) == FileJob::Progress::failed);
    CHECK(job.error().sys == ENOENT);
    CHECK(job.error().text == "missing/a: No such file or directory");
}

TEST_CASE("a full disk fails the job, whatever part of a file still fitted") {
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const SmallDisk disk(32);
    if (!disk.valid()) {
        return;
    }
    const std::string text(8 * SmallDisk::kPage, 't');
    bool failed = false;
    bool done = false;
    for (size_t pages = 0; pages <= 10; ++pages) {
        CAPTURE(pages);
        disk.leave_free(pages);
        FileJob job;
        const auto progress = run(rig, job, disk.fd(), {file("text", text)});
        if (progress == FileJob::Progress::failed) {
            CHECK(job.error().sys == ENOSPC);
            CHECK(job.error().text == "text: No space left on device");
            failed = true;
        } else {
            CHECK(content(disk.fd(), "text") == text);
            done = true;
        }
        ::unlinkat(disk.fd(), "text", 0);
    }
    CHECK(failed);
    CHECK(done);
}

TEST_CASE("a short write goes on where it ended") {
    Rig rig;
    if (!rig.ok()) {
        return;
    }
    const Scratch scratch;
    // The kernel writes up to the limit first, and only the next write fails.
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    FileJob job;
    const auto progress = run(rig, job, scratch.fd(), {file("text", std::string(1500, 't'))});
    FileJob fits;
    const auto fitting = run(rig, fits, scratch.fd(), {file("fits", std::string(1000, 't'))});
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    ::signal(SIGXFSZ, SIG_DFL);
    CHECK(progress == FileJob::Progress::failed);
    CHECK(job.error().sys == EFBIG);
    CHECK(content(scratch.fd(), "text")->size() == 1000);
    CHECK(fitting == FileJob::Progress::done);
}
