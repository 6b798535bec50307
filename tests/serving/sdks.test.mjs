// The official npm SDKs with their own tool loops, whole and streamed. HARNESS_NODE_DIR is where they are installed.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const url = process.env.HARNESS_URL;
const scenario = "call-parallel-same-tool";
const apiKey = "k";
const require = createRequire(pathToFileURL(join(process.env.HARNESS_NODE_DIR, "package.json")));

async function json(path, body) {
  const answer = await fetch(url + path, body && { method: "POST", body: JSON.stringify(body) });
  return answer.json();
}

const { scenarios } = await json("/_harness/scenarios");
const { tools, turns } = scenarios.find((each) => each.id === scenario);
const [declared] = tools;
const user = turns[0].user;

async function answer(args) {
  const { result } = await json(`/_harness/${scenario}/any/call`, { name: declared.name, arguments: args });
  return result.content;
}

// Each client gets the base URL of its session, and gives back the last text.
const clients = {
  async openai(base) {
    const { OpenAI } = require("openai");
    const client = new OpenAI({ baseURL: `${base}/v1`, apiKey });
    return client.chat.completions.runTools(loop()).finalContent();
  },
  async "openai-streamed"(base) {
    const { OpenAI } = require("openai");
    const client = new OpenAI({ baseURL: `${base}/v1`, apiKey });
    return client.chat.completions.runTools({ ...loop(), stream: true }).finalContent();
  },
  async anthropic(base) {
    const { Anthropic } = require("@anthropic-ai/sdk");
    const tool = { name: declared.name, description: declared.description, input_schema: declared.parameters };
    const run = async (args) => JSON.stringify(await answer(args));
    const last = await new Anthropic({ baseURL: base, apiKey }).beta.messages.toolRunner({
      model: "claude-opus-5",
      max_tokens: 500,
      messages: [{ role: "user", content: user }],
      tools: [{ ...tool, run, parse: (args) => args }],
    });
    return last.content.at(-1).text;
  },
  async gemini(base) {
    const { GoogleGenAI } = require("@google/genai");
    const { name, description, parameters } = declared;
    const config = { tools: [{ functionDeclarations: [{ name, description, parametersJsonSchema: parameters }] }] };
    const chat = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: base } }).chats.create({
      model: "gemini-3.1-pro-preview",
      config,
    });
    let said = await chat.sendMessage({ message: user });
    while (said.functionCalls?.length) {
      const message = [];
      for (const { id, name, args } of said.functionCalls)
        message.push({ functionResponse: { id, name, response: { result: await answer(args) } } });
      said = await chat.sendMessage({ message });
    }
    return said.text;
  },
};

function loop() {
  const run = async (args) => JSON.stringify(await answer(args));
  const tool = { type: "function", function: { ...declared, function: run, parse: JSON.parse } };
  return { model: "gpt-4o", messages: [{ role: "user", content: user }], tools: [tool] };
}

for (const [session, play] of Object.entries(clients))
  test(session, async () => {
    assert.equal(await play(`${url}/${scenario}/${session}`), turns[0].answer);
    const { verdict, findings, played, script } = await json(`/_harness/${scenario}/${session}`);
    assert.deepEqual([verdict, findings, played], ["pass", [], script]);
  });
