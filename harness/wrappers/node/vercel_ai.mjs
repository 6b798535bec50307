// The Vercel AI SDK as adapters: node vercel_ai.mjs openai | responses | anthropic

import { Declined, EMPTY, Memory, call, load, parts, response, serve, short, text } from "./stdio.mjs";

const kind = process.argv[2];
const api = { openai: "openai-chat", responses: "openai-responses", anthropic: "anthropic" }[kind];
const longest = kind === "anthropic" ? undefined : 64;
let memory = new Memory();

// --- calls of the library, which harness reproduce copies ---
const { generateText, jsonSchema, streamText, tool } = await load("ai");
const PROVIDERS = {
  openai: async ({ base_url, api_key }, model) => (await load("@ai-sdk/openai")).createOpenAI({ baseURL: base_url, apiKey: api_key }).chat(model),
  responses: async ({ base_url, api_key }, model) => (await load("@ai-sdk/openai")).createOpenAI({ baseURL: base_url, apiKey: api_key }).responses(model),
  anthropic: async ({ base_url, api_key }, model) => (await load("@ai-sdk/anthropic")).createAnthropic({ baseURL: `${base_url}/v1`, apiKey: api_key })(model),
};

async function options(endpoint, model, { tools, ...given }) {
  const made = tools.map(({ name, description, parameters }) => [name, tool({ description, inputSchema: jsonSchema(parameters) })]);
  return { ...given, model: await PROVIDERS[kind](endpoint, model), maxRetries: 0, ...(made.length && { tools: Object.fromEntries(made) }) };
}

async function ask(endpoint, model, given) {
  return generateText(await options(endpoint, model, given));
}

async function stream(endpoint, model, given) {
  return streamText({ ...(await options(endpoint, model, given)), onError: () => {} });
}

async function* chunks(result) {
  let failed;
  for await (const part of result.fullStream) {
    if (part.type === "error") failed = part.error;
    yield part;
  }
  if (failed) throw failed;
}

async function read(result) {
  const calls = (await result.toolCalls).map((call) => ({ id: call.toolCallId, name: call.toolName, input: call.input }));
  return { text: await result.text, calls, reason: (await result.rawFinishReason) ?? (await result.finishReason), written: (await result.usage).outputTokens };
}
// --- end ---

const STOP = { stop: "end_turn", length: "max_tokens", "tool-calls": "tool_use", "content-filter": "refusal", error: "error" };
const RAW = { refusal: "refusal", stop_sequence: "stop_sequence", pause_turn: "pause", compaction: "pause", steered: "pause", max_messages: "max_tokens", model_context_window_exceeded: "max_tokens" };

function output(result) {
  return { type: result.is_error ? "error-text" : "text", value: result.text ?? result.content }; // the text keeps large integers
}

function content(part) {
  if (part.type === "text") return { type: "text", text: part.text };
  if (part.type !== "image") throw new Declined(part.type, "this wrapper sends text and images");
  return { type: "image", image: part.uri ? new URL(part.uri) : part.data, mediaType: part.media_type };
}

function messages(request) {
  const names = new Map(request.messages.flatMap((each) => parts(each, "tool_call").map((call) => [call.id, call.name])));
  return request.messages.flatMap((message, place) => {
    if (message.role !== "user") {
      const calls = parts(message, "tool_call").map((call) => ({ type: "tool-call", toolCallId: short(call.id, longest), toolName: call.name, input: JSON.parse(call.arguments_json) }));
      const said = text(message) ? [{ type: "text", text: text(message) }] : [];
      return memory.own(place, message) ?? [{ role: "assistant", content: [...said, ...calls] }];
    }
    const results = parts(message, "tool_result").map((each) => ({ type: "tool-result", toolCallId: short(each.call_id, longest), toolName: names.get(each.call_id), output: output(each) }));
    const others = message.parts.filter((part) => part.type !== "tool_result");
    const user = others.length ? [{ role: "user", content: others.map(content) }] : [];
    return [...(results.length ? [{ role: "tool", content: results }] : []), ...user];
  });
}

function given({ endpoint, model, request }) {
  const tools = (request.tools ?? []).map((each) => ({ ...each, parameters: { ...EMPTY, ...each.parameters } }));
  const choice = request.tool_choice?.name ? { type: "tool", toolName: request.tool_choice.name } : request.tool_choice;
  const asked = {
    messages: messages(request),
    ...(request.system && { system: request.system }),
    tools,
    ...(tools.length && choice && { toolChoice: choice }),
    ...(request.max_tokens && { maxOutputTokens: request.max_tokens }),
    ...(request.temperature != null && { temperature: request.temperature }),
    ...(request.top_p != null && { topP: request.top_p }),
    ...(request.stop && { stopSequences: request.stop }),
  };
  return [endpoint, request.model || model, asked];
}

async function answer(result, request) {
  const isCut = kind === "anthropic" && (await result.finishReason) === "length"; // arguments that are cut arrive as an object
  const every = await result.toolCalls;
  const isBroken = (call) => call.invalid && typeof call.input !== "object";
  const calls = every.slice(0, isCut ? -1 : undefined).filter((call) => !isBroken(call));
  const [used, about] = [await result.usage, await result.response];
  const made = response({
    said: await result.text,
    calls: calls.map((call) => ({ id: call.toolCallId, name: call.toolName, input: call.input })),
    isBroken: every.some(isBroken),
    stop: RAW[await result.rawFinishReason] ?? STOP[await result.finishReason] ?? "unknown",
    raw: await result.rawFinishReason,
    model: about.modelId,
    usage: { input_tokens: used.inputTokens, output_tokens: used.outputTokens, cache_read_tokens: used.cachedInputTokens, reasoning_tokens: used.reasoningTokens },
  });
  const dropped = new Set(every.filter((call) => !calls.includes(call)).map((call) => call.toolCallId));
  const own = about.messages.filter((each) => each.role === "assistant" && Array.isArray(each.content));
  memory.keep(request, made, own.map((each) => ({ ...each, content: each.content.filter((part) => !dropped.has(part.toolCallId)) })).filter((each) => each.content.length));
  return made;
}

const chat = async (params) => answer(await call(ask, ...given(params)), params.request);

async function streamed(params, event) {
  const result = await call(stream, ...given(params));
  const begun = [];
  for await (const part of chunks(result)) {
    if (part.type === "text-delta") event({ type: "text_delta", text: part.text });
    if (part.type === "tool-input-start") event({ type: "tool_call_start", index: begun.push(part.id) - 1, id: part.id, name: part.toolName });
    if (part.type === "tool-input-delta") event({ type: "arguments_delta", index: begun.indexOf(part.id), text: part.delta });
  }
  const made = await answer(result, params.request);
  parts(made.message, "tool_call").forEach((call) => event({ type: "tool_call_end", index: begun.indexOf(call.id) }));
  return made;
}

const capabilities = ["system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice", "vision", "history", "truncation", "streaming"];
await serve({ name: `vercel-ai-${kind}`, api, capabilities, chat, stream: streamed, close: () => (memory = new Memory()) });
