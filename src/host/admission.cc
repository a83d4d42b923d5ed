#include "host/admission.h"

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>

#include "base/assert.h"
#include "harness/bundle.h"
#include "host/plan.h"
#include "launch/checks.h"
#include "process/files.h"
#include "registry/layout.h"
#include "sandbox/workspace.h"
#include "sandbox/worktree.h"
#include "wire/limits.h"

namespace mosaic::host {
namespace {

// Gathers one fact after the other; each returns false when its check fails.
class Gatherer {
  public:
    Gatherer(const AdmissionParts& parts, const Ask& ask, bool warm = false)
        : parts_(parts), ask_(ask), warm_(warm) {}

    Decision run(bool again) {
        Decision out;
        if (business() && seat() && contract() && route() && sandbox(again, out) && workspace() &&
            thread() && model() && room()) {
            if (!out.ask_again) {
                build(out);
            }
        }
        if (const auto refusal = launch::first_refusal(facts_)) {
            out.refusal = refusal;
            out.reason = reason_;
            out.ask_again = false;
        }
        return out;
    }

  private:
    const Settings& settings() const { return parts_.settings; }

    bool fail_with(bool& fact, std::string reason) {
        fact = false;
        reason_ = std::move(reason);
        return false;
    }

    bool fail_with(std::optional<Refusal>& fact, Refusal code, std::string reason) {
        fact = code;
        reason_ = std::move(reason);
        return false;
    }

    bool business() {
        const config::Business& business = settings().business;
        if (!business.launch) {
            return fail_with(facts_.launch_configured,
                             "business " + business.id + " has no launch block");
        }
        const std::string& name = ask_.target.instance;
        const auto& listed = business.launch->instances;
        const bool by_human = ask_.caller.kind != Caller::Kind::session;
        const bool is_listed = std::find(listed.begin(), listed.end(), name) != listed.end();
        instance_ = business.find(name);
        if (instance_ == nullptr || !(is_listed || (by_human && name == business.launch->by))) {
            return fail_with(facts_.listed, name + " isn't in launch.instances");
        }
        if (name == business.launch->by && !by_human) {
            return fail_with(facts_.listed, "only " + business.human + " launches " + name);
        }
        return true;
    }

    bool seat() {
        if (warm_) {
            return true;
        }
        if (parts_.runs.is_taken(ask_.target) || parts_.leftovers.is_taken(ask_.target)) {
            return fail_with(facts_.seat_free, describe(ask_.target) + " is running");
        }
        return true;
    }

    bool contract() {
        auto text = config::load_contract(settings().system, *instance_);
        if (!text) {
            return fail_with(facts_.has_contract,
                             "role " + instance_->definition +
                                 " has no contract file to go by: " + text.error().text);
        }
        contract_ = std::move(*text);
        if (!contract_is_known(settings(), *instance_)) {
            return fail_with(facts_.has_contract,
                             "the contract " +
                                 config::contract_path(settings().system, *instance_) +
                                 " leads elsewhere than when the configuration was read; mosaic "
                                 "reload looks at it again");
        }
        return true;
    }

    bool route() {
        auto choice = harness::choose_route(*instance_, settings().modules, settings().env);
        if (const auto* refusal = std::get_if<harness::RouteRefusal>(&choice)) {
            return fail_with(facts_.route, refusal->code, refusal->reason);
        }
        route_ = std::move(std::get<harness::ChosenRoute>(choice));
        return true;
    }

    bool sandbox(bool again, Decision& out) {
        if (!settings().layout.missing.empty()) {
            return fail_with(
                facts_.sandbox, Refusal::sandbox_unavailable, settings().layout.missing);
        }
        switch (parts_.probe.ask(again)) {
            case Probe::Answer::works:
                return true;
            case Probe::Answer::unknown:
                out.ask_again = true;
                return true;
            case Probe::Answer::broken:
                break;
        }
        const sandbox::Unavailable& why = parts_.probe.unavailable();
        return fail_with(facts_.sandbox,
                         Refusal::sandbox_unavailable,
                         why.reason + (why.remedy.empty() ? "" : "; " + why.remedy));
    }

    // The settings' places, and the directories of the programs that this route brings.
    [[nodiscard]] std::vector<sandbox::Place> places() const {
        std::vector<sandbox::Place> out = places_of(settings(), *instance_);
        const auto add = [&](const std::string& real) {
            sandbox::Place place;
            place.path = real.substr(0, std::max<size_t>(real.rfind('/'), 1));
            place.what = "the program directory";
            out.push_back(std::move(place));
        };
        if (route_.program) {
            add(route_.program->real);
        }
        for (const auto& [name, helper] : route_.helpers) {
            add(helper.real);
        }
        return out;
    }

