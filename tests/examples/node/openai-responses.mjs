import OpenAI from "openai";
import { CutOff, Declined, EMPTY, JSON_INSTRUCTION, Malformed, broken, kept, own, text, told, wait, whole } from "./common.mjs";

const API = "openai-responses";
const INCOMPLETE = { max_output_tokens: "max_tokens", content_filter: "refusal" };

const client = ({ base_url, api_key }) => new OpenAI({ baseURL: base_url, apiKey: api_key, maxRetries: 0 });

/** Ids of other APIs may be longer than the sixty-four characters that this one takes. */
const short = (id) => (id.length <= 64 ? id : `call_${id.slice(-40)}${id.length}`);

function content(part) {
  if (part.type === "text") return [{ type: "input_text", text: part.text }];
  if (part.type === "opaque") return part.api === API ? [part.raw] : [];
  if (part.type !== "image") throw new Declined(part.type, "this example sends text and pictures");
  const url = part.uri ?? `data:${part.media_type};base64,${part.data}`;
  return [{ type: "input_image", image_url: url, detail: "auto" }];
}

function spoken(part) {
  const fields = own(part, API);
  switch (part.type) {
    case "text":
    case "refusal": {
      const { message, ...rest } = fields;
      if (!message) return part.text ? [{ role: "assistant", content: part.text }] : [];
      const said = part.type === "text" ? { type: "output_text", text: part.text } : { type: part.type, refusal: part.text };
      return [{ type: "message", role: "assistant", ...message, content: [{ ...said, ...rest }] }];
    }
    case "thinking":
      return Object.keys(fields).length ? [fields] : [];
    case "tool_call": {
      const { name, arguments_json } = part;
      return [{ type: "function_call", call_id: short(part.id), name, arguments: arguments_json, ...fields }];
    }
    case "opaque":
      return part.api === API ? [part.raw] : [];
    default:
      throw new Declined(part.type, "an assistant's message holds none");
  }
}

function items(message) {
  if (message.role === "assistant") return message.parts.flatMap(spoken);
  const results = message.parts.filter((part) => part.type === "tool_result").map((part) => ({
    type: "function_call_output",
    call_id: short(part.call_id),
    output: part.parts && !part.is_error ? part.parts.flatMap(content) : told(part),
  }));
  const others = message.parts.filter((part) => part.type !== "tool_result");
  if (!others.length) return results;
  const plain = others.length === 1 && others[0].type === "text";
  return [...results, { role: "user", content: plain ? others[0].text : others.flatMap(content) }];
}

function body({ model, request }) {
  const { tools = [], response_format: format, tool_choice: choice, thinking } = request;
  if (request.stop) throw new Declined("stop", "the API has no field for it");
  const json = format?.type === "json_mode" && !request.messages.some((each) => /json/i.test(text(each)));
  const offered = [
    ...tools.map(({ name, description, parameters }) => ({
      type: "function", name, description, parameters: { ...EMPTY, ...parameters }, strict: false,
    })),
    ...(request.provider_metadata?.[API]?.tools ?? []),
  ];
  const form = format?.type === "json_schema" && {
    type: "json_schema", name: format.name ?? "response", schema: format.schema, strict: false,
  };
  return {
    model: request.model || model,
    store: false,
    include: ["reasoning.encrypted_content"],
    ...(request.system && { instructions: request.system }),
    input: [
      ...(json ? [{ role: "developer", content: JSON_INSTRUCTION }] : []),
      ...request.messages.flatMap(items),
    ],
    ...(request.max_tokens && { max_output_tokens: request.max_tokens }),
    ...(request.temperature != null && { temperature: request.temperature }),
    ...(request.top_p != null && { top_p: request.top_p }),
    ...(offered.length && { tools: offered }),
    ...(choice && offered.length && { tool_choice: choice.name ? { type: "function", name: choice.name } : choice }),
    ...(format && { text: { format: form || { type: "json_object" } } }),
    ...(thinking && { reasoning: { effort: thinking.effort, summary: "auto" } }),
  };
}

