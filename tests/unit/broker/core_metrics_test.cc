// Goal: the host gets the broker's metrics, the human gets them by way of the host, and a session
// gets none.

#include "bench.h"
#include "metrics/reader.h"

using namespace mosaic;
using namespace mosaic::broker;
using namespace mosaic::broker::test;

TEST_CASE("the host is told what the broker counts and what its store holds") {
    Bench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    for (const char* body : {"12345", "123"}) {
        REQUIRE(bench.ask(pm, "message.send", letter({"coder", ""}, body).to_value()).reply.ok);
    }
    bench.core.counts().commit.observe(milliseconds(1));
    const Outcome out = bench.host("metrics", kNothing);
    REQUIRE(out.kind == Outcome::Kind::reply);
    REQUIRE(out.reply.ok);
    const auto families = metrics::read_text(text_of(out.reply.result, "text"));
    REQUIRE(families);
    CHECK(metrics::value_of(*families, "mosaic_broker_messages_queued") == 2);
    CHECK(metrics::value_of(*families, "mosaic_broker_messages_queued_bytes") == 8);
    CHECK(metrics::value_of(*families, "mosaic_broker_live_runs") == 1);
    CHECK(metrics::value_of(*families, "mosaic_broker_open_fds").value_or(0) > 0);
    CHECK(metrics::value_of(*families, "mosaic_broker_resident_memory_bytes").value_or(0) > 0);
    CHECK(bench.host("metrics", json::Object{{"x", 1}}).reply.error == "bad-request");
}

TEST_CASE("the human's metrics are the host's to answer") {
    Bench bench;
    const Outcome out = bench.human("metrics", kNothing);
    CHECK(out.kind == Outcome::Kind::forward);
    CHECK(out.ask.verb == "metrics");
    CHECK(bench.human("metrics", json::Object{{"x", 1}}).reply.error == "bad-request");
}

TEST_CASE("a session gets no metrics") {
    Bench bench;
    auto pm = bench.claimed({"pm", ""}, kPmRun);
    const Outcome out = bench.ask(pm, "metrics", kNothing);
    CHECK(out.kind == Outcome::Kind::reply);
    CHECK(out.reply.error == "not-human");
}
