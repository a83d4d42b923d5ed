// What Pi gets of mosaic-host: the role's typed tools, and the gate in front of every tool. Both ask
// mosaic-runner. A gate that fails throws, and Pi blocks a call whose handler throws.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";

const runner = "/run/mosaic/mosaic-runner";
const bundle = process.env.MOSAIC_BUNDLE;

// Runs mosaic-runner to its end; its standard output, or an error that says what it said.
function ask(words, input, options) {
  return new Promise((resolve, reject) => {
    const child = execFile(runner, words, { maxBuffer: 4 * 1024 * 1024, ...options }, (error, out, err) => {
      if (error) reject(new Error(err.trim() || error.message));
      else resolve(out);
    });
    child.stdin.on("error", () => {}); // it ended before it had read all: its exit tells why
    child.stdin.end(input);
  });
}

async function gate(event) {
  const question = JSON.stringify({ toolName: event.toolName, input: event.input });
  const text = await ask(["gate", bundle + "/gate.json"], question, {
    timeout: Number(process.env.MOSAIC_GATE_TIMEOUT_MS),
    killSignal: "SIGKILL",
  });
  const answer = JSON.parse(text);
  if (answer.block === false) return undefined;
  if (answer.block === true && typeof answer.reason === "string") return answer;
  throw new Error("the gate's answer can't be read");
}

export default function (pi) {
  pi.on("tool_call", async (event) => {
    try {
      return await gate(event);
    } catch (error) {
      throw new Error("the gate gave no answer, so the call is blocked: " + error.message);
    }
  });
  for (const tool of JSON.parse(readFileSync(bundle + "/tools.json", "utf8"))) {
    pi.registerTool({
      name: tool.name,
      label: tool.name,
      description: tool.description,
      parameters: tool.parameters,
      async execute(id, args, signal) {
        const text = await ask(["tool", tool.name, JSON.stringify(args)], "", { signal });
        return { content: [{ type: "text", text }], details: {} };
      },
    });
  }
}
