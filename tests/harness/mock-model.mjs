// A stand-in for a model's Messages API, so that tests and demos run real harnesses without a model.
//
//   node mock-model.mjs [--key KEY] [--log FILE] [--until FD] [--answer TEXT]
//
// Listens on a free port of 127.0.0.1 and prints `http://127.0.0.1:PORT`. With --until it ends when
// that descriptor, a pipe's, is at its end, so that it doesn't outlive who started it. With --key a request whose credential is another is answered 401, as the real one would.
// --log gets a JSON line for each request: {"n","credential","model","effort","thinking","tools",
// "system","turns","step"}; credential is "x-api-key", "bearer" or "none", never its value.
//
// What it answers stands in the conversation itself, so it keeps no state and any number of sessions
// can use one: the last line `mock: [STEP, ...]` that a user wrote is the script, and the n-th answer
// after that line is its n-th step (`{"text":"done"}` past the end). Where nobody wrote one the answer
// is --answer's. A step is one of
//   {"text": "..."}                  the answer. In it {results} becomes the texts of the tools'
//                                    results since the script, as JSON; {turns} the number of scripts
//                                    in the conversation
//   {"tool": "bash", "input": {}}    a call of a tool that the request declares, its name matched
//                                    without regard to case, or by its end ("launch" is also
//                                    "mcp__mosaic__launch"); a name that matches nothing goes as it is
//   {"status": 429, "error": "rate_limit_error", "message": "..."}    an HTTP error
//   {"hang": true}                   the answer begins and never goes on
//   {"drop": true}                   the connection is closed without an answer
//   {"flood": BYTES}                 a text of that many bytes
// and `"times": N` makes only the first N requests for it get it; later ones get the step after it.

import { appendFileSync, createReadStream } from "node:fs";
import { createServer } from "node:http";

const option = (name) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
};
const key = option("--key");
const log = option("--log");

let requests = 0;
const given = new Map(); // script and step -> how often it was given, for `times`

const blocks = (message) =>
  typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
const textOf = (content) =>
  typeof content === "string" ? content : (content ?? []).map((block) => block.text ?? "").join("");

// The scripts of a conversation: where each stands, and the JSON text.
function scripts(messages) {
  const found = [];
  messages.forEach((message, index) => {
    if (message.role !== "user") return;
    for (const block of blocks(message)) {
      if (block.type !== "text") continue;
      for (const match of block.text.matchAll(/^mock: (\[.*\])$/gm)) found.push({ index, text: match[1] });
    }
  });
  return found;
}

function resultsAfter(messages, index) {
  return messages.slice(index).flatMap((message) =>
    blocks(message).filter((block) => block.type === "tool_result").map((block) => textOf(block.content)));
}

// Which step answers, what its text means here, and what to log of it.
function decide(body) {
  const messages = body.messages ?? [];
  const all = scripts(messages);
  if (all.length === 0) return { step: { text: option("--answer") ?? "no script in this conversation" }, at: -1, turns: 0 };
  const last = all[all.length - 1];
  let steps;
  try {
    steps = JSON.parse(last.text);
  } catch (error) {
    return { step: { text: `the script is not JSON: ${error.message}` }, at: -1, turns: all.length };
  }
  let at = messages.slice(last.index).filter((message) => message.role === "assistant").length;
  let step = steps[at];
  if (step?.times !== undefined) {
    const name = `${last.text} ${at}`;
    const count = given.get(name) ?? 0;
    given.set(name, count + 1);
    if (count >= step.times) step = steps[++at];
  }
  step = { ...(step ?? { text: "done" }) };
  if (step.flood !== undefined) step.text = "flood ".repeat(step.flood / 6);
  if (step.text !== undefined) {
    step.text = step.text
      .replaceAll("{turns}", () => String(all.length))
      .replaceAll("{results}", () => JSON.stringify(resultsAfter(messages, last.index)));
  }
  return { step, at, turns: all.length };
}

function toolName(wanted, declared) {
  const lower = wanted.toLowerCase();
  return declared.find((name) => name.toLowerCase() === lower) ??
    declared.find((name) => name.toLowerCase().endsWith(`__${lower}`)) ?? wanted;
}

function credentialOf(headers) {
  if (headers["x-api-key"]) return { kind: "x-api-key", value: headers["x-api-key"] };
  if (headers.authorization?.startsWith("Bearer ")) return { kind: "bearer", value: headers.authorization.slice(7) };
  return { kind: "none", value: undefined };
}

function sendError(response, status, type, message) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ type: "error", error: { type, message } }));
}

function sendAnswer(response, body, step) {
  const declared = (body.tools ?? []).map((tool) => tool.name);
  const block = step.tool === undefined
    ? { type: "text", text: step.text ?? "" }
    : { type: "tool_use", id: `toolu_${requests}`, name: toolName(step.tool, declared), input: step.input ?? {} };
  const usage = { input_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 5 };
  const stopReason = step.tool === undefined ? "end_turn" : "tool_use";
  const message = { id: `msg_${requests}`, type: "message", role: "assistant", model: body.model, content: [], stop_reason: null, stop_sequence: null, usage };
  if (!body.stream) {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ ...message, content: [block], stop_reason: stopReason }));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const event = (type, more) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`);
  event("message_start", { message });
  if (step.hang) return;
  if (block.type === "text") {
    event("content_block_start", { index: 0, content_block: { type: "text", text: "" } });
    for (let at = 0; at < block.text.length; at += 65536) {
      event("content_block_delta", { index: 0, delta: { type: "text_delta", text: block.text.slice(at, at + 65536) } });
    }
  } else {
    event("content_block_start", { index: 0, content_block: { ...block, input: {} } });
    event("content_block_delta", { index: 0, delta: { type: "input_json_delta", partial_json: JSON.stringify(block.input) } });
  }
  event("content_block_stop", { index: 0 });
  event("message_delta", { delta: { stop_reason: stopReason, stop_sequence: null }, usage: { output_tokens: 5 } });
  event("message_stop", {});
  response.end();
}

function answer(request, response, text) {
  if (request.method !== "POST" || !request.url.startsWith("/v1/messages")) {
    response.writeHead(request.method === "HEAD" ? 200 : 404);
    response.end();
    return;
  }
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    sendError(response, 400, "invalid_request_error", "the request is not JSON");
    return;
  }
  const credential = credentialOf(request.headers);
  const { step, at, turns } = decide(body);
  requests += 1;
  if (log) {
    appendFileSync(log, `${JSON.stringify({
      n: requests,
      credential: credential.kind,
      model: body.model,
      effort: body.output_config?.effort ?? null,
      thinking: body.thinking ?? null,
      tools: (body.tools ?? []).map((tool) => tool.name),
      system: textOf(body.system).slice(0, 20000),
      turns,
      step: at,
    })}\n`);
  }
  if (key !== undefined && credential.value !== key) {
    sendError(response, 401, "authentication_error", "invalid x-api-key");
  } else if (step.status !== undefined) {
    sendError(response, step.status, step.error ?? "api_error", step.message ?? `status ${step.status}`);
  } else if (step.drop) {
    request.socket.destroy();
  } else {
    sendAnswer(response, body, step);
  }
}

const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => answer(request, response, Buffer.concat(parts).toString()));
});
server.listen(0, "127.0.0.1", () => process.stdout.write(`http://127.0.0.1:${server.address().port}\n`));
const until = option("--until");
if (until !== undefined) {
  createReadStream("", { fd: Number(until) }).on("end", () => process.exit(0)).resume();
}
