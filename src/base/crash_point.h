#pragma once

// Named instants at which a test build kills itself, so that a test can prove that the next start
// loses nothing whatever the instant was. In the product they are nothing at all: no code, no
// string. The programs for the tests are built with MOSAIC_CRASH_POINTS and tests/crash/
// crash_point.cc; see there for how a point is armed.
//
// A point's name is "<part>.<moment>.<what>", where `what` comes from a table of names (of an enum,
// or of the broker's verbs), so that a new effect, event or verb has its point by itself:
//   run, leftover, store     on.<event>: it came, and the machine hasn't seen it yet
//                            after.<effect>: it was carried out, or is on its way
//                            (the instant before an effect is one of these two)
//   request                  after.<request>: it is on its way to the broker
//                            on.<request>: its answer came
//   broker                   handled.<verb>: in its transaction, which isn't committed yet
//                            committed.<verb>: durable, and nobody was told
//                            answered.<verb>: told

#ifdef MOSAIC_CRASH_POINTS

#include <string>
#include <string_view>
#include <vector>

namespace mosaic {

void crash_point(std::string_view part, std::string_view moment, std::string_view what);

// A child's environment gets what arms the points in us.
void pass_crash_points(std::vector<std::string>& env);

}  // namespace mosaic

#define MOSAIC_CRASH_POINT(part, moment, what) ::mosaic::crash_point(part, moment, what)
#define MOSAIC_PASS_CRASH_POINTS(env) ::mosaic::pass_crash_points(env)

#else

// `what` is looked at by the compiler and never evaluated.
#define MOSAIC_CRASH_POINT(part, moment, what) static_cast<void>(sizeof(decltype(what)))
#define MOSAIC_PASS_CRASH_POINTS(env) static_cast<void>(0)

#endif
