// A yardstick for `mosaic-bench launch --node`: what a launcher in Node.js takes that goes the steps
// which the product leaves out. For each launch it probes bwrap, spawns it, looks for the runner in
// /proc every 20 ms, writes its record of the sessions without any fsync, and only then hands the
// capability over. One launcher process serves all launches, so that Node's own start isn't measured.
//
// Lines of JSON on standard input:
//   {"env": {...}, "log": PATH, "workspace": PATH, "record": PATH}         first, once
//   {"run": ID, "runDir": PATH, "argv": [...], "capability": TEXT}         a launch
//   {"end": true}            kill all of them; answered with {"ended": N} when they are reaped
// What goes wrong is told as {"failed": TEXT}.

import { execFile, spawn } from 'node:child_process';
import { closeSync, constants, openSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const POLL_MS = 20;
const sessions = new Map();
let settings = null;
let log = -1;
let none = -1;
let workspace = -1;

function answer(value) {
  process.stdout.write(JSON.stringify(value) + '\n');
}

async function probe(bwrap) {
  await promisify(execFile)(bwrap, ['--unshare-user', '--unshare-pid', '--ro-bind', '/', '/', '--', '/bin/true']);
}

function runnerOf(runDir) {
  for (const pid of readdirSync('/proc')) {
    if (!/^[0-9]+$/.test(pid)) continue;
    let words;
    try {
      words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    } catch {
      continue; // gone, or not ours
    }
    if (words[0].endsWith('/mosaic-runner') && words[1] === runDir) return Number(pid);
  }
  return 0;
}

function writeRecord() {
  const entries = [...sessions.values()].map(({ child, ...entry }) => ({ ...entry, pid: child.pid }));
  writeFileSync(settings.record + '.tmp', JSON.stringify(entries, null, 2), { mode: 0o600 });
  renameSync(settings.record + '.tmp', settings.record);
}

async function launch({ run, runDir, argv, capability }) {
  await probe(argv[0]);
  const child = spawn(argv[0], argv.slice(1), {
    env: settings.env,
    detached: true, // a process group of its own, to be killed whole
    stdio: ['pipe', log, log, none, workspace],
  });
  child.stdin.on('error', () => {}); // it ended first; its exit is told
  const session = { child, run, runDir, runnerPid: 0, ended: false };
  sessions.set(run, session);
  child.on('error', (error) => answer({ failed: error.message }));
  child.on('exit', () => {
    if (!session.ended) answer({ failed: `${run} ended before its time` });
  });
  while ((session.runnerPid = runnerOf(runDir)) === 0) {
    if (session.ended || child.exitCode !== null) return;
    await sleep(POLL_MS);
  }
  writeRecord();
  child.stdin.write(capability);
}

async function endAll() {
  const all = [...sessions.values()];
  sessions.clear();
  await Promise.all(
    all.map((session) => {
      session.ended = true;
      const { child } = session;
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return null;
      const gone = new Promise((resolve) => child.once('exit', resolve));
      process.kill(-child.pid, 'SIGKILL');
      return gone;
    }),
  );
  answer({ ended: all.length });
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (settings === null) {
    settings = command;
    log = openSync(settings.log, 'a', 0o600);
    none = openSync('/dev/null', 'r+');
    workspace = openSync(settings.workspace, constants.O_RDONLY | constants.O_DIRECTORY);
  } else if (command.end) {
    await endAll();
  } else {
    launch(command).catch((error) => answer({ failed: error.message }));
  }
}
for (const fd of [log, none, workspace]) if (fd >= 0) closeSync(fd);
