#include "broker/turn.h"

#include <algorithm>
#include <utility>

#include "base/crash_point.h"
#include "base/instant.h"
#include "base/secret.h"

namespace mosaic::broker {
namespace {

const Seat kEvents{};  // no mailbox has an empty instance

bool waits_for_reply(const wire::Request& request) {
    return request.args.find("in_reply_to") != nullptr;
}

Seat key_of(const Connection& from, const wire::Request& request) {
    return request.verb == "events" ? kEvents : from.mailbox;
}

Outcome storage_unavailable(int64_t id) {
    return error(id,
                 BusError::storage_unavailable,
                 "the broker's store can't be written; nothing of this request is recorded");
}

}  // namespace

std::vector<Done> Turns::run(std::vector<Item> items, int64_t now) {
    if (items.empty()) {
        return {};
    }
    auto done = all_at_once(items, now);
    if (done) {
        problem_.clear();
        keep();
    } else {
        problem_ = done.error().text;
        core_.counts().commit_failures.add();
        store_.rollback();
        undo();
        done = one_by_one(items, now);
        keep();
    }
    for (Item& item : items) {
        wipe(item.request.cap);
    }
    return std::move(*done);
}

Result<std::vector<Done>> Turns::all_at_once(const std::vector<Item>& items, int64_t now) {
    std::vector<Done> done;
    bool events_grew = false;
    const int64_t before = store_.rows_written();
    MOSAIC_TRY(store_.begin());
    MOSAIC_TRY(settle(missed_, now, done));
    for (const Item& item : items) {
        touch(item.from);
        MOSAIC_TRY_ASSIGN(Outcome outcome, core_.handle(item.from->caller, item.request, now));
        if (outcome.kind == Outcome::Kind::wait) {
            park(item.from, item.request);
            continue;
        }
        events_grew = events_grew || outcome.events_grew;
        std::vector<Seat> mailboxes = std::move(outcome.mailboxes);
        done.push_back({item.from, item.request, std::move(outcome)});
        wipe(done.back().request.cap);
        // At once: the reply that somebody waits for must not be seen by an ordinary receive that
        // comes later in the same turn.
        MOSAIC_TRY(settle(std::move(mailboxes), now, done));
    }
    if (events_grew) {
        MOSAIC_TRY(settle({kEvents}, now, done));
    }
    for (const Item& item : items) {
        MOSAIC_CRASH_POINT("broker", "handled", item.request.verb);
    }
    if (store_.rows_written() == before) {
        store_.rollback();  // only ends the read
    } else {
        const Instant begun = monotonic_now();
        MOSAIC_TRY(store_.commit());
        core_.counts().commit.observe(monotonic_now() - begun);
    }
    for (const Item& item : items) {
        MOSAIC_CRASH_POINT("broker", "committed", item.request.verb);
    }
    missed_.clear();
    return done;
}

// After a failed commit: what only reads is answered, what writes is refused. Each is tried in a
// transaction of its own that is rolled back whatever it did.
std::vector<Done> Turns::one_by_one(std::vector<Item>& items, int64_t now) {
    std::vector<Done> done;
    for (Item& item : items) {
        touch(item.from);
        const int64_t before = store_.rows_written();
        const int64_t delivered = item.from->caller.delivered;
        Result<Outcome> outcome = storage_unavailable(item.request.id);
        if (store_.begin()) {
            outcome = core_.handle(item.from->caller, item.request, now);
        }
        store_.rollback();
        if (!outcome || store_.rows_written() != before) {
            item.from->caller.delivered = delivered;
            outcome = storage_unavailable(item.request.id);
        }
        if (outcome->kind == Outcome::Kind::wait) {
            park(item.from, item.request);
            continue;
        }
        done.push_back({item.from, item.request, std::move(*outcome)});
        wipe(done.back().request.cap);
    }
    return done;
}

Result<void> Turns::settle(std::vector<Seat> mailboxes, int64_t now, std::vector<Done>& done) {
    // Each round answers waits or ends: a wait that is answered asks no more.
    while (!mailboxes.empty()) {
        const Seat mailbox = std::move(mailboxes.back());
        mailboxes.pop_back();
        // Who waits for a certain reply goes before who takes what comes.
        MOSAIC_TRY(settle_one(mailbox, true, now, mailboxes, done));
        MOSAIC_TRY(settle_one(mailbox, false, now, mailboxes, done));
    }
    return {};
}

Result<void> Turns::settle_one(const Seat& mailbox,
                               bool replies,
                               int64_t now,
                               std::vector<Seat>& more,
                               std::vector<Done>& done) {
    const auto found = waits_.find(mailbox);
    if (found == waits_.end()) {
        return {};
    }
    parked_.push_back(mailbox);
    for (Wait& wait : found->second) {
        if (wait.answered || waits_for_reply(wait.request) != replies) {
            continue;
        }
        touch(wait.from);
        MOSAIC_TRY_ASSIGN(Outcome outcome, core_.resume(wait.from->caller, wait.request, now));
        if (outcome.kind == Outcome::Kind::wait) {
            continue;
        }
        wait.answered = true;
        more.insert(more.end(), outcome.mailboxes.begin(), outcome.mailboxes.end());
        done.push_back({wait.from, wait.request, std::move(outcome)});
    }
    return {};
}

void Turns::park(Connection* from, const wire::Request& request) {
    const Seat key = key_of(*from, request);
    Wait wait;
    wait.from = from;
    wait.request = request;
    wipe(wait.request.cap);
    waits_[key].push_back(std::move(wait));
    parked_.push_back(key);
    ++from->waits;
}

void Turns::touch(Connection* connection) {
    touched_.push_back(connection);
}

// The turn came through: its answered waits are over, its new ones are ordinary ones now.
void Turns::keep() {
    for (const Seat& key : parked_) {
        const auto found = waits_.find(key);
        if (found == waits_.end()) {
            continue;  // seen before in this loop
        }
        std::erase_if(found->second, [](Wait& wait) {
            wait.fresh = false;
            if (wait.answered) {
                --wait.from->waits;
            }
            return wait.answered;
        });
        if (found->second.empty()) {
            waits_.erase(found);
        }
    }
    parked_.clear();
    for (Connection* connection : touched_) {
        connection->delivered_before = connection->caller.delivered;
    }
    touched_.clear();
}

void Turns::undo() {
    for (const Seat& key : parked_) {
        const auto found = waits_.find(key);
        if (found == waits_.end()) {
            continue;
        }
        std::erase_if(found->second, [](Wait& wait) {
            wait.answered = false;
            if (wait.fresh) {
                --wait.from->waits;
            }
            return wait.fresh;
        });
        if (found->second.empty()) {
            waits_.erase(found);
        } else {
            missed_.push_back(key);
        }
    }
    std::sort(missed_.begin(), missed_.end());
    missed_.erase(std::unique(missed_.begin(), missed_.end()), missed_.end());
    parked_.clear();
    for (Connection* connection : touched_) {
        connection->caller.delivered = connection->delivered_before;
    }
    touched_.clear();
}

void Turns::forget(const Connection& connection) {
    for (const Seat& key : {connection.mailbox, kEvents}) {
        const auto found = waits_.find(key);
        if (found == waits_.end()) {
            continue;
        }
        std::erase_if(found->second, [&](const Wait& wait) { return wait.from == &connection; });
        if (found->second.empty()) {
            waits_.erase(found);
        }
    }
}

}  // namespace mosaic::broker
