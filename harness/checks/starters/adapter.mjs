// An adapter to begin with, in any language: this one is JavaScript and speaks OpenAI Chat without an SDK. It passes as
// it stands; put your library where it says so.
//
//   harness check --adapter-command 'node my_adapter.mjs'
//
// `harness help stdio` says what goes over standard input and output. console.error is yours: it is shown with the cell.

import { createHash } from "node:crypto";
import { createInterface } from "node:readline";

const capabilities = ["system-prompt", "tools", "parallel-tool-calls", "history", "truncation"];
const STOP = { stop: "end_turn", tool_calls: "tool_use", length: "max_tokens", content_filter: "refusal" };

const of = (message, type) => message.parts.filter((part) => part.type === type);

/** OpenAI takes ids of 64 characters; other APIs issue longer ones, which come here with a conversation. */
const wireId = (id) => (id.length <= 64 ? id : `call_${createHash("sha256").update(id).digest("hex").slice(0, 40)}`);

/** A message of the harness as those of the API. */
function messages(message) {
  const results = of(message, "tool_result").map((part) => ({
    role: "tool",
    tool_call_id: wireId(part.call_id),
    content: part.is_error ? JSON.stringify({ error: part.text }) : part.text,
  }));
  const content = of(message, "text").map((part) => part.text).join("");
  if (message.role === "user") return content ? [...results, { role: "user", content }] : results;
  const calls = of(message, "tool_call").map((part) => ({
    id: wireId(part.id),
    type: "function",
    function: { name: part.name, arguments: part.arguments_json }, // as text, which keeps integers beyond 2^53
  }));
  if (!content && !calls.length) return [];
  return [{ role: "assistant", content: content || null, ...(calls.length && { tool_calls: calls }) }];
}

/** An error of the provider: `data` says so. Without it, an error is a crash of the adapter. */
const failed = (message, data) => Object.assign(new Error(message), { data });

function isWhole(json) {
  try {
    return typeof JSON.parse(json || "{}") === "object";
  } catch {
    return false;
  }
}

async function chat({ endpoint, model, request }) {
  const body = {
    model: request.model ?? model,
    max_completion_tokens: request.max_tokens,
    messages: [
      ...(request.system ? [{ role: "developer", content: request.system }] : []),
      ...request.messages.flatMap(messages),
    ],
  };
  if (request.tools?.length) {
    body.tools = request.tools.map(({ name, description, parameters }) => ({
      type: "function",
      function: { name, description, parameters: { type: "object", properties: {}, ...parameters } },
    }));
    body.reasoning_effort = "none";
  }
  // Your library's call, once for each chat, to the base URL that it is given:
  const headers = { authorization: `Bearer ${endpoint.api_key}`, "content-type": "application/json" };
  const asked = { method: "POST", headers, body: JSON.stringify(body), redirect: "error" };
  const reply = await fetch(`${endpoint.base_url}/chat/completions`, asked).catch((error) => {
    throw failed(error.message, { kind: "connection_failed" });
  });
  const text = await reply.text().catch((error) => {
    throw failed(error.message, { kind: "connection_failed" });
  });
  let said = null;
  try {
    said = JSON.parse(text);
  } catch {}
  if (!reply.ok) {
    const wait = Number(reply.headers.get("retry-after-ms")) / 1000 || Number(reply.headers.get("retry-after")) || null;
    const data = { kind: "provider_error", status: reply.status, code: said?.error?.code ?? null, retry_after: wait };
    throw failed(said?.error?.message ?? text, data);
  }
  const { message, finish_reason: reason } = said?.choices?.[0] ?? {};
  if (!message) throw failed("the answer has no message", { kind: "malformed_response", status: reply.status });
  const calls = (message.tool_calls ?? []).map((call) => ({
    type: "tool_call",
    id: call.id,
    name: call.function.name,
    arguments_json: call.function.arguments || "{}",
  }));
  const whole = calls.filter((call) => isWhole(call.arguments_json));
  const stop = message.refusal ? "refusal" : (STOP[reason] ?? "unknown");
  return {
    message: {
      role: "assistant",
      parts: [
        ...(message.content ? [{ type: "text", text: message.content }] : []),
        ...(message.refusal ? [{ type: "refusal", text: message.refusal }] : []),
        ...(reason === "length" ? [] : whole), // a call that was cut short is never to be made
      ],
    },
    stop_reason: whole.length < calls.length && reason !== "length" ? "malformed_call" : stop,
    usage: {
      input_tokens: said.usage?.prompt_tokens,
      output_tokens: said.usage?.completion_tokens,
      cache_read_tokens: said.usage?.prompt_tokens_details?.cached_tokens,
      cache_write_tokens: said.usage?.prompt_tokens_details?.cache_write_tokens,
      reasoning_tokens: said.usage?.completion_tokens_details?.reasoning_tokens,
    },
  };
}

const METHODS = {
  describe: () => ({ name: "my-adapter", api: "openai-chat", capabilities }),
  chat, // `stream` is the same, with events before its result; declare "streaming" when it is there
  close: () => null,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  let answer;
  try {
    answer = { result: await METHODS[method](params) };
  } catch (error) {
    answer = { error: { code: -32000, message: error.message, data: error.data } };
  }
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
}
