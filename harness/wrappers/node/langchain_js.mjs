// LangChain JS as adapters: node langchain_js.mjs openai | anthropic

import { Declined, EMPTY, Memory, load, parts, response, serve, short, text } from "./stdio.mjs";

const kind = process.argv[2];
const api = { openai: "openai-chat", anthropic: "anthropic" }[kind];
const { AIMessage, HumanMessage, SystemMessage, ToolMessage } = await load("@langchain/core/messages");
const { ChatOpenAI } = kind === "openai" ? await load("@langchain/openai") : {};
const { ChatAnthropic } = kind === "anthropic" ? await load("@langchain/anthropic") : {};
const STOP = { stop: "end_turn", end_turn: "end_turn", length: "max_tokens", max_tokens: "max_tokens", tool_calls: "tool_use", tool_use: "tool_use", content_filter: "refusal", refusal: "refusal", stop_sequence: "stop_sequence", pause_turn: "pause" };
const longest = kind === "anthropic" ? undefined : 64;
let memory = new Memory();

function model({ endpoint, model: name, request }) {
  const given = { model: request.model || name, apiKey: endpoint.api_key, maxRetries: 0 };
  if (request.max_tokens) given.maxTokens = request.max_tokens;
  if (request.temperature != null) given.temperature = request.temperature;
  if (request.top_p != null) given.topP = request.top_p;
  if (kind === "anthropic") return new ChatAnthropic({ ...given, anthropicApiUrl: endpoint.base_url });
  return new ChatOpenAI({ ...given, useResponsesApi: false, configuration: { baseURL: endpoint.base_url } });
}

function content(part) {
  if (part.type === "text") return { type: "text", text: part.text };
  if (part.type !== "image") throw new Declined(part.type, "this wrapper sends text and images");
  return { type: "image_url", image_url: { url: part.uri ?? `data:${part.media_type};base64,${part.data}` } };
}

function messages(request) {
  const turns = request.messages.flatMap((message, place) => {
    if (message.role !== "user") {
      const calls = parts(message, "tool_call").map((call) => ({ id: short(call.id, longest), name: call.name, args: JSON.parse(call.arguments_json), type: "tool_call" }));
      return memory.own(place, message) ?? new AIMessage({ content: text(message), tool_calls: calls });
    }
    const results = parts(message, "tool_result").map((each) => new ToolMessage({ tool_call_id: short(each.call_id, longest), content: each.text, status: each.is_error ? "error" : "success" }));
    const others = message.parts.filter((part) => part.type !== "tool_result").map(content);
    const plain = others.length === 1 && others[0].type === "text" ? others[0].text : others;
    return [...results, ...(others.length ? [new HumanMessage({ content: plain })] : [])];
  });
  return [...(request.system ? [new SystemMessage(request.system)] : []), ...turns];
}

function bound(params) {
  const { tools = [], tool_choice: choice, stop } = params.request;
  const made = tools.map((each) => ({ type: "function", function: { name: each.name, description: each.description, parameters: { ...EMPTY, ...each.parameters } } }));
  const word = choice?.name ?? (choice === "required" ? "any" : choice);
  const llm = model(params);
  return (made.length ? llm.bindTools(made, word ? { tool_choice: word } : {}) : llm).withConfig(stop ? { stop } : {});
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
    stop: STOP[raw] ?? "unknown",
    raw,
    model: about.model_name ?? about.model,
    usage: { input_tokens: used?.input_tokens, output_tokens: used?.output_tokens, cache_read_tokens: used?.input_token_details?.cache_read },
  });
  if (!isCut && !message.invalid_tool_calls?.length) memory.keep(request, made, message);
  return made;
}

const chat = async (params) => answer(await bound(params).invoke(messages(params.request)), params.request);

async function stream(params, event) {
  let whole;
  const begun = [];
  for await (const chunk of await bound(params).stream(messages(params.request))) {
    whole = whole ? whole.concat(chunk) : chunk;
    if (chunk.text) event({ type: "text_delta", text: chunk.text });
    for (const piece of chunk.tool_call_chunks ?? []) {
      if (!begun.includes(piece.index)) event({ type: "tool_call_start", index: begun.push(piece.index) - 1, id: piece.id, name: piece.name });
      if (piece.args) event({ type: "arguments_delta", index: begun.indexOf(piece.index), text: piece.args });
    }
  }
  const made = answer(whole, params.request);
  parts(made.message, "tool_call").forEach((_, index) => event({ type: "tool_call_end", index }));
  return made;
}

const capabilities = ["system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "vision", "history", "truncation", "streaming"];
await serve({ name: `langchain-js-${kind}`, api, capabilities, chat, stream, close: () => (memory = new Memory()) });