    bool workspace() {
        auto opened = sandbox::open_workspace(instance_->workspace, places());
        if (!opened) {
            return fail_with(facts_.workspace, opened.error().code, opened.error().reason);
        }
        workspace_ = std::move(*opened);
        return true;
    }

    // Every directory of the thread's store that exists must be ours and private; what doesn't is
    // made when the launch is prepared.
    bool thread() {
        if (ask_.target.thread.empty()) {
            return true;
        }
        UniqueFd at(::fcntl(parts_.root.root.get(), F_DUPFD_CLOEXEC, 0));
        std::string path = parts_.root.path;
        for (const std::string& name : {std::string(registry::kThreads),
                                        settings().business.id,
                                        ask_.target.instance,
                                        ask_.target.thread,
                                        std::string(registry::kThreadSession)}) {
            path += "/" + name;
            auto next = process::open_private_directory(at.get(), name);
            if (!next && next.error().code == Code::missing) {
                return true;
            }
            if (!next) {
                return fail_with(facts_.thread_safe, path + ": " + next.error().text);
            }
            at = std::move(*next);
        }
        return true;
    }

    bool model() {
        const auto& models = settings().business.launch->models;
        const auto found =
            std::find_if(models.begin(), models.end(), [&](const config::ModelLimit& m) {
                return m.provider == route_.route.provider && m.model == route_.route.model;
            });
        if (found == models.end()) {
            return fail_with(
                facts_.model_known,
                route_.route.provider + " " + route_.route.model + " isn't in launch.models");
        }
        limit_ = &*found;
        return true;
    }

    bool room() {
        if (warm_) {
            return true;
        }
        // What an earlier host left and couldn't end yet is still running.
        const launch::Leftovers& left = parts_.leftovers;
        const int64_t running = parts_.runs.count(limit_->provider, limit_->model) +
                                left.count(limit_->provider, limit_->model);
        if (running >= limit_->max) {
            return fail_with(facts_.has_room,
                             limit_->provider + " " + limit_->model + " sessions: " +
                                 std::to_string(running) + " of " + std::to_string(limit_->max));
        }
        const int64_t account_max = settings().business.launch->account_max;
        const int64_t on_account = parts_.runs.count_account(route_.account) + left.count();
        if (account_max > 0 && !route_.account.empty() && on_account >= account_max) {
            return fail_with(facts_.has_room,
                             "sessions on the account of " + route_.account + ": " +
                                 std::to_string(on_account) + " of " + std::to_string(account_max));
        }
        if (parts_.runs.count() + left.count() >= int64_t{limits::kRunsMax}) {
            return fail_with(facts_.has_room, "the host runs as many sessions as it can");
        }
        return true;
    }

    void build(Decision& out) {
        const auto harness_version = parts_.versions.of(route_);
        if (!harness_version) {
            out.ask_again = true;
            return;
        }
        PlanFacts facts{settings(),
                        parts_.root,
                        ask_.target,
                        ask_.caller.name,
                        *instance_,
                        route_,
                        contract_,
                        parts_.probe.bwrap_version(),
                        *harness_version,
                        parts_.mounts.version(),
                        warm_};
        const config::SandboxOptions& options = settings().system.sandbox;
        sandbox::GitFinding git = sandbox::look_at_git(
            workspace_, {.common_dir = options.git_common_dir, .nested = options.nested}, places());
        auto plan = make_plan(facts, std::move(workspace_), std::move(git));
        if (!plan) {
            ignore(fail_with(facts_.sandbox, Refusal::sandbox_unavailable, plan.error().text),
                   "the refusal is in the facts");
            return;
        }
        out.plan = std::move(*plan);
    }

    const AdmissionParts& parts_;
    const Ask& ask_;
    bool warm_;
    launch::CheckFacts facts_;
    std::string reason_;
    const config::Instance* instance_ = nullptr;
    const config::ModelLimit* limit_ = nullptr;
    std::string contract_;
    harness::ChosenRoute route_;
    sandbox::Workspace workspace_;
};

}  // namespace

Decision decide(const AdmissionParts& parts, const Ask& ask, bool again) {
    return Gatherer(parts, ask).run(again);
}

Decision decide_warm(const AdmissionParts& parts, const std::string& instance, bool again) {
    Ask ask;
    ask.caller.kind = Caller::Kind::start;  // launch.by may have warm seats, too
    ask.target.instance = instance;
    return Gatherer(parts, ask, true).run(again);
}

}  // namespace mosaic::host
