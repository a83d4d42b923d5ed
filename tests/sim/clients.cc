#include "sim/clients.h"

#include <algorithm>

#include "sim/host.h"
#include "sim/world.h"

namespace mosaic::sim {
namespace {

// Closed records that a late answer may still be compared with.
constexpr size_t kRecordsKept = 8192;
constexpr uint32_t kFlood = 40;

}  // namespace

void Clients::begin() {
    world_.wake(world_.us(1, world_.shape.ask_every_us) * 1000, {.kind = Wake::ask});
}

void Clients::on_ask() {
    if (world_.calm) {
        return;
    }
    begin();
    Prng& chance = world_.chance;
    // Most look first who is there.
    uint32_t seat = chance.below(world_.shape.seats);
    for (int looks = 0; looks < 4 && world_.sessions.alive_of_seat(seat) != 0; ++looks) {
        seat = chance.below(world_.shape.seats);
    }
    const uint32_t what = chance.below(100);
    if (world_.fault(world_.faults.floods)) {
        for (uint32_t i = 0; i < kFlood; ++i) {
            human_launches(chance.below(2) == 0 ? seat : chance.below(world_.shape.seats));
            session_launches(chance.below(world_.shape.seats));
        }
    } else if (what < 8) {
        human_stops(seat, chance.below(2) == 0 ? 10'000 : chance.between(0, 3'000));
    } else if (what < 50) {
        session_launches(seat);
    } else {
        human_launches(seat);
    }
    if (world_.fault(world_.faults.revokes) && world_.broker.alive()) {
        ToBroker request;
        request.verb = Verb::switch_launches;
        request.flag = chance.below(4) != 0;
        world_.broker.from_human(request);
    }
    if (chance.below(200) == 0) {
        ++world_.kinds[chance.below(world_.shape.seats)];
    }
    if (world_.fault(world_.faults.disk_fills)) {
        world_.disk.full_until = world_.now + world_.us(50'000, 5'000'000) * 1000;
    }
    if (world_.fault(world_.faults.host_is_ended) && world_.host_lives()) {
        world_.host->signal_stop();
    }
}

uint32_t Clients::add(const AskRecord& record) {
    while (asks_.size() > kRecordsKept && !asks_.front().open) {
        asks_.pop_front();
        ++first_;
    }
    asks_.push_back(record);
    asks_.back().open = true;
    asks_.back().host_epoch = world_.host_epoch;
    const uint32_t ask = first_ + static_cast<uint32_t>(asks_.size()) - 1;
    open_.push_back(ask);
    ++world_.counters.asks;
    return ask;
}

AskRecord& Clients::record(uint32_t ask) {
    return asks_[ask - first_];
}

void Clients::human_launches(uint32_t seat) {
    if (!world_.broker.alive()) {
        return;
    }
    AskRecord record;
    record.seat = seat;
    record.broker_epoch = world_.broker.epoch();
    ToBroker request;
    request.verb = Verb::launch;
    request.seat = seat;
    request.ask = add(record);
    world_.broker.from_human(request);
}

void Clients::human_stops(uint32_t seat, int64_t timeout_ms) {
    if (!world_.broker.alive()) {
        return;
    }
    AskRecord record;
    record.kind = AskRecord::Kind::stop;
    record.seat = seat;
    record.broker_epoch = world_.broker.epoch();
    ToBroker request;
    request.verb = Verb::stop;
    request.seat = seat;
    request.timeout_ms = timeout_ms;
    request.ask = add(record);
    world_.broker.from_human(request);
}

void Clients::stop_everything() {
    for (uint32_t seat = 0; seat < world_.shape.seats; ++seat) {
        human_stops(seat, 2'000);
    }
}

void Clients::session_launches(uint32_t seat) {
    const uint32_t session = world_.sessions.some_launcher();
    if (session == UINT32_MAX || !world_.host_lives()) {
        return;
    }
    const Session& s = world_.sessions.session(session);
    if (s.host_epoch != world_.host_epoch) {
        return;
    }
    AskRecord record;
    record.from = AskRecord::From::session;
    record.seat = seat;
    record.session = session;
    record.life = s.life;
    const uint32_t ask = add(record);
    world_.wake(world_.us(5, 200) * 1000,
                {.kind = Wake::host_op,
                 .sub = static_cast<uint8_t>(HostOp::request),
                 .epoch = world_.host_epoch,
                 .a = ask});
}

void Clients::close(uint32_t ask) {
    record(ask).open = false;
    std::erase(open_, ask);
}

void Clients::begun(uint32_t ask, uint32_t run) {
    if (ask >= first_) {
        record(ask).run = run;
    }
}

void Clients::answered(uint32_t ask, bool ok, uint32_t run, Refusal /*refusal*/) {
    if (ask < first_) {
        return;
    }
    AskRecord& asked = record(ask);
    ++world_.counters.checks;
    if (++asked.answers > 1) {
        world_.fail("one answer a request", "ask " + std::to_string(ask) + " was answered twice");
    }
    if (ok && asked.kind == AskRecord::Kind::launch) {
        if (run != asked.run) {
            world_.fail("the answer is the asker's",
                        "ask " + std::to_string(ask) + " was told run " + std::to_string(run) +
                            ", begun was " + std::to_string(asked.run));
        }
    }
    if (asked.open) {
        close(ask);
    }
}

void Clients::host_died() {
    for (const uint32_t ask : std::vector<uint32_t>(open_)) {
        if (record(ask).host_epoch == world_.host_epoch) {
            close(ask);
        }
    }
}

void Clients::broker_died(uint32_t epoch) {
    for (const uint32_t ask : std::vector<uint32_t>(open_)) {
        if (record(ask).broker_epoch == epoch) {
            close(ask);
        }
    }
}

void Clients::session_gone(uint32_t session, uint32_t life) {
    for (const uint32_t ask : std::vector<uint32_t>(open_)) {
        if (record(ask).session == session && record(ask).life == life) {
            close(ask);
        }
    }
}

void Clients::message_acknowledged(uint64_t number) {
    // Its receiver may have been quicker than this reply.
    if (world_.broker.holds(number)) {
        unread_.insert(number);
    }
    ++world_.counters.messages;
}

void Clients::message_taken(uint64_t number) {
    unread_.erase(number);
}

// In order: what is given again is the one that wasn't acknowledged.
void Clients::message_delivered(uint64_t number, uint32_t seat) {
    last_given_.resize(world_.shape.seats);
    ++world_.counters.checks;
    if (number < last_given_[seat]) {
        world_.fail("messages come in order",
                    "seat " + std::to_string(seat) + " was given " + std::to_string(number) +
                        " after " + std::to_string(last_given_[seat]));
    }
    last_given_[seat] = number;
}

void Clients::check_messages() const {
    size_t lost = 0;
    for (const uint64_t number : unread_) {
        lost += world_.broker.holds(number) ? 0U : 1U;
    }
    if (lost > 0) {
        world_.fail("no acknowledged message is lost", std::to_string(lost) + " are");
    }
}

}  // namespace mosaic::sim
