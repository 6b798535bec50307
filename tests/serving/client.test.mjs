// A test of a client in another language, with what Node has: no SDK, no YAML.
import assert from "node:assert/strict";
import { test } from "node:test";

const url = process.env.HARNESS_URL;
const scenario = "call-parallel-same-tool";
const headers = { "content-type": "application/json", authorization: "Bearer k" };

async function json(path, body) {
  const answer = await fetch(url + path, body && { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
}

// The client under test: it answers the calls in the order in which its tools are done, which is the last one first.
async function play(session, { byPlace }) {
  const { scenarios } = await json("/_harness/scenarios");
  const { tools, turns } = scenarios.find((each) => each.id === scenario);
  const path = `/${scenario}/${session}/v1/chat/completions`;
  const request = {
    model: "gpt-4o",
    messages: [{ role: "user", content: turns[0].user }],
    tools: tools.map((each) => ({ type: "function", function: each })),
  };
  const { choices } = await json(path, request);
  const calls = choices[0].message.tool_calls;
  const done = [];
  for (const call of [...calls].reverse()) {
    const asked = { name: call.function.name, arguments: JSON.parse(call.function.arguments) };
    const { result } = await json(`/_harness/${scenario}/${session}/call`, asked);
    done.push({ id: call.id, content: JSON.stringify(result.content) });
  }
  const answers = calls.map((call, place) => ({
    role: "tool",
    tool_call_id: call.id,
    content: byPlace ? done[place].content : done.find((each) => each.id === call.id).content,
  }));
  await json(path, { ...request, messages: [...request.messages, choices[0].message, ...answers] });
  return json(`/_harness/${scenario}/${session}`);
}

test("results go back under the ids of their calls", async () => {
  const { verdict, findings } = await play("node-by-id", { byPlace: false });
  assert.deepEqual([verdict, findings], ["pass", []]);
});

test("results that go back by their place are found", async () => {
  const { verdict, findings } = await play("node-by-place", { byPlace: true });
  assert.equal(verdict, "fail");
  assert.deepEqual(new Set(findings.map((each) => each.rule)), new Set(["result-swapped"]));
});
