// SPDX-License-Identifier: MIT
// node scenarios.mjs CLIENT SCENARIO COMMAND...: one scenario with one client; ends with 0 if all of it held.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "./clients.mjs";

const [kind, name, ...command] = process.argv.slice(2);
const until = async (condition) => { while (!condition()) await sleep(5); };

const scenarios = {
  async list({ client }) {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.slice(0, 5).map((tool) => tool.name),
      ["run_command", "run_code", "poll_run", "write_stdin", "cancel_run"]);
    for (const tool of tools) assert.equal(tool.inputSchema.type, "object");
    assert.equal(client.getServerVersion()?.name, "brig");
    assert.ok(client.getServerCapabilities().tools);
  },

  async call({ client, call }) {
    await client.listTools(); // from here on the client checks what is structured
    const result = await call("run_command", { command: "echo out; echo err >&2; exit 3" });
    assert.equal(result.isError, false);
    const { status, exit_code, stdout, stderr } = result.structuredContent;
    assert.deepEqual([status, exit_code, stdout, stderr], ["exited", 3, "out\n", "err\n"]);
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    const code = await call("run_code", { language: "python", code: "print(6 * 7)" });
    assert.equal(code.structuredContent.stdout, "42\n");
    const refused = await call("run_command", { command: "true", timeout: "2h" });
    assert.equal(refused.isError, true);
    await assert.rejects(call("nope", {}), (error) => error.code === -32602);
  },

  async tools({ client, call }) { // of examples/tools
    const { tools } = await client.listTools();
    assert.ok(tools.find((tool) => tool.name === "checksum").outputSchema);
    const result = await call("checksum", { text: "abc" });
    assert.match(result.structuredContent.sha256, /^ba7816bf/);
    const bad = await call("checksum", { text: 5 });
    assert.equal(bad.isError, true);
    const text = await call("calendar", {});
    assert.match(text.content[0].text, /Mo Tu We/);
  },

  async poll({ client, call }) {
    await client.listTools();
    const first = (await call("run_command", { command: "echo one; read x; echo two $x", stdin_open: true, yield_seconds: 0.3 })).structuredContent;
    assert.equal(first.status, "running");
    const sent = await call("write_stdin", { run_id: first.run_id, data: "three\n", close: true });
    assert.equal(sent.isError, false);
    const last = (await call("poll_run", { run_id: first.run_id, since: first.sequence, wait_seconds: 20 })).structuredContent;
    assert.equal(last.status, "exited");
    assert.match(last.stdout, /two three\n$/);
    const gone = (await call("run_command", { command: "sleep 300", yield_seconds: 0 })).structuredContent;
    const ended = (await call("cancel_run", { run_id: gone.run_id })).structuredContent;
    assert.equal(ended.status, "cancelled");
  },

  async progress({ call }) {
    const told = [];
    const result = await call("run_command", { command: "echo a; sleep 2.3; echo b" }, { onprogress: (p) => told.push(p) });
    assert.equal(result.structuredContent.stdout, "a\nb\n");
    assert.ok(told.length >= 1, "no progress was told");
    assert.match(told.at(-1).message, /1 lines/);
  },

  async cancel({ call }) {
    const control = new AbortController();
    const cancelled = call("run_command", { command: "touch up; sleep 300" }, { signal: control.signal });
    await until(() => existsSync("up"));
    control.abort();
    await assert.rejects(cancelled);
    assert.equal((await call("run_command", { command: "echo on" })).structuredContent.stdout, "on\n");
  },

  async session({ call }) { // 200 calls, 50 of them cancelled half-way
    let next = 0, done = 0, cancelled = 0;
    const one = async (i) => {
      if (i % 4 !== 3) {
        assert.equal((await call("run_command", { command: `echo ${i}` })).structuredContent.stdout, `${i}\n`);
        done++;
        return;
      }
      const control = new AbortController();
      const promise = call("run_command", { command: `touch up${i}; sleep 300` }, { signal: control.signal });
      await until(() => existsSync(`up${i}`));
      control.abort();
      await assert.rejects(promise);
      cancelled++;
    };
    await Promise.all([...Array(4)].map(async () => { while (next < 200) await one(next++); }));
    assert.deepEqual([done, cancelled], [150, 50]);
  },

  async die({ call }) { // the test kills us
    for (let i = 0; i < 3; i++) call("run_command", { command: `touch up${i}; sleep 300 & sleep 300` }).catch(() => {});
    await sleep(300000);
  },
};

const session = await connect(kind, command);
await scenarios[name](session);
assert.deepEqual(session.errors, []);
await session.client.close();
