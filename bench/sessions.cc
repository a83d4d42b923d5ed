#include "bench/sessions.h"

#include "process/files.h"
#include "wire/json.h"
#include "wire/limits.h"

namespace mosaic::bench {
namespace {

constexpr uint64_t kFileBytesMax = uint64_t{16} * 1024 * 1024;

Result<Session> session_of(const json::Value& entry, const std::string& where) {
    const json::Value* run = entry.find("run");
    const json::Value* instance = entry.find("instance");
    const json::Value* warm = entry.find("warm");
    const json::Value* directory = entry.find("runDir");
    const json::Value* outer = entry.find("pid");
    const json::Value* runner = entry.find("runnerPid");
    const bool whole = run != nullptr && run->string() != nullptr && directory != nullptr &&
                       directory->string() != nullptr && instance != nullptr &&
                       instance->string() != nullptr && outer != nullptr &&
                       outer->integer() != nullptr && runner != nullptr &&
                       runner->integer() != nullptr;
    if (!whole) {
        return fail(Code::invalid,
                    where + ": an entry without run, runDir, instance, pid and runnerPid");
    }
    return Session{*run->string(),
                   *directory->string(),
                   *instance->string(),
                   warm != nullptr && *warm == json::Value(true),
                   static_cast<pid_t>(*outer->integer()),
                   static_cast<pid_t>(*runner->integer())};
}

}  // namespace

Result<std::vector<Session>> read_sessions(const Scratch& scratch) {
    const std::string path = scratch.data() + "/bus-host/sessions.json";
    MOSAIC_TRY_ASSIGN(const std::string text, process::read_file(path, kFileBytesMax));
    MOSAIC_TRY_ASSIGN(const json::Value file, json::parse(text, {limits::kFileDepthMax}));
    const json::Value* sessions = file.find("sessions");
    if (sessions == nullptr || sessions->array() == nullptr) {
        return fail(Code::invalid, path + ": no sessions");
    }
    std::vector<Session> out;
    for (const json::Value& entry : *sessions->array()) {
        MOSAIC_TRY_ASSIGN(Session session, session_of(entry, path));
        out.push_back(std::move(session));
    }
    return out;
}

}  // namespace mosaic::bench
