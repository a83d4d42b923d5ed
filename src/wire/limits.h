#pragma once

#include <cstddef>
#include <cstdint>

// Every limit that a peer can run into, in one place, for host, broker, runner and commands.

namespace mosaic::limits {

// A line on launch.sock and tools.sock, without its newline.
constexpr size_t kLaunchLineBytesMax = size_t{64} * 1024;
constexpr size_t kToolLineBytesMax = size_t{64} * 1024;
// A line on bus.sock, admin.sock and the control pair, without its newline.
constexpr size_t kFrameBytesMax = size_t{1024} * 1024;
// A call's arguments, encoded, that travel on in another frame: to the host, or to the human who
// decides about it. The rest is for what stands around them there.
constexpr size_t kCallArgsBytesMax = kFrameBytesMax - 4096;
// The line on a runner's stdin.
constexpr size_t kCapabilityLineBytesMax = 4096;

// Requests of one launch.sock connection that wait for their reply; then reading stops.
constexpr size_t kLaunchOutstandingMax = 16;
// The same for one bus.sock or admin.sock connection.
constexpr size_t kBusOutstandingMax = 64;

constexpr size_t kToolClientsMax = 16;
constexpr size_t kLaunchClientsMax = 256;
// Open files that host and broker keep from their peers' connections, so that launches, claims and
// ends go on; or a quarter of their limit where that is less. The human's connections stop first.
constexpr size_t kDescriptorsInReserve = 128;
constexpr size_t kDescriptorsKeptFromRunners = kDescriptorsInReserve / 8;

// A message's body and a turn's reply; both fit a frame even when every byte is escaped as \u00xx.
constexpr size_t kMessageBodyBytesMax = size_t{160} * 1024;
static_assert(kMessageBodyBytesMax * 6 + 4096 <= kCallArgsBytesMax);

// The part of a request that travels in MOSAIC_REQUEST; the whole is in MOSAIC_REQUEST_FILE.
// One environment string may have 128 KiB (execve(2), MAX_ARG_STRLEN).
constexpr size_t kRequestEnvBytesMax = size_t{96} * 1024;

// Bytes waiting to be read by one client before it is closed as not reading.
constexpr size_t kUnreadBytesMax = 4 * kFrameBytesMax;

// How long a stop may wait between SIGTERM and SIGKILL: a day.
constexpr int64_t kStopTimeoutMsMax = int64_t{24} * 3'600'000;

// A sender's own word for a message, by which one that is sent again is known.
constexpr size_t kSendKeyBytesMax = 64;

constexpr int kWireDepthMax = 8;
constexpr int kFileDepthMax = 16;

constexpr size_t kRunsMax = 2048;
// sun_path without its terminating NUL (unix(7)).
constexpr size_t kSocketPathBytesMax = 107;

// What the broker takes in one loop turn, all of which one commit makes durable: of one connection,
// so that a flood doesn't delay the others, and in all.
constexpr size_t kTurnLinesPerConnectionMax = 2;
constexpr size_t kTurnLinesMax = 512;
constexpr size_t kAdminClientsMax = 64;

// Messages that wait for their ack: of one sending run, and for one receiver. One run alone can't
// fill a receiver's queue. The human's own messages are always taken.
constexpr size_t kQueuedPerSenderMax = 512;
constexpr size_t kQueuedPerReceiverMax = 4096;
constexpr size_t kQueuedBytesPerSenderMax = size_t{16} * 1024 * 1024;
constexpr size_t kQueuedBytesPerReceiverMax = size_t{128} * 1024 * 1024;
static_assert(kQueuedPerSenderMax * 4 <= kQueuedPerReceiverMax);
static_assert(kQueuedBytesPerSenderMax * 4 <= kQueuedBytesPerReceiverMax);

// Decisions of one seat that the human hasn't answered.
constexpr size_t kDecisionsPendingMax = 64;
// Decisions in one reply, without the calls that they are about.
constexpr size_t kDecisionsPerReplyMax = 200;

// Tasks: made by one run in its life, and unfinished ones of the business.
constexpr size_t kTasksPerRunMax = 512;
constexpr size_t kTasksUnfinishedMax = 4096;
// A task's title or an option, in one line; a question; a task's body, its note, a decision's
// context or the human's words to it.
constexpr size_t kTitleBytesMax = 512;
constexpr size_t kQuestionBytesMax = 4096;
constexpr size_t kTaskTextBytesMax = 8192;
constexpr size_t kOptionsMax = 16;
// Tasks in one reply: as many as fit, so that a model can read them.
constexpr size_t kTasksPerReplyMax = 100;
constexpr size_t kTasksReplyBytesMax = size_t{128} * 1024;
static_assert(6 * (2 * kTaskTextBytesMax + kTitleBytesMax) + kTasksReplyBytesMax + 4096 <=
              kFrameBytesMax);

// Free text that the host brings along: names (a provider, a model), and reasons and details.
constexpr size_t kNameBytesMax = 256;
constexpr size_t kReasonBytesMax = 8192;

// Names in one `bound` request: with them and kRunsMax bound runs the reply stays below
// kFrameBytesMax.
constexpr size_t kBoundNamesMax = 10'000;
// What is recorded of a change of the configuration, encoded; of a larger one only that it was.
constexpr size_t kConfigNewsBytesMax = size_t{64} * 1024;

// Events in one reply, so that it stays below kFrameBytesMax.
constexpr size_t kEventsPerReplyMax = 200;

}  // namespace mosaic::limits
