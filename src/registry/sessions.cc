#include "registry/sessions.h"

#include <algorithm>
#include <set>

#include "wire/limits.h"

namespace mosaic::registry {
namespace {

using json::Reader;
using json::Value;

constexpr int64_t kPidMax = 4'194'304;  // PID_MAX_LIMIT, proc(5)

// A reader that will not complain about keys nobody asks for: a newer host may have written them.
void allow_unknown_keys(Reader& r, const Value& object) {
    for (const json::Member& member : *object.object()) {
        ignore(r.any_or_none(member.first), "readers of this file ignore unknown keys");
    }
}

void require_text(Reader& r, std::string_view key, const std::string& text) {
    if (text.empty()) {
        r.problem(key, "expected a string that isn't empty");
    }
}

std::string read_start_time(Reader& r, std::string_view key) {
    std::string text = r.string(key);
    const bool digits =
        !text.empty() && text.size() <= 20 &&
        std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) {
        r.problem(key, "expected a start time: a string of digits");
    }
    return text;
}

wire::ProcessIdentity read_process(Reader& r) {
    wire::ProcessIdentity process;
    process.pid = r.integer("pid", 1, kPidMax);
    process.start_time = read_start_time(r, "startTime");
    process.runner_pid = r.integer("runnerPid", 1, kPidMax);
    process.runner_start_time = read_start_time(r, "runnerStartTime");
    return process;
}

void read_origin(Reader& r, SessionEntry& entry) {
    entry.warm = r.boolean_or("warm", false);
    if (entry.warm) {
        if (r.has("thread")) {
            r.problem("thread", "expected none: a warm seat isn't for a thread");
        }
        if (r.has("launchedBy")) {
            r.problem("launchedBy", "expected none: nobody has launched a warm seat");
        }
        return;
    }
    entry.launched_by = r.id("launchedBy");
    entry.at = r.string("at");
    require_text(r, "at", entry.at);
}

Result<SessionEntry> read_entry(const Value& value, const std::string& path, size_t index) {
    const std::string pointer = "/sessions/" + std::to_string(index);
    if (value.object() == nullptr) {
        return fail(Code::corrupt,
                    path + ": " + pointer + ": expected an object, found " + value.kind());
    }
    Reader r(value, path, pointer);
    SessionEntry entry;
    entry.business = r.id("business");
    entry.seat.instance = r.id("instance");
    entry.seat.thread = r.has("thread") ? r.id("thread") : "";
    entry.run = r.string("run");
    if (!is_run_id(entry.run)) {
        r.problem("run", "expected a run id (r and 12 hex digits)");
    }
    entry.run_dir = r.string("runDir");
    if (entry.run_dir.empty() || entry.run_dir[0] != '/') {
        r.problem("runDir", "expected an absolute path");
    }
    entry.process = read_process(r);
    entry.harness = r.id("harness");
    entry.provider = r.string("provider");
    require_text(r, "provider", entry.provider);
    entry.model = r.string("model");
    require_text(r, "model", entry.model);
    read_origin(r, entry);
    allow_unknown_keys(r, value);
    if (auto done = r.done(); !done) {
        return fail(Code::corrupt, std::move(done.error().text));
    }
    return entry;
}

// What entries say about one another.
class Duplicates {
  public:
    Duplicates(const std::string& path, std::string business)
        : path_(path), business_(std::move(business)) {}

    Result<void> add(const SessionEntry& entry, size_t index) {
        const std::string pointer = path_ + ": /sessions/" + std::to_string(index);
        if (business_.empty()) {
            business_ = entry.business;
        }
        if (entry.business != business_) {
            return fail(Code::corrupt,
                        pointer + "/business: expected \"" + business_ + "\", found \"" +
                            entry.business + "\"");
        }
        if (!runs_.insert(entry.run).second) {
            return fail(Code::corrupt, pointer + "/run: " + entry.run + " stands twice");
        }
        if (!entry.warm && !seats_.insert(entry.seat).second) {
            return fail(Code::corrupt,
                        pointer + ": the seat " + describe(entry.seat) + " stands twice");
        }
        return {};
    }

