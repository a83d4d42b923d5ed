// What becomes of the host's requests when the broker answers, fails or dies.

#include "launch/requests.h"

#include <doctest/doctest.h>

using namespace mosaic::launch;

namespace {

struct Request {
    RequestKind kind = RequestKind::refuse;
    int tag = 0;
};

}  // namespace

TEST_CASE("an answer is taken once and a stranger's never") {
    Requests<Request> requests;
    const int64_t id = requests.ask({RequestKind::bind, 7});
    CHECK(!requests.take_answered(id + 1));
    CHECK(requests.waits(RequestKind::bind));
    const auto answered = requests.take_answered(id);
    REQUIRE(answered);
    CHECK(answered->tag == 7);
    CHECK(!requests.waits(RequestKind::bind));
    CHECK(!requests.take_answered(id));
}

TEST_CASE("no number is used for a second broker's requests") {
    Requests<Request> requests;
    const int64_t id = requests.ask({RequestKind::authorize, 1});
    CHECK(requests.lose_broker().size() == 1);
    CHECK(requests.ask({RequestKind::authorize, 2}) > id);
    CHECK(!requests.take_answered(id));
}

TEST_CASE("a broker's death returns what fails and keeps every ending") {
    Requests<Request> requests;
    int tag = 0;
    for (const RequestKind kind :
         {RequestKind::authorize, RequestKind::end, RequestKind::bind, RequestKind::end_leftover}) {
        CHECK(requests.ask({kind, ++tag}) == tag);
    }
    CHECK(requests.ends_waiting() == 2);
    const auto lost = requests.lose_broker();
    REQUIRE(lost.size() == 2);
    CHECK(lost[0].tag == 1);
    CHECK(lost[1].tag == 3);
    CHECK(requests.ends_waiting() == 2);
    const auto kept = requests.take_kept();
    REQUIRE(kept.size() == 2);
    CHECK(kept[0].tag == 2);
    CHECK(kept[1].tag == 4);
    CHECK(requests.ends_waiting() == 0);
}

TEST_CASE("an ending that was answered by a failure waits again") {
    Requests<Request> requests;
    const int64_t id = requests.ask({RequestKind::end, 5});
    auto answered = requests.take_answered(id);
    REQUIRE(answered);
    requests.keep(*answered);
    CHECK(requests.ends_waiting() == 1);
    CHECK(requests.take_kept().size() == 1);
}
