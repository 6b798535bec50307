// LangChain JS as adapters: node langchain_js.mjs openai | anthropic

import { Declined, EMPTY, Memory, call, load, parts, response, serve, short, text } from "./stdio.mjs";

const kind = process.argv[2];
const api = { openai: "openai-chat", anthropic: "anthropic" }[kind];
const longest = kind === "anthropic" ? undefined : 64;
let memory = new Memory();

// --- calls of the library, which harness reproduce copies ---
const { AIMessage, HumanMessage, SystemMessage, ToolMessage } = await load("@langchain/core/messages");
const { ChatOpenAI } = kind === "openai" ? await load("@langchain/openai") : {};
const { ChatAnthropic } = kind === "anthropic" ? await load("@langchain/anthropic") : {};
const KINDS = { system: SystemMessage, user: HumanMessage, assistant: AIMessage, tool: ToolMessage };

/** A message of the library; one that was written as JSON has its fields in `kwargs`. */
function own({ role, ...fields }) {
  return new KINDS[role ?? "assistant"](fields.kwargs ?? fields);
}

function bound(endpoint, model, { tools, choice, stop, ...given }) {
  const options = { ...given, model, apiKey: endpoint.api_key, maxRetries: 0 };
  const llm =
    kind === "anthropic"
      ? new ChatAnthropic({ ...options, anthropicApiUrl: endpoint.base_url })
      : new ChatOpenAI({ ...options, useResponsesApi: false, configuration: { baseURL: endpoint.base_url } });
  return (tools.length ? llm.bindTools(tools, choice ? { tool_choice: choice } : {}) : llm).withConfig(stop ? { stop } : {});
}

async function ask(endpoint, model, { messages, ...given }) {
  return bound(endpoint, model, given).invoke(messages.map((each) => (each.lc_kwargs ? each : own(each))));
}

async function stream(endpoint, model, { messages, ...given }) {
  return bound(endpoint, model, given).stream(messages.map((each) => (each.lc_kwargs ? each : own(each))));
}

async function* chunks(answer) {
  for await (const chunk of answer) {
    answer.whole = answer.whole ? answer.whole.concat(chunk) : chunk;
    yield chunk;
  }
}

async function read(answer) {
  const whole = answer.whole ?? answer;
  const { response_metadata: about, usage_metadata: used, additional_kwargs: more } = whole;
  const reason = about?.finish_reason ?? about?.stop_reason ?? more?.stop_reason;
  return { text: whole.text, calls: whole.tool_calls.map(({ id, name, args }) => ({ id, name, input: args })), reason, written: used?.output_tokens };
}
// --- end ---

const STOP = { stop: "end_turn", end_turn: "end_turn", length: "max_tokens", max_tokens: "max_tokens", model_context_window_exceeded: "max_tokens", tool_calls: "tool_use", tool_use: "tool_use", content_filter: "refusal", refusal: "refusal", stop_sequence: "stop_sequence", pause_turn: "pause", compaction: "pause" };
function content(part) {
  if (part.type === "text") return { type: "text", text: part.text };
  if (part.type !== "image") throw new Declined(part.type, "this wrapper sends text and images");
  return { type: "image_url", image_url: { url: part.uri ?? `data:${part.media_type};base64,${part.data}` } };
}

function messages(request) {
  const turns = request.messages.flatMap((message, place) => {
    if (message.role !== "user") {
      const calls = parts(message, "tool_call").map((call) => ({ id: short(call.id, longest), name: call.name, args: JSON.parse(call.arguments_json), type: "tool_call" }));
      return memory.own(place, message) ?? { role: "assistant", content: text(message), tool_calls: calls };
    }
    const results = parts(message, "tool_result").map((each) => ({ role: "tool", tool_call_id: short(each.call_id, longest), content: each.text, status: each.is_error ? "error" : "success" }));
    const others = message.parts.filter((part) => part.type !== "tool_result").map(content);
    const plain = others.length === 1 && others[0].type === "text" ? others[0].text : others;
    return [...results, ...(others.length ? [{ role: "user", content: plain }] : [])];
  });
  return [...(request.system ? [{ role: "system", content: request.system }] : []), ...turns];
}

function given({ endpoint, model, request }) {
  const { tools = [], tool_choice: choice, stop, max_tokens: maxTokens, temperature, top_p: topP } = request;
  const made = tools.map((each) => ({ type: "function", function: { name: each.name, description: each.description, parameters: { ...EMPTY, ...each.parameters } } }));
  const asked = { messages: messages(request), tools: made, ...(choice && { choice: choice.name ?? (choice === "required" ? "any" : choice) }) };
  const settings = { ...(stop && { stop }), ...(maxTokens && { maxTokens }), ...(temperature != null && { temperature }), ...(topP != null && { topP }) };
  return [endpoint, request.model || model, { ...asked, ...settings }];
}

function isJson(written) {
  try {
    return Boolean(JSON.parse(written));
  } catch {
    return false;
  }
}

function answer(message, request) {
  const about = message.response_metadata ?? {};
  const raw = about.finish_reason ?? about.stop_reason ?? message.additional_kwargs?.stop_reason;
  const used = message.usage_metadata;
  const last = message.tool_call_chunks?.at(-1)?.args; // of a stream; the library completes arguments that are cut
  const isCut = raw === "max_tokens" || (raw === "length" && last != null && !isJson(last));
  const made = response({
    said: message.text,
    calls: message.tool_calls.slice(0, isCut ? -1 : undefined).map(({ id, name, args }) => ({ id, name, input: args })),
    isBroken: message.invalid_tool_calls?.length > 0,
    stop: STOP[raw] ?? "unknown",
    raw,
    model: about.model_name ?? about.model,
    usage: { input_tokens: used?.input_tokens, output_tokens: used?.output_tokens, cache_read_tokens: used?.input_token_details?.cache_read },
  });
  if (!isCut && !message.invalid_tool_calls?.length) memory.keep(request, made, message);
  return made;
}

const chat = async (params) => answer(await call(ask, ...given(params)), params.request);

async function streamed(params, event) {
  const begun = [];
  const result = await call(stream, ...given(params));
  for await (const chunk of chunks(result)) {
    if (chunk.text) event({ type: "text_delta", text: chunk.text });
    for (const piece of chunk.tool_call_chunks ?? []) {
      if (!begun.includes(piece.index)) event({ type: "tool_call_start", index: begun.push(piece.index) - 1, id: piece.id, name: piece.name });
      if (piece.args) event({ type: "arguments_delta", index: begun.indexOf(piece.index), text: piece.args });
    }
  }
  const made = answer(result.whole, params.request);
  parts(made.message, "tool_call").forEach((_, index) => event({ type: "tool_call_end", index }));
  return made;
}

const capabilities = ["system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice", "vision", "history", "truncation", "streaming"];
await serve({ name: `langchain-js-${kind}`, api, capabilities, chat, stream: streamed, close: () => (memory = new Memory()) });
