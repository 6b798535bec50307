// The official npm SDKs as adapters on standard input and output, one for each API:
//
//   harness check --adapter-command 'node tests/examples/node/adapter.mjs anthropic'
//
// or openai-chat, openai-responses, gemini. `npm install` in this folder comes first.

import { createInterface } from "node:readline";

const { api } = { api: process.argv[2] };
const { default: dialect } = await import(`./${api}.mjs`);

const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");

async function answer({ id, method, params }) {
  switch (method) {
    case "describe":
      return { name: `npm-${api}`, api, capabilities: dialect.capabilities };
    case "chat":
      return await dialect.chat(params);
    case "stream":
      return await dialect.stream(params, (event) => say({ method: "event", params: { id, event } }));
    case "close":
      return null; // nothing is remembered here: what the SDK's messages hold goes into provider_metadata
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  try {
    say({ id: request.id, result: await answer(request) });
  } catch (error) {
    const data = error.data ?? dialect.failure(error);
    if (!data) console.error(error.stack);
    say({ id: request.id, error: { code: -32000, message: String(error.message ?? error), data } });
  }
}
