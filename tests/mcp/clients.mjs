// SPDX-License-Identifier: MIT
// The real clients, by the names of what they do at the start:
//   sdk      @modelcontextprotocol/sdk 1.x: initialize
//   legacy   @modelcontextprotocol/client 2.x as it is by default: initialize
//   auto     the same, which asks first: server/discover, in a process of its own
//   modern   the same, 2026-07-28 and nothing else
import { createRequire } from "node:module";

const require = createRequire(process.env.MCP_CLIENTS + "/");
const about = { name: "brig-tests", version: "0" };

function make(kind) {
  if (kind === "sdk") {
    const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
    return { client: new Client(about), Transport: StdioClientTransport };
  }
  const { Client } = require("@modelcontextprotocol/client");
  const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
  const mode = { legacy: undefined, auto: "auto", modern: { pin: "2026-07-28" } }[kind];
  return { client: new Client(about, mode && { versionNegotiation: { mode } }), Transport: StdioClientTransport };
}

// A connected client, with call(): the result of a tool, checked by the client against its schema.
export async function connect(kind, command) {
  const { client, Transport } = make(kind);
  const transport = new Transport({ command: command[0], args: command.slice(1), stderr: "inherit" });
  const errors = [];
  client.onerror = (error) => errors.push(String(error));
  await client.connect(transport);
  const call = (name, args, options) =>
    kind === "sdk" ? client.callTool({ name, arguments: args }, undefined, options)
                   : client.callTool({ name, arguments: args }, options);
  return { client, transport, call, errors };
}
