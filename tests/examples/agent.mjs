// An agent that owns its tool loop, on nothing but Node: Anthropic Messages, whole.
//
//   harness check --agent-command 'node tests/examples/agent.mjs' --api anthropic

import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => JSON.parse((await lines.next()).value);

async function ask(body) {
  const headers = { "x-api-key": process.env.ANTHROPIC_API_KEY, "anthropic-version": "2023-06-01" };
  const sent = { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(`${process.env.ANTHROPIC_BASE_URL}/v1/messages`, sent);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

async function run(block) {
  process.stdout.write(`${JSON.stringify({ id: block.id, call: block.name, arguments: block.input })}\n`);
  const { text, is_error } = await read();
  return { type: "tool_result", tool_use_id: block.id, content: text, is_error };
}

const { model, system, tools, turns, max_tokens } = await read();
const declared = tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }));
const fixed = { model, max_tokens: max_tokens ?? 1000, ...(system && { system }), ...(tools.length && { tools: declared }) };
const messages = [];
for (const { text } of turns) {
  messages.push({ role: "user", content: text });
  for (;;) {
    const { content } = await ask({ ...fixed, messages });
    messages.push({ role: "assistant", content });
    const results = [];
    for (const block of content) if (block.type === "tool_use") results.push(await run(block));
    if (!results.length) break;
    messages.push({ role: "user", content: results });
  }
}
process.exit(0); // standard input is still open