  private:
    const std::string& path_;
    std::string business_;
    std::set<std::string> runs_;
    std::set<Seat> seats_;
};

Result<Value> parse_document(std::string_view text, const std::string& path) {
    if (text.size() > kSessionsFileBytesMax) {
        return fail(Code::corrupt, path + ": is larger than any such file can be");
    }
    auto value = json::parse(text, {.depth_max = limits::kFileDepthMax});
    if (!value) {
        return fail(Code::corrupt, path + ": " + value.error().text);
    }
    if (value->object() == nullptr) {
        return fail(Code::corrupt, path + ": expected an object, found " + value->kind());
    }
    return value;
}

}  // namespace

Value SessionEntry::to_value() const {
    Value out;
    out.set("business", business);
    out.set("instance", seat.instance);
    if (!seat.thread.empty()) {
        out.set("thread", seat.thread);
    }
    out.set("run", run);
    out.set("runDir", run_dir);
    out.set("pid", process.pid);
    out.set("startTime", process.start_time);
    out.set("runnerPid", process.runner_pid);
    out.set("runnerStartTime", process.runner_start_time);
    if (!warm) {
        out.set("launchedBy", launched_by);
    }
    out.set("harness", harness);
    out.set("provider", provider);
    out.set("model", model);
    if (warm) {
        out.set("warm", true);
    } else {
        out.set("at", at);
    }
    return out;
}

Result<SessionsFile> parse_sessions(std::string_view text,
                                    const std::string& path,
                                    const std::string& business) {
    MOSAIC_TRY_ASSIGN(const Value document, parse_document(text, path));
    Reader r(document, path);
    // The version first: a file of another version may have any shape.
    r.integer("sessionsVersion", INT64_MIN, INT64_MAX);
    const Value* version = document.find("sessionsVersion");
    if (version != nullptr && version->integer() != nullptr &&
        *version->integer() != kSessionsVersion) {
        r.problem("sessionsVersion", "expected 1, found " + std::to_string(*version->integer()));
    }
    SessionsFile out;
    out.boot_id = r.string("bootId");
    require_text(r, "bootId", out.boot_id);
    const Value* sessions = r.array("sessions");
    allow_unknown_keys(r, document);
    if (auto done = r.done(); !done) {
        return fail(Code::corrupt, std::move(done.error().text));
    }
    Duplicates duplicates(path, business);
    for (size_t i = 0; i < sessions->array()->size(); ++i) {
        MOSAIC_TRY_ASSIGN(SessionEntry entry, read_entry((*sessions->array())[i], path, i));
        MOSAIC_TRY(duplicates.add(entry, i));
        out.entries.push_back(std::move(entry));
    }
    return out;
}

std::string dump_entry(const SessionEntry& entry) {
    return json::dump(entry.to_value());
}

std::string assemble_sessions(std::string_view boot_id,
                              const std::vector<std::string_view>& entries) {
    size_t bytes = 128 + boot_id.size();
    for (const std::string_view entry : entries) {
        bytes += entry.size() + 2;
    }
    std::string out;
    out.reserve(bytes);
    out += R"({"sessionsVersion":)" + std::to_string(kSessionsVersion) + R"(,"bootId":)" +
           json::dump(Value(boot_id)) + R"(,"sessions":[)";
    for (const std::string_view entry : entries) {
        out += out.back() == '[' ? "" : ",";
        out += entry;
    }
    out += "]}\n";
    return out;
}

std::string dump_sessions(const SessionsFile& file) {
    std::vector<std::string> texts;
    texts.reserve(file.entries.size());
    for (const SessionEntry& entry : file.entries) {
        texts.push_back(dump_entry(entry));
    }
    return assemble_sessions(file.boot_id, {texts.begin(), texts.end()});
}

}  // namespace mosaic::registry