function part(item) {
  if (item.type === "message") {
    const { type, role, content: said, ...message } = item;
    return said.map(({ type: kind, text, refusal, ...rest }) => ({
      type: kind === "refusal" ? "refusal" : "text",
      text: text ?? refusal,
      ...kept(API, { ...rest, message }),
    }));
  }
  if (item.type === "reasoning") {
    const { status, ...back } = item; // which the API refuses to take back
    const shown = (item.summary ?? []).map((each) => each.text).join("\n\n");
    return [{ type: "thinking", text: shown, ...kept(API, back) }];
  }
  if (item.type === "function_call") {
    const { type, call_id, name, arguments: args, id, status } = item;
    if (status === "incomplete" || !whole(args)) return [];
    return [{ type: "tool_call", id: call_id, name, arguments_json: args || "{}", ...kept(API, { id, status }) }];
  }
  return [{ type: "opaque", api: API, raw: item }];
}

function response(reply) {
  if (reply?.status === "failed") throw Object.assign(new Error(reply.error?.message ?? "failed"), { data: reported(reply.error) });
  if (!Array.isArray(reply?.output)) throw new Malformed("the answer has no output");
  const parts = reply.output.flatMap(part);
  const calls = reply.output.filter((item) => item.type === "function_call");
  const reason = reply.incomplete_details?.reason;
  const has = (type) => parts.some((each) => each.type === type);
  let stop = "unknown";
  if (reply.status === "incomplete") stop = INCOMPLETE[reason] ?? "unknown";
  else if (reply.status === "completed") {
    stop = has("tool_call") ? "tool_use" : has("refusal") ? "refusal" : "end_turn";
    if (parts.filter((each) => each.type === "tool_call").length < calls.length) stop = "malformed_call";
  }
  const used = reply.usage ?? {};
  return {
    message: { role: "assistant", parts },
    stop_reason: stop,
    raw_stop_reason: reason ?? reply.status,
    model: reply.model,
    usage: {
      input_tokens: used.input_tokens,
      output_tokens: used.output_tokens,
      cache_read_tokens: used.input_tokens_details?.cached_tokens,
      cache_write_tokens: used.input_tokens_details?.cache_write_tokens,
      reasoning_tokens: used.output_tokens_details?.reasoning_tokens,
    },
  };
}

function reported(error) {
  const code = error?.code ?? error?.type ?? null;
  const status = /rate_limit/.test(code) ? 429 : /overloaded/.test(code) ? 503 : 500;
  return { kind: "provider_error", status, code };
}

async function stream(params, event) {
  let reply;
  const calls = [];
  const place = (said) => calls.indexOf(said.output_index);
  for await (const said of await client(params.endpoint).responses.create({ ...body(params), stream: true })) {
    if (said.type === "error") throw Object.assign(new Error(said.message), { data: reported(said.error ?? said) });
    if (said.type === "response.output_text.delta") event({ type: "text_delta", text: said.delta });
    if (said.type === "response.reasoning_summary_text.delta") event({ type: "thinking_delta", text: said.delta });
    if (said.type === "response.output_item.added" && said.item.type === "function_call") {
      calls.push(said.output_index);
      event({ type: "tool_call_start", index: place(said), id: said.item.call_id, name: said.item.name });
    }
    if (said.type === "response.function_call_arguments.delta") {
      event({ type: "arguments_delta", index: place(said), text: said.delta });
    }
    if (said.type === "response.output_item.done" && calls.includes(said.output_index)) {
      if (said.item.status !== "incomplete" && whole(said.item.arguments)) event({ type: "tool_call_end", index: place(said) });
    }
    if (/^response\.(completed|incomplete|failed)$/.test(said.type)) reply = said.response;
  }
  if (!reply) throw new CutOff("the stream ended before its last event");
  return response(reply);
}

function failure(error) {
  if (error instanceof OpenAI.APIConnectionError) return { kind: "connection_failed" };
  if (error instanceof OpenAI.APIError && error.status === undefined) return reported(error);
  if (error instanceof OpenAI.APIError) {
    const code = error.code ?? error.type ?? null;
    return { kind: "provider_error", status: error.status, code, retry_after: wait(error.headers) };
  }
  return broken(error);
}

export default {
  capabilities: [
    "system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice", "json-mode", "json-schema",
    "json-with-tools", "vision", "image-results", "thinking", "provider-tools", "history", "truncation", "streaming",
  ],
  chat: async (params) => response(await client(params.endpoint).responses.create(body(params))),
  stream,
  failure,
};
